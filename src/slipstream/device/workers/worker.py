"""Worker process of one stream of the `cpu` backend: reads requests, runs models, replies with their times."""

from __future__ import annotations

import ctypes
import mmap
import os
import resource
import signal
import socket
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from time import monotonic_ns

import numpy as np
import torch

from slipstream.device.models.addresses import Model
from slipstream.device.workers.ipc import (
    BROKEN,
    DONE,
    FAILED,
    LONGEST_TEXT,
    OUTPUT_NUMBERS,
    READY,
    REPLY,
    REQUEST,
    SharedArray,
    receive_exactly,
)

WARM_RUNS = 3
PR_SET_PDEATHSIG = 1
THREAD_ERRORS = suppress(OSError)
"""Errors of moving a thread that has ended or belongs to another user; created once, since every run enters it."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BYTES = 32 << 20
"""Largest freed block that the C library keeps for the process; larger ones are returned to the system."""


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


def one_line(error: BaseException) -> str:
    """Return the type and first line of an error's message."""
    text = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {text}"[:300] if text else type(error).__name__


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


def move_thread(thread: int, cores: Sequence[int]) -> None:
    """Move the waiting controller thread to `cores`, which have just become idle.

    Elsewhere it would delay the run of another stream, or have to wake a sleeping core.
    """
    with THREAD_ERRORS:
        os.sched_setaffinity(thread, cores)


def send_reply(to: socket.socket, status: int, length: int, began: int, ended: int) -> None:
    """Send a reply with its status, length and times."""
    to.sendall(REPLY.pack(status, length, began, ended))


def send_failure(to: socket.socket, status: int, error: BaseException, began: int = 0) -> None:
    """Send a reply of a failed status with the text of `error`."""
    ended, text = monotonic_ns(), one_line(error).encode()[:LONGEST_TEXT]
    to.sendall(REPLY.pack(status, len(text), began, ended) + text)


def configure_process(cores: Sequence[int], threads: int) -> None:
    """Configure this process as a worker: pinned to `cores`, ignoring Ctrl-C, killed when its parent dies."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, cores)
        # A crashed worker is reported and replaced; a core dump of all weights would delay that.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        retain_freed_memory()
    torch.set_num_threads(threads)


def retain_freed_memory() -> None:
    """Make the C library keep freed memory for the next run.

    Otherwise large activations are new pages in every run, which the system clears at first touch: hundreds of page
    faults, a tenth of the time of a large network, and more of its jitter.
    """
    with suppress(AttributeError):  # a C library without these settings
        allocator = ctypes.CDLL(None)
        allocator.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        allocator.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def report_broken(channel: socket.socket, error: BaseException) -> None:
    """Send a reply that this worker cannot run the models."""
    send_failure(channel, BROKEN, error)
