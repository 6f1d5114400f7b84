"""Backends by the name of their device."""

from __future__ import annotations

from importlib.util import find_spec

from slipstream.device.backends.streams import Streams
from slipstream.device.workload import Workload
from slipstream.errors import DeviceError

BACKENDS = ("cpu", "cuda", "onnxruntime")


def open_streams(device: str, workload: Workload, count: int, priorities: list[int] | None = None) -> Streams:
    """Return `count` streams of `device` with all models of the workload loaded and warm.

    Raises:
        DeviceError: One line: the device is not present, or a package is not installed.
    """
    if device not in BACKENDS:
        raise DeviceError(f"unknown device '{device}': expected one of {', '.join(BACKENDS)}")
    for package in ("torch", "onnxruntime") if device == "onnxruntime" else ("torch",):
        if find_spec(package) is None:
            raise DeviceError(f"device '{device}' needs {package}: run `pip install 'slipstream[device]'`")
    if device == "cuda":
        from slipstream.device.backends.cuda import CudaStreams

        return CudaStreams(workload, count, priorities)
    from slipstream.device.backends.cpu import CpuStreams

    return CpuStreams(workload, count, "torch" if device == "cpu" else "onnxruntime")
