"""The worked example of docs/add-a-family.md: small, right by hand, by a reference and by theory, and a full family."""

from __future__ import annotations

import json
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env
from hypothesis import given
from hypothesis import strategies as st

import slipstream
from mm1.family import FAMILY
from slipstream.errors import InvariantError
from slipstream.families.contract import FAMILIES, register_family
from slipstream.learn.settings import TrainSettings
from slipstream.policies.base import find, names
from slipstream.scenario import builtin_names, dump, load
from slipstream.scenario import digest as scenario_digest
from slipstream.sim.eventlog import ARRIVAL, END, EVENT, FINISH, START, LogWriter
from slipstream.sim.simulator import Simulator
from tests import test_environments as laws
from tests.reference.numbers import Draws, episode_key, stream_key

FOLDER = Path(__file__).parents[2] / "examples" / "mm1"
COMMAND = Path(sys.executable).with_name("slipstream")
SECOND = 1_000_000_000
SHORT = {"family": "mm1", "horizon_s": 30, "mean_gap_s": 1, "slow_s": 1.25, "fast_s": 0.5, "fast_energy_j": 4}
WAIT = 2


@pytest.fixture(autouse=True, scope="module")
def registered():
    register_family(FAMILY)
    yield
    del FAMILIES["mm1"]
    del gymnasium.registry[FAMILY.env_id]


@pytest.fixture
def subject():
    return SimpleNamespace(family=FAMILY, name="mm1", busy="mm1/busy", played=names("mm1"))


# Size


def test_the_example_is_shorter_than_250_lines():
    files = [path for path in FOLDER.rglob("*") if path.suffix in (".py", ".json")]
    assert len(files) >= 9
    assert sum(len(path.read_text().splitlines()) for path in files) < 250


# By hand


def log_of(*rows):
    """Return an event log from (second, job, service, kind)."""
    log = np.zeros(len(rows), EVENT)
    for place, (time, job, service, kind) in enumerate(rows):
        on_server = 0 if kind in (START, FINISH) else -1
        log[place] = (round(time * SECOND), job, -1 if kind == END else 0, on_server, service, kind)
    return log


BY_HAND = log_of(
    (1.0, 0, -1, ARRIVAL),
    (1.0, 0, 0, START),
    (1.5, 1, -1, ARRIVAL),
    (2.0, 2, -1, ARRIVAL),
    (4.0, 0, 0, FINISH),
    (4.0, 1, 1, START),  # it waited 2.5 s
    (4.5, 1, 1, FINISH),
    (4.5, 2, 1, START),  # and this one 2.5 s
    (5.0, 2, 1, FINISH),
    (9.0, 3, -1, ARRIVAL),  # it waits 1 s, to the end
    (10.0, -1, -1, END),
)


def test_metrics_of_four_jobs_worked_out_by_hand():
    scenario = load(SHORT)
    FAMILY.check(scenario, BY_HAND)
    # Waiting 0 + 2.5 + 2.5 + 1 = 6 s of four jobs; two fast services of 4 J each.
    assert FAMILY.metrics(scenario, BY_HAND) == {"reward": -14.0, "waiting_mean_s": 1.5, "energy_j": 8.0}


def test_timeline_of_four_jobs_worked_out_by_hand():
    shown = FAMILY.timeline(load(SHORT), BY_HAND)
    assert shown.resources == ("server",)
    assert (shown.wait_end - shown.wait_start).tolist() == [0, 2.5 * SECOND, 2.5 * SECOND, SECOND]
    assert shown.slice_job.tolist() == [0, 1, 2]
    assert (shown.slice_end - shown.slice_start).tolist() == [3 * SECOND, SECOND // 2, SECOND // 2]
    assert [shown.variants[0][variant] for variant in shown.slice_variant] == ["slow", "fast", "fast"]


def test_a_log_with_two_jobs_on_the_server_is_refused():
    log = np.delete(BY_HAND, 4)  # the first finish
    with pytest.raises(InvariantError, match="row 4: start of job 1 of task 0 on resource 0, busy since row 1"):
        FAMILY.check(load(SHORT), log)


# A reference in plain Python


def reference(scenario, seed, choose):
    """Return the event log of an episode by Lindley's recursion, for policies that never wait by choice."""
    key = episode_key(2, seed)
    gaps, services = (Draws(stream_key(key, stream)) for stream in (1, 2))
    end = round(scenario.horizon_s * SECOND)
    means = [round(scenario.slow_s * SECOND), round(scenario.fast_s * SECOND)]
    arrivals = [gaps.gap(round(scenario.mean_gap_s * SECOND))]
    while arrivals[-1] < end:
        arrivals.append(arrivals[-1] + gaps.gap(round(scenario.mean_gap_s * SECOND)))
    rows = [(time, 1, job, -1, ARRIVAL) for job, time in enumerate(arrivals[:-1])]
    free = 0
    for job, time in enumerate(arrivals[:-1]):
        start = max(time, free)
        if start >= end:
            break
        waiting = sum(other <= start for other in arrivals) - job
        service = choose(waiting)
        free = start + services.gap(means[service])
        rows.append((start, 2, job, service, START))
        if free <= end:
            rows.append((free, 0, job, service, FINISH))
    return [*sorted(rows), (end, 3, -1, -1, END)]


POLICIES = {"slow": lambda waiting: 0, "fast": lambda waiting: 1, "hurry": lambda waiting: 1 if waiting >= 3 else 0}


@given(
    seed=st.integers(0, 2**62 - 1),
    gap=st.floats(0.1, 5),
    horizon=st.floats(0.5, 60),
    policy=st.sampled_from(list(POLICIES)),
)
def test_the_event_log_is_that_of_the_reference(seed, gap, horizon, policy):
    scenario = load(SHORT | {"mean_gap_s": gap, "horizon_s": horizon})
    events = Simulator(scenario).play(find(policy, "mm1"), seed)
    FAMILY.check(scenario, events)
    found = [(row["time"], row["job"], row["variant"], row["kind"]) for row in events]
    assert found == [
        (time, job, service, kind) for time, _, job, service, kind in reference(scenario, seed, POLICIES[policy])
    ]


@given(seed=st.integers(0, 2**62 - 1), script=st.lists(st.integers(-1, 3), min_size=1, max_size=20))
def test_rewards_add_up_to_the_metric_and_waiting_costs_time(seed, script):
    scenario = load(SHORT)
    simulator, pieces, total = Simulator(scenario), [], 0.0
    simulator.reset(seed)
    while simulator.asking:
        action = script[int(simulator.header["choices"]) % len(script)]
        simulator.step(action, pieces.append)
        total += float(simulator.header["reward"])
        assert bool(simulator.header["illegal"]) == (action not in (0, 1, WAIT))
    FAMILY.check(scenario, simulator.log())
    assert math.isclose(total, FAMILY.metrics(scenario, simulator.log())["reward"], abs_tol=1e-6)


# Theory


@pytest.mark.parametrize(("policy", "service_s"), [("slow", 1.0), ("fast", 0.25)])
def test_mean_waiting_is_that_of_theory(policy, service_s):
    """M/M/1: jobs wait rho / (mu - lambda) on average before they are served."""
    scenario = SHORT | {"horizon_s": 2_000_000, "mean_gap_s": 2, "slow_s": 1.0, "fast_s": 0.25}
    waited = slipstream.evaluate(scenario, policy, episodes=1).mean("waiting_mean_s")
    rate, capacity = 0.5, 1 / service_s
    assert waited == pytest.approx(rate / capacity / (capacity - rate), rel=0.02)


@given(seed=st.integers(0, 2**62 - 1))
def test_no_heuristic_exceeds_the_bound(seed):
    bounds = FAMILY.oracle(load(SHORT), seed, "test", 1.0)
    assert bounds.best_known <= bounds.bound <= 0.0
    assert bounds.source in POLICIES


# The laws of all environments


def test_the_environment_passes_the_checker_without_a_warning():
    laws.test_an_environment_without_a_scenario_passes_the_checker_without_a_warning("mm1")
    laws.test_every_built_in_passes_the_checker_without_a_warning("mm1/busy")
    check_env(gymnasium.make(FAMILY.env_id, render_mode="ansi").unwrapped)


def test_observations_stay_inside_their_spaces():
    laws.test_spaces_are_fixed_and_observations_stay_inside("mm1/busy")


@pytest.mark.parametrize(
    "law",
    [
        laws.test_a_lane_of_a_vector_is_a_single_environment,
        laws.test_heuristics_choose_in_every_lane,
        laws.test_column_constants_follow_the_tables,
        laws.test_hidden_columns_stand_last_so_that_indices_agree,
        laws.test_every_feature_is_explained_and_bounded,
    ],
)
def test_a_law_of_all_families_holds(law, subject):
    law(subject)


# Commands


def test_it_is_compared_trained_and_reported(tmp_path):
    compared = slipstream.compare("mm1/busy", episodes=4)
    rewards = {one.policy: one.mean("reward") for one in compared.evaluations}
    assert rewards["hurry"] > rewards["fast"] > rewards["slow"]

    settings = TrainSettings(steps=60_000, n_envs=32, n_steps=32, evaluate_every=20, evaluation_episodes=4)
    slipstream.train("mm1/busy", settings, tmp_path / "trained")
    learned = slipstream.evaluate("mm1/busy", str(tmp_path / "trained" / "best"), episodes=4)
    assert learned.mean("reward") > rewards["slow"]

    from slipstream.reports.html.page import page
    from slipstream.reports.runs import read_run

    scenario = load("mm1/busy")
    about = {"version": "0", "command": "", "policy": "hurry", "seed": 0, "split": "test"}
    about |= {"scenario": dump(scenario), "scenario_digest": scenario_digest(scenario)}
    writer = LogWriter(tmp_path / "run.parquet", about)
    Simulator(scenario).play(find("hurry", "mm1"), 0, sink=writer.write)
    writer.close()
    text = page([read_run(tmp_path / "run.parquet")], "")
    assert "mm1/busy" in text
    assert "waiting_mean_s" in text


@pytest.fixture
def installed(tmp_path):
    """Return the environment of a process in which a copy of the example is installed, as pip would install it."""
    site = tmp_path / "site"
    shutil.copytree(FOLDER, site / "mm1", ignore=shutil.ignore_patterns("__pycache__"))
    about = site / "mm1-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: mm1\nVersion: 1.0\n")
    (about / "entry_points.txt").write_text("[slipstream.families]\nmm1 = mm1.family:FAMILY\n")
    return os.environ | {"PYTHONPATH": str(site)}


def command(environment, folder, *words):
    return subprocess.run([COMMAND, *words], capture_output=True, text=True, cwd=folder, env=environment)


def test_an_installed_family_is_known_to_the_command_line(installed, tmp_path):
    listed = command(installed, tmp_path, "scenarios", "--json")
    assert "mm1/busy" in listed.stdout
    played = command(installed, tmp_path, "run", "mm1/busy", "--policy", "hurry", "--log", "run.parquet", "--json")
    assert played.returncode == 0, played.stderr
    assert json.loads(played.stdout)["metrics"]["energy_j"] > 0.0
    shown = command(installed, tmp_path, "report", "run.parquet")
    assert shown.returncode == 0, shown.stderr
    assert "slow" in (tmp_path / "report.html").read_text()


def test_import_stays_light_with_an_installed_family(installed):
    code = (
        "import sys, slipstream; print([name for name in ('numba', 'pydantic', 'mm1.members') if name in sys.modules])"
    )
    code += "; print('mm1' in slipstream.families.contract.FAMILIES)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=installed)
    assert done.stdout.split("\n")[:2] == ["[]", "True"]


@pytest.mark.parametrize(
    ("entry_point", "told"),
    [
        ("mm1 = mm1.missing:FAMILY", "family 'mm1' of mm1.missing:FAMILY is left out: No module named 'mm1.missing'"),
        (
            "mm1 = mm1.family:QueueFamily",
            "family 'mm1' of mm1.family:QueueFamily is left out: expected a Family, got ABCMeta",
        ),
        (
            "edge = mm1.clash:FAMILY",
            "family 'edge' of mm1.clash:FAMILY is left out: "
            "family 'edge', slipstream/Edge-v0: the name or the id is taken by 'edge'",
        ),
    ],
)
def test_an_entry_point_that_cannot_be_used_is_one_line(installed, tmp_path, entry_point, told):
    clash = (
        "from mm1.family import QueueFamily\n\n\nclass Clash(QueueFamily):\n    name = 'edge'\n\n\nFAMILY = Clash()\n"
    )
    (tmp_path / "site" / "mm1" / "clash.py").write_text(clash)
    (tmp_path / "site" / "mm1-1.0.dist-info" / "entry_points.txt").write_text(f"[slipstream.families]\n{entry_point}\n")
    done = command(installed, tmp_path, "scenarios")
    assert done.returncode == 0
    assert done.stderr == told + "\n"
    assert "edge/tiny" in done.stdout
    assert "mm1/busy" not in done.stdout


@pytest.mark.parametrize("plain", ["0", pytest.param("1", marks=pytest.mark.thorough)])
def test_an_edit_of_a_kernel_of_another_package_is_not_overlooked(installed, tmp_path, plain):
    """Code of this package that contains the family's functions is compiled again when these are edited."""
    installed |= {"SLIPSTREAM_PLAIN_JIT": plain}

    def waiting():
        done = command(installed, tmp_path, "run", "mm1/busy", "--policy", "fast", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["metrics"]["waiting_mean_s"]

    before = waiting()
    kernel = tmp_path / "site" / "mm1" / "kernel.py"
    kernel.write_text(kernel.read_text().replace("header.now + gap)", "header.now + 2 * gap)"))
    assert waiting() < before / 2


@pytest.mark.parametrize("plain", ["0", pytest.param("1", marks=pytest.mark.thorough)])
def test_a_family_that_is_no_longer_installed_costs_the_others_no_compiled_code(installed, tmp_path, plain):
    site, cache = tmp_path / "site", tmp_path / "cache"
    installed |= {"SLIPSTREAM_PLAIN_JIT": plain, "SLIPSTREAM_CACHE_DIR": str(cache)}
    for folder in ("mm1", "mm1-1.0.dist-info"):
        shutil.copytree(site / folder, site / folder.replace("mm1", "mm2"))
    for path in site.rglob("*"):
        if path.is_file() and path.relative_to(site).parts[0].startswith("mm2"):
            path.write_text(path.read_text().replace("mm1", "mm2"))

    def play(family):
        done = command(installed, tmp_path, "run", f"{family}/busy", "--policy", "fast", "--json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["metrics"]

    def compiled():
        return {path: path.stat().st_ino for path in cache.rglob("*.nbc")}

    metrics = play("mm2")
    assert play("mm1") == metrics
    before = compiled()
    shutil.rmtree(site / "mm1")
    shutil.rmtree(site / "mm1-1.0.dist-info")
    assert play("mm2") == metrics
    assert compiled() == before


def test_registration_is_known_everywhere():
    assert "mm1/busy" in builtin_names()
    assert gymnasium.spec("slipstream/Mm1-v0").kwargs == {"family": "mm1"}
