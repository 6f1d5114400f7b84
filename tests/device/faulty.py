"""Models that go wrong where their input says so; run as `python:tests.device.faulty:make`."""

from __future__ import annotations

import itertools
import os
import resource
import signal
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
