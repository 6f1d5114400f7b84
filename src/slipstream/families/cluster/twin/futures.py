"""Futures of a present state: drawn once, then played under every policy and every what-if, in compiled code."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from slipstream.families.cluster.build import CompiledScenario, beginning, compile_workload, state_of
from slipstream.families.cluster.kernel import priorities
from slipstream.families.cluster.kernel.futures import ENDED, STARTED, WAITED, play_futures
from slipstream.families.cluster.kernel.state import BOUND_S
from slipstream.families.cluster.metrics import jobs_of
from slipstream.families.cluster.metrics import metrics as metrics_of
from slipstream.families.cluster.policies import SortedQueue, level_0_suffices
from slipstream.families.cluster.scenario import ClusterScenario, Listed, ListedJob
from slipstream.families.cluster.twin.history import Coming, History, coming
from slipstream.families.cluster.twin.present import Present
from slipstream.families.cluster.twin.run_times import JobsNow, RunTimes
from slipstream.families.cluster.workload.arrivals import RawJobs, Workload, cleaned
from slipstream.families.cluster.workload.sources import listed
from slipstream.families.contract import family_of
from slipstream.policies.base import Policy
from slipstream.sim.simulator import Simulator

NS = 1e9
FIRST_FIT = "first-fit"


@dataclass(frozen=True)
class Futures:
    """Run times of the present jobs and the jobs to come, in each of a number of futures."""

    present: Present
    history: History
    run: np.ndarray
    """Seconds, (futures, jobs in the order of the present scenario)."""
    to_come: list[Coming]

    def __len__(self) -> int:
        return len(self.run)

    @cached_property
    def raw(self) -> RawJobs:
        """The present jobs as columns."""
        assert isinstance(self.present.scenario.jobs, Listed)
        return listed(self.present.scenario.jobs)


def draw_futures(present: Present, run_times: RunTimes, futures: int, most_to_come: int, seed: int) -> Futures:
    """Return `futures` futures of `present`, drawn by `seed`; no jobs come where the history lists none."""
    rng = np.random.Generator(np.random.Philox(seed))
    assert isinstance(present.scenario.jobs, Listed)
    raw = listed(present.scenario.jobs)
    started = np.asarray(raw.started)
    now = JobsNow(raw.requested, raw.gpus, raw.user, np.where(np.isnan(started), 0.0, present.begins_s - started))
    run = run_times.draw(now, present.now, futures, rng)
    come = coming(run_times.history, present.now, most_to_come, futures, rng, run_times.settings.days)
    found = Futures(present, run_times.history, run, come)
    vars(found)["raw"] = raw
    return found


@dataclass(frozen=True)
class Outcome:
    """How futures went under one policy: arrays (futures, jobs of the present in the order of its scenario).

    NaN where a job can never run on that cluster. Times in seconds from now.
    """

    start: np.ndarray
    wait: np.ndarray
    """Since its submission."""
    slowdown: np.ndarray
    """Bounded slowdown, from submission to end."""
    energy_kwh: np.ndarray
    """(futures), until the last job ended."""
    waits_to_come: list[np.ndarray]
    """Waits of the jobs to come, by future."""
    slowdowns_to_come: list[np.ndarray]


class Machine:
    """The cluster of one what-if, with the jobs of all futures in one workload."""

    def __init__(self, scenario: ClusterScenario, futures: Futures) -> None:
        self.scenario, self.futures = scenario, futures
        self.workload = cleaned(futures.raw, scenario)
        """The present jobs that can run, by submit time."""
        self.row = self.workload.row
        """Their index in the present scenario."""
        self._come = [self._can_run(one) for one in futures.to_come]
        most = max((len(one.submit) for one in self._come), default=0)
        self.count = len(self.row) + most
        self.jobs = np.array([len(self.row) + len(one.submit) for one in self._come], np.int64)
        """Number of jobs in each future."""
        self.parts = compile_workload(scenario, self._padded(most))
        self.parts.spec["jobs"] = self._all_jobs()
        self.parts.spec["begun"] = np.tile(self.parts.spec["begun"], len(futures))

    def _can_run(self, come: Coming) -> Coming:
        """Return the jobs to come that can run on this cluster."""
        scenario, names = self.scenario, self.futures.history.users
        keep = come.gpus <= _largest(scenario)
        if scenario.quotas:
            quotas = np.array([scenario.quotas.get(name, scenario.gpus) for name in names])
            keep &= come.gpus <= quotas[come.user]
        return Coming(*(column[keep] for column in (come.submit, come.run, come.requested, come.gpus, come.user)))

    @cached_property
    def _users(self) -> tuple[str, ...]:
        return tuple(sorted({*self.workload.users, *self.futures.history.users}))

    def _padded(self, more: int) -> Workload:
        """Return the present jobs with `more` jobs behind them, whose columns are not written yet."""
        own, users = self.workload, {name: index for index, name in enumerate(self._users)}
        renumbered = np.array([users[name] for name in own.users], np.int64)[own.user]
        last = own.submit[-1] if len(own) else 0

        def padded(column: np.ndarray, value: Any) -> np.ndarray:
            return np.concatenate((column, np.full(more, value, column.dtype)))

        return replace(
            own,
            submit=padded(own.submit, last),
            run=padded(own.run, 1),
            requested=padded(own.requested, 1),
            gpus=padded(own.gpus, 1),
            user=padded(renumbered, 0),
            submitted_s=padded(own.submitted_s, 0.0),
            users=self._users,
            started=padded(own.started, -1),
            row=padded(own.row, -1),
        )

    def _all_jobs(self) -> np.ndarray:
        """Return the jobs of all futures, (futures * jobs)."""
        futures, here = len(self.futures), len(self.row)
        jobs = np.tile(self.parts.spec["jobs"], (futures, 1))
        jobs["run"][:, :here] = np.maximum(1, np.rint(self.futures.run[:, self.row] * NS))
        begins = beginning(self.scenario, self.workload)
        users = {name: index for index, name in enumerate(self._users)}
        number = np.array([users[name] for name in self.futures.history.users], np.int64)
        for future, come in enumerate(self._come):
            part = jobs[future, here : here + len(come.submit)]
            part["submit"] = begins + np.rint(come.submit * NS)
            part["run"], part["requested"] = (np.maximum(1, np.rint(one * NS)) for one in (come.run, come.requested))
            part["gpus"], part["user"] = come.gpus, number[come.user]
            part["submitted_s"] = self.futures.present.begins_s + come.submit
        return jobs.ravel()

    @cached_property
    def _state(self) -> tuple[dict[str, np.ndarray], Any]:
        arrays = state_of(self.scenario, self.parts, 1, 0)
        return arrays, family_of(self.scenario).make_state(arrays)

    def play(self, policies: Sequence[Policy]) -> list[Outcome]:
        """Return how the futures go under each policy; those that sort the queue are played in one compiled call."""
        found: dict[int, Outcome] = {}
        for backfill in (None, "greedy"):
            together = [
                index
                for index, policy in enumerate(policies)
                if self.plays_fast(policy) and (None if isinstance(policy, SortedQueue) else "greedy") == backfill
            ]
            if together:
                orders = [getattr(policies[index], "order", priorities.FIFO) for index in together]
                found.update(zip(together, self._play_fast(orders, backfill), strict=True))
        for index, policy in enumerate(policies):
            if index not in found:
                found[index] = self._play_singly(policy)
        return [found[index] for index in range(len(policies))]

    def plays_fast(self, policy: Policy) -> bool:
        """Return whether a policy sorts the queue, or is first-fit: first come, first served, where all may pass."""
        is_plain = self.scenario.preemption is None
        known = isinstance(policy, SortedQueue) or (policy.name == FIRST_FIT and is_plain)
        return known and level_0_suffices(self.scenario)

    def _play_fast(self, orders: Sequence[int], backfill: str | None) -> list[Outcome]:
        parts = self.parts if backfill is None else self._with_backfill(backfill)
        outcomes, energy = self._played(parts, orders, False)
        return [self._outcome(outcomes[:, number], energy[:, number]) for number in range(len(orders))]

    def _played(self, parts: CompiledScenario, orders: Sequence[int], instant: bool) -> tuple[np.ndarray, np.ndarray]:
        """Return outcomes and energy of every future in every order of the queue."""
        spec = family_of(self.scenario).make_spec(parts.spec)
        shape = (len(self.futures), len(orders))
        outcomes, energy = np.zeros((*shape, 3, self.count), np.int64), np.zeros(shape)
        play_futures(spec, self._state[1], np.array(orders, np.int64), self.jobs, instant, outcomes, energy)
        return outcomes, energy

    def _with_backfill(self, backfill: str) -> CompiledScenario:
        rules = compile_workload(self.scenario.model_copy(update={"backfill": backfill}), self.workload).spec
        machine = self.parts.spec["machine"].copy()
        for name in ("backfill", "simple"):
            machine[name] = rules["machine"][name]
        return replace(self.parts, spec={**self.parts.spec, "machine": machine})

    def first_instant(self, order: int) -> dict[str, np.ndarray]:
        """Return the state of the lane after the first instant under a queue order."""
        self._played(self.parts, [order], True)
        return self._state[0]

    def _outcome(self, outcomes: np.ndarray, energy: np.ndarray) -> Outcome:
        """Return the outcome of (futures, 3, jobs) times."""
        begins, here = beginning(self.scenario, self.workload), len(self.row)
        jobs = self.parts.spec["jobs"].reshape(len(self.futures), self.count)
        submit = jobs["submit"] - begins
        bound = np.maximum(jobs["run"] / NS, BOUND_S)
        slowdown = np.maximum(1.0, (outcomes[:, ENDED] - submit) / NS / bound)
        # The lane counts the wait of a job that waits at time 0 from then on.
        start, wait = outcomes[:, STARTED] / NS, (outcomes[:, WAITED] - np.minimum(0, submit)) / NS
        come = [
            (wait[future, here:count], slowdown[future, here:count]) for future, count in enumerate(self.jobs.tolist())
        ]
        present = [self._spread(column[:, :here]) for column in (start, wait, slowdown)]
        return Outcome(present[0], present[1], present[2], energy, [one for one, _ in come], [one for _, one in come])

    def _spread(self, values: np.ndarray) -> np.ndarray:
        """Return values of the jobs that can run in the columns of all present jobs, NaN in the others."""
        found = np.full((len(values), len(self.futures.raw.submit)), np.nan)
        found[:, self.row] = values
        return found

    def _play_singly(self, policy: Policy) -> Outcome:
        """Play each future as a scenario of its own: for policies that do not sort the queue."""
        futures, here = len(self.futures), len(self.row)
        outcomes, energy = np.zeros((futures, 3, self.count), np.int64), np.zeros(futures)
        for future in range(futures):
            scenario = self._scenario(future)
            events = Simulator(scenario).play(policy, 0)
            jobs = jobs_of(scenario, events)
            part = outcomes[future, :, : len(jobs.submit)]
            part[STARTED], part[ENDED] = jobs.first_start, jobs.finish
            part[WAITED] = jobs.finish - jobs.submit - jobs.served - jobs.waited_before
            energy[future] = metrics_of(scenario, events)["energy_kwh"]
        assert here <= self.count
        return self._outcome(outcomes, energy)

    def _scenario(self, future: int) -> ClusterScenario:
        """Return the future number `future` as a scenario; its jobs have the numbers that they have here."""
        own = self.present_jobs
        rows = [
            own[row].model_copy(update={"run_s": float(self.futures.run[future, row])}) for row in self.row.tolist()
        ]
        come, names = self._come[future], self.futures.history.users
        columns = (come.submit, come.run, come.requested, come.gpus, come.user)
        for submit, run, requested, gpus, user in zip(*(one.tolist() for one in columns), strict=True):
            rows.append(
                ListedJob.model_construct(
                    submit_s=self.futures.present.begins_s + submit,
                    gpus=int(gpus),
                    run_s=max(1e-9, run),
                    requested_s=max(1e-9, requested),
                    user=names[user],
                )
            )
        found = self.scenario.model_copy(update={"jobs": Listed.model_construct(kind="list", jobs=rows)})
        found._folder = self.scenario._folder
        return found

    @property
    def present_jobs(self) -> list[ListedJob]:
        """The present jobs, as listed."""
        assert isinstance(self.futures.present.scenario.jobs, Listed)
        return self.futures.present.scenario.jobs.jobs


def _largest(scenario: ClusterScenario) -> int:
    """Return the GPUs of the largest job that fits the idle cluster and its power budget."""
    from slipstream.families.cluster.build import idle_milliwatts, largest_consolidated, level_milliwatts

    largest = largest_consolidated(scenario) if scenario.placement in ("consolidate", "fgd") else scenario.gpus
    if scenario.power.budget_w is not None:
        more = int(level_milliwatts(scenario).max(axis=0).min())
        if more > 0:
            largest = min(largest, int((scenario.power.budget_w * 1000.0 - idle_milliwatts(scenario)) // more))
    return largest
