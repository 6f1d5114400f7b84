"""ONNX Runtime session of one model, for one stream."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from slipstream.errors import DeviceError, ModelError

if TYPE_CHECKING:
    from torch import Tensor

PREFERRED = ("CUDAExecutionProvider", "CPUExecutionProvider")
"""Execution providers in order of preference."""


def runtime() -> Any:
    """Return the module `onnxruntime`; a DeviceError says how to install it."""
    try:
        import onnxruntime
    except ImportError:
        raise DeviceError("ONNX Runtime is not installed: run `pip install 'slipstream[device]'`") from None
    return onnxruntime


class OnnxModel:
    """Callable model: the graph's single input to its first output."""

    def __init__(
        self, source: Path | bytes, threads: int = 1, providers: Sequence[str] = ("CPUExecutionProvider",)
    ) -> None:
        onnxruntime = runtime()
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = threads
        options.inter_op_num_threads = 1
        # A thread that spins while it waits would take the core of another stream.
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        options.log_severity_level = 3
        content = source if isinstance(source, bytes) else str(source)
        self._session = onnxruntime.InferenceSession(content, options, providers=list(providers))
        inputs = self._session.get_inputs()
        if len(inputs) != 1:
            raise ModelError(f"the graph takes {len(inputs)} inputs: expected one")
        self._input = inputs[0].name

    def __call__(self, batch: Tensor) -> Tensor:
        """Return the output for a batch."""
        import torch

        return torch.from_numpy(self._session.run(None, {self._input: batch.numpy()})[0])
