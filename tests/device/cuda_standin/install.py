"""Puts the stand-in in the place of `torch.cuda` for the length of a context."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch

from tests.device.cuda_standin import streams
from tests.device.cuda_standin.machine import Gpu
from tests.device.cuda_standin.tensors import DeviceTensor, PinnedTensor, on_device, to_host

NAME = "stand-in for a GPU"


@contextmanager
def installed(memory_mb: float = 4096.0, check: bool = True) -> Iterator[Gpu]:
    """Install a GPU of `memory_mb`; at the end of a test that passed, fail it for any misuse unless not to `check`."""
    gpu = Gpu(memory_mb)
    with ExitStack() as stack:
        for place, name, value in _replacements(gpu):
            stack.enter_context(mock.patch.object(place, name, value, create=True))
        # A module that is moved gets new parameters: the old ones cannot become tensors of another class.
        overwrites = torch.__future__.get_overwrite_module_params_on_conversion()
        torch.__future__.set_overwrite_module_params_on_conversion(True)
        stack.callback(torch.__future__.set_overwrite_module_params_on_conversion, overwrites)
        try:
            yield gpu
        finally:
            gpu.close()
    if check:
        assert gpu.violations == []


@contextmanager
def gpu_or_standin() -> Iterator[Gpu | None]:
    """Provide the GPU of this machine, and None for its state; or else install the stand-in."""
    if torch.cuda.is_available():
        yield None
        return
    with installed() as gpu:
        yield gpu


def _replacements(gpu: Gpu) -> list[tuple[Any, str, Any]]:
    """Return what is replaced: module or class, attribute, value."""
    bound = {"gpu": gpu}
    stream_type = type("Stream", (streams.Stream,), bound)
    pinned_type = type("PinnedTensor", (PinnedTensor,), bound)
    original_to, original_empty = torch.Tensor.to, torch.empty
    default = stream_type(queue=gpu.default)

    def to(self: torch.Tensor, *args: Any, **kwargs: Any) -> torch.Tensor:
        settings = {name: value for name, value in kwargs.items() if name != "copy"}
        device, dtype, non_blocking, _ = torch._C._nn._parse_to(*args, **settings)
        if isinstance(self, DeviceTensor) and device is not None and device.type == "cpu":
            return to_host(self, non_blocking)
        if device is None or device.type != "cuda":
            return original_to(self, *args, **kwargs)
        moved = self if isinstance(self, DeviceTensor) else on_device(gpu, self, non_blocking)
        return moved if dtype is None or dtype == moved.dtype else original_to(moved, dtype)

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        copy = self.as_subclass(torch.Tensor).clone(memory_format=torch.contiguous_format)
        gpu.pin(copy)
        return copy.as_subclass(pinned_type)

    def empty(*size: Any, pin_memory: bool = False, **kwargs: Any) -> torch.Tensor:
        made = original_empty(*size, **kwargs)
        if not pin_memory:
            return made
        gpu.pin(made)
        return made.as_subclass(pinned_type)

    def synchronize(device: Any = None) -> None:
        gpu.synchronize(gpu.queues, "torch.cuda.synchronize")

    def empty_cache() -> None:
        gpu.check_no_capture("cudaFree")
        for queue in gpu.queues:
            if not gpu.is_known(streams.Mark(queue, queue.issued)):
                gpu.refuse("empty_cache waits for all work on the device: expected that to have ended")

    properties = SimpleNamespace(name=NAME, total_memory=gpu.memory_bytes, uuid="0", major=0, minor=0)
    cuda = {
        "is_available": lambda: True,
        "device_count": lambda: 1,
        "current_device": lambda: 0,
        "get_device_name": lambda device=None: NAME,
        "get_device_properties": lambda device=None: properties,
        "Stream": stream_type,
        "Event": type("Event", (streams.Event,), bound),
        "CUDAGraph": type("CUDAGraph", (streams.CUDAGraph,), bound),
        "graph": type("graph", (streams.graph,), {**bound, "stream_type": stream_type}),
        "graph_pool_handle": streams.Pool,
        "stream": streams.StreamContext,
        "current_stream": lambda device=None: gpu.stack[-1] if gpu.stack else default,
        "default_stream": lambda device=None: default,
        "synchronize": synchronize,
        "empty_cache": empty_cache,
        "memory_allocated": lambda device=None: gpu.allocated,
    }
    return [
        *((torch.cuda, name, value) for name, value in cuda.items()),
        (torch.version, "cuda", "none"),
        (torch.Tensor, "to", to),
        (torch.Tensor, "pin_memory", pin_memory),
        (torch, "empty", empty),
    ]
