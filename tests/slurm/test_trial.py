"""A trial plays the same jobs in simulation and on a real Slurm, under a policy and under Slurm's own backfill."""

from __future__ import annotations

import json

import numpy as np
import pytest

from slipstream.cli.main import main
from slipstream.device.slurm.local import missing_programs
from slipstream.device.slurm.trial import TrialSettings, out_of_order, simulated_trial, timed_jobs, trial_of
from slipstream.families.cluster.invariants import check
from slipstream.families.cluster.metrics import jobs_of
from slipstream.policies import find
from slipstream.scenario import load

JOBS = [{"submit_s": 0.0, "gpus": 4, "run_s": 400.0}, {"submit_s": 50.0, "gpus": 8, "run_s": 200.0}]
JOBS += [{"submit_s": 60.0, "gpus": 2, "run_s": 150.0}, {"submit_s": 70.0, "gpus": 2, "run_s": 10.0}]
RULES = {
    "family": "cluster",
    "placement": "best-fit",
    "nodes": [{"name": "A 100", "count": 2, "gpus": 4}],
    "jobs": {"kind": "list", "jobs": JOBS},
}


def test_jobs_are_scaled_and_none_is_shorter_than_three_seconds():
    jobs = timed_jobs(load(RULES), TrialSettings(jobs=3, time_scale=0.01))
    assert [(job.submit_s, job.gpus, job.run_s) for job in jobs] == [(0.0, 4, 4.0), (0.5, 8, 3.0), (0.6, 2, 3.0)]
    mean = np.mean([job["run_s"] for job in JOBS])
    assert timed_jobs(load(RULES), TrialSettings())[0].run_s == pytest.approx(400.0 * 8.0 / mean)


def test_episodes_of_other_seeds_have_other_jobs():
    jobs = {"kind": "synthetic", "jobs": 50, "sizes": [1, 2, 4]}
    rules = load({**RULES, "jobs": jobs, "episode": {"jobs": 10, "held_out": 0.0}})
    first, second, again = (trial_of(rules, TrialSettings(jobs=8, seed=seed))[1] for seed in (1, 2, 1))
    assert len(first) == 8
    assert first == again != second


def test_starts_are_out_of_order_only_if_they_lie_more_than_a_second_apart():
    first = np.array([0.0, 5.0, 10.0])
    assert out_of_order(first, np.array([0.0, 6.0, 5.5])) == 0
    assert out_of_order(first, np.array([0.0, 8.0, 5.5])) == 1
    assert out_of_order(first, np.array([12.0, 8.0, 5.5])) == 3


def test_a_policys_side_is_simulated_as_it_is_driven():
    jobs = [{"submit_s": 0.0, "gpus": 8, "run_s": 5.0}, {"submit_s": 0.5, "gpus": 2, "run_s": 9.0}]
    rules = load({**RULES, "jobs": {"kind": "list", "jobs": [*jobs, {"submit_s": 1.5, "gpus": 8, "run_s": 3.0}]}})
    settings = TrialSettings(time_scale=1.0)
    scenario, events = simulated_trial(*trial_of(rules, settings), find("sjf", "cluster"), settings)
    found = jobs_of(scenario, events)
    # An end at 6.1 is seen at 6.3; the long job waits for the short one, which both have been there for long.
    assert (found.first_start / 1e9).tolist() == [1.0, 11.0, 7.0]
    assert (found.finish / 1e9).tolist() == [6.1, 20.1, 10.1]


def test_slurms_side_is_simulated_by_its_own_rules_and_has_a_log_like_any_other():
    # Under EASY, the last job would start at once, beside the two GPUs that wait for the second.
    jobs = [{"submit_s": 0.0, "gpus": 6, "run_s": 20.0}, {"submit_s": 1.0, "gpus": 4, "run_s": 5.0}]
    rules = load({**RULES, "jobs": {"kind": "list", "jobs": [*jobs, {"submit_s": 2.0, "gpus": 2, "run_s": 70.0}]}})
    settings = TrialSettings(time_scale=1.0)
    scenario, events = simulated_trial(*trial_of(rules, settings), None, settings)
    check(events, scenario)
    starts = jobs_of(scenario, events).first_start / 1e9
    assert starts.tolist() == [0.0, 21.0, 2.0]
    assert [kind.name for kind in scenario.nodes] == ["a100"]


@pytest.mark.thorough
def test_validate_runs_all_jobs_on_both_sides(monkeypatch, capsys, tmp_path):
    if reason := missing_programs():
        pytest.skip(reason)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "rules.json").write_text(json.dumps(RULES))
    words = ["validate", "rules.json", "--engine", "slurm", "--policy", "sjf", "--time-scale", "0.01", "--json"]
    monkeypatch.setattr("sys.argv", ["slipstream", *words])
    with pytest.raises(SystemExit) as ending:
        main()
    assert not ending.value.code
    (run,) = json.loads(capsys.readouterr().out)["runs"]
    assert run["jobs"] == 4
    assert set(run["sides"]) == {"sjf", "slurm"}
    for side in run["sides"].values():
        assert side["real"]["jct_mean_s"] >= 3.0
        assert side["starts_out_of_order"] <= 6
    overhead = run["sides"]["sjf"]["overhead"]
    assert set(overhead) == {f"{part}_p{percent}_ms" for part in ("decision", "dispatch") for percent in (50, 99)}
    assert all(0 < overhead[f"{part}_p50_ms"] <= overhead[f"{part}_p99_ms"] for part in ("decision", "dispatch"))
    assert run["sides"]["slurm"]["overhead"] == {}


def test_a_scenario_of_another_family_is_refused(monkeypatch, capsys):
    for command in ("validate", "execute"):
        monkeypatch.setattr("sys.argv", ["slipstream", command, "edge/tiny", "--engine", "slurm"])
        with pytest.raises(SystemExit) as ending:
            main()
        assert ending.value.code == 2
        assert "edge/tiny: is of the family 'edge': expected a cluster scenario" in capsys.readouterr().err
