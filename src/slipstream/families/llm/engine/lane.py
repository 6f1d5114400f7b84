"""The lane of a real engine: its requests, queue and batch as the rows that a policy of the simulator reads.

The engine tells what arrives, starts, gets a token, is preempted and leaves; `decide` asks the policy. Nothing is
simulated here. Requests have numbers, which are given again after they have left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.llm import build
from slipstream.families.llm.features import CACHED, PEAK
from slipstream.families.llm.features import CANDIDATE as COLUMNS
from slipstream.families.llm.kernel import state as k
from slipstream.families.llm.scenario import DrawnRequests, Engine, IndependentLengths, LlmScenario, UniformLengths
from slipstream.policies.base import Heuristic, ModelBased, Policy, WholeEpisodes
from slipstream.policies.columns_read import columns_read
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.heap import NEVER, set_time
from slipstream.sim.simulator import Simulator, check_action, split_code

CAPACITY = 256
"""Requests for which a lane begins; it grows as needed."""
STEP_END = 0
"""Event slot of the end of the engine's oldest step."""


@dataclass
class Moment:
    """What an engine is at when a decision is due."""

    now: int
    """Time in ns since the engine's beginning."""
    free_blocks: int
    token_budget: int
    headroom: int
    """Blocks that admissions leave free."""
    tokens_left: int
    """Of the budget of the step that is being scheduled."""
    sequences: int
    """Requests scheduled for it."""
    steps_in_flight: int
    last_step: int
    """Length in ns of the last step known."""


def engine_scenario(base: LlmScenario, engine: Engine, capacity: int) -> LlmScenario:
    """Return `base` on one such engine with up to `capacity` unfinished requests, whatever their lengths are."""
    tokens = UniformLengths(kind="uniform", least=1, most=1)
    lengths = IndependentLengths(kind="independent", prompt=tokens, output=tokens)
    requests = DrawnRequests(kind="drawn", requests=capacity, rate_hz=1.0, lengths=lengths)
    # Classes of a scenario whose requests name them stay; the requests themselves come from the engine.
    return base.model_copy(update={"engines": 1, "engine": engine, "requests": requests})


@cache
def _register() -> None:
    from slipstream.families.llm.kernel.mirror import MIRROR

    MIRROR.register()


class EngineLane(Simulator[LlmScenario]):
    """Requests of a real engine, as a policy sees them."""

    def __init__(self, base: LlmScenario, engine: Engine, policy: Policy, seed: int = 0) -> None:
        if isinstance(policy, ModelBased):
            raise PolicyError(
                f"policy '{policy.name}' simulates ahead, which takes longer than a step: expected a rule or a network"
            )
        _register()
        self.base, self.engine, self.policy, self.seed = base, engine, policy, seed
        self.mean_output = int(build.compiled_scenario(base).spec["machine"]["mean_output"][0])
        self.places = {one.name: place for place, one in enumerate(base.classes)}
        self.reads_cache, self.reads_batch = _reads(policy, engine, base)
        self._build(CAPACITY)
        self._free_numbers = list(range(CAPACITY))[::-1]
        self.queued = 0
        """Length of the queue."""
        self.unfinished = 0
        self.service = [0] * len(base.classes)
        """Tokens that each class has been served, outputs counting twice."""
        self.active = [0] * len(base.classes)
        """Unfinished requests of each class."""

    def _build(self, capacity: int) -> None:
        super().__init__(engine_scenario(self.base, self.engine, capacity), 0)
        lanes.begin_lane(self.spec, self.state, 0, self.seed, split_code("test"))
        self.requests = {name: self.arrays["requests"][name][0] for name in k.REQUEST.names or ()}
        self._own = {name: self.arrays["engines"][name][0] for name in k.ENGINE.names or ()}
        self._header = {name: self.arrays["lanes"][name] for name in k.LANE.names or ()}
        self._waiting, self._running = self.arrays["waiting"][0, 0], self.arrays["running"][0, 0]
        self._served = self.arrays["clients"]["service"][0]
        self.found = self.arrays["found"][0]
        self._has_step = False
        self._rows = build.candidate_rows(self.scenario) - 1
        self.levels = [(int(row["budget"]), int(row["headroom"])) for row in build.spec_arrays(self.scenario)["levels"]]
        """Token budget and headroom of each level."""
        self.most_read = self._rows if self._is_network else capacity
        """Waiting requests from the head of the queue on that the policy may read."""
        self._step: Callable[[int], int] | None = None
        if isinstance(self.policy, Heuristic):
            # A heuristic may have a loop of its own, which simulates: only its function is wanted.
            plain = Heuristic(**{one.name: getattr(self.policy, one.name) for one in fields(Heuristic)})
            self._step = plain.player(self)
        elif isinstance(self.policy, WholeEpisodes):
            self._step = self.policy.player(self)

    @property
    def _is_network(self) -> bool:
        return isinstance(self.policy, WholeEpisodes) and not isinstance(self.policy, Heuristic)

    def _bind(self) -> None:
        from slipstream.families.llm.kernel.mirror import MIRROR

        requests = self.arrays["requests"].shape[1]
        self.arrays["found"] = np.zeros((1, requests, 2), np.int32)
        self.arrays["chosen"] = np.zeros(1, np.int64)
        # The engine's own cache is asked, not one that the lane keeps.
        spec = self.family.spec_arrays(self.scenario)
        machine = spec["machine"].copy()
        machine["prefix"] = 0
        self.header = self.arrays["lanes"][0]
        self.spec = MIRROR.spec_of({**spec, "machine": machine})
        self.state = MIRROR.state_of(self.arrays)
        from slipstream.sim.kernel.observation import make_buffer

        self.buffer = make_buffer(self.raw)

    def __getstate__(self) -> dict[str, Any]:
        raise PolicyError("a lane that follows an engine cannot be copied: expected a Simulator")

    def _grow(self) -> None:
        """Double the capacity."""
        kept = {name: self.arrays[name].copy() for name in ("requests", "engines", "lanes", "found", "running")}
        queue, capacity = self._waiting[: self.queued].copy(), kept["requests"].shape[1]
        self._build(2 * capacity)
        self._waiting[: self.queued] = queue
        for name in ("engines", "lanes", "running"):
            self.arrays[name][...] = kept[name]
        self.arrays["requests"][:, :capacity] = kept["requests"]
        self.arrays["found"][:, :capacity] = kept["found"]
        self._free_numbers += list(range(capacity, 2 * capacity))[::-1]

    # What the engine tells

    def arrive(self, prompt: int, now: int, group: int = 0, predicted: int | None = None) -> int:
        """Return the number of a request that arrives; `enqueue` puts it into the queue."""
        if not self._free_numbers:
            self._grow()
        number = self._free_numbers.pop()
        row = self.requests
        row["arrival"][number], row["first"][number] = now, -1
        row["prompt"][number] = row["known"][number] = prompt
        row["predicted"][number] = predicted or self.mean_output
        row["group"][number], row["preemptions"][number] = group, 0
        row["started"][number], row["blocks"][number] = 0, 0
        self.found[number] = 0
        if not self.active[group]:
            others = [self.service[other] for other, count in enumerate(self.active) if count]
            self.service[group] = max([self.service[group], *([min(others)] if others else [])])
        self.active[group] += 1
        self.unfinished += 1
        return number

    def enqueue(self, number: int, front: bool = False) -> None:
        """Put a request at the end of the queue, or at its front."""
        if front:
            self._waiting[1 : self.queued + 1] = self._waiting[: self.queued]
        self._waiting[0 if front else self.queued] = number
        self.queued += 1

    def dequeue(self, place: int) -> None:
        """Remove the request at `place` of the queue."""
        self._waiting[place : self.queued - 1] = self._waiting[place + 1 : self.queued]
        self.queued -= 1

    def requeue(self, numbers: Sequence[int]) -> None:
        """Make `numbers` the queue."""
        self._waiting[: len(numbers)] = numbers
        self.queued = len(numbers)

    def start(self, number: int) -> None:
        """Count the prompt of a request that starts for the first time as service."""
        if not self.requests["started"][number]:
            self.requests["started"][number] = 1
            self.service[self.requests["group"].item(number)] += k.INPUT_WEIGHT * self.requests["prompt"].item(number)

    def preempt(self, number: int, known: int) -> None:
        """Note that a request with `known` tokens was preempted."""
        self.requests["known"][number] = known
        self.requests["preemptions"][number] += 1

    def leave(self, number: int) -> None:
        """Forget a request that has left the engine."""
        self.active[self.requests["group"].item(number)] -= 1
        self.unfinished -= 1
        self._free_numbers.append(number)

    # Decisions

    def decide(self, kind: int, moment: Moment, batch: Sequence[int] = (), count: int | None = None) -> int:
        """Return the candidate that the policy chooses, -1 if it waits; `batch` are the running requests, in order.

        Candidates are the queue for `ADMITS`, the levels for `LEVELS`, and the batch from its end for `EVICTS`. `count`
        is the number of running requests where the policy reads none of them.
        """
        header, own = self._header, self._own
        running = len(batch) if count is None else count
        candidates = {k.ADMITS: self.queued, k.LEVELS: len(self.levels), k.EVICTS: running}[kind]
        self._running[: len(batch)] = batch
        self._served[:] = self.service
        header["now"][0], header["kind"][0], header["status"][0] = moment.now, kind, lanes.ASKING
        header["choices"][0] += 1
        header["unfinished"][0], header["candidates"][0] = self.unfinished, candidates
        header["shown"][0] = min(candidates, self._rows)
        own["free"][0], own["running"][0], own["waiting"][0] = moment.free_blocks, running, self.queued
        own["budget"][0], own["headroom"][0], own["left"][0] = moment.token_budget, moment.headroom, moment.tokens_left
        own["sequences"][0], own["flight"][0] = moment.sequences, moment.steps_in_flight
        own["duration"][0] = moment.last_step
        if self._has_step != (moment.steps_in_flight > 0):
            self._has_step = moment.steps_in_flight > 0
            set_time(self.arrays["heap"][0], STEP_END, 0 if self._has_step else NEVER)
        if self._step is not None:
            self._step(1)
        else:
            lanes.step_lane(self.spec, self.state, 0, check_action(self.policy.choose(*self.observe())))
        return int(self.arrays["chosen"][0])

    @property
    def mistakes(self) -> int:
        """Decisions that were not allowed: each counted as waiting, or as the first candidate."""
        return int(self._header["mistakes"][0])


def _reads(policy: Policy, engine: Engine, base: LlmScenario) -> tuple[bool, bool]:
    """Return whether a policy may read what is cached of a request, and the requests of the batch."""
    if isinstance(policy, Heuristic) and policy.is_rule and policy.form == lanes.PLAIN_RULE:
        return False, "evict" in base.decide
    read = columns_read(policy.function) if isinstance(policy, Heuristic) and policy.is_rule else None
    networks = isinstance(policy, WholeEpisodes) and not isinstance(policy, Heuristic)
    peak = not networks and (read is None or PEAK in read)
    cached = read is None or bool(read & (COLUMNS.on_demand - {PEAK})) or CACHED in read
    return engine.prefix_cache and cached, peak or "evict" in base.decide
