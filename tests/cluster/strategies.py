"""Small cluster scenarios, on a coarse grid of time, so that events coincide, and with more jobs than GPUs.

One number decides a scenario: drawn piece by piece, most would have few jobs, all alike.
"""

from __future__ import annotations

from random import Random
from typing import Any

from hypothesis import strategies as st

from slipstream.errors import ScenarioError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.workload.arrivals import workload_of

Json = dict[str, Any]
WEIGHTS = (1.0, 0.0, 0.5, 3.0)
TERMS = ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness")
USERS = ("ann", "bob", "cid")
PLACEMENTS = ("flat", "flat", "flat", "first-fit", "best-fit", "consolidate", "fgd")
ANY_RULE = ("easy", "easy", "easy", "easy", "strict", "greedy")
FLAT_RULES = (*ANY_RULE, "conservative", "conservative")


def cluster_scenarios() -> st.SearchStrategy[ClusterScenario]:
    """Draw a small valid scenario; one in six keeps the rules of the published simulator."""
    return st.integers(0, 2**32 - 1).map(lambda lot: _scenario(Random(lot)))


def _scenario(draw: Random) -> ClusterScenario:
    unit = draw.choice([1.0, 1.0, 1.0, 7.0, 0.1, 1e-9, 1.37])
    compat = draw.random() < 1 / 5
    placement = "flat" if compat else draw.choice(PLACEMENTS)
    slices = 1 if placement == "flat" else draw.choice([1, 1, 1, 2, 4])
    scenario: Json = {
        "family": "cluster",
        "name": "random",
        "placement": placement,
        "nodes": _nodes(draw, placement, compat, slices),
        "jobs": _jobs(draw, unit, slices),
        "reward": {term: draw.choice(WEIGHTS) for term in TERMS},
        "window": {"jobs": draw.choice([2, 3, 4, 32]), "running": draw.choice([1, 2, 16])},
    }
    if compat:
        scenario |= {"compat": "rlscheduler", "backfill": draw.choice(["strict", "easy", "easy", "easy"])}
    else:
        _add_rules(draw, scenario, unit)
    if draw.random() < 0.3:
        scenario["episode"] = {"jobs": draw.randint(1, 6), "held_out": draw.choice([0.0, 0.3, 0.5])}
    elif not compat and slices == 1 and draw.random() < 0.5:
        _begin_in_the_middle(draw, scenario, unit)
    return _with_a_job(scenario)


def _begin_in_the_middle(draw: Random, scenario: Json, unit: float) -> None:
    """Let the episode begin while jobs wait and, where their GPUs are free, run."""
    begins = unit * draw.randint(1, 12)
    scenario["begins_s"] = begins
    free = {(kind["name"], node): kind["gpus"] for kind in scenario["nodes"] for node in range(kind["count"])}
    for job in scenario["jobs"]["jobs"]:
        if job["submit_s"] > begins or job["gpus"] > sum(free.values()) or draw.random() < 0.4:
            continue
        job["started_s"] = draw.choice([job["submit_s"], begins, (job["submit_s"] + begins) / 2])
        held, wanted = [], job["gpus"]
        for kind, node in draw.sample(sorted(free), len(free)):
            gpus = min(wanted, free[kind, node])
            if gpus:
                held.append({"kind": kind, "node": node, "gpus": gpus})
                free[kind, node] -= gpus
                wanted -= gpus
        if scenario["placement"] != "flat":
            job["held"] = held


def _with_a_job(scenario: Json) -> ClusterScenario:
    """Return the scenario; where no job can run, one that can is added."""
    made = ClusterScenario.model_validate(scenario)
    try:
        workload_of(made)
    except ScenarioError:
        scenario["jobs"]["jobs"].append({"submit_s": 0.0, "run_s": 5.0, "user": "dan"})
        scenario["power"] = {}
        made = ClusterScenario.model_validate(scenario)
    return made


def _nodes(draw: Random, placement: str, compat: bool, slices: int) -> list[Json]:
    kinds = 1 if placement == "flat" else draw.randint(1, 3)
    levels = 0 if compat else draw.choice([0, 0, 1, 2])
    return [
        {
            "name": f"kind-{index}",
            "count": draw.randint(1, 3 if kinds == 1 else 2),
            "gpus": draw.randint(1, 4 if slices == 1 else 2),
            "slices": slices,
            "speed": draw.choice([1.0, 1.0, 2.0, 0.7]),
            "rack_size": draw.choice([None, 1, 2]),
            "idle_w": draw.choice([0.0, 50.0]),
            "busy_w": draw.choice([250.0, 300.0, 40.0]),
            "node_w": draw.choice([0.0, 10.5]),
            "caps": [
                {"watts": 100.0, "time": draw.choice([1.25, 1.5, 0.9]), "power": draw.choice([0.5, 0.73, 0.9])}
                for _ in range(levels)
            ],
        }
        for index in range(kinds)
    ]


def _jobs(draw: Random, unit: float, slices: int) -> Json:
    latest = draw.choice([4, 10, 20])
    listed = []
    for _ in range(draw.choice([1, 3, 6, 8, 10, 12, 14])):
        run = unit * draw.randint(1, 12)
        job: Json = {
            "submit_s": unit * draw.randint(0, latest),
            "gpus": draw.choice([1, 1, 1, 2, 2, 3, 4, 5, 8] if slices == 1 else [0.25, 0.3, 0.5, 0.5, 1, 2, 3]),
            "run_s": run,
            "user": draw.choice(USERS),
        }
        said = draw.choice([1.0, 1.0, 1.0, 1.5, 3.0, 0.5])
        if said != 1.0:
            job["requested_s"] = max(1e-9, said * run)
        listed.append(job)
    return {"kind": "list", "jobs": listed}


def _add_rules(draw: Random, scenario: Json, unit: float) -> None:
    flat = scenario["placement"] == "flat"
    scenario["locality"] = {"nodes": draw.choice([1.0, 1.5]), "racks": draw.choice([1.0, 2.0])}
    scenario["backfill"] = draw.choice(FLAT_RULES if flat else ANY_RULE)
    scenario["hold"] = draw.random() < 0.5
    if draw.random() < 1 / 3:
        scenario["quotas"] = {user: draw.randint(1, 5) for user in draw.sample(USERS, 2)}
    wake = 0.0
    if not flat and scenario["nodes"][0]["slices"] == 1 and draw.random() < 0.4:
        after, wake = unit * draw.choice([0, 1, 2]), unit * draw.choice([0, 1, 3])
        scenario["sleep"] = {"after_s": after, "wake_s": wake, "watts": draw.choice([0.0, 5.5, 60.0])}
    if scenario["backfill"] in ("easy", "strict") and draw.random() < 0.4:
        cost = unit * draw.choice([0, 1, 3])
        # Who has paid gets somewhere before it is interrupted again, so that every episode comes to an end.
        least = cost + wake + unit if cost + wake else unit * draw.choice([0, 0, 2])
        scenario["preemption"] = {"cost_s": cost, "least_run_s": least, "round_s": draw.choice([None, unit, 5 * unit])}
    if scenario["backfill"] != "conservative" and draw.random() < 0.6:
        kinds = scenario["nodes"]
        for kind in kinds:
            # A GPU that draws less at work than idle would break the budget when its job ends.
            if kind["idle_w"] > kind["busy_w"] * min((cap["power"] for cap in kind["caps"]), default=1.0):
                kind["idle_w"] = 0.0
        idle = sum(kind["count"] * (kind["gpus"] * kind["idle_w"] + kind["node_w"]) for kind in kinds)
        scenario["power"] = {"budget_w": idle + draw.choice([300.0, 300.0, 500.0, 800.0, 1200.0])}
