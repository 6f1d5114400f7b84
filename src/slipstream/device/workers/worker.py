"""The process behind one stream of the `cpu` backend: takes orders, runs models, says when they ended."""

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
    ORDER,
    OUTPUT_NUMBERS,
    READY,
    REPLY,
    Place,
    receive_exactly,
)

WARM_RUNS = 3
PR_SET_PDEATHSIG = 1
GONE_OR_FOREIGN = suppress(OSError)
"""Made once: it is entered after every run."""
M_TRIM_THRESHOLD, M_MMAP_THRESHOLD = -1, -3
LARGEST_KEPT_BYTES = 32 << 20
"""The largest piece of memory that the C library lets a process keep for its next use; above it, the system has it."""


@dataclass(frozen=True)
class Desk:
    """What a worker has before it: its models, the samples, and where its outputs go."""

    models: Sequence[Model]
    inputs: Sequence[torch.Tensor]
    """Sets of samples, in the memory that all processes share."""
    output: np.ndarray


def desk_of(models: Sequence[Model], memory: mmap.mmap, sets: Sequence[Place], output: Place) -> Desk:
    """Lay out a desk in the shared memory."""
    return Desk(models, [torch.from_numpy(place.view(memory)) for place in sets], output.view(memory))


def run(desk: Desk, model: int, samples: int, sample: int) -> int:
    """Run a model on one sample; return the length of its output.

    Raises:
        ArithmeticError: The output is not finite.
    """
    output = desk.models[model](desk.inputs[samples][sample : sample + 1])
    if not bool(torch.isfinite(output).all()):
        raise ArithmeticError("the output is not finite")
    flat = output.reshape(-1)[:OUTPUT_NUMBERS]
    desk.output[: len(flat)] = flat.numpy()
    return len(flat)


def loop(desk: Desk, model: int, samples: int, nanoseconds: int) -> int:
    """Run a model on all samples in turn for a while, with nobody asked in between; return the number of runs."""
    until, runs = monotonic_ns() + nanoseconds, 0
    while monotonic_ns() < until:
        run(desk, model, samples, runs % len(desk.inputs[samples]))
        runs += 1
    return runs


def warm_up(desk: Desk, first: Sequence[tuple[int, int]]) -> None:
    """Run every model a few times on the first of its samples, so that nothing is done for the first time later."""
    for model, samples in first:
        for _ in range(WARM_RUNS):
            run(desk, model, samples, 0)


def one_line(error: BaseException) -> str:
    """Return what an error says, in one short line."""
    told = (str(error).strip().splitlines() or [""])[0]
    return f"{type(error).__name__}: {told}"[:300] if told else type(error).__name__


def serve(orders: socket.socket, desk: Desk, cores: Sequence[int]) -> None:
    """Work until nobody orders any more."""
    reply(orders, READY, 0, 0, monotonic_ns())
    while (message := receive_exactly(orders, ORDER.size)) is not None:
        began = monotonic_ns()
        model, samples, sample, asker, loop_ns = ORDER.unpack(message)
        try:
            length = loop(desk, model, samples, loop_ns) if loop_ns else run(desk, model, samples, sample)
        except Exception as error:  # whatever a model may raise: its job has failed, and that is all
            complain(orders, FAILED, error, began)
            continue
        ended = monotonic_ns()
        if asker:
            bring_here(asker, cores)
        reply(orders, DONE, length, began, ended)


def bring_here(thread: int, cores: Sequence[int]) -> None:
    """Let the thread that waits for the answer wake up on these cores, which have just become idle.

    Elsewhere it would hold up the run of another stream, or have to wake up a core that sleeps.
    """
    with GONE_OR_FOREIGN:
        os.sched_setaffinity(thread, cores)


def reply(to: socket.socket, status: int, length: int, began: int, ended: int) -> None:
    """Answer."""
    to.sendall(REPLY.pack(status, length, began, ended))


def complain(to: socket.socket, status: int, error: BaseException, began: int = 0) -> None:
    """Answer that something went wrong, and what."""
    ended, text = monotonic_ns(), one_line(error).encode()[:LONGEST_TEXT]
    to.sendall(REPLY.pack(status, len(text), began, ended) + text)


def settle(cores: Sequence[int], threads: int) -> None:
    """Make this process a worker: on its own cores, deaf to Ctrl-C, and dead when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, cores)
        # A model that crashes is replaced and told; a dump of all weights would only hold that up.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        keep_memory()
    torch.set_num_threads(threads)


def keep_memory() -> None:
    """Keep what a run gives back for the next one.

    Otherwise large outputs of layers are new pages in every run, and the system clears each of them when it is touched:
    hundreds of faults, a tenth of the time of a large network, and more of its spread.
    """
    with suppress(AttributeError):  # a C library that knows no such settings
        allocator = ctypes.CDLL(None)
        allocator.mallopt(M_MMAP_THRESHOLD, LARGEST_KEPT_BYTES)
        allocator.mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def break_down(orders: socket.socket, error: BaseException) -> None:
    """Say that this worker cannot work."""
    complain(orders, BROKEN, error)
