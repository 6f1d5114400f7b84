"""Hypothesis strategies for small cluster scenarios, on a coarse grid of time, so that events coincide."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from slipstream.cluster.arrivals import workload_of
from slipstream.cluster.scenario import ClusterScenario
from slipstream.errors import ScenarioError

Json = dict[str, Any]
WEIGHTS = st.sampled_from([1.0, 0.0, 0.5, 3.0])
TERMS = ("slowdown", "waiting", "throughput", "utilisation", "energy", "unfairness")
USERS = ["ann", "bob", "cid"]


@st.composite
def cluster_scenarios(draw: st.DrawFn) -> ClusterScenario:
    """Draw a small valid scenario; one in six keeps the rules of the published simulator."""
    compat = draw(st.integers(0, 5)) == 0
    placement = "flat" if compat else draw(st.sampled_from(["flat", "flat", "first-fit", "best-fit", "consolidate"]))
    scenario: Json = {
        "family": "cluster",
        "name": "random",
        "placement": placement,
        "nodes": _nodes(draw, placement, compat),
        "jobs": _jobs(draw),
        "reward": {term: draw(WEIGHTS) for term in TERMS},
        "window": {"jobs": draw(st.sampled_from([2, 3, 4, 32])), "running": draw(st.sampled_from([1, 2, 16]))},
    }
    if compat:
        scenario |= {"compat": "rlscheduler", "backfill": draw(st.sampled_from(["strict", "easy"]))}
    else:
        _add_rules(draw, scenario)
    if draw(st.integers(0, 3)) == 0:
        count = draw(st.integers(1, 8))
        scenario["episode"] = {"jobs": count, "held_out": draw(st.sampled_from([0.0, 0.3, 0.5]))}
    return _with_a_job(scenario)


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


def _nodes(draw: st.DrawFn, placement: str, compat: bool) -> list[Json]:
    kinds = 1 if placement == "flat" else draw(st.integers(1, 3))
    levels = 0 if compat else draw(st.sampled_from([0, 0, 1, 2]))
    return [
        {
            "name": f"kind-{index}",
            "count": draw(st.integers(1, 3)),
            "gpus": draw(st.integers(1, 4)),
            "speed": draw(st.sampled_from([1.0, 1.0, 2.0, 0.7])),
            "rack_size": draw(st.sampled_from([None, 1, 2])),
            "idle_w": draw(st.sampled_from([0.0, 50.0])),
            "busy_w": draw(st.sampled_from([250.0, 300.0, 40.0])),
            "node_w": draw(st.sampled_from([0.0, 10.5])),
            "caps": [
                {"watts": 100.0, "time": draw(st.sampled_from([1.25, 1.5, 0.9])), "power": draw(st.floats(0.4, 1.0))}
                for _ in range(levels)
            ],
        }
        for index in range(kinds)
    ]


def _jobs(draw: st.DrawFn) -> Json:
    unit = draw(st.sampled_from([1.0, 1.0, 7.0, 0.1, 1e-9, 1.37]))
    listed = []
    for _ in range(draw(st.integers(1, 10))):
        run = unit * draw(st.integers(1, 12))
        said = draw(st.sampled_from([1.0, 1.0, 1.5, 3.0, 0.5]))
        job = {
            "submit_s": unit * draw(st.integers(0, 20)),
            "gpus": draw(st.sampled_from([1, 1, 1, 2, 2, 3, 4, 5, 8])),
            "run_s": run,
            "user": draw(st.sampled_from(USERS)),
        }
        if said != 1.0:
            job["requested_s"] = max(1e-9, said * run)
        listed.append(job)
    return {"kind": "list", "jobs": listed}


def _add_rules(draw: st.DrawFn, scenario: Json) -> None:
    flat = scenario["placement"] == "flat"
    scenario["locality"] = {"nodes": draw(st.sampled_from([1.0, 1.5])), "racks": draw(st.sampled_from([1.0, 2.0]))}
    rules = ["easy", "easy", "easy", "strict", "greedy", *(["conservative"] * 4 if flat else [])]
    scenario["backfill"] = draw(st.sampled_from(rules))
    scenario["hold"] = draw(st.booleans())
    if draw(st.integers(0, 2)) == 0:
        scenario["quotas"] = {draw(st.sampled_from(USERS)): draw(st.integers(1, 5)) for _ in range(2)}
    if scenario["backfill"] in ("easy", "strict") and draw(st.booleans()):
        scenario["preemption"] = {
            "cost_s": draw(st.sampled_from([0.0, 1.0, 3.0])),
            "least_run_s": draw(st.sampled_from([0.0, 0.0, 2.0])),
            "round_s": draw(st.sampled_from([None, 1.0, 5.0])),
        }
    if scenario["backfill"] != "conservative" and draw(st.integers(0, 2)) == 0:
        kinds = scenario["nodes"]
        idle = sum(kind["count"] * (kind["gpus"] * kind["idle_w"] + kind["node_w"]) for kind in kinds)
        scenario["power"] = {"budget_w": idle + draw(st.sampled_from([250.0, 400.0, 800.0, 1500.0]))}
