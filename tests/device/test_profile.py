"""Profiles: what is measured, how a scenario takes it on, and how a run corrects it."""

from __future__ import annotations

import json

import numpy as np
import psutil
import pytest

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.measurement.fitting import fit
from slipstream.device.measurement.noise import (
    MOST_OTHERS,
    MOST_SPREAD,
    noise_of,
    others_share,
    spread_of,
    time_reference_kernel,
)
from slipstream.device.measurement.overlap import runs_of
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.measurement.validation import causes
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError, ScenarioError
from slipstream.families.edge.workload.measured import MeasuredProfile, with_profile
from slipstream.policies import find
from slipstream.scenario import digest, load
from slipstream.sim.simulator import Simulator
from tests.device import faulty
from tests.device.conftest import faulty_task, scenario_of, task

pytestmark = pytest.mark.thorough

QUICK = Effort(runs=4, pair_seconds=0.03)


def two_models():
    return scenario_of([task(variants=2), task("text", "builtin:transformer", "text-128"), task("again", variants=1)])


def profile_of(latencies, slowdown=1.5, cv=0.1):
    """Return a made-up profile of the models of `two_models`."""
    names = [("builtin:mobilenet", "synthetic:3x16x16", 0), ("builtin:mobilenet", "synthetic:3x16x16", 1)]
    names.append(("builtin:transformer", "text-128", 0))
    times = [{f"{name}_ms": latency for name in ("latency", "p50", "p95", "p99")} for latency in latencies]
    keys = [dict(zip(("model", "dataset", "variant"), name, strict=True)) for name in names]
    variants = [{**key, **time, "cv": cv, "runs": 9} for key, time in zip(keys, times, strict=True)]
    table = [[slowdown + 0.01 * (3 * row + column) for column in range(3)] for row in range(3)]
    noise = {"others": 0.01, "others_worst": 0.02, "spread": 0.05, "quiet": True}
    data = {"device": "made up", "backend": "cpu", "streams": 2, "noise": noise}
    return MeasuredProfile.model_validate({**data, "variants": variants, "slowdowns": table})


# Measuring


@pytest.mark.usefixtures("nothing_left")
def test_every_variant_and_every_pair_is_measured_once():
    scenario = two_models()
    workload = workload_of(scenario)
    with CpuStreams(workload) as streams:
        steps = []
        profile = Profiler(scenario, workload, streams, "cpu", QUICK).measure(None, lambda *step: steps.append(step))
    assert [(v.model, v.variant) for v in profile.variants] == [
        ("builtin:mobilenet", 0),
        ("builtin:mobilenet", 1),
        ("builtin:transformer", 0),
    ]
    assert all(0 < v.p50_ms <= v.p95_ms <= v.p99_ms for v in profile.variants)
    assert all(v.runs == 4 and v.memory_mb > 0 for v in profile.variants)
    assert np.array(profile.slowdowns).shape == (3, 3)
    assert 0 <= profile.noise.others <= profile.noise.others_worst <= 1
    assert steps[-1][0] == steps[-1][1] == len(steps) == 2 + 3 + 6
    simulated = with_profile(scenario, profile)
    assert simulated.tasks[0].ladder[0].latency_ms == profile.variants[0].latency_ms


@pytest.mark.usefixtures("nothing_left")
def test_an_interrupted_measurement_goes_on_where_it_stopped(tmp_path):
    scenario = two_models()
    workload = workload_of(scenario)
    kept, steps = tmp_path / "cells", []

    def stop_after_five(done, _total):
        if done == 5:
            raise KeyboardInterrupt

    with CpuStreams(workload) as streams:
        profiler = Profiler(scenario, workload, streams, "cpu", QUICK)
        with pytest.raises(KeyboardInterrupt):
            profiler.measure(kept, stop_after_five)
        before = json.loads(kept.read_text())["cells"]
        profiler.measure(kept, lambda *step: steps.append((step, json.loads(kept.read_text())["cells"])))
        assert not kept.exists()
        for name, value in before.items():
            if name not in ("others", "yardstick"):
                assert steps[-1][1][name] == value
        kept.write_text(json.dumps({"key": "of something else", "cells": before}))
        other = profiler.measure(kept)
        kept.write_text("{ damaged")
        profiler.measure(kept)
    assert other.variants[0].runs == 4


@pytest.mark.usefixtures("nothing_left")
def test_accuracy_is_measured_where_labels_are_known_and_a_fault_stops_the_measurement(faulty_data, tmp_path):
    data = faulty_data([faulty.FINE] * 4)
    np.save(tmp_path / "labels.npy", np.array([9, 9, 0, 0]))  # the model always says 9
    scenario = scenario_of([faulty_task()])
    workload = workload_of(scenario, data, allow_code=True)
    with CpuStreams(workload) as streams:
        profile = Profiler(scenario, workload, streams, "cpu", QUICK).measure()
    assert profile.variants[0].accuracy == 0.5
    assert with_profile(scenario, profile).tasks[0].ladder[0].accuracy == 0.5
    workload = workload_of(scenario, faulty_data([faulty.FINE, faulty.RAISES]), allow_code=True)
    with CpuStreams(workload) as streams, pytest.raises(DeviceError, match=r"variant 0 of .* failed: ValueError"):
        Profiler(scenario, workload, streams, "cpu", QUICK).measure()


def test_a_machine_is_quiet_only_if_others_and_spread_are_small():
    steady, shaky = np.full(50, 2.0), np.linspace(1, 3, 50)
    assert noise_of([0.0, 2 * MOST_OTHERS], [steady], []).quiet
    assert not noise_of([MOST_OTHERS, 2 * MOST_OTHERS], [steady], []).quiet
    assert not noise_of([0.0], [shaky], []).quiet
    assert noise_of([0.0], [shaky], []).spread == spread_of(shaky) > MOST_SPREAD
    assert 0 <= others_share() <= 1


def test_the_machine_s_own_spread_is_told_beside_that_of_the_models_and_excuses_nothing():
    steady, shaky = [2.0] * 50, np.linspace(1, 3, 50).tolist()
    looks = [[steady[:25], shaky[:25]], [steady[25:], shaky[25:]]]  # two looks at two cores
    found = noise_of([0.0], [np.array(shaky)], looks)
    assert found.machine_spread == pytest.approx((0 + spread_of(np.array(shaky))) / 2)
    assert not found.quiet
    assert noise_of([0.0], [np.array(steady)], looks).quiet
    assert noise_of([0.0], [np.array(steady)], []).machine_spread is None


def test_the_yardstick_is_laid_on_every_core_and_the_thread_goes_back_to_all_of_them():
    before = psutil.Process().cpu_affinity()
    times = time_reference_kernel(before)
    assert [len(one) for one in times] == [10] * len(before)
    assert all(time > 0 for one in times for time in one)
    assert psutil.Process().cpu_affinity() == before


@pytest.mark.usefixtures("nothing_left")
@pytest.mark.parametrize(("patience_s", "least", "most"), [(0.0, 1, 1), (0.3, 2, 1000)])
def test_runs_alone_are_measured_again_until_they_are_quiet_or_patience_ends(patience_s, least, most):
    scenario = scenario_of([task("shaky", "python:tests.device.faulty:make_shaky", faulty.DATASET)])
    workload = workload_of(scenario, allow_code=True)
    with CpuStreams(workload) as streams:
        profiler = Profiler(scenario, workload, streams, "cpu", Effort(8, 0.01, patience_s))
        measured, solo = [], profiler._solo
        profiler._solo = lambda: measured.append(solo()) or measured[-1]
        profile = profiler.measure()
    assert least <= len(measured) <= most
    assert profile.variants[0].runs == 8
    assert profile.variants[0].p50_ms == np.percentile(measured[-1][0], 50)
    assert not profile.noise.quiet
    assert profile.noise.machine_spread > 0


# Using


def test_a_scenario_takes_on_what_was_measured():
    scenario = two_models()
    profiled = with_profile(scenario, profile_of([2.0, 3.0, 4.0]))
    assert [[v.latency_ms for v in t.ladder] for t in profiled.tasks] == [[2.0, 3.0], [4.0], [2.0]]
    assert [t.ladder[0].accuracy for t in profiled.tasks] == [0.5, 0.5, 0.5]
    table = profiled.device.interference.slowdowns
    assert table[0] == [1.5, 1.51, 1.52, 1.5]
    assert table[2] == [1.56, 1.57, 1.58, 1.56]
    assert profiled.device.latency.cv == pytest.approx(0.1)
    assert profiled.device.name == "made up"


def test_the_spread_is_that_of_the_time_and_not_of_the_variants():
    profile = profile_of([1.0, 1.0, 10.0])
    shaky = [variant.model_copy(update={"cv": cv}) for variant, cv in zip(profile.variants, (1, 1, 0.1), strict=True)]
    profiled = with_profile(two_models(), profile.model_copy(update={"variants": shaky}))
    assert profiled.device.latency.cv == pytest.approx((4 / 103) ** 0.5)  # three runs of 1 ms and one of 10 ms
    steady = [variant.model_copy(update={"cv": 0.0}) for variant in profile.variants]
    profiled = with_profile(two_models(), profile.model_copy(update={"variants": steady}))
    assert profiled.device.latency.kind == "fixed"


def test_a_variant_measured_faster_than_the_one_before_it_counts_as_equally_fast():
    profiled = with_profile(two_models(), profile_of([3.0, 2.0, 4.0]))
    assert [v.latency_ms for v in profiled.tasks[0].ladder] == [3.0, 3.0]


def test_a_scenario_file_names_its_profile(tmp_path):
    data = two_models().model_dump(mode="json", exclude_unset=True)
    (tmp_path / "device.json").write_text(profile_of([2.0, 3.0, 4.0]).model_dump_json())
    (tmp_path / "scenario.json").write_text(json.dumps({**data, "profile": "device.json"}))
    loaded = load(tmp_path / "scenario.json")
    assert loaded.tasks[1].ladder[0].latency_ms == 4.0
    assert digest(loaded) == digest(with_profile(two_models(), profile_of([2.0, 3.0, 4.0])))
    assert len(Simulator(loaded).play(find("edf", "edge"), 0)) > 10


@pytest.mark.parametrize(
    ("change", "told"),
    [
        (lambda p: p["variants"].pop(), "slowdowns: expected 2 rows of 2 numbers"),
        (lambda p: p["variants"][0].update(latency_ms=0), "latency_ms: must be at least"),
        (lambda p: p.update(extra=1), "unknown key 'extra'"),
        (lambda p: p["variants"][2].update(model="builtin:vgg"), "'builtin:transformer' on 'text-128'"),
    ],
)
def test_a_wrong_profile_is_told_in_one_line(tmp_path, change, told):
    data = json.loads(profile_of([2.0, 3.0, 4.0]).model_dump_json())
    change(data)
    (tmp_path / "device.json").write_text(json.dumps(data))
    text = two_models().model_dump(mode="json", exclude_unset=True)
    (tmp_path / "scenario.json").write_text(json.dumps({**text, "profile": "device.json"}))
    with pytest.raises(ScenarioError) as error:
        load(tmp_path / "scenario.json")
    assert told in str(error.value)
    assert "\n" not in str(error.value)


# Correcting


def busy(profile):
    """Return a busy scenario with the latencies and slowdowns of a profile."""
    tasks = [task(variants=2, arrival={"kind": "poisson", "mean_gap_ms": 8})]
    tasks.append(task("text", "builtin:transformer", "text-128", arrival={"kind": "poisson", "mean_gap_ms": 9}))
    return with_profile(scenario_of(tasks, 30_000), profile)


def test_a_fit_finds_what_a_device_really_does():
    truth, guess = profile_of([2.6, 3.9, 5.2], 1.4, 0.02), profile_of([2.0, 3.0, 4.0], 1.1, 0.02)
    real = busy(truth)
    events = np.concatenate([Simulator(real).play(find("random", "edge"), 3)])
    fitted = fit(busy(guess), guess, events, "a run")
    assert fitted.fitted_from == "a run"
    for found, expected in zip(fitted.variants, truth.variants, strict=True):
        assert found.latency_ms == pytest.approx(expected.latency_ms, rel=0.03)
    assert np.allclose(fitted.slowdowns, truth.slowdowns, rtol=0.1)


def test_what_a_run_does_not_show_is_scaled_like_what_it_does():
    guess = profile_of([2.0, 3.0, 4.0])
    events = Simulator(busy(profile_of([4.0, 6.0, 8.0], cv=0.0))).play(find("edf", "edge"), 3)  # only fastest variants
    fitted = fit(busy(guess), guess, events, "a run")
    assert fitted.variants[1].latency_ms == pytest.approx(6.0, rel=0.05)


def test_overlaps_are_those_of_the_log():
    scenario = busy(profile_of([2.0, 3.0, 4.0]))
    runs = runs_of(scenario, Simulator(scenario).play(find("edf", "edge"), 3))
    for index, others in enumerate(runs.beside):
        for other, time in others:
            ends = runs.start + runs.length
            assert runs.stream[index] != runs.stream[other]
            assert time == min(ends[index], ends[other]) - max(runs.start[index], runs.start[other]) > 0
    assert (runs.shared <= 1).all()
    assert (runs.waited == 0).mean() > 0.5


def test_causes_are_told_with_their_size():
    guess, truth = profile_of([2.0, 3.0, 4.0], cv=0.0), profile_of([3.0, 4.5, 6.0], cv=0.0)
    simulated = Simulator(busy(guess)).play(find("edf", "edge"), 3)
    measured = Simulator(busy(truth)).play(find("edf", "edge"), 3)
    found = {cause.name: cause for cause in causes(busy(guess), measured, simulated, 0.25)}
    assert found["runs alone"].measured / found["runs alone"].simulated == pytest.approx(1.5, rel=0.1)
    assert found["other programs"].measured == 0.25
    assert found["other choices"].measured == 0.0
    assert found["failed jobs"].size == 0.0
    same = causes(busy(guess), simulated, simulated, 0.0)
    assert all(cause.size == 0.0 for cause in same)
