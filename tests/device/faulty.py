"""Models that go wrong where their input says so; run as `python:tests.device.faulty:make`."""

from __future__ import annotations

import itertools
import os
import random
import resource
import signal
import threading
import time

import torch

FINE, RAISES, NOT_A_NUMBER, DIES, HANGS, CRASHES = range(6)
FAULTS = (RAISES, NOT_A_NUMBER, DIES, HANGS, CRASHES)
DATASET = "synthetic:1x2x2"


def make(kind, variant):
    """Return a model that does what the first number of its input says."""

    def model(batch):
        fault = int(batch.flatten()[0])
        if fault == RAISES:
            raise ValueError("this input is too much")
        if fault == NOT_A_NUMBER:
            return torch.full((1, 10), float("nan"))
        if fault == DIES:
            os._exit(3)
        if fault == HANGS:
            time.sleep(3600)
        if fault == CRASHES:
            os.kill(os.getpid(), signal.SIGSEGV)
        return torch.arange(10.0)[None] + variant

    return model


def stumble(kind, variant):
    """Return a model that, after its first call in a process, goes wrong in half of the cases, in any way."""
    calls, chance = itertools.count(), random.SystemRandom()
    model = make(kind, variant)

    def stumbling(batch):
        goes_wrong = next(calls) > 0 and chance.random() < 0.5
        return model(torch.full_like(batch, chance.choice(FAULTS) if goes_wrong else FINE))

    return stumbling


class Arithmetic(torch.nn.Module):
    """A model of plain tensor operations, whose output is not a number where the input says so."""

    def __init__(self, variant):
        super().__init__()
        self.register_buffer("scores", torch.arange(10.0)[None] + variant)

    def forward(self, batch):
        return self.scores + (batch.flatten(1)[:, :1] - NOT_A_NUMBER).reciprocal() * 0


class Kernel(torch.nn.Module):
    """A model whose kernel does what the first number of its input says, while it runs on the stream."""

    def forward(self, batch):
        return torch.ops.slipstream_tests.fault(batch)


RELEASE = threading.Event()
"""Ends the kernels that hang."""


@torch.library.custom_op("slipstream_tests::fault", mutates_args=())
def fault(batch: torch.Tensor) -> torch.Tensor:
    kind = int(batch.flatten()[0])
    if kind == RAISES:
        raise ValueError("this input is too much")
    if kind == HANGS:
        RELEASE.wait(60)
    return torch.arange(10.0)[None]


@fault.register_fake
def _(batch):
    return torch.empty(1, 10, device=batch.device)


def make_arithmetic(kind, variant):
    return Arithmetic(variant)


def make_kernel(kind, variant):
    return Kernel()


def make_half(kind, variant):
    """Return a model whose output is in half precision."""

    class Half(torch.nn.Module):
        def forward(self, batch):
            return batch.flatten(1).half() * 2

    return Half()


def make_branching(kind, variant):
    """Return a model whose operations depend on its input."""

    class Branching(torch.nn.Module):
        def forward(self, batch):
            return batch if batch.sum() > 0 else -batch

    return Branching()


def make_broken(kind, variant):
    raise RuntimeError("no model today")


HUNGRY_PAGES = 2560


def make_hungry(kind, variant):
    """Return a model that takes ten megabytes in pieces, gives them back, and says how many pages were new to it."""

    def model(batch):
        before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
        pieces = [torch.ones(HUNGRY_PAGES * 4096 // 40) for _ in range(10)]
        faults = resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
        del pieces
        return torch.tensor([float(faults)])

    return model


def make_shaky(kind, variant):
    """Return a model that takes now shorter, now longer."""
    turns = itertools.cycle((0.001, 0.003))

    def model(batch):
        time.sleep(next(turns))
        return torch.zeros(2)

    return model
