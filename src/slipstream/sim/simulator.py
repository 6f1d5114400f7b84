"""One lane that plays whole episodes under any policy and hands on its event log in pieces."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import cached_property
from textwrap import shorten
from typing import Any

import numpy as np

from slipstream.errors import InputError, printable
from slipstream.families.contract import family_of
from slipstream.families.shared.features import GraphShape
from slipstream.policies.base import Policy, WholeEpisodes
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.kernel.rng import SEED_LIMIT, SPLITS

LOG_ROWS = 1 << 16
"""Rows kept before they are handed on, so memory does not grow with the length of an episode."""

FOREVER = 2**62

Sink = Callable[[np.ndarray], None]


def split_code(split: str) -> int:
    """Return the code of a seed split."""
    if split not in SPLITS:
        raise InputError(f"split '{split}': expected one of {', '.join(SPLITS)}")
    return SPLITS[split]


def check_seed(seed: Any) -> int:
    """Return the seed if it is one."""
    number = _integer(seed)
    if number is None or not 0 <= number < SEED_LIMIT:
        raise InputError(f"seed {shorten(repr(seed), 80)}: expected a number from 0 to 2**62 - 1")
    return number


def check_action(action: Any) -> int:
    """Return the action as an integer; refuse what is not one. Whether its row may be taken is the machine's to say."""
    number = _integer(action)
    if number is None or not -(2**63) <= number < 2**63:
        raise InputError(f"action {shorten(repr(action), 80)}: expected an integer, the index of a row")
    return number


def _integer(value: Any) -> int | None:
    """Return what any kind of integer stands for: Python's, NumPy's, or that of an array without dimensions."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def own_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return arrays that came with a copy of their owner as arrays that compiled code may write.

    Unpickled from buffers that somebody else keeps, as Ray does it, they are read-only.
    """
    return {name: np.require(array, requirements=["C", "W"]) for name, array in arrays.items()}


class Simulator:
    """A single lane with its raw candidates, driven choice by choice or by whole episodes."""

    def __init__(self, scenario: Any, log_rows: int | None = None) -> None:
        self.scenario = scenario
        self.family = family_of(scenario)
        margin = self.family.log_margin(scenario)
        if log_rows is None:
            log_rows = max(LOG_ROWS, 2 * margin)
        if 0 < log_rows <= margin:
            raise InputError(f"log_rows {log_rows}: expected 0, or more than the {margin} that one event may fill")
        self.arrays = self.family.state_arrays(scenario, 1, log_rows)
        self.raw = buffer_arrays(
            1,
            self.family.all_rows(scenario),
            self.family.global_features,
            self.family.candidate_features,
            raw=True,
        )
        self._bind()
        lanes.prepare_buffer(self.spec, self.state, self.buffer)

    def _bind(self) -> None:
        """Build the compiled structs, and what else refers to the arrays."""
        self.header = self.arrays["lanes"][0]
        self.spec = self.family.make_spec(self.family.spec_arrays(self.scenario))
        self.state = self.family.make_state(self.arrays)
        self.buffer = make_buffer(self.raw)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled structs cannot be copied: a copy builds its own over its own arrays.
        return {name: vars(self)[name] for name in ("scenario", "family", "arrays", "raw")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, arrays=own_arrays(state["arrays"]), raw=own_arrays(state["raw"]))
        self._bind()

    @cached_property
    def observed(self) -> Any:
        """A buffer that shows what agents see, but for the graph, for networks."""
        return self._observed(None)

    @cached_property
    def observed_graph(self) -> Any:
        """A buffer that shows all that agents see."""
        return self._observed(self.family.graph(self.scenario))

    def _observed(self, graph: GraphShape | None) -> Any:
        rows = self.family.candidate_rows(self.scenario)
        features = (self.family.global_features, self.family.candidate_features)
        buffer = make_buffer(buffer_arrays(1, rows, *features, raw=False, graph=graph))
        lanes.prepare_buffer(self.spec, self.state, buffer)
        return buffer

    @property
    def asking(self) -> bool:
        """Whether a choice is due."""
        return bool(self.header["status"] == lanes.ASKING)

    def reset(self, seed: int, split: str = "test", sink: Sink | None = None) -> None:
        """Start an episode and run to its first choice."""
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        self._flush_while_full(sink)

    def step(self, action: int, sink: Sink | None = None) -> None:
        """Apply a choice and run to the next one."""
        lanes.step_lane(self.spec, self.state, 0, check_action(action))
        self._flush_while_full(sink)

    def observe(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return the raw globals, rows and mask of the present choice; the arrays are overwritten by the next."""
        lanes.observe_lane(self.spec, self.state, 0, self.buffer, 0)
        return self.raw["globals"][0], self.raw["rows"][0], self.raw["mask"][0]

    def log(self) -> np.ndarray:
        """Return the rows of the event log that were not handed on yet."""
        return np.array(self.arrays["log"][0, : self.header["log_rows"]])

    def play(self, policy: Policy, seed: int, split: str = "test", sink: Sink | None = None) -> np.ndarray:
        """Play a whole episode; return its event log, or give it to `sink` piece by piece and return nothing."""
        kept: list[np.ndarray] = []
        take = sink or kept.append
        if isinstance(policy, WholeEpisodes):
            # It goes on from there by itself.
            lanes.begin_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        else:
            self.reset(seed, split, take)
        self.go_on(policy, take)
        take(self.log())
        if self.header["mistakes"]:
            count = int(self.header["mistakes"])
            warnings.warn(
                f"policy '{printable(policy.name)}' made {count} choices that were not allowed: each counted as wait",
                stacklevel=2,
            )
        return kept[0] if len(kept) == 1 else np.concatenate([*kept, self.arrays["log"][0, :0]])

    def go_on(self, policy: Policy, sink: Sink) -> None:
        """Play from here to the end of the episode; what the log has no room for is handed on."""
        if isinstance(policy, WholeEpisodes):
            while policy.run(self, FOREVER) == lanes.LOG_FULL:
                self._flush(sink)
        else:
            while self.asking:
                self.step(policy.choose(*self.observe()), sink)

    def save(self) -> dict[str, np.ndarray]:
        """Return the present state, to go back to; the event log is no part of it."""
        return {name: array.copy() for name, array in self.arrays.items() if name != "log"}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Go back to a state that was saved."""
        for name, array in saved.items():
            self.arrays[name][...] = array

    def _flush(self, sink: Sink) -> None:
        sink(self.log())
        self.header["log_rows"] = 0

    def _flush_while_full(self, sink: Sink | None) -> None:
        while self.header["status"] == lanes.LOG_FULL:
            if sink is None:
                raise InputError("the event log is full: pass a sink, or a larger log_rows")
            self._flush(sink)
            lanes.resume_lane(self.spec, self.state, 0)
