"""How good the trained policies of the taskgraph family are: the tables of docs/taskgraph-results.md.

For every setting that a policy was trained in: that policy next to every heuristic on the same test episodes, on sizes
and seeds that no training has seen, with paired differences in makespan and bootstrap 95% intervals. Where nothing is
random an episode is a graph, and each is played once. Then, graph by graph, the policy trained without transfers next
to PEFT and to a bound that no schedule can beat.

    python benchmarks/taskgraph_policies.py --json
    python benchmarks/taskgraph_policies.py --write docs/taskgraph-results.md
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from tables import commands, plain_table, rival_table, write_tables

import slipstream
from slipstream.evaluation import bootstrap_interval
from slipstream.policies import names
from slipstream.taskgraph.generate import Settings, generate

SEED, MAKESPAN = 10_000, "makespan_ms"
HELD_OUT = 1000
"""Seed of the graphs of tests; those of trainings have small ones."""
COPIES = 4
"""Seeds of every random graph."""


def single(settings: Settings, kinds: Iterable[str] = ("cholesky", "lu", "qr", "spgemm")) -> dict[str, Any]:
    """Return a scenario for each kind and size, and of random graphs for several seeds."""
    found: dict[str, Any] = {}
    for kind in kinds:
        for size in settings.sizes.split(","):
            for copy in range(COPIES if kind == "spgemm" else 1):
                wish = settings.model_copy(update={"graphs": kind, "sizes": size})
                name = f"{kind} {size}" + (f", seed {HELD_OUT + copy}" if kind == "spgemm" else "")
                found[name] = generate(wish, HELD_OUT + copy)
    return found
