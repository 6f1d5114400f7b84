"""Classes of networks by import path: `FILE.py:CLASS` or `package.module:CLASS`.

Importing one runs its code, so a path comes from the user: from an argument or an option, never from a file that was
read.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import traceback
from pathlib import Path
from types import ModuleType

from torch import nn

from slipstream.errors import InputError
from slipstream.networks.inputs import Columns, reads_graph

EXPECTED = "FILE.py:CLASS or package.module:CLASS, a torch.nn.Module"

_CLASSES: dict[str, type[nn.Module]] = {}
"""Classes that were given as objects, by their path."""


def path_of(network: str | type[nn.Module]) -> str:
    """Return the import path of a network given by path or as a class.

    Raises:
        InputError: It is neither.
    """
    if isinstance(network, str):
        return network
    if not (isinstance(network, type) and issubclass(network, nn.Module)):
        raise InputError(f"network {network!r}: expected a class, or its path, {EXPECTED}")
    module = network.__module__
    if module == "__main__" and (source := inspect.getsourcefile(network)) is not None:
        module = source
    path = f"{module}:{network.__qualname__}"
    _CLASSES[path] = network
    return path


def make_network(path: str, columns: Columns) -> nn.Module:
    """Return an instance of the class at `path`, made with `columns`, in evaluation mode.

    Raises:
        InputError: One line: there is no such class, its code raises an error, or it reads graphs and there are none.
    """
    found = _CLASSES.get(path) or _import(path)
    if reads_graph(found) and not columns.nodes:
        raise InputError(f"network '{path}' reads graphs, and the family has none: expected one that reads rows")
    try:
        network = found(columns)
    except Exception as error:
        raise raised_by(path, "Net(columns)", error) from error
    return network.eval()


def raised_by(path: str, call: str, error: Exception) -> InputError:
    """Return the one-line error that `call` of the network at `path` raised `error`, with the last line of its code."""
    frames = traceback.extract_tb(error.__traceback__)
    others = {"slipstream", "site-packages"}
    own = [frame for frame in frames if not others & set(Path(frame.filename).parts)] or frames
    where = f" ({own[-1].filename}, line {own[-1].lineno})" if own else ""
    first_line = (str(error).strip().splitlines() or [""])[0]
    return InputError(f"network '{path}': {call} raised {type(error).__name__}: {first_line}{where}")


def _import(path: str) -> type[nn.Module]:
    source, found, name = path.rpartition(":")
    if not found or not source or not name:
        raise InputError(f"network '{path}': expected {EXPECTED}")
    try:
        module = _import_file(Path(source)) if source.endswith(".py") else importlib.import_module(source)
    except FileNotFoundError:
        raise InputError(f"network '{path}': {source}: no such file: expected {EXPECTED}") from None
    except ModuleNotFoundError as error:
        raise InputError(f"network '{path}': {error}: expected {EXPECTED}") from None
    except Exception as error:
        raise raised_by(path, "importing it", error) from error
    network: object = module
    for part in name.split("."):
        network = getattr(network, part, None)
    if not (isinstance(network, type) and issubclass(network, nn.Module)):
        known = [key for key, one in vars(module).items() if isinstance(one, type) and issubclass(one, nn.Module)]
        own = [key for key in known if getattr(module, key).__module__ == module.__name__]
        raise InputError(f"network '{path}': expected a torch.nn.Module of {source}: {', '.join(own) or 'it has none'}")
    return network


def _import_file(path: Path) -> ModuleType:
    """Import a file as a module of its own name, once per process."""
    resolved = path.resolve(strict=True)
    name = f"slipstream_network_{resolved.stem}_{abs(hash(str(resolved))):x}"
    if name in sys.modules:
        return sys.modules[name]
    spec = importlib.util.spec_from_file_location(name, resolved)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except BaseException:
        del sys.modules[name]
        raise
    return module
