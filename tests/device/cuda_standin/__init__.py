"""Strict stand-in for the part of `torch.cuda` that the `cuda` backend uses, for machines without a GPU.

Streams are ordered queues, each worked off by a thread; kernels are CPU kernels of torch that run there. It raises a
`CudaError` where CUDA reports an error, and a `Misuse` where CUDA would accept the work and silently compute something
else or serialise it. All checks follow from the order in which work was issued and waited for, never from how fast a
thread was. It is written after the documentation of CUDA and torch, not measured against a GPU.
"""

from tests.device.cuda_standin.install import gpu_or_standin, installed
from tests.device.cuda_standin.machine import CudaError, Gpu, Misuse

__all__ = ["CudaError", "Gpu", "Misuse", "gpu_or_standin", "installed"]
