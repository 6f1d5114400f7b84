"""One lane that runs whole episodes under any policy and passes on its event log in chunks."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable
from functools import cached_property
from textwrap import shorten
from typing import Any, Generic

import numpy as np
from typing_extensions import TypeVar  # with defaults, which `typing` has from Python 3.13 on

from slipstream.errors import InputError, printable
from slipstream.families.contract import Scenario, family_of
from slipstream.families.shared.features import GraphShape
from slipstream.policies.base import Policy, WholeEpisodes
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.kernel.rng import SEED_LIMIT, SPLITS

LOG_ROWS = 1 << 16
"""Capacity of the event log between flushes, so memory does not grow with the length of an episode."""

NO_LIMIT = 2**62
"""Number of choices that no episode reaches."""

Sink = Callable[[np.ndarray], None]

S_co = TypeVar("S_co", bound=Scenario, covariant=True, default=Scenario)
"""Class of the scenario: code of one family reads the keys of its own, all other code what scenarios share."""


def split_code(split: str) -> int:
    """Return the code of the seed split `split`."""
    if split not in SPLITS:
        raise InputError(f"split '{split}': expected one of {', '.join(SPLITS)}")
    return SPLITS[split]


def check_seed(seed: Any) -> int:
    """Return `seed` as an integer; raise an InputError unless it lies in the range of seeds."""
    number = _integer(seed)
    if number is None or not 0 <= number < SEED_LIMIT:
        raise InputError(f"seed {shorten(repr(seed), 80)}: expected a number from 0 to 2**62 - 1")
    return number


def check_action(action: Any) -> int:
    """Return `action` as an integer; raise an InputError if it is none. The kernel checks whether its row is legal."""
    number = _integer(action)
    if number is None or not -(2**63) <= number < 2**63:
        raise InputError(f"action {shorten(repr(action), 80)}: expected an integer, the index of a row")
    return number


def _integer(value: Any) -> int | None:
    """Return `value` as a Python integer if it is one of Python, of NumPy or a zero-dimensional array; else None."""
    try:
        return None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        return None


def writable_arrays(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return `arrays` contiguous and writable, as compiled code needs them after unpickling.

    Arrays that Ray unpickles from its object store are read-only.
    """
    return {name: np.require(array, requirements=["C", "W"]) for name, array in arrays.items()}


class Simulator(Generic[S_co]):
    """A single lane with raw observations, stepped decision by decision or run for whole episodes."""

    def __init__(self, scenario: S_co, log_rows: int | None = None) -> None:
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
        """Build the compiled structs over the arrays."""
        self.header = self.arrays["lanes"][0]
        self.spec = self.family.make_spec(self.family.spec_arrays(self.scenario))
        self.state = self.family.make_state(self.arrays)
        self.buffer = make_buffer(self.raw)

    def __getstate__(self) -> dict[str, Any]:
        # Compiled structs cannot be pickled: a copy builds its own over its own arrays.
        return {name: vars(self)[name] for name in ("scenario", "family", "arrays", "raw")}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, arrays=writable_arrays(state["arrays"]), raw=writable_arrays(state["raw"]))
        self._bind()

    @cached_property
    def observed(self) -> Any:
        """Observation buffer for networks that read no graph."""
        return self._observed(None)

    @cached_property
    def observed_graph(self) -> Any:
        """Observation buffer with the graph, where the family has one."""
        return self._observed(self.family.graph(self.scenario))

    def _observed(self, graph: GraphShape | None) -> Any:
        rows = self.family.candidate_rows(self.scenario)
        features = (self.family.global_features, self.family.candidate_features)
        buffer = make_buffer(buffer_arrays(1, rows, *features, raw=False, graph=graph))
        lanes.prepare_buffer(self.spec, self.state, buffer)
        return buffer

    @property
    def asking(self) -> bool:
        """Whether a decision is due."""
        return bool(self.header["status"] == lanes.ASKING)

    def reset(self, seed: int, split: str = "test", sink: Sink | None = None) -> None:
        """Start the episode of `seed` and run to its first decision."""
        lanes.start_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        self._flush_while_full(sink)

    def step(self, action: int, sink: Sink | None = None) -> None:
        """Apply `action` and run to the next decision."""
        lanes.step_lane(self.spec, self.state, 0, check_action(action))
        self._flush_while_full(sink)

    def observe(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return raw globals, rows and mask of the decision that is due; the next call overwrites the arrays."""
        lanes.observe_lane(self.spec, self.state, 0, self.buffer, 0)
        return self.raw["globals"][0], self.raw["rows"][0], self.raw["mask"][0]

    def log(self) -> np.ndarray:
        """Return the rows of the event log that have not been flushed."""
        return np.array(self.arrays["log"][0, : self.header["log_rows"]])

    def play(self, policy: Policy, seed: int, split: str = "test", sink: Sink | None = None) -> np.ndarray:
        """Run a whole episode; return its event log, or pass it to `sink` in chunks and return no rows."""
        kept: list[np.ndarray] = []
        take = sink or kept.append
        if isinstance(policy, WholeEpisodes):
            # Its compiled loop runs from here, the first decision included.
            lanes.begin_lane(self.spec, self.state, 0, check_seed(seed), split_code(split))
        else:
            self.reset(seed, split, take)
        self.continue_episode(policy, take)
        take(self.log())
        if self.header["mistakes"]:
            count = int(self.header["mistakes"])
            warnings.warn(
                f"policy '{printable(policy.name)}' made {count} choices that were not allowed: each counted as wait",
                stacklevel=2,
            )
        return kept[0] if len(kept) == 1 else np.concatenate([*kept, self.arrays["log"][0, :0]])

    def continue_episode(self, policy: Policy, sink: Sink) -> None:
        """Run from the present state to the end of the episode; flush the log to `sink` whenever it is full."""
        if isinstance(policy, WholeEpisodes):
            while policy.run(self, NO_LIMIT) == lanes.LOG_FULL:
                self._flush(sink)
        else:
            while self.asking:
                self.step(policy.choose(*self.observe()), sink)

    def resample(self, key: int) -> None:
        """Redraw from `key` everything that a policy cannot know at the decision that is due."""
        if self.family.members.kernel.resample is None:
            raise InputError(
                f"family '{self.family.name}': futures cannot be redrawn: expected one that has 'resample'"
            )
        lanes.resample_lane(self.spec, self.state, 0, np.uint64(key))

    def save(self) -> dict[str, np.ndarray]:
        """Return a copy of the present state, without the event log."""
        return {name: array.copy() for name, array in self.arrays.items() if name != "log"}

    def restore(self, saved: dict[str, np.ndarray]) -> None:
        """Set the state to `saved`, a result of `save`."""
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
