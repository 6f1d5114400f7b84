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

from slipstream.device.models import Model
from slipstream.device.wire import BROKEN, DONE, FAILED, ORDER, OUTPUT_NUMBERS, READY, REPLY, Place, receive_exactly

WARM_RUNS = 3
LINGER_NS = 500_000
"""For which a worker looks out for its next order before it sleeps: a core that sleeps takes long to wake up."""
PR_SET_PDEATHSIG = 1


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


def serve(orders: socket.socket, desk: Desk) -> None:
    """Work until nobody orders any more."""
    reply(orders, READY)
    while True:
        linger(orders)
        message = receive_exactly(orders, ORDER.size)
        if message is None:
            return
        began = monotonic_ns()
        try:
            model, samples, sample, loop_ns = ORDER.unpack(message)
            length = loop(desk, model, samples, loop_ns) if loop_ns else run(desk, model, samples, sample)
            reply(orders, DONE, length, began)
        except Exception as error:  # whatever a model may raise: its job has failed, and that is all
            reply(orders, FAILED, 0, began, one_line(error))


def linger(orders: socket.socket) -> None:
    """Return as soon as there is something to read, or after a short while."""
    until = monotonic_ns() + LINGER_NS
    while monotonic_ns() < until:
        with suppress(BlockingIOError):
            orders.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT)
            return


def reply(to: socket.socket, status: int, length: int = 0, began: int = 0, text: str = "") -> None:
    """Answer; the time of the answer is the time at which the run ended."""
    to.sendall(REPLY.pack(status, length, began, monotonic_ns(), text.encode()[:400]))


def settle(cores: Sequence[int], threads: int) -> None:
    """Make this process a worker: on its own cores, deaf to Ctrl-C, and dead when its parent is."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
        os.sched_setaffinity(0, cores)
        # A model that crashes is replaced and told; a dump of all weights would only hold that up.
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    torch.set_num_threads(threads)


def break_down(orders: socket.socket, error: BaseException) -> None:
    """Say that this worker cannot work."""
    reply(orders, BROKEN, text=one_line(error))
