"""What follows a vLLM scheduler: it tells the lane what happens, asks the policy, and counts. Knows nothing of vLLM.

Any error makes it stand aside for good: it is logged once, and from then on vLLM's own order applies.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import ParamSpec, TypeVar

from slipstream import __version__
from slipstream.engines.vllm.counters import Counters
from slipstream.engines.vllm.settings import Settings, read_scenario
from slipstream.errors import InputError
from slipstream.families.llm.engine.lane import EngineLane, Moment
from slipstream.families.llm.engine.recording import Recorder
from slipstream.families.llm.kernel.state import ADMITS, EVICTS, LEVELS, OUTPUT_WEIGHT
from slipstream.families.llm.scenario import Engine
from slipstream.files.atomic import write_files
from slipstream.policies.base import find_for
from slipstream.scenario import digest, dump
from slipstream.sim.eventlog import LogWriter

LOG = logging.getLogger("slipstream.engines.vllm")
P = ParamSpec("P")
R = TypeVar("R")


class Follower:
    """A policy's view of one scheduler, from its first request to its shutdown."""

    def __init__(self, settings: Settings, engine: Engine) -> None:
        self.settings, self.engine = settings, engine
        self.scenario = read_scenario(settings)
        self.lane = EngineLane(self.scenario, engine, find_for(settings.policy, self.scenario), settings.seed)
        self.levels = self.lane.levels
        for budget, _ in self.levels:
            if budget > engine.token_budget:
                raise InputError(
                    f"levels.token_budgets: {budget}: expected at most {engine.token_budget}, max_num_batched_tokens"
                )
        self.decides_budget, self.decides_evict = ("budget" in self.scenario.decide), ("evict" in self.scenario.decide)
        self.counters = Counters()
        self.recorder = Recorder() if settings.log is not None else None
        self.failed = False
        self._numbers: dict[str, int] = {}
        self._groups: dict[str, int] = {}
        self._untold: set[str] = set()
        """Requests that have no token yet."""
        self._origin = time.time_ns()
        self._ended = 0
        self._began: list[tuple[int, int, int, int]] = []
        """Tokens, sequences, used blocks and begin of the steps in flight."""
        self._last_end = self._last_arrival = 0
        self._scheduled: dict[str, int] = {}
        """Tokens of each request in the step that is being scheduled."""
        self._found: list[int] = []
        """Requests that have blocks in the cache."""
        self.moment = Moment(0, 0, engine.token_budget, self.watermark_blocks, engine.token_budget, 0, 0, 0)

    @property
    def watermark_blocks(self) -> int:
        """Blocks that vLLM keeps free by itself."""
        return int(self.engine.watermark * self.engine.blocks)

    # Errors

    def guarded(self, function: Callable[P, R], *arguments: P.args, **named: P.kwargs) -> R | None:
        """Return what `function` returns; None after an error, now or before."""
        if self.failed:
            return None
        try:
            return function(*arguments, **named)
        except Exception:
            self.failed = True
            self.counters.failures += 1
            LOG.exception("policy '%s' failed: first come, first served from now on", self.lane.policy.name)
            return None

    # The clock

    @property
    def now(self) -> int:
        """Time in ns: of the clock, or the steps that have ended times their set length."""
        if self.settings.step_ms is not None:
            return round(self._ended * self.settings.step_ms * 1e6)
        return time.time_ns() - self._origin

    def _arrival(self, seconds: float) -> int:
        """Return the time of an arrival that was at `seconds` since 1970, not before the one before it."""
        now = self.now
        if self.settings.step_ms is None:
            now = min(max(self._last_arrival, int(seconds * 1e9) - self._origin), now)
        self._last_arrival = now
        return now

    # Requests

    def group_of(self, client: object, priority: int) -> int:
        """Return the class of a request: the one named, else the first of its priority, else the first."""
        if isinstance(client, str) and client in self.lane.places:
            return self.lane.places[client]
        known = [one.priority for one in self.scenario.classes]
        return known.index(priority) if priority in known else 0

    def arrive(
        self, name: str, prompt: int, seconds: float, group: int, predicted: int | None, pieces: list[int]
    ) -> None:
        """Note that the request `name` has arrived, at `seconds` since 1970."""
        if name in self._numbers:
            return
        now = self._arrival(seconds)
        number = self.lane.arrive(prompt, now, group, predicted)
        self._numbers[name], self._groups[name] = number, group
        self._untold.add(name)
        if self.recorder is not None:
            self.recorder.arrive(number, now, group, prompt, predicted, pieces)

    def enqueue(self, name: str, front: bool) -> None:
        """Note that a request joins the queue."""
        self.lane.enqueue(self._numbers[name], front)

    def dequeue(self, place: int) -> None:
        """Note that the request at `place` leaves the queue."""
        self.lane.dequeue(place)

    def requeue(self, names: Iterable[str]) -> None:
        """Note the requests that are still in the queue."""
        self.lane.requeue([self._numbers[name] for name in names if name in self._numbers])

    def token(self, name: str, count: int, known: int, waits: bool) -> None:
        """Note `count` tokens of a request that has `known` tokens now."""
        number = self._numbers[name]
        self.lane.service[self._groups[name]] += OUTPUT_WEIGHT * count
        if waits:
            self.lane.requests["known"][number] = known
        if name in self._untold:
            self._untold.discard(name)
            self.lane.requests["first"][number] = self.moment.now
        if self.recorder is not None:
            self.recorder.token(number, self.moment.now, count)

    def preempt(self, name: str, known: int) -> None:
        """Note that a request is preempted, before it joins the queue."""
        number = self._numbers[name]
        self.lane.preempt(number, known)
        self.counters.preemptions += 1
        tokens = self._scheduled.pop(name, 0)
        self.moment.tokens_left += tokens
        self.moment.sequences -= tokens > 0
        if self.recorder is not None:
            self.recorder.preempt(number, self.moment.now)

    def leave(self, name: str) -> None:
        """Note that a request has left for good."""
        number = self._numbers.pop(name)
        self.lane.leave(number)
        del self._groups[name]
        self._untold.discard(name)
        if self.recorder is not None:
            self.recorder.leave(number, self.moment.now)

    # Steps

    def begin_schedule(self, free_blocks: int) -> None:
        """Note that the schedule of a step begins."""
        self._scheduled.clear()
        moment = self.moment
        moment.now, moment.free_blocks = self.now, free_blocks
        moment.tokens_left, moment.sequences = moment.token_budget, 0
        moment.steps_in_flight = len(self._began)

    def schedule(self, name: str, tokens: int, found_blocks: int | None) -> None:
        """Note that a request computes `tokens` in this step; it starts if `found_blocks` in the cache are given."""
        self._scheduled[name] = tokens
        self.moment.tokens_left -= tokens
        self.moment.sequences += 1
        if found_blocks is not None:
            number = self._numbers[name]
            self.lane.start(number)
            if self.recorder is not None:
                self.recorder.start(number, self.moment.now, found_blocks)

    def begin_step(self, tokens: int, sequences: int, used_blocks: int) -> None:
        """Note that a step with `tokens` begins, if there are any."""
        if tokens:
            self._began.append((tokens, sequences, used_blocks, self.moment.now))
            if self.settings.step_ms is not None:
                self.moment.last_step = round(self.settings.step_ms * 1e6)

    def end_step(self, tokens: int) -> None:
        """Note that the oldest step, which has `tokens`, has ended, before its tokens come out."""
        if not tokens:
            return
        self._ended += 1
        began = self._began[0][3]
        self.counters.steps += 1
        self.counters.tokens += tokens
        now = self.moment.now = self.now
        self.moment.last_step, self._last_end = max(1, now - max(self._last_end, began)), now

    def end_tokens(self, tokens: int) -> None:
        """Note that all tokens of the step that has ended have come out."""
        if tokens:
            of_step = self._began.pop(0)
            if self.recorder is not None:
                self.recorder.step(self.moment.now, of_step[2], *of_step[:2])

    # Decisions

    def found(self, blocks: Mapping[str, tuple[int, int]]) -> None:
        """Note how many blocks of waiting requests are in the cache, and how many of these no request uses."""
        for number in self._found:
            self.lane.found[number] = 0
        self._found = [self._numbers[name] for name in blocks]
        for number, counts in zip(self._found, blocks.values(), strict=True):
            self.lane.found[number] = counts

    def choose_request(self, free_blocks: int, running: int, batch: Sequence[tuple[str, int]], began: int) -> int:
        """Return the place in the queue of the request to admit next, -1 if none is; the question came at `began`."""
        self.moment.free_blocks = free_blocks
        self.counters.admissions += 1
        return self._decide(ADMITS, running, batch, began)

    def choose_level(self, running: int, batch: Sequence[tuple[str, int]], began: int) -> tuple[int, int]:
        """Return token budget and free blocks of the step whose schedule begins."""
        self.counters.levels += 1
        chosen = self._decide(LEVELS, running, batch, began)
        if chosen >= 0:
            self.moment.token_budget, self.moment.headroom = self.levels[chosen]
        self.moment.tokens_left = self.moment.token_budget
        return self.moment.token_budget, self.moment.headroom

    def choose_victim(self, free_blocks: int, batch: Sequence[tuple[str, int]], blocks: list[int], began: int) -> int:
        """Return the place in the batch of the request to preempt, -1 if the engine's own rule applies.

        `batch` are names and known tokens of the running requests, `blocks` the blocks that each has.
        """
        self.moment.free_blocks = free_blocks
        self.counters.evictions += 1
        for (name, _), held in zip(batch, blocks, strict=True):
            self.lane.requests["blocks"][self._numbers[name]] = held
        chosen = self._decide(EVICTS, len(batch), batch, began)
        return len(batch) - 1 - chosen if chosen >= 0 else -1

    def _decide(self, kind: int, running: int, batch: Sequence[tuple[str, int]], began: int) -> int:
        numbers = []
        for name, known in batch:
            number = self._numbers[name]
            numbers.append(number)
            self.lane.requests["known"][number] = known
        chosen = self.lane.decide(kind, self.moment, numbers, running)
        self.counters.waits += chosen < 0
        self.counters.count(time.perf_counter_ns() - began)
        return chosen

    # The end

    def write(self) -> None:
        """Write counters and event log, where they are wanted."""
        if self.settings.statistics is not None:
            summary = {"policy": self.lane.policy.name, **self.counters.summary()}
            write_files(
                {Path(self.settings.statistics): (json.dumps(summary, indent=2) + "\n").encode()}, overwrite=True
            )
        if self.recorder is not None and self.settings.log is not None:
            self.recorder.leave_all(self.moment.now)
            scenario, events = self.recorder.result(self.scenario, self.engine)
            about = {
                "version": __version__,
                "command": "vLLM with slipstream.engines.vllm.PolicyScheduler",
                "policy": self.lane.policy.name,
                "seed": self.settings.seed,
                "split": "test",
                "scenario": dump(scenario),
                "scenario_digest": digest(scenario),
            }
            writer = LogWriter(Path(self.settings.log), about)
            writer.write(events)
            writer.close()
