"""Compile a cluster scenario into the arrays of the kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from slipstream.families.cluster.beginning import pieces_of_beginning
from slipstream.families.cluster.caps import caps_of
from slipstream.families.cluster.kernel import state as k
from slipstream.families.cluster.scenario import ClusterScenario, NodeKind
from slipstream.families.cluster.workload.arrivals import Workload, workload_of
from slipstream.families.shared.schema import NANOSECONDS_PER_S, nanoseconds_of
from slipstream.sim.compiled_scenario import cached_per_scenario
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.lanes import LOG_MARGIN

PLACEMENTS = {
    "flat": k.FLAT,
    "first-fit": k.FIRST_FIT,
    "best-fit": k.BEST_FIT,
    "consolidate": k.CONSOLIDATE,
    "fgd": k.FGD,
}
UNLIMITED = np.iinfo(np.int64).max
"""Quota of users without one. Unlike a quota of all GPUs, it admits a reservation while the user's jobs run."""
BACKFILLS = {"strict": k.STRICT, "greedy": k.GREEDY, "easy": k.EASY, "conservative": k.CONSERVATIVE}


@dataclass(frozen=True)
class Sizes:
    """Array sizes of a scenario."""

    jobs: int
    """Jobs of an episode."""
    running: int
    """Most jobs that run at once."""
    levels: int
    window: int
    """Waiting jobs of an observation window."""
    window_running: int
    """Running jobs of an observation window that can be interrupted."""

    @property
    def candidates(self) -> int:
        """Most candidates of a decision, wait excluded."""
        return self.jobs * self.levels + self.running

    @property
    def rows(self) -> int:
        """Candidate rows of an observation, wait included."""
        return self.window * self.levels + self.window_running + 1

    @property
    def all_rows(self) -> int:
        """Candidate rows that heuristics see, wait included."""
        return self.rows + self.candidates + 1


@dataclass(frozen=True)
class CompiledScenario:
    """A scenario as arrays."""

    spec: dict[str, np.ndarray]
    sizes: Sizes
    workload: Workload


@cached_per_scenario
def compiled_scenario(scenario: ClusterScenario) -> CompiledScenario:
    """Return the scenario as arrays."""
    return compile_workload(scenario, workload_of(scenario))


def compile_workload(scenario: ClusterScenario, workload: Workload) -> CompiledScenario:
    """Return the scenario as arrays, with the jobs of `workload`."""
    sizes = _sizes(scenario, workload)
    return CompiledScenario(_spec_arrays(scenario, workload, sizes), sizes, workload)


def _sizes(scenario: ClusterScenario, workload: Workload) -> Sizes:
    jobs = len(workload) if scenario.episode is None else min(scenario.episode.jobs, len(workload))
    running = min(jobs, scenario.gpus)
    window_running = min(scenario.window.running, running) if scenario.preemption is not None else 0
    levels = 1 + len(caps_of(scenario.kinds[0]))
    return Sizes(jobs, running, levels, min(scenario.window.jobs, jobs), window_running)


def candidate_rows(scenario: ClusterScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return compiled_scenario(scenario).sizes.rows


def all_rows(scenario: ClusterScenario) -> int:
    """Return the number of rows that heuristics see, wait included."""
    return compiled_scenario(scenario).sizes.all_rows


def log_margin(scenario: ClusterScenario) -> int:
    """Return the most rows of the log that one event, with the decision before it, may write.

    Under `compat` as many jobs may start as there are GPUs; elsewhere two, each on all nodes.
    """
    if scenario.compat is not None:
        return LOG_MARGIN + 2 * scenario.gpus
    nodes = 0 if scenario.placement == "flat" else sum(kind.count for kind in scenario.kinds)
    return LOG_MARGIN + 2 * nodes


def timescale(scenario: ClusterScenario) -> int:
    """Return the mean run time of the jobs."""
    return max(1, round(float(compiled_scenario(scenario).workload.run.mean())))


def spec_arrays(scenario: ClusterScenario) -> dict[str, np.ndarray]:
    """Return the constants of an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: ClusterScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for `lanes` lanes, each keeping up to `log_rows` rows of its event log."""
    return state_of(scenario, compiled_scenario(scenario), lanes, log_rows)


def state_of(scenario: ClusterScenario, parts: CompiledScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for `lanes` lanes of the compiled `parts` of a scenario."""
    sizes = parts.sizes
    flat = scenario.placement == "flat"
    nodes = 1 if flat else len(parts.spec["nodes"])
    # An allocation has one piece per node and each piece at least one GPU, so that GPUs bound the number of pieces.
    pieces = 1 if flat else scenario.gpus + 1
    steps = 2 * (sizes.jobs + sizes.running) + 4 if scenario.backfill == "conservative" else 1
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "jobs": np.zeros((lanes, sizes.jobs), k.JOB_STATE),
        "queue": np.zeros((lanes, sizes.jobs), k.QUEUED),
        "running": np.zeros((lanes, sizes.running), np.int32),
        "ends": np.zeros((lanes, sizes.running), np.int32),
        "free": np.zeros((lanes, nodes), np.int64),
        "idle": np.zeros((lanes, nodes), np.int64),
        "shadow_free": np.zeros((lanes, nodes), np.int64),
        "plan": np.zeros((lanes, 2, nodes), k.PIECE),
        "pieces": np.zeros((lanes, pieces), k.PIECE),
        "profile": np.zeros((lanes, steps), k.STEP),
        "users": np.zeros((lanes, len(parts.workload.users)), k.USER_STATE),
        "candidates": np.zeros((lanes, 2 * sizes.candidates), np.int32),
        "small": np.zeros((lanes, sizes.window), k.SMALL),
        "terms": np.zeros((lanes, 6)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


# Power and placement


def milliwatts(watts: float) -> int:
    """Return `watts` in milliwatts, rounded."""
    return round(watts * 1000.0)


def idle_milliwatts(scenario: ClusterScenario) -> int:
    """Return the power of the cluster without jobs."""
    return sum(kind.count * (kind.gpus * milliwatts(kind.idle_w) + milliwatts(kind.node_w)) for kind in scenario.kinds)


def level_milliwatts(scenario: ClusterScenario) -> np.ndarray:
    """Return the power that a busy GPU adds, by kind of node and level."""
    rows = []
    for kind in scenario.kinds:
        shares = [1.0, *(cap.power for cap in caps_of(kind))]
        rows.append([milliwatts(kind.busy_w * share) - milliwatts(kind.idle_w) for share in shares])
    return np.array(rows, np.int64)


def saved_milliwatts(scenario: ClusterScenario, kind: NodeKind) -> int:
    """Return the power that a node of `kind` saves while it sleeps; 0 if nodes never sleep."""
    if scenario.sleep is None:
        return 0
    return kind.gpus * milliwatts(kind.idle_w) + milliwatts(kind.node_w) - milliwatts(scenario.sleep.watts)


def largest_consolidated(scenario: ClusterScenario) -> int:
    """Return the size up to which all jobs have a consolidated placement on an idle cluster."""
    sizes = [kind.gpus for kind in scenario.kinds for _ in range(kind.count)]
    if len(set(sizes)) == 1:
        return sum(sizes)
    # With nodes of different sizes the remainder may fit no node: count up while all sizes fit.
    largest = max(sizes)
    while _whole_nodes_fit(sizes, largest + 1):
        largest += 1
    return largest


def _whole_nodes_fit(sizes: list[int], gpus: int) -> bool:
    left = []
    for size in sizes:
        if size <= gpus:
            gpus -= size
        else:
            left.append(size)
    return gpus == 0 or any(size >= gpus for size in left)


# The arrays of the spec


def _spec_arrays(scenario: ClusterScenario, workload: Workload, sizes: Sizes) -> dict[str, np.ndarray]:
    jobs = np.zeros(len(workload), k.JOB)
    for column in ("submit", "run", "requested", "gpus", "user", "submitted_s"):
        jobs[column] = getattr(workload, column)
    users = np.zeros(len(workload.users), k.USER)
    users["quota"] = [scenario.limits.get(name, UNLIMITED) for name in workload.users]
    return {
        "machine": _machine(scenario, workload, sizes),
        "nodes": _nodes(scenario),
        "levels": _levels(scenario),
        "jobs": jobs,
        "splits": _splits(scenario, len(workload), sizes.jobs),
        "users": users,
        "wasted": _wasted(workload, max(kind.gpus for kind in scenario.kinds)),
        **_beginning(scenario, workload),
    }


def beginning(scenario: ClusterScenario, workload: Workload) -> int:
    """Return time 0 in ns since the first submission."""
    if scenario.begins_s is None or not len(workload):
        return 0
    return round((scenario.begins_s - float(workload.submitted_s[0])) * NANOSECONDS_PER_S)


def _beginning(scenario: ClusterScenario, workload: Workload) -> dict[str, np.ndarray]:
    """Return which jobs of the workload run when the episode begins, and their allocations."""
    if scenario.begins_s is None:
        return {"begun": np.zeros(0, k.BEGUN), "held": np.zeros(0, k.PIECE)}
    begun = np.zeros(len(workload), k.BEGUN)
    begun["started"], begun["runs"] = workload.started, workload.started >= 0
    held: list[tuple[int, int, int]] = []
    for job, pieces in pieces_of_beginning(scenario, workload):
        begun["first"][job], begun["pieces"][job] = len(held), max(1, len(pieces))
        held += [(node, gpus, 0) for node, gpus in pieces]
    return {"begun": begun, "held": np.array(held, k.PIECE)}


def _machine(scenario: ClusterScenario, workload: Workload, sizes: Sizes) -> np.ndarray:
    record = np.zeros(1, k.MACHINE)
    row = record[0]
    row["has_begun"], row["beginning"] = scenario.begins_s is not None, beginning(scenario, workload)
    row["gpus"], row["nodes"] = scenario.gpus, sum(kind.count for kind in scenario.kinds)
    row["levels"] = sizes.levels
    row["largest_node"] = max(kind.gpus for kind in scenario.kinds)
    row["jobs"] = sizes.jobs
    row["placement"], row["backfill"] = PLACEMENTS[scenario.placement], BACKFILLS[scenario.backfill]
    row["hold"], row["compat"] = scenario.hold, scenario.compat is not None
    if scenario.preemption is not None:
        row["preemption"] = 1
        row["cost"] = nanoseconds_of(scenario.preemption.cost_s)
        row["least_run"] = nanoseconds_of(scenario.preemption.least_run_s)
        if scenario.preemption.round_s is not None:
            row["round_length"] = nanoseconds_of(scenario.preemption.round_s)
    row["has_quotas"] = bool(scenario.quotas)
    row["simple"] = _is_simple(scenario)
    if scenario.power.budget_w is not None:
        row["has_budget"], row["budget"] = 1, math.floor(scenario.power.budget_w * 1000.0)
    row["idle_power"] = idle_milliwatts(scenario)
    if scenario.sleep is not None:
        row["has_sleep"] = 1
        row["sleep_after"] = nanoseconds_of(scenario.sleep.after_s)
        row["wake"] = nanoseconds_of(scenario.sleep.wake_s)
    row["node_factor"], row["rack_factor"] = scenario.spread.nodes, scenario.spread.racks
    row["window"], row["window_running"] = sizes.window, sizes.window_running
    row["rows"], row["all_rows"] = sizes.rows - 1, sizes.all_rows
    row["log_margin"] = log_margin(scenario)
    for term in ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness"):
        row[term] = getattr(scenario.reward, term)
    return record


def _is_simple(scenario: ClusterScenario) -> bool:
    """Return whether only GPU counts and times decide which jobs may be chosen."""
    free_of_rules = not scenario.quotas and scenario.power.budget_w is None and scenario.preemption is None
    usual = scenario.compat is None and scenario.backfill in ("strict", "easy")
    return scenario.placement == "flat" and free_of_rules and usual


def _nodes(scenario: ClusterScenario) -> np.ndarray:
    rows = []
    racks = 0
    for number, kind in enumerate(scenario.kinds):
        size = kind.rack_size or kind.count
        saved = saved_milliwatts(scenario, kind)
        rows += [(number, racks + node // size, kind.gpus, saved) for node in range(kind.count)]
        racks += -(-kind.count // size)
    return np.array(rows, k.NODE)


def _levels(scenario: ClusterScenario) -> np.ndarray:
    levels = np.zeros((len(scenario.kinds), 1 + len(caps_of(scenario.kinds[0]))), k.LEVEL)
    levels["power"] = level_milliwatts(scenario)
    for row, kind in zip(levels, scenario.kinds, strict=True):
        row["factor"] = [time / kind.speed for time in (1.0, *(cap.time for cap in caps_of(kind)))]
    return levels


def _wasted(workload: Workload, largest: int) -> np.ndarray:
    """Return, by the number of free GPUs of a node, how many of them are unusable, summed over the workload's jobs.

    All are unusable to a job that wants more; jobs larger than any node want whole nodes. After the fragmentation of
    Weng et al., "Beware of Fragmentation" (USENIX ATC 2023).
    """
    sizes = np.bincount(np.minimum(workload.gpus, largest), minlength=largest + 1)
    free = np.arange(largest + 1)
    return np.asarray(free * (len(workload) - np.cumsum(sizes)), np.int64)


def _splits(scenario: ClusterScenario, total: int, jobs: int) -> np.ndarray:
    """Return the lowest and highest first job of training episodes, and of evaluation and test episodes."""
    splits = np.zeros(2, k.SPLIT)
    splits["high"] = total - jobs
    if scenario.episode is not None:
        cut = total - math.floor(scenario.episode.held_out * total)
        if cut >= jobs:
            splits[0]["high"] = cut - jobs
        if total - cut >= jobs:
            splits[1]["low"] = cut
    return splits
