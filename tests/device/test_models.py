"""Models by address: what an address may say, and that what it names runs."""

from __future__ import annotations

import io
import os
import sys
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from slipstream.device.models import addresses
from slipstream.device.models.datasets import dataset_type, samples_of
from slipstream.errors import ModelError


def run(address, kind):
    batch = torch.from_numpy(samples_of(kind, None, 3, 2).inputs)
    with torch.inference_mode():
        return addresses.load(address, kind)(batch[:1])


@pytest.mark.parametrize("family", addresses.BUILTIN_FAMILIES)
def test_every_built_in_variant_gives_a_finite_score_for_each_class(family, tmp_path):
    kinds = ["text-128"] if family == "transformer" else ["cifar10", "gtsrb", "synthetic:1x20x30"]
    for kind in map(dataset_type, kinds):
        for variant in range(addresses.BUILTIN_VARIANTS):
            output = run(addresses.parse(f"builtin:{family}", variant, tmp_path), kind)
            assert output.shape == (1, kind.classes)
            assert torch.isfinite(output).all()


@pytest.mark.parametrize("family", addresses.BUILTIN_FAMILIES)
def test_variants_grow(family, tmp_path):
    kind = dataset_type("text-128" if family == "transformer" else "cifar10")
    loaded = [addresses.load(addresses.parse(f"builtin:{family}", k, tmp_path), kind) for k in range(5)]
    sizes = [sum(parameter.numel() for parameter in model.parameters()) for model in loaded]
    assert sizes == sorted(set(sizes))


def test_weights_of_a_built_in_are_the_same_every_time_and_disturb_nobody(tmp_path):
    kind, address = dataset_type("cifar10"), addresses.parse("builtin:resnet?variant=1", 0, tmp_path)
    assert address.variant == 1
    first = run(address, kind)
    torch.manual_seed(1)
    before = torch.random.get_rng_state()
    assert torch.equal(run(address, kind), first)
    assert torch.equal(torch.random.get_rng_state(), before)


@pytest.mark.parametrize("ending", ["safetensors", "pt"])
def test_weights_come_from_a_file(tmp_path, ending):
    kind, plain = dataset_type("cifar10"), addresses.parse("builtin:mobilenet", 0, tmp_path)
    state = {name: torch.zeros_like(value) for name, value in addresses.load(plain, kind).state_dict().items()}
    path = tmp_path / f"w0.{ending}"
    save_file(state, path) if ending == "safetensors" else torch.save(state, path)
    address = addresses.parse(f"builtin:mobilenet?weights=w{{variant}}.{ending}", 0, tmp_path)
    assert torch.count_nonzero(run(address, kind)) == 0


def test_a_pickle_is_not_read(tmp_path):
    class Trap:
        def __reduce__(self):
            return (sys.exit, (7,))

    torch.save({"trap": Trap()}, tmp_path / "w.pt")
    address = addresses.parse("builtin:resnet?weights=w.pt", 0, tmp_path)
    with pytest.raises(ModelError, match="cannot be loaded"):
        addresses.load(address, dataset_type("cifar10"))


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_pickle_inside_an_exported_program_is_not_read(files, tmp_path):
    class Trap:
        def __reduce__(self):
            return ((tmp_path / "sprung").write_text, ("code ran",))

    buffer = io.BytesIO()
    torch.save([Trap()], buffer)
    with zipfile.ZipFile(tmp_path / "net0.pt2") as good, zipfile.ZipFile(tmp_path / "bad.pt2", "w") as bad:
        swapped = [name for name in good.namelist() if name.endswith(".pt")]
        assert swapped
        for name in good.namelist():
            bad.writestr(name, buffer.getvalue() if name in swapped else good.read(name))
    with pytest.raises(ModelError, match="cannot be loaded"):
        addresses.load(addresses.parse("export:bad.pt2", 0, tmp_path, allow_code=True), files[1])
    assert not (tmp_path / "sprung").exists()
    assert "TORCH_FORCE_WEIGHTS_ONLY_LOAD" not in os.environ


@pytest.fixture
def files(tmp_path):
    """One small network in every form of file, and what it gives."""
    kind = dataset_type("synthetic:3x16x16")
    module = addresses.load(addresses.parse("builtin:mobilenet", 0, tmp_path), kind)
    batch = torch.from_numpy(samples_of(kind, None, 3, 1).inputs)
    torch.jit.trace(module, batch).save(tmp_path / "net0.pt")
    torch.export.save(torch.export.export(module, (batch,)), tmp_path / "net0.pt2")
    with torch.inference_mode():
        return tmp_path, kind, module(batch)


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
@pytest.mark.parametrize("text", ["torchscript:net{variant}.pt", "export:net0.pt2"])
def test_files_of_torch_run(files, text):
    folder, kind, expected = files
    assert torch.allclose(run(addresses.parse(text, 0, folder, allow_code=True), kind), expected, atol=1e-5)


def onnx_of_a_line(path, classes):
    """Write the graph y = flatten(x) W."""
    from onnx import TensorProto, helper, numpy_helper, save

    weights = np.random.default_rng(0).standard_normal((12, classes)).astype(np.float32)
    nodes = [helper.make_node("Flatten", ["x"], ["f"]), helper.make_node("MatMul", ["f", "w"], ["y"])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 3, 2, 2])]
    outputs = [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, classes])]
    graph = helper.make_graph(nodes, "line", inputs, outputs, [numpy_helper.from_array(weights, "w")])
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)
    return weights


def test_onnx_runs(tmp_path):
    weights = onnx_of_a_line(tmp_path / "m0.onnx", 10)
    kind = dataset_type("synthetic:3x2x2")
    batch = samples_of(kind, None, 3, 2).inputs[:1]
    output = run(addresses.parse("onnx:m{variant}.onnx", 0, tmp_path), kind)
    assert np.allclose(output.numpy(), batch.reshape(1, 12) @ weights, atol=1e-5)


def test_python_runs_only_with_leave(tmp_path):
    with pytest.raises(ModelError, match="expected --allow-code"):
        addresses.parse("python:tests.device.faulty:make", 0, tmp_path)
    address = addresses.parse("python:torch.nn:Identity", 0, tmp_path, allow_code=True)
    kind = dataset_type("synthetic:3x2x2")
    assert run(address, kind).shape == (1, 3, 2, 2)


class WritesWhenLoaded(torch.nn.Module):
    """A TorchScript program whose loading is enough to write a file."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self.path = path

    @torch.jit.export
    def __getstate__(self) -> tuple[str, bool]:
        return self.path, self.training

    @torch.jit.export
    def __setstate__(self, state: tuple[str, bool]) -> None:
        self.path = state[0]
        self.training = state[1]
        torch.save(torch.ones(1), self.path)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")
def test_a_torchscript_program_is_not_opened_without_leave(tmp_path):
    mark = tmp_path / "written"
    torch.jit.script(WritesWhenLoaded(str(mark))).save(tmp_path / "trap.pt")
    with pytest.raises(ModelError, match="is a program that can do anything: expected --allow-code"):
        addresses.parse("torchscript:trap.pt", 0, tmp_path)
    assert not mark.exists()
    addresses.load(addresses.parse("torchscript:trap.pt", 0, tmp_path, allow_code=True), dataset_type("cifar10"))
    assert mark.exists(), "the program is as bad as it is said to be"


def test_an_exported_program_is_not_opened_without_leave(tmp_path):
    with pytest.raises(ModelError, match="is a program that can do anything: expected --allow-code"):
        addresses.parse("export:whatever.pt2", 0, tmp_path)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("resnet", "expected an address that begins with builtin:, onnx:, torchscript:, export:, python:"),
        ("pickle:model.pkl", "expected an address that begins with"),
        ("builtin:yolo", "unknown family 'yolo': expected one of resnet, vgg"),
        ("builtin:resnet?variant=5", "variant 5: expected one from 0 to 4"),
        ("builtin:resnet?size=5", "unknown option 'size': expected variant or weights"),
        ("onnx:none{variant}.onnx", "none0.onnx: no such file"),
        ("builtin:resnet?weights=none.safetensors", "no such file"),
        ("python:only_a_module", "expected python:MODULE:CALLABLE"),
    ],
)
def test_a_wrong_address_is_told_in_one_line(text, told, tmp_path):
    with pytest.raises(ModelError) as error:
        addresses.parse(text, 0, tmp_path)
    assert told in str(error.value)
    assert text in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("kind", ["onnx", "torchscript", "export"])
def test_a_damaged_file_is_told_in_one_line(kind, tmp_path):
    (tmp_path / "bad").write_bytes(b"\x00nothing of use")
    with pytest.raises(ModelError, match="cannot be loaded") as error:
        addresses.load(addresses.parse(f"{kind}:bad", 0, tmp_path, allow_code=True), dataset_type("cifar10"))
    assert "\n" not in str(error.value)


def test_a_family_refuses_inputs_of_the_wrong_kind(tmp_path):
    for family, name in (("resnet", "text-128"), ("transformer", "cifar10")):
        with pytest.raises(ModelError, match="expected"):
            addresses.load(addresses.parse(f"builtin:{family}", 0, tmp_path), dataset_type(name))
