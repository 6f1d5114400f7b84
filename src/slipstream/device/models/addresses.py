"""Model addresses: syntax, validation, and loading of the models.

- `builtin:resnet?variant=2` is a network of `zoo.py`; `&weights=FILE` loads weights: safetensors, or what torch reads
  with `weights_only`.
- `onnx:FILE`, `torchscript:FILE` and `export:FILE` are files; `{variant}` in a name stands for the variant's number.
- `python:MODULE:CALLABLE` is what `CALLABLE(dataset_type, variant)` returns.

Some of these can run arbitrary code, so they need permission: `python:`; `torchscript:`, whose programs can write files
even while they are loaded; `export:`, whose files may name any function that torch can reach.

Addresses are validated without torch, before anything starts; loading happens in the process that runs the models.
Nothing here reads a pickle.
"""

from __future__ import annotations

import importlib
import os
import re
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl

from slipstream.device.models.datasets import DatasetType
from slipstream.errors import ModelError

if TYPE_CHECKING:
    from torch import Tensor

BUILTIN_FAMILIES = ("resnet", "vgg", "mobilenet", "vit", "transformer")
BUILTIN_VARIANTS = 5
FILE_KINDS = ("onnx", "torchscript", "export")
KINDS = ("builtin", *FILE_KINDS, "python")
PROGRAMS = ("torchscript", "export", "python")
"""Kinds of models that can run arbitrary code."""
FORBID_PICKLES = "TORCH_FORCE_WEIGHTS_ONLY_LOAD"
"""Environment variable that torch reads at every load; it overrides the argument of the caller."""

Model = Callable[["Tensor"], "Tensor"]
"""From a batch of inputs to a batch of outputs."""


@dataclass(frozen=True)
class Address:
    """Validated address of one variant of a model."""

    kind: str
    location: str
    """A family, a file, or module:callable."""
    variant: int
    weights: str = ""
    """A file; empty where the weights are random or part of the model."""

    @property
    def text(self) -> str:
        """The address as people write it."""
        if self.kind != "builtin":
            return f"{self.kind}:{self.location}" + (f"?variant={self.variant}" if self.kind == "python" else "")
        return f"builtin:{self.location}?variant={self.variant}" + (f"&weights={self.weights}" if self.weights else "")


def parse(text: str, variant: int, folder: Path, allow_code: bool = False) -> Address:
    """Return the validated address of `variant` of a model; files are relative to `folder` and must exist.

    Raises:
        ModelError: One line: the address, what is wrong with it and what was expected.
    """
    kind, colon, rest = text.partition(":")
    if not colon or kind not in KINDS:
        raise ModelError(f"model '{text}': expected an address that begins with {', '.join(f'{k}:' for k in KINDS)}")
    if kind == "builtin":
        return _builtin(text, rest, variant, folder)
    if kind == "python" and not re.fullmatch(r"[\w.]+:[\w.]+", rest):
        raise ModelError(f"model '{text}': expected python:MODULE:CALLABLE")
    if kind in PROGRAMS and not allow_code:
        raise ModelError(f"model '{text}': is a program that can do anything: expected --allow-code with it")
    if kind == "python":
        return Address(kind, rest, variant)
    return Address(kind, str(_file(text, rest.replace("{variant}", str(variant)), folder)), variant)


def _builtin(text: str, rest: str, variant: int, folder: Path) -> Address:
    family, _, query = rest.partition("?")
    if family not in BUILTIN_FAMILIES:
        raise ModelError(f"model '{text}': unknown family '{family}': expected one of {', '.join(BUILTIN_FAMILIES)}")
    options = dict(parse_qsl(query, keep_blank_values=True))
    unknown = set(options) - {"variant", "weights"}
    if unknown:
        raise ModelError(f"model '{text}': unknown option '{min(unknown)}': expected variant or weights")
    chosen = options.get("variant", str(variant))
    if not chosen.isdigit() or int(chosen) >= BUILTIN_VARIANTS:
        raise ModelError(f"model '{text}': variant {chosen}: expected one from 0 to {BUILTIN_VARIANTS - 1}")
    weights = options.get("weights", "").replace("{variant}", chosen)
    return Address("builtin", family, int(chosen), str(_file(text, weights, folder)) if weights else "")


def _file(text: str, name: str, folder: Path) -> Path:
    path = folder / name
    try:
        found = path.is_file()
    except OSError:  # a name that is too long
        found = False
    if not found:
        raise ModelError(f"model '{text}': {path}: no such file: expected a model there")
    return path


def load(address: Address, kind: DatasetType) -> Model:
    """Return the model of an address, ready to run on the CPU.

    Raises:
        ModelError: One line: the address, and why what it names is not a model.
    """
    try:
        return _LOADERS[address.kind](address, kind)
    except ModelError:
        raise
    except Exception as error:  # foreign files and functions may raise anything
        reason = (str(error).strip().splitlines() or [""])[0][:300]
        raise ModelError(f"model '{address.text}': cannot be loaded: {type(error).__name__}: {reason}") from error


def _load_builtin(address: Address, kind: DatasetType) -> Model:
    from slipstream.device.models import zoo

    seed = zlib.crc32(f"builtin:{address.location}?variant={address.variant}".encode())
    model = zoo.build(address.location, address.variant, kind, seed)
    if address.weights:
        model.load_state_dict(_weights(Path(address.weights)))
    return model


def _weights(path: Path) -> dict[str, Any]:
    if path.suffix == ".safetensors":
        from safetensors.torch import load_file

        return load_file(path)
    import torch

    weights: dict[str, Any] = torch.load(path, map_location="cpu", weights_only=True)
    return weights


def _load_torchscript(address: Address, kind: DatasetType) -> Model:
    import torch

    model: Model = torch.jit.load(address.location, map_location="cpu").eval()  # type: ignore[no-untyped-call]
    return model


def _load_export(address: Address, kind: DatasetType) -> Model:
    import torch

    with _no_pickles():
        model: Model = torch.export.load(address.location).module()
    return model


@contextmanager
def _no_pickles() -> Iterator[None]:
    """Forbid unpickling, which runs code, and to which torch's loader of exported programs would fall back."""
    before = os.environ.get(FORBID_PICKLES)
    os.environ[FORBID_PICKLES] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[FORBID_PICKLES]
        else:
            os.environ[FORBID_PICKLES] = before


def _load_onnx(address: Address, kind: DatasetType) -> Model:
    from slipstream.device.models.onnx_session import OnnxModel

    return OnnxModel(Path(address.location))


def _load_python(address: Address, kind: DatasetType) -> Model:
    module, _, name = address.location.partition(":")
    make: Any = importlib.import_module(module)
    for part in name.split("."):
        make = getattr(make, part)
    model: Model = make(kind, address.variant)
    if not callable(model):
        raise ModelError(
            f"model '{address.text}': gave a {type(model).__name__}: expected a function or a torch module"
        )
    return model


_LOADERS: dict[str, Callable[[Address, DatasetType], Model]] = {
    "builtin": _load_builtin,
    "torchscript": _load_torchscript,
    "export": _load_export,
    "onnx": _load_onnx,
    "python": _load_python,
}
