"""What a policy may know of the cluster machine, in plain Python, from docs/cluster-machine.md."""

from __future__ import annotations

import math

from tests.reference.cluster import TERMS, Job, ReferenceMachine, takes
from tests.reference.numbers import stream_key, uniform

Row = dict[str, float]
Choice = tuple[Job, int] | Job
"""A job and the level at which it starts, or one that is interrupted."""
COLUMNS = [
    *["gpus_share", "expected", "log_expected", "log_area", "waited", "log_waited", "log_slowdown", "fits"],
    *["leaves_share", "before_shadow", "rank", "user_share", "user_jobs", "attained", "interrupted", "time_factor"],
    *["added_power", "start", "interrupt", "dispatch", "wait", "job", "gpus", "level", "submitted", "left", "user"],
]


class ReferenceCluster(ReferenceMachine):
    """One episode, stopped at each choice, with all that is shown there."""

    parameter = 0.0

    @property
    def most_running(self) -> int:
        return min(len(self.jobs), self.total)

    @property
    def window(self) -> int:
        return min(self.scenario.window.jobs, len(self.jobs))

    @property
    def window_running(self) -> int:
        return 0 if self.scenario.preemption is None else min(self.scenario.window.running, self.most_running)

    @property
    def width(self) -> int:
        return self.window * self.levels + self.window_running

    @property
    def all_rows(self) -> int:
        return self.width + 1 + len(self.jobs) * self.levels + self.most_running + 1

    known_rows: tuple[tuple[int | None, ...], tuple[list[Choice], list[Choice]]] | None = None

    def rows_of_choice(self) -> tuple[list[Choice], list[Choice]]:
        """Return what is shown, and what is listed behind; worked out once."""
        if self.known_rows is None or self.known_rows[0] != self.moment():
            self.known_rows = self.moment(), self.find_rows()
        return self.known_rows[1]

    def find_rows(self) -> tuple[list[Choice], list[Choice]]:
        starts, stops = self.start_rows(), self.stop_rows()
        jobs = sorted({job.number for job, _ in starts})
        shown = set(jobs)
        if len(jobs) > self.window:
            oldest = jobs[: math.ceil(self.window / 2)]
            others = sorted(jobs[len(oldest) :], key=lambda number: (self.area(self.jobs[number]), number))
            shown = {*oldest, *others[: self.window // 2]}
        front = [pair for pair in starts if pair[0].number in shown]
        back = [pair for pair in starts if pair[0].number not in shown]
        return [*front, *stops[: self.window_running]], [*back, *stops[self.window_running :]]

    @staticmethod
    def area(job: Job) -> float:
        return float(job.gpus) * float(job.expected_left)

    def mask(self) -> list[int]:
        mask = [0] * self.all_rows
        if not self.over:
            shown, behind = self.rows_of_choice()
            mask[: len(shown)] = [1] * len(shown)
            mask[self.width + 1 : self.width + 1 + len(behind)] = [1] * len(behind)
            mask[-1] = int(self.may_wait())
        return mask

    def rows(self) -> list[Row]:
        empty = dict.fromkeys(COLUMNS, 0.0)
        rows = [empty] * self.all_rows
        if not self.over:
            shown, behind = self.rows_of_choice()
            for place, one in enumerate(shown):
                rows[place] = self.row(one)
            for place, one in enumerate(behind):
                rows[self.width + 1 + place] = self.row(one)
        rows[-1] = {**empty, "wait": 1.0}
        return rows

    def row(self, one: Choice) -> Row:
        starts = isinstance(one, tuple)
        job, level = one if isinstance(one, tuple) else (one, one.level)
        done = job.run - job.left + (0 if starts else job.done_at(self.now))
        left = max(1, job.requested - done)
        factor = self.factors[0][level]
        expected = takes(left, factor)
        seconds, waited = expected * 1e-9, (self.now - job.submit) * 1e-9
        fits = starts and self.fitting_place(job, level) is not None
        shadowed = self.reserved is not None and self.scenario.backfill == "easy"
        attained = job.attained + (0 if starts else self.now - job.start)
        return {
            "gpus_share": job.gpus / self.total,
            "expected": float(expected),
            "log_expected": math.log10(seconds),
            "log_area": math.log10(seconds * job.gpus),
            "waited": float(self.now - job.submit),
            "log_waited": math.log10(waited + 1.0),
            "log_slowdown": math.log10(max(1.0, (waited + seconds) / max(job.requested * 1e-9, 10.0))),
            "fits": float(fits),
            "leaves_share": (self.free_gpus() - job.gpus) / self.total if fits else 0.0,
            "before_shadow": float(shadowed and self.now + expected <= self.shadow()[0]),
            "rank": float(sum(other.number < job.number for other in self.waiting)) if starts else 0.0,
            "user_share": self.held(job.user) / self.total,
            "user_jobs": float(self.in_system(job.user)),
            "attained": float(attained) * job.gpus,
            "interrupted": float(job.interrupted),
            "time_factor": factor,
            "added_power": float(job.gpus * self.most_power(level) if starts else -job.power),
            "start": float(starts),
            "interrupt": float(not starts),
            "dispatch": 1.0,
            "wait": 0.0,
            "job": float(job.number),
            "gpus": float(job.gpus),
            "level": float(level),
            "submitted": job.submitted_s,
            "left": float(left),
            "user": float(job.user),
        }

    def globals(self) -> Row:
        shown, behind = ([], []) if self.over else self.rows_of_choice()
        shadowed = self.reserved is not None and self.scenario.backfill == "easy"
        users = {job.user for job in (*self.running, *self.waiting)}
        free = self.free_gpus()
        return {
            "time": float(self.now),
            "free_share": free / self.total,
            "waiting": float(len(self.waiting)),
            "running": float(len(self.running)),
            "waiting_gpus": sum(job.gpus for job in self.waiting) / self.total,
            "reserved": float(self.reserved is not None),
            "reserved_share": self.reserved.gpus / self.total if self.reserved is not None else 0.0,
            "shadow_in": float(self.shadow()[0] - self.now) if shadowed else 0.0,
            "extra_share": self.extra() / self.total if shadowed else 0.0,
            "to_come": len(self.coming) / len(self.jobs),
            "power": float(self.power() - sum(self.saved(n) for n in range(len(self.size_of)) if self.sleeps(n))),
            "power_left": 1.0 - self.power() / self.budget if self.budget is not None else 1.0,
            "users": float(len(users)),
            "jain": self.jain(),
            "largest_node": (free if self.flat else max(self.free_by_node(self.running))) / self.total,
            "hidden_rows": float(len(behind)),
            "allocation": self.busy_hours / (self.now / 3.6e12) if self.now else 0.0,
            "rows": float(self.width + 1 + len(behind) if behind else len(shown)),
            "all_gpus": float(self.total),
            "free": float(free),
            "active_users": float(len(users)),
            "parameter": self.parameter,
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on to the next choice or the end."""
        if self.choices > 1:
            self.terms = dict.fromkeys(TERMS, 0.0)
        began = self.now
        shown, behind = self.rows_of_choice()
        chosen: Choice | None = None
        if 0 <= action < len(shown):
            chosen = shown[action]
        elif self.width < action < self.width + 1 + len(behind):
            chosen = behind[action - self.width - 1]
        waits = chosen is None and self.may_wait()
        self.illegal = chosen is None and not (waits and action in (self.width, self.all_rows - 1))
        if waits:
            self.due = False
        else:
            first = chosen if chosen is not None else [*shown, *behind][0]
            if isinstance(first, tuple):
                self.choose(*first)
            else:
                self.interrupt(first)
        self.go_on()
        self.elapsed = self.now - began
