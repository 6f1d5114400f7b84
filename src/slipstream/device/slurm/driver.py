"""Driver of a real Slurm cluster: held jobs are released where and when a policy starts them.

Every cycle reads the state of the controller, gives it to the policy as an episode that begins at this moment, and
carries out what the policy does there. Nothing is remembered from one cycle to the next but what was released a moment
ago. So jobs that appear, vanish, are requeued or edited, nodes that fail or are drained, and a restart of the driver
need no code of their own. No job is ever cancelled.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace

import numpy as np

from slipstream.device.slurm.capping import CapCommand, check_caps
from slipstream.device.slurm.decisions import Decision, StartOf, decide, warm_up
from slipstream.device.slurm.handback import clear_placement
from slipstream.device.slurm.recording import Recorder
from slipstream.errors import DeviceError, InputError, ScenarioError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.commands import Slurm
from slipstream.families.cluster.slurm.controller import read_snapshot
from slipstream.families.cluster.slurm.scenario import LiveScenario, live_scenario, requested_s
from slipstream.families.cluster.slurm.snapshot import MARK, SlurmJob, Snapshot
from slipstream.policies.auto import Auto
from slipstream.policies.base import Policy

START_LIMIT_S = 30.0
"""Longest time from a release to the start; a job that has not started by then is held again, to be decided anew."""
REFUSED_S = 30.0
"""Time for which a job is left alone after Slurm refused a change of it."""
KEPT = 10_000
"""Times of decisions and starts that are kept."""
LOST_S = 120.0
"""Time without an answer of the controller after which the driver gives up."""


@dataclass(frozen=True)
class DriverSettings:
    """How a cluster is driven."""

    partitions: tuple[str, ...] = ()
    """Driven partitions; all if empty."""
    interval_s: float = 2.0
    """Time between the beginnings of two cycles."""
    takes: bool = False
    """Whether waiting jobs that are not held are held, and so driven too."""
    lost_s: float = LOST_S
    caps: CapCommand | None = None
    """What sets the power cap of a node; there are no caps without it."""
    requested: Mapping[str, float] = field(default_factory=dict)
    """Requested times by job, in seconds, where they are known better than the time limits."""


class Driver:
    """Drives a cluster under a policy, by the rules of a scenario."""

    def __init__(self, slurm: Slurm, base: ClusterScenario, policy: Policy, settings: DriverSettings) -> None:
        self.recorder = Recorder()
        """What was observed."""
        self.counts = {"started": 0, "requeued": 0, "refused": 0, "held again": 0, "cycles": 0}
        """Number of actions by kind."""
        self._decision_s: deque[float] = deque(maxlen=KEPT)
        self._dispatch_s: deque[float] = deque(maxlen=KEPT)
        self._slurm = slurm
        self._base = checked_rules(base, settings.caps is not None)
        self._policy = chosen_policy(policy, base)
        self._settings = settings
        self._released: dict[str, tuple[float, StartOf]] = {}
        """Jobs released a moment ago that do not run yet, with the time of their release."""
        self._left_alone: dict[str, float] = {}
        """Jobs of which Slurm refused a change, and until when they are left alone."""
        self._stopping = False
        self._tell: Callable[[str], None] = print
        self.problem = ""
        """Why the policy could not be asked in the last cycle; empty if it was."""

    def stop(self) -> None:
        """End after the present cycle."""
        self._stopping = True

    def run(self, until: Callable[[Snapshot], bool] = lambda _: False, tell: Callable[[str], None] = print) -> None:
        """Drive until `stop` is called or `until` is true of a state; `tell` gets every decision in words.

        Raises:
            DeviceError: The controller has not answered for too long.
        """
        self._tell = tell
        warm_up(self._base, self._policy)
        answered = time.monotonic()
        while not self._stopping:
            began = time.monotonic()
            try:
                snapshot = read_snapshot(self._slurm, self._settings.partitions)
                self.recorder.observe(snapshot)
                if until(snapshot):
                    return
                self._cycle(snapshot, began)
                answered = time.monotonic()
            except DeviceError as error:
                if time.monotonic() - answered > self._settings.lost_s:
                    raise DeviceError(f"the controller is lost: {error}") from None
                tell(f"no answer, trying again: {error}")
            self.counts["cycles"] += 1
            while not self._stopping and time.monotonic() < began + self._settings.interval_s:
                time.sleep(min(0.1, self._settings.interval_s))
        # What ended since the last cycle belongs to the log too, if the controller still answers.
        with suppress(DeviceError):
            self.recorder.observe(read_snapshot(self._slurm, self._settings.partitions))

    def plan(self) -> tuple[LiveScenario | None, list[Decision]]:
        """Return the state of this moment and what the policy would do in it; nothing is sent."""
        snapshot = read_snapshot(self._slurm, self._settings.partitions)
        return self._decide(snapshot)

    def overhead(self) -> dict[str, float]:
        """Return percentiles of the last cycles that decided: from reading to the decision, and from there to Slurm."""
        return {
            f"{name}_p{percent}_ms": float(np.percentile(times, percent)) * 1e3
            for name, times in (("decision", self._decision_s), ("dispatch", self._dispatch_s))
            for percent in (50, 99)
            if times
        }

    def _cycle(self, snapshot: Snapshot, began: float) -> None:
        """Decide about `snapshot`, whose reading began at `began`, and carry it out."""
        snapshot = self._follow_releases(snapshot)
        for job in snapshot.jobs:
            self._take_in(job)
        problem = self.problem
        _, decisions = self._decide(snapshot)
        if self.problem and self.problem != problem:
            self._tell(f"no decision: {self.problem}")
        if decisions:
            self._decision_s.append(time.monotonic() - began)
        for decision in decisions:
            if self._stopping:
                return
            self._carry_out(decision)

    def _follow_releases(self, snapshot: Snapshot) -> Snapshot:
        """Return `snapshot` with jobs that were just released as if they ran; hold those again that do not start."""
        jobs = []
        present = {job.id for job in snapshot.jobs}
        for name in [name for name in self._released if name not in present]:
            del self._released[name]
        for job in snapshot.jobs:
            if job.id in self._released:
                since, start = self._released[job.id]
                if not job.waits or job.is_held:
                    del self._released[job.id]  # it runs, or was held by hand meanwhile
                elif time.monotonic() > since + START_LIMIT_S:
                    del self._released[job.id]
                    self._hold_again(job)
                else:
                    job = replace(job, state="RUNNING", start=snapshot.now, held=start.held)
            jobs.append(job)
        return replace(snapshot, jobs=tuple(jobs))

    def _take_in(self, job: SlurmJob) -> None:
        """Hold a waiting job that is not held, where it is ours: it was placed and requeued, or all are taken."""
        if not job.waits or job.is_held or not job.gpus or job.id in self._released:
            return
        if job.is_placed or (self._settings.takes and job.can_start):
            self._hold_again(job)

    def _hold_again(self, job: SlurmJob) -> None:
        if self._asks(job, lambda: self._slurm.change("uhold", job.id)):
            self.counts["held again"] += 1
            if job.is_placed:
                self._asks(job, lambda: clear_placement(self._slurm, job.id, job.on_nodes))

    def _decide(self, snapshot: Snapshot) -> tuple[LiveScenario | None, list[Decision]]:
        now = time.monotonic()
        self._left_alone = {job: until for job, until in self._left_alone.items() if until > now}
        known = self._settings.requested
        self.problem = ""
        try:
            live = live_scenario(
                snapshot,
                self._base,
                chosen=lambda job: job.is_held and job.id not in self._left_alone,
                requested=lambda job: known.get(job.id) or requested_s(job),
            )
            if not any(job.waits for job in live.jobs):
                return live, []
            return live, decide(live, self._policy)
        except ScenarioError as error:
            # No node is available, no job wants GPUs that there are, or others have taken what was planned.
            self.problem = str(error)
            return None, []

    def _carry_out(self, decision: Decision) -> None:
        """Send the commands of a decision."""
        job, began = decision.job, time.monotonic()
        self._tell(decision.words)
        if isinstance(decision, StartOf):
            if self._asks(job, lambda: self._start(decision)):
                self._released[job.id] = (time.monotonic(), decision)
                self._dispatch_s.append(time.monotonic() - began)
                self.counts["started"] += 1
        elif self._asks(job, lambda: self._slurm.change("requeuehold", job.id)):
            self.counts["requeued"] += 1

    def _start(self, start: StartOf) -> None:
        if self._settings.caps is not None:
            for words in caps_of_start(start, self._settings.caps):
                self._settings.caps.run(words)
        for words in commands_of(start):
            self._slurm.change(*words)

    def commands(self, decision: Decision) -> list[list[str]]:
        """Return the commands that carry out a decision, each as a list of words."""
        if not isinstance(decision, StartOf):
            return [["scontrol", "requeuehold", decision.job.id]]
        caps = [] if self._settings.caps is None else caps_of_start(decision, self._settings.caps)
        return [*caps, *(["scontrol", *words] for words in commands_of(decision))]

    def _asks(self, job: SlurmJob, ask: Callable[[], None]) -> bool:
        """Return whether Slurm does as `ask` asks; a job of which a change is refused is left alone for a time."""
        try:
            ask()
        except DeviceError as error:
            self._tell(f"job {job.id} is left alone for {REFUSED_S:g} s: {error}")
            self.counts["refused"] += 1
            self._left_alone[job.id] = time.monotonic() + REFUSED_S
            return False
        return True


def commands_of(start: StartOf) -> list[list[str]]:
    """Return the arguments of `scontrol` that carry out a start.

    Nodes are named unless the job asks for certain nodes itself, or for another number of them: then Slurm places it.
    """
    job, names = start.job, [name for name, _ in start.held]
    changes = []
    if start.names_nodes:
        number = [] if job.on_nodes is not None else [f"NumNodes={len(names)}-{len(names)}"]
        changes += [f"ReqNodeList={','.join(names)}", *number, f"AdminComment={MARK}"]
    if job.restarts:
        changes.append("StartTime=now")  # a requeued job would wait for two minutes more
    update = [["update", f"JobId={job.id}", *changes]] if changes else []
    return [*update, ["release", job.id]]


def caps_of_start(start: StartOf, caps: CapCommand) -> list[list[str]]:
    """Return the commands that set the power caps of a start; none where Slurm chooses the nodes."""
    if not start.names_nodes:
        return []
    limits = zip(start.held, start.watts, strict=bool(start.watts))
    return [caps.words(start.job.id, node, gpus, watts) for (node, gpus), watts in limits]


def chosen_policy(policy: Policy, base: ClusterScenario) -> Policy:
    """Return the policy that decides: `auto` chooses one by the jobs of `base`, once, not anew in every cycle."""
    return policy.policy_for(base) if isinstance(policy, Auto) else policy


def checked_rules(base: ClusterScenario, with_caps: bool = False) -> ClusterScenario:
    """Return `base` as the rules of a driven cluster: every cycle decides anew, and nothing that only simulations have.

    Power caps are kept if there is a command that sets them.

    Raises:
        InputError: One line: the scenario has rules that a real cluster cannot follow.
    """
    if base.slices > 1:
        raise InputError("nodes with slices: expected whole GPUs on a real cluster")
    if base.compat is not None:
        raise InputError("compat: expected rules of ours on a real cluster, not those of a published simulator")
    if with_caps:
        check_caps(base)
    kinds = base.nodes if with_caps else [kind.model_copy(update={"caps": []}) for kind in base.nodes]
    return base.model_copy(update={"hold": False, "nodes": kinds, "episode": None, "sleep": None})
