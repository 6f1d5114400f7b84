"""Tensors of the stand-in: on the device, whose kernels run later on a queue, and in pinned memory."""

from __future__ import annotations

from typing import Any

import torch
from torch.utils._pytree import tree_flatten, tree_map_only

from tests.device.cuda_standin.machine import Gpu, Memory

ATEN = torch.ops.aten
READ_BY_HOST = ("_local_scalar_dense", "item", "is_nonzero", "nonzero", "equal", "masked_select")
"""Operations whose result, or the shape of it, the host has to know at once."""
NO_ACCESS = {
    *("__get__", "__getitem__", "size", "dim", "numel", "element_size", "stride", "storage_offset", "data_ptr"),
    *("untyped_storage", "is_pinned", "reshape", "view", "detach", "as_subclass", "__len__", "is_inference"),
}
"""Methods of a tensor that neither read nor write its numbers."""


class DeviceTensor(torch.Tensor):
    """A tensor on the device: `backing` is its memory, which only queues may touch.

    It says that it is on the device to Python alone: a build of torch without CUDA has no code for such tensors.
    """

    backing: torch.Tensor
    memory: Memory
    inference: bool

    @staticmethod
    def __new__(cls, backing: torch.Tensor, memory: Memory) -> DeviceTensor:
        """Return a tensor that says it is on the device."""
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            backing.shape,
            strides=backing.stride(),
            storage_offset=backing.storage_offset(),
            dtype=backing.dtype,
        )
        made.backing, made.memory, made.inference = backing, memory, torch.is_inference_mode_enabled()
        return made

    device = property(lambda _: torch.device("cuda:0"))  # type: ignore[assignment]
    is_cuda = property(lambda _: True)  # type: ignore[assignment]

    def __repr__(self, *, tensor_contents: Any = None) -> str:
        return f"DeviceTensor({tuple(self.shape)}, {self.dtype})"

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        if name in ("cpu", "tolist"):
            copied = to_host(args[0], False)
            return copied.tolist() if name == "tolist" else copied
        if name in ("numpy", "__array__"):
            raise TypeError("can't convert cuda:0 device type tensor to numpy.")
        with torch._C.DisableTorchFunctionSubclass():
            return func(*args, **(kwargs or {}))

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        if torch._C._dispatch_has_kernel_for_dispatch_key(func.name(), "CompositeImplicitAutograd"):
            result = func.decompose(*args, **kwargs)
            if result is not NotImplemented:
                return result
        given = tree_flatten((args, kwargs))[0]
        tensors = [one for one in given if isinstance(one, DeviceTensor)]
        gpu = tensors[0].memory.gpu
        name = func.overloadpacket.__name__
        if name in READ_BY_HOST:
            return read_by_host(gpu, lambda: func(*backings(args), **backings(kwargs)))
        if func is ATEN.copy_.default:
            return copy(gpu, *args, **kwargs)
        aliases = [returned.alias_info for returned in func._schema.returns]
        if any(alias is not None and not alias.is_write for alias in aliases):
            return wrap_views(func(*backings(args), **backings(kwargs)), tensors[0].memory)
        for one in given:
            if isinstance(one, torch.Tensor) and not isinstance(one, DeviceTensor) and one.dim() > 0:
                raise RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu!")
        if any(alias is not None for alias in aliases):
            return in_place(gpu, func, args, kwargs, tensors)
        return computed(gpu, func, args, kwargs, tensors)


def backings(tree: Any) -> Any:
    """Return `tree` with the memory of device tensors in their place, and the CPU in that of the device."""
    return _on_host(tree_map_only(DeviceTensor, lambda tensor: tensor.backing, tree), "cpu")


def _on_host(tree: Any, device: str) -> Any:
    return tree_map_only(torch.device, lambda _: torch.device(device), tree)


def wrap_views(tree: Any, memory: Memory) -> Any:
    """Return device tensors over the plain tensors of `tree`, all in `memory`."""
    return tree_map_only(torch.Tensor, lambda tensor: DeviceTensor(tensor, memory), tree)


def read_by_host(gpu: Gpu, read: Any) -> Any:
    """Return what `read` returns after everything on the current stream."""
    found = []
    gpu.copy_and_wait(lambda: found.append(read()))
    return found[0]


def to_host(tensor: DeviceTensor, non_blocking: bool) -> torch.Tensor:
    """Return a copy of `tensor` in memory of the host that is not pinned."""
    if non_blocking:
        tensor.memory.gpu.refuse("a copy to the host with non_blocking goes to memory that is not pinned")
    copied: torch.Tensor = read_by_host(tensor.memory.gpu, tensor.backing.clone)
    return copied


def in_place(gpu: Gpu, func: Any, args: Any, kwargs: Any, tensors: list[DeviceTensor]) -> Any:
    """Enqueue an operation that overwrites its first argument; return that."""
    target = args[0]
    check_writable(target)
    host_args, host_kwargs = backings(args), backings(kwargs)
    gpu.launch(str(func), lambda: void(func(*host_args, **host_kwargs)), [t.memory for t in tensors], [target.memory])
    return target


def check_writable(target: DeviceTensor) -> None:
    """Raise the error of torch where a tensor of inference mode is written outside it."""
    if target.inference and not torch.is_inference_mode_enabled():
        raise RuntimeError("Inplace update to inference tensor outside InferenceMode is not allowed.")


def computed(gpu: Gpu, func: Any, args: Any, kwargs: Any, tensors: list[DeviceTensor]) -> Any:
    """Enqueue an operation with new results; return them."""
    shapes = _on_host(tree_map_only(DeviceTensor, lambda t: t.backing.to("meta"), (args, kwargs)), "meta")
    results: list[DeviceTensor] = []

    def allocated(shape: torch.Tensor) -> DeviceTensor:
        backing = torch.empty_strided(shape.shape, shape.stride(), dtype=shape.dtype)
        results.append(DeviceTensor(backing, gpu.allocate(backing.untyped_storage().nbytes())))
        return results[-1]

    found = tree_map_only(torch.Tensor, allocated, func(*shapes[0], **shapes[1]))
    host_args, host_kwargs, into = backings(args), backings(kwargs), [result.backing for result in results]

    def work() -> None:
        values = [v for v in tree_flatten(func(*host_args, **host_kwargs))[0] if isinstance(v, torch.Tensor)]
        for backing, value in zip(into, values, strict=True):
            if value.numel():  # statistics of a normalisation, which only GPUs return in inference
                backing.copy_(value)

    # A kernel is compiled for the types of its numbers.
    name = f"{func} of {', '.join(str(result.dtype) for result in results)}"
    gpu.launch(name, work, [t.memory for t in tensors], [result.memory for result in results])
    return found


def copy(gpu: Gpu, target: torch.Tensor, source: torch.Tensor, non_blocking: bool = False) -> torch.Tensor:
    """Copy `source` to `target`, of which at least one is on the device."""
    if isinstance(target, DeviceTensor):
        check_writable(target)
    ends = [plain(target), plain(source)]
    memories = [one.memory if isinstance(one, DeviceTensor) else gpu.pinned_memory(one) for one in (target, source)]

    def work() -> None:
        ends[0].copy_(ends[1])

    if isinstance(target, DeviceTensor) and isinstance(source, DeviceTensor):
        gpu.launch("a copy on the device", work, [source.memory], [target.memory])
    elif not non_blocking:
        gpu.copy_and_wait(work)
    elif None in memories:
        gpu.refuse("a copy with non_blocking uses memory that is not pinned, so it blocks: expected pin_memory")
    else:
        gpu.launch("a copy", work, [memories[1]], [memories[0]])
    return target


def plain(tensor: torch.Tensor) -> torch.Tensor:
    """Return the memory of a tensor, without any checks."""
    return tensor.backing if isinstance(tensor, DeviceTensor) else tensor.as_subclass(torch.Tensor)


def void(_: object) -> None:
    """Drop a result."""


class PinnedTensor(torch.Tensor):
    """A tensor in pinned memory, whose accesses by the host are checked."""

    gpu: Gpu

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.__name__
        with torch._C.DisableTorchFunctionSubclass():
            if name not in NO_ACCESS and not any(isinstance(one, DeviceTensor) for one in args):
                for number, one in enumerate(args):
                    if isinstance(one, PinnedTensor):
                        memory = cls.gpu.pinned_memory(one)
                        assert memory is not None
                        writes = number == 0 and (name == "__setitem__" or name.rstrip("_") + "_" == name)
                        cls.gpu.check_host_access(memory, writes)
            found = func(*args, **(kwargs or {}))
            if type(found) is torch.Tensor and found.device.type == "cpu" and cls.gpu.pinned_memory(found) is not None:
                return found.as_subclass(cls)
        return found


def on_device(gpu: Gpu, tensor: torch.Tensor, non_blocking: bool) -> DeviceTensor:
    """Return a copy of `tensor` on the device."""
    source = plain(tensor)
    backing = torch.empty_strided(source.shape, source.stride(), dtype=source.dtype)
    made = DeviceTensor(backing, gpu.allocate(backing.untyped_storage().nbytes()))
    copy(gpu, made, tensor, non_blocking)
    return made
