"""The native vector environment: many lanes stepped in place by compiled code, on one or several threads."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from textwrap import shorten
from typing import Any

import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from slipstream.envs.env import Observation, load_for
from slipstream.envs.spaces import action_space, observation_space, observed_keys
from slipstream.errors import InputError
from slipstream.families.contract import FAMILIES, ScenarioLike
from slipstream.jit.structs import on_cache_lines
from slipstream.policies.base import Heuristic
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.simulator import check_seed, split_code

ARRAYS = ("_arrays", "_buffer", "_times")
DERIVED = ("_info_arrays", "_rewards", "_pool", "_workers")
"""Attributes that are not pickled: a copy builds its own over its arrays."""


class SchedulingVectorEnv(VectorEnv[Observation, np.ndarray, np.ndarray]):
    """`num_envs` lanes of one scenario; lane k of a vector seeded s is bit-identical to a single env seeded s + k.

    With `copy=False` all returned arrays are the environment's own and are overwritten by the next step. Every thread
    has its own structs over a slice of the lanes, so threads share no state. `copy.deepcopy` and `pickle` give an
    independent environment in the same state.
    """

    _pool: ThreadPoolExecutor | None = None
    """A class attribute, because Gymnasium closes an environment even if its constructor raised an error."""

    def __init__(
        self,
        num_envs: int,
        family: str,
        scenario: ScenarioLike | None = None,
        threads: int = 1,
        copy: bool = True,
        autoreset_mode: AutoresetMode | str = AutoresetMode.NEXT_STEP,
        mask_in_observation: bool = False,
        split: str = "train",
        render_mode: str | None = None,
        device: str | None = None,
    ) -> None:
        if device is not None:
            raise InputError(f"device '{device}': the vector environment simulates: expected gymnasium.make with it")
        if num_envs < 1 or threads < 1:
            raise InputError(f"num_envs {num_envs}, threads {threads}: expected at least 1 of each")
        if render_mode is not None:
            raise InputError(f"render_mode '{render_mode}': the vector environment draws nothing: expected None")
        self.family = FAMILIES[family]
        self.scenario = load_for(self.family, scenario)
        self.num_envs = num_envs
        self.render_mode = render_mode
        self.autoreset_mode = AutoresetMode(autoreset_mode)
        self.metadata = {"render_modes": [], "autoreset_mode": self.autoreset_mode}
        self.single_action_space = action_space(self.family, self.scenario)
        self.single_observation_space = observation_space(self.family, self.scenario, mask_in_observation)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self._copy = copy
        self._split = split_code(split)
        self._arrays = on_cache_lines(self.family.state_arrays(self.scenario, num_envs, 0))
        rows = self.family.candidate_rows(self.scenario)
        features = (self.family.global_features, self.family.candidate_features)
        graph = self.family.graph(self.scenario)
        self._buffer = on_cache_lines(buffer_arrays(num_envs, rows, *features, raw=False, graph=graph))
        self._keys = observed_keys(self.single_observation_space)
        self._actions = np.zeros(num_envs, np.int64)
        self._times = {name: np.zeros(num_envs) for name in ("elapsed", "time")}
        """Times of the buffer, converted from ns to the family's unit."""
        self._threads = threads
        self._seeded = False
        self._bind()
        self._run_workers(lanes.prepare_buffer)

    def _bind(self) -> None:
        """Build the compiled structs and views over the arrays; start the threads."""
        self._info_arrays = {
            "action_mask": self._buffer["mask"],
            "illegal_action": self._buffer["illegal"],
            **self._times,
        }
        self._rewards = dict(zip(self.family.reward_terms, self._arrays["terms"].T, strict=True))
        self._pool = ThreadPoolExecutor(self._threads) if self._threads > 1 else None
        self._workers = self._make_workers(min(self._threads, self.num_envs))

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in DERIVED}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update({name: on_cache_lines(value) if name in ARRAYS else value for name, value in state.items()})
        self._actions = np.zeros(self.num_envs, np.int64)
        self._bind()

    def _make_workers(self, count: int) -> list[tuple[slice, tuple[Any, Any, Any]]]:
        """Return `count` workers, each a slice of the lanes with its own structs."""
        borders = np.linspace(0, self.num_envs, count + 1).astype(int)
        workers = []
        for begin, end in pairwise(borders):
            part = slice(int(begin), int(end))
            buffer = {n: a if n.endswith("_image") else a[part] for n, a in self._buffer.items()}
            spec = self.family.make_spec(self.family.spec_arrays(self.scenario))
            state = self.family.make_state({name: array[part] for name, array in self._arrays.items()})
            workers.append((part, (spec, state, make_buffer(buffer))))
        return workers

    def _run_workers(self, function: Callable[..., Any], *sliced: np.ndarray, rest: Sequence[Any] = ()) -> None:
        """Call the compiled `function` with every worker's structs, its part of the `sliced` arrays, and `rest`."""
        calls = [(*structs, *(array[part] for array in sliced), *rest) for part, structs in self._workers]
        if self._pool is None:
            for call in calls:
                function(*call)
        else:
            for future in [self._pool.submit(function, *call) for call in calls]:
                future.result()

    def reset(
        self, *, seed: int | list[int | None] | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start episodes; lane k gets `seed + k`, or the k-th of a list. `options["reset_mask"]` selects lanes."""
        options = options or {}
        chosen = np.asarray(options.get("reset_mask", np.ones(self.num_envs, np.bool_)), np.bool_)
        if chosen.shape != (self.num_envs,):
            raise InputError(
                f"reset_mask of shape {chosen.shape}: expected a boolean for each of {self.num_envs} lanes"
            )
        split = split_code(options["split"]) if "split" in options else self._split
        if seed is None and not self._seeded:
            super().reset(seed=None)
            seed = int(self.np_random.integers(2**31))
        self._run_workers(lanes.reset_lanes, chosen, self._seeds(seed), rest=(split,))
        self._seeded = True
        return self._observation(), self._info(self._copy)

    def _seeds(self, seed: int | list[int | None] | None) -> np.ndarray:
        if seed is None:
            return np.full(self.num_envs, -1, np.int64)
        if not isinstance(seed, Sequence | np.ndarray) or isinstance(seed, str):
            return np.arange(check_seed(seed), check_seed(seed) + self.num_envs, dtype=np.int64)
        if len(seed) != self.num_envs:
            raise InputError(f"{len(seed)} seeds for {self.num_envs} lanes: expected one for each")
        return np.array([-1 if one is None else check_seed(one) for one in seed], np.int64)

    def step(self, actions: np.ndarray) -> tuple[Observation, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Take one row in every lane and run each to its next decision."""
        if not self._seeded:
            raise ResetNeeded("step was called before reset: expected a reset first")
        self._actions[:] = self._checked(actions)
        self._run_workers(lanes.step_lanes, self._actions, rest=(self.autoreset_mode == AutoresetMode.NEXT_STEP,))
        outcome = tuple(self._buffer[name] for name in ("reward", "terminated", "truncated"))
        resets = self.autoreset_mode == AutoresetMode.SAME_STEP and bool((outcome[1] | outcome[2]).any())
        copy = self._copy or resets  # a reset overwrites the outcome of the step
        reward, terminated, truncated = (array.copy() for array in outcome) if copy else outcome
        info = self._info(copy)
        if resets:
            info = self._reset_at_once(terminated | truncated, info)
        return self._observation(), reward, terminated, truncated, info

    def _checked(self, actions: Any) -> np.ndarray:
        """Return `actions` as an array of integers, one per lane; raise an InputError for anything else."""
        try:
            rows = np.asarray(actions)
        except ValueError:
            rows = np.empty(0)  # lists of different lengths
        if rows.shape != (self.num_envs,) or rows.dtype.kind not in "iu":
            found = f"{rows.dtype} of shape {rows.shape}" if rows.size else shorten(repr(actions), 80)
            raise InputError(f"actions {found}: expected {self.num_envs} integers, the index of a row for every lane")
        return rows

    def _reset_at_once(self, ended: np.ndarray, info: dict[str, Any]) -> dict[str, Any]:
        """Start the next episode of the `ended` lanes; return their last observation and info as `final_*`."""
        last = {name: np.zeros_like(array) for name, array in self._buffers().items()}
        for name, array in self._buffers().items():
            last[name][ended] = array[ended]
        self._run_workers(lanes.reset_lanes, ended, self._seeds(None), rest=(self._split,))
        final = {"final_obs": last, "_final_obs": ended, "final_info": info, "_final_info": ended}
        return {**self._info(self._copy), **final}

    def action_masks(self) -> np.ndarray:
        """Return the masks of the present decisions as booleans, one row per lane."""
        return self._buffer["mask"].astype(np.bool_)

    def choose(self, policy: Heuristic) -> np.ndarray:
        """Return the action of the compiled heuristic `policy` in every lane."""
        rows = self.family.all_rows(self.scenario)
        actions = np.full(self.num_envs, rows - 1, np.int64)
        features = (self.family.global_features, self.family.candidate_features)
        raw = make_buffer(buffer_arrays(1, rows, *features, raw=True))
        policy.prepare_for(self.scenario)
        if policy.parameter is not None:
            self._arrays["lanes"]["parameter"] = policy.parameter
        for part, (spec, state, _) in self._workers:
            lanes.prepare_buffer(spec, state, raw)
            lanes.choose_lanes(spec, state, raw, policy.form, policy.address, actions[part])
        return actions

    def close_extras(self, **kwargs: Any) -> None:
        """Stop the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _buffers(self) -> Observation:
        return {key: self._buffer[name] for key, name in self._keys}

    def _observation(self) -> Observation:
        return {name: array.copy() if self._copy else array for name, array in self._buffers().items()}

    def _info(self, copy: bool) -> dict[str, Any]:
        for name, array in self._times.items():
            np.divide(self._buffer[name], self.family.nanoseconds_per_unit, out=array)
        if not copy:
            return {**self._info_arrays, "rewards": self._rewards.copy()}
        info: dict[str, Any] = {name: array.copy() for name, array in self._info_arrays.items()}
        return {**info, "rewards": {name: array.copy() for name, array in self._rewards.items()}}
