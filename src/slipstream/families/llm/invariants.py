"""Invariants of every event log of LLM engines.

Requests of a class arrive in order. Each is rejected, or starts in a free seat, gets its first token there, and
finishes there or is preempted and starts again; when it has finished its blocks are freed. No seat holds two requests.
The steps of an engine end one after the other, use no more blocks than there are and have no more sequences than
seats. The clock never runs backwards, and the end is the last row, when nothing waits or runs.
"""

from __future__ import annotations

import numpy as np

from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.invariants import ReplayChecker
from slipstream.sim.eventlog import ARRIVAL, DONE, END, EVICT, FINISH, KINDS, PREEMPT, READY, REJECT, START

LOGGED = (ARRIVAL, START, FINISH, REJECT, END, PREEMPT, READY, EVICT, DONE)


class _LogChecker(ReplayChecker):
    """Requests that wait, the request of every seat, and those whose blocks are to be freed."""

    logged = LOGGED

    def __init__(self, scenario: LlmScenario) -> None:
        machine = compiled_scenario(scenario).spec["machine"][0]
        self.seats, self.engines = int(machine["seats"]), int(machine["engines"])
        self.blocks, self.longest, self.eos = int(machine["blocks"]), int(machine["longest"]), int(machine["eos"])
        self.tokens = max([int(machine["budget"]), *compiled_scenario(scenario).spec["levels"]["budget"].tolist()])
        self.arrived = [0] * int(machine["classes"])
        self.prompt: dict[tuple[int, int], int] = {}
        self.waiting: set[tuple[int, int]] = set()
        self.holds: dict[int, tuple[int, int]] = {}
        self.shown: set[tuple[int, int]] = set()
        self.seat: dict[tuple[int, int], int] = {}
        self.leaving: tuple[int, int] | None = None

    def arrival(self, task: int, job: int, prompt: int) -> None:
        self.require(0 <= task < len(self.arrived), f"arrival of class {task}: unknown")
        expected = self.arrived[task]
        self.require(job == expected, f"request {job} of class {task} arrives: expected request {expected}")
        self.require(prompt >= 1, f"request {job} of class {task} has a prompt of {prompt} tokens")
        self.arrived[task] += 1
        self.prompt[task, job] = prompt
        self.waiting.add((task, job))

    def start(self, request: tuple[int, int], seat: int) -> None:
        event = f"request {request[1]} of class {request[0]} starts in seat {seat}"
        self.require(request in self.waiting, f"{event}, but does not wait")
        self.require(seat not in self.holds, f"{event}, which is taken")
        self.waiting.discard(request)
        self.holds[seat] = request
        self.seat[request] = seat

    def leave(self, request: tuple[int, int], seat: int, what: str) -> None:
        event = f"{what} of request {request[1]} of class {request[0]} in seat {seat}"
        self.require(self.holds.get(seat) == request, f"{event}, which it does not hold")
        del self.holds[seat]

    def ready(self, request: tuple[int, int], seat: int) -> None:
        event = f"request {request[1]} of class {request[0]} gets a token in seat {seat}"
        # A token that is under way when a request is preempted comes out of the seat that it has left.
        self.require(self.seat.get(request) == seat, f"{event}, where it did not start")
        self.shown.add(request)

    def freed(self, request: tuple[int, int], output: int) -> None:
        event = f"the blocks of request {request[1]} of class {request[0]} are freed"
        self.require(self.leaving == request, f"{event}, which has not finished just now")
        self.require(output >= 1, f"{event} after {output} tokens")
        self.require(self.prompt[request] + output + self.eos <= self.longest, f"{event}: longer than allowed")

    def step(self, tokens: int, used: int, sequences: int, engine: int) -> None:
        self.require_resource(engine, self.engines, "engine")
        self.require(1 <= sequences <= min(tokens, self.seats), f"a step of {sequences} sequences, {tokens} tokens")
        self.require(tokens <= self.tokens, f"a step of {tokens} tokens: expected at most {self.tokens}")
        self.require(0 < used <= self.blocks, f"a step with {used} blocks in use: expected up to {self.blocks}")

    def apply(self, kind: int, job: int, task: int, variant: int, resource: int) -> None:
        request = (task, job)
        self.require((kind == EVICT) == (self.leaving is not None), f"{KINDS[kind]} out of order")
        if kind in (START, FINISH, PREEMPT, READY):
            self.require_resource(resource, self.seats * self.engines, "seat")
        if kind == ARRIVAL:
            self.arrival(task, job, resource)
        elif kind == START:
            self.start(request, resource)
        elif kind == FINISH:
            self.require(request in self.shown, f"request {job} of class {task} finishes without a token")
            self.leave(request, resource, "finish")
            self.leaving = request
        elif kind == EVICT:
            self.freed(request, resource)
            self.leaving = None
        elif kind == PREEMPT:
            self.leave(request, resource, "preemption")
            self.waiting.add(request)
        elif kind == READY:
            self.ready(request, resource)
        elif kind == REJECT:
            self.require(request in self.waiting, f"request {job} of class {task} is rejected, but does not wait")
            self.waiting.discard(request)
        elif kind == DONE:
            self.step(job, task, variant, resource)
        else:
            self.require(not self.waiting and not self.holds, "the end: a request still waits or runs")


def check(events: np.ndarray, scenario: LlmScenario) -> None:
    """Raise an InvariantError that names the row where the log of an episode breaks an invariant."""
    _LogChecker(scenario).check_log(events)
