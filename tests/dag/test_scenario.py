"""A dag scenario is read with one-line errors that name the place, and written back the same."""

from __future__ import annotations

import json

import pytest

from slipstream.errors import ScenarioError
from slipstream.families.dag.workload.generator import Settings, generate, traced
from slipstream.scenario import builtin_names, digest, dump, load

STAGE = {"name": "a", "duration_s": 1.0}
JOB = {"name": "j", "stages": [STAGE]}
GOOD = {
    "family": "dag",
    "executors": 2,
    "arrivals": {"kind": "batch", "jobs": 1},
    "jobs": {"kind": "inline", "jobs": [JOB]},
}


def with_stages(*stages):
    return {"jobs": {"kind": "inline", "jobs": [{"name": "j", "stages": list(stages)}]}}


BAD = {
    "no executors": ({"executors": 0}, "executors: must be at least 1, got 0"),
    "unknown key": ({"executor": 3}, "unknown key 'executor': did you mean 'executors'?"),
    "unknown source": ({"jobs": {"kind": "tpcds"}}, r"jobs\.kind: unknown kind 'tpcds': did you mean 'tpch'\?"),
    "unknown arrivals": ({"arrivals": {"kind": "burst", "jobs": 1}}, r"arrivals\.kind: unknown kind 'burst'"),
    "classes": (
        {"classes": [{"name": "a", "count": 1, "speed": 1.0}]},
        "classes have 1 executors but executors is 2: expected the same number",
    ),
    "initial": (
        {"arrivals": {"kind": "poisson", "jobs": 1, "initial_jobs": 2}},
        "initial_jobs is 2 but jobs is 1: expected at most as many",
    ),
    "trace order": (
        {"arrivals": {"kind": "trace", "times_s": [2.0, 1.0]}},
        r"times_s\[1\] is 1\.0, earlier than the time before it: expected ascending times",
    ),
    "trace source": ({"arrivals": {"kind": "trace"}}, "expected either 'times_s' or 'path'"),
    "trace names": (
        {"arrivals": {"kind": "trace", "times_s": [1.0], "names": ["a", "b"]}},
        "names lists 2 but times_s 1: expected one for each time",
    ),
    "cycle": (
        with_stages({**STAGE, "parents": ["b"]}, {"name": "b", "duration_s": 1.0, "parents": ["a"]}),
        "stage 'a' waits for itself: expected a graph without cycles",
    ),
    "parent": (with_stages({**STAGE, "parents": ["x"]}), r"stages\[0\]: no stage 'x'"),
    "two durations": (
        with_stages({**STAGE, "waves": [{"executors": 1, "first_s": [1.0]}]}),
        "expected either 'duration_s' or 'waves'",
    ),
    "no durations": (with_stages({"name": "a", "waves": [{"executors": 1}]}), "no durations: expected 'first_s'"),
    "same stage": (with_stages(STAGE, STAGE), "two stages have the same name"),
    "same job": ({"jobs": {"kind": "inline", "jobs": [JOB, JOB]}}, r"jobs\[1\]\.name 'j' is taken"),
    "compat": ({"compat": "spark"}, "compat: expected 'decima', got 'spark'"),
}


@pytest.mark.parametrize("name", BAD)
def test_a_bad_scenario_is_refused_in_one_line(name):
    changes, text = BAD[name]
    with pytest.raises(ScenarioError, match=text) as error:
        load({**GOOD, **changes})
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("name", [name for name in builtin_names() if name.startswith("dag/")])
def test_every_built_in_round_trips(name):
    scenario = load(name)
    assert dump(load(json.loads(dump(scenario)))) == dump(scenario)


def test_the_digest_goes_by_what_the_jobs_are():
    other = {"kind": "inline", "jobs": [{"name": "j", "stages": [{"name": "other name", "duration_s": 1.0}]}]}
    longer = {"kind": "inline", "jobs": [{"name": "j", "stages": [{"name": "a", "duration_s": 2.0}]}]}
    assert digest(load(GOOD)) == digest(load({**GOOD, "jobs": other}))
    assert digest(load(GOOD)) != digest(load({**GOOD, "jobs": longer}))


def test_generated_scenarios_have_the_load_that_was_asked_for():
    gaps = {load_: generate(Settings(load=load_), 3).arrivals.mean_gap_s for load_ in (0.5, 1.0)}
    assert gaps[0.5] == pytest.approx(2 * gaps[1.0])
    assert dump(generate(Settings(), 3)) == dump(generate(Settings(), 3)) != dump(generate(Settings(), 4))
    assert generate(Settings(arrivals="batch", source="ml-workflow", jobs=4), 0).arrivals.kind == "batch"


@pytest.mark.parametrize("kind", ["csv", "parquet"])
def test_traced_arrivals_replay_the_episode(kind, tmp_path):
    from slipstream.policies import find
    from slipstream.sim.eventlog import ARRIVAL
    from slipstream.sim.simulator import Simulator

    scenario = generate(Settings(jobs=6, templates=5), 7)
    moved, files = traced(scenario, 7, "arrivals", kind)
    moved._folder = tmp_path
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    rows = [Simulator(one).play(find("fair", "dag"), 7) for one in (scenario, moved)]
    first, again = (events[events["kind"] == ARRIVAL] for events in rows)
    assert first["task"].tolist() == again["task"].tolist()
    assert abs(first["time"] - again["time"]).max() <= 1
