"""Worker process of one stream of the `cpu` backend: reads requests, runs models, replies with their times."""

from __future__ import annotations

import mmap
import socket
from collections.abc import Sequence
from dataclasses import dataclass
from time import monotonic_ns

import numpy as np
import torch

from slipstream.device.models.addresses import Model
from slipstream.device.workers.ipc import (
    DONE,
    FAILED,
    OUTPUT_NUMBERS,
    READY,
    REQUEST,
    SharedArray,
    receive_exactly,
)
from slipstream.device.workers.process import move_thread, send_failure, send_reply

WARM_RUNS = 3


@dataclass(frozen=True)
class WorkerContext:
    """Models, samples and output buffer of a worker."""

    models: Sequence[Model]
    inputs: Sequence[torch.Tensor]
    """Sample sets, in the shared memory."""
    output: np.ndarray


def make_context(
    models: Sequence[Model], memory: mmap.mmap, sets: Sequence[SharedArray], output: SharedArray
) -> WorkerContext:
    """Return the context of a worker, with views of the shared memory."""
    return WorkerContext(models, [torch.from_numpy(array.view(memory)) for array in sets], output.view(memory))


def run(context: WorkerContext, model: int, samples: int, sample: int) -> int:
    """Run `model` on one sample; return the length of its output.

    Raises:
        ArithmeticError: The output is not finite.
    """
    output = context.models[model](context.inputs[samples][sample : sample + 1])
    if not bool(torch.isfinite(output).all()):
        raise ArithmeticError("the output is not finite")
    flat = output.reshape(-1)[:OUTPUT_NUMBERS]
    context.output[: len(flat)] = flat.numpy()
    return len(flat)


def loop(context: WorkerContext, model: int, samples: int, nanoseconds: int) -> int:
    """Run `model` on all samples in turn for `nanoseconds`; return the number of runs."""
    until, runs = monotonic_ns() + nanoseconds, 0
    while monotonic_ns() < until:
        run(context, model, samples, runs % len(context.inputs[samples]))
        runs += 1
    return runs


def warm_up(context: WorkerContext, first: Sequence[tuple[int, int]]) -> None:
    """Run every model a few times on its first sample, so that lazy initialisation is done."""
    for model, samples in first:
        for _ in range(WARM_RUNS):
            run(context, model, samples, 0)


def serve(channel: socket.socket, context: WorkerContext, cores: Sequence[int]) -> None:
    """Process requests until the other end of `channel` is closed."""
    send_reply(channel, READY, 0, 0, monotonic_ns())
    while (message := receive_exactly(channel, REQUEST.size)) is not None:
        began = monotonic_ns()
        model, samples, sample, controller_thread, loop_ns = REQUEST.unpack(message)
        try:
            length = loop(context, model, samples, loop_ns) if loop_ns else run(context, model, samples, sample)
        except Exception as error:  # a model may raise anything: only its job fails
            send_failure(channel, FAILED, error, began)
            continue
        ended = monotonic_ns()
        if controller_thread:
            move_thread(controller_thread, cores)
        send_reply(channel, DONE, length, began, ended)
