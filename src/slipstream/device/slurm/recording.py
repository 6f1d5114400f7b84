"""What a driven cluster did, observed from moment to moment, as a scenario and the event log of its episode."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.scenario import RULES, kinds_in_words, requested_s
from slipstream.families.cluster.slurm.snapshot import SlurmJob, SlurmNode, Snapshot, kinds_of, natural
from slipstream.files.validation import validated
from slipstream.sim.eventlog import ARRIVAL, END, EVENT, FINISH, PREEMPT, START, TAKE

NANOSECONDS = 10**9
BEFORE, ARRIVES, PASSES, STARTS = range(4)
"""Order of what happens in the same second: runs end, jobs arrive, runs of no length pass, runs start."""
Row = tuple[int, int, int, int, int, int]
"""time, job, task, resource, variant, kind."""


@dataclass
class Run:
    """One run of a job; times in seconds since 1970."""

    start: float
    held: tuple[tuple[str, int], ...]
    end: float = 0.0
    """0 while it runs."""


@dataclass
class SeenJob:
    """A job as it was observed."""

    first: SlurmJob
    submit: float
    """Of the first observation: a requeue changes it."""
    runs: list[Run] = field(default_factory=list)
    has_ended: bool = False


class Recorder:
    """Collects runs of jobs from one snapshot to the next."""

    def __init__(self) -> None:
        self.jobs: dict[str, SeenJob] = {}
        self.nodes: dict[str, SlurmNode] = {}
        self.begins = 0.0
        """Time of the first snapshot, in whole seconds as those of Slurm."""
        self._last = 0.0

    def observe(self, snapshot: Snapshot) -> None:
        """Take in the state of a moment."""
        if not self.begins:
            self.begins = math.floor(snapshot.now)
        for node in snapshot.nodes:
            self.nodes.setdefault(node.name, node)
        present = set()
        for job in snapshot.jobs:
            if not job.gpus or (job.id not in self.jobs and not (job.runs or job.waits)):
                continue
            present.add(job.id)
            seen = self.jobs.setdefault(job.id, SeenJob(job, job.submit))
            self._observe(seen, job, snapshot.now)
        for name, seen in self.jobs.items():
            if name not in present and not seen.has_ended:
                self._close(seen, self._last or snapshot.now)
                seen.has_ended = True
        self._last = snapshot.now

    def _observe(self, seen: SeenJob, job: SlurmJob, now: float) -> None:
        if job.runs and job.held:
            if seen.runs and not seen.runs[-1].end and seen.runs[-1].start != job.start:
                self._close(seen, job.start)
            if not seen.runs or (seen.runs[-1].end and job.start >= seen.runs[-1].end):
                seen.runs.append(Run(job.start, job.held))
        elif job.waits:
            # A requeue is a new submission. Slurm's times are whole seconds, and the next start may be in the same one.
            last = math.floor(self._last or now)
            self._close(seen, min(max(job.submit, last), math.floor(now)))
            seen.has_ended = False
        elif not job.runs:
            if not seen.has_ended and job.start and (not seen.runs or seen.runs[-1].end):
                started = not seen.runs or job.start >= seen.runs[-1].end
                if started and job.held:
                    seen.runs.append(Run(job.start, job.held))
            self._close(seen, job.end or now)
            seen.has_ended = True

    @staticmethod
    def _close(seen: SeenJob, end: float) -> None:
        if seen.runs and not seen.runs[-1].end:
            seen.runs[-1].end = max(end, seen.runs[-1].start)

    @property
    def ended(self) -> int:
        """Number of jobs that ran and ended since the first snapshot."""
        return sum(_counts(seen, self.begins) for seen in self.jobs.values())

    def result(
        self, base: ClusterScenario | None = None, requested: Mapping[str, float] | None = None
    ) -> tuple[ClusterScenario, np.ndarray]:
        """Return the jobs that ran and ended, as a scenario with the rules of `base`, and the log of its episode.

        `requested` gives the requested times of jobs in seconds where they are known better than their time limits.
        """
        done = sorted(
            (seen for seen in self.jobs.values() if _counts(seen, self.begins)),
            key=lambda seen: (seen.submit, natural(seen.first.id)),
        )
        kinds = kinds_of(tuple(self.nodes.values()))
        flat = base is not None and base.placement == "flat"
        first = min((seen.submit for seen in done), default=self.begins)
        zero = max(self.begins, first)
        where = {node.name: (kind, number) for kind, nodes in kinds.items() for number, node in enumerate(nodes)}
        rows: list[dict[str, object]] = []
        for seen in done:
            run = sum(run.end - run.start for run in seen.runs)
            wanted = (requested or {}).get(seen.first.id, requested_s(seen.first))
            row: dict[str, object] = {
                "submit_s": seen.submit - first,
                "gpus": sum(gpus for _, gpus in seen.runs[-1].held),
                "run_s": max(1e-3, run),
                "requested_s": wanted,
                "user": seen.first.user,
            }
            if seen.runs[0].start < zero:
                row["started_s"] = max(seen.submit, seen.runs[0].start) - first
                if not flat:
                    pieces = [(*where[name], gpus) for name, gpus in seen.runs[0].held]
                    row["held"] = [{"kind": kind, "node": node, "gpus": gpus} for kind, node, gpus in pieces]
            rows.append(row)
        data: dict[str, object] = {"family": "cluster", "name": "slurm", **RULES}
        if base is not None:
            data = base.model_dump(mode="json", exclude_unset=True)
        for key in ("episode", "quotas"):  # jobs that others start do not keep quotas
            data.pop(key, None)
        data |= {
            "nodes": kinds_in_words(kinds, base),
            "jobs": {"kind": "list", "jobs": rows},
            "begins_s": zero - first,
        }
        scenario = validated(data, ClusterScenario, "the recorded run")
        names = [node.name for kind in scenario.by_speed for node in kinds[kind.name]]
        return scenario, _log(done, zero, {} if flat else {name: number for number, name in enumerate(names)})


def _counts(seen: SeenJob, begins: float) -> bool:
    """Return whether a job ran and ended since `begins`."""
    return seen.has_ended and bool(seen.runs) and seen.runs[-1].end > begins


def _log(done: list[SeenJob], zero: float, numbers: dict[str, int]) -> np.ndarray:
    """Return the event log of the jobs `done`; `numbers` are those of nodes, empty if placement is flat."""
    blocks: list[tuple[int, int, int, list[Row]]] = []
    for job, seen in enumerate(done):
        arrival: list[Row] = [(_time(seen.submit, zero), job, job, 0, -1, ARRIVAL)]
        for index, run in enumerate(seen.runs):
            start, end = _time(run.start, zero), _time(run.end, zero)
            gpus = sum(count for _, count in run.held)
            node = numbers[run.held[0][0]] if numbers else -1
            begin: list[Row] = [(start, job, gpus, node, 0, START)]
            if numbers:
                begin += [(start, job, count, numbers[name], 0, TAKE) for name, count in run.held]
            stop: Row = (end, job, gpus, node, 0, FINISH if run is seen.runs[-1] else PREEMPT)
            if index == 0 and run.start < zero:
                arrival += begin
                blocks.append((end, BEFORE if end else PASSES, job, [stop]))
            elif end == start:
                blocks.append((start, PASSES, job, [*begin, stop]))
            else:
                blocks += [(start, STARTS, job, begin), (end, BEFORE, job, [stop])]
        blocks.append((arrival[0][0], ARRIVES, job, arrival))
    blocks.sort(key=lambda block: block[:3])
    rows = [row for *_, block in blocks for row in block]
    rows.append((rows[-1][0] if rows else 0, -1, -1, -1, -1, END))
    return np.array(rows, EVENT)


def _time(moment: float, zero: float) -> int:
    return max(0, round((moment - zero) * NANOSECONDS))
