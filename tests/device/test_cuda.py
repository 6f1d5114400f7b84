"""CUDA streams, on the GPU of this machine, or else on a strict stand-in for it that refuses what CUDA forbids."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.device.backends import cuda
from slipstream.device.backends.registry import open_streams
from slipstream.device.backends.streams import RunRequest, now
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.models import addresses
from slipstream.device.runtime import Runtime
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError, ModelError
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.sim.eventlog import END, FAIL, FINISH, START
from tests.device import faulty
from tests.device.conftest import faulty_task, scenario_of, task
from tests.device.cuda_standin import installed

on_standin = pytest.mark.skipif(torch.cuda.is_available(), reason="a real GPU is here: what it does cannot be set")


def two_tasks():
    text = task("text", "builtin:transformer", "text-128", 2, arrival={"kind": "poisson", "mean_gap_ms": 5})
    return scenario_of([task(variants=3), text], 500, interference={"kind": "share"}, stream_priorities=[1, 0])


def scenario_with(make):
    return scenario_of([faulty_task(make, deadline_ms=60_000)], 400)


def completions(streams, count):
    """Return the next `count` runs that end."""
    ended, until = [], now() + 20_000_000_000
    while len(ended) < count and now() < until:
        ended += streams.wait(1.0)
    return ended


def test_a_graph_computes_what_the_model_does_on_either_stream(gpu):
    workload = workload_of(two_tasks())
    with open_streams("cuda", workload, 2, [1, 0]) as streams:
        for stream in range(2):
            for number, kind in enumerate(workload.models):
                samples = 0 if number < 3 else 1
                for sample in (3, 8):
                    began = now()
                    streams.submit(stream, RunRequest(number, samples, sample))
                    (ended,) = streams.wait(10.0)
                    assert (ended.stream, ended.error) == (stream, "")
                    assert began < ended.ended <= now()
                    assert ended.device_ns > 0
                    batch = torch.from_numpy(workload.sets[samples].inputs[sample : sample + 1])
                    with torch.inference_mode():
                        expected = addresses.load(kind.address, kind.dataset)(batch).reshape(-1)
                    assert np.allclose(streams.output(stream), expected, atol=1e-2)


def test_both_streams_run_at_once_and_answer_each_for_itself(gpu):
    workload = workload_of(two_tasks())
    with open_streams("cuda", workload, 2) as streams:
        for _ in range(50):
            for stream in range(2):
                streams.submit(stream, RunRequest(2, 0, stream))
            assert sorted(one.stream for one in completions(streams, 2)) == [0, 1]


def test_a_run_on_the_gpu_obeys_the_laws(gpu):
    scenario = two_tasks()
    workload = workload_of(scenario)
    with open_streams("cuda", workload, 2, scenario.device.stream_priorities) as streams:
        found = Runtime(scenario, workload, streams).play(find("edf-fit", "edge"), 0)
        invariants.check(found.events, 2, scenario.device.queue_limit)
        assert found.faults == []
        profile = Profiler(scenario, workload, streams, "cuda", Effort(5, 0.05)).measure()
    assert len(profile.variants) == 5


@pytest.mark.parametrize("make", ["make", "make_branching"])
def test_what_cannot_be_captured_is_told(gpu, make):
    workload = workload_of(scenario_with(make), allow_code=True)
    with pytest.raises(ModelError, match="cannot be captured"):
        open_streams("cuda", workload, 2)


def test_a_model_of_another_precision_is_warmed_up_with_the_kernel_that_converts_its_output(gpu):
    workload = workload_of(scenario_with("make_half"), allow_code=True)
    with open_streams("cuda", workload, 2) as streams:
        streams.submit(0, RunRequest(0, 0, 3))
        assert [one.error for one in completions(streams, 1)] == [""]
        assert np.allclose(streams.output(0), 2 * workload.sets[0].inputs[3].reshape(-1), atol=1e-2)


def test_a_sample_that_is_put_is_what_the_next_run_reads(gpu):
    workload = workload_of(scenario_with("make_arithmetic"), allow_code=True)
    with open_streams("cuda", workload, 2) as streams:
        for value, error in ((faulty.FINE, ""), (faulty.NOT_A_NUMBER, "ArithmeticError: the output is not finite")):
            streams.put(0, 4, np.full((1, 2, 2), value, np.float32))
            streams.submit(1, RunRequest(0, 0, 4))
            assert [(one.stream, one.error) for one in completions(streams, 1)] == [(1, error)]
        assert not np.isfinite(streams.output(1)).any()


def test_the_highest_number_gets_the_most_urgent_stream(gpu):
    found = {}
    for priorities in (None, [10, 0], [3, 9], [7, 7]):
        streams = cuda._distinct_streams(2, priorities)
        found[str(priorities)] = [stream.priority for stream in streams]
    assert found["None"] == found["[7, 7]"] == [0, 0]
    assert found["[10, 0]"] == [-1, 0]
    assert found["[3, 9]"] == [0, -1]


def test_streams_that_torch_would_run_as_one_are_refused(gpu):
    workload = workload_of(scenario_with("make_arithmetic"), allow_code=True)
    with pytest.raises(DeviceError, match="40 streams: torch runs some of them as one: expected at most 32"):
        open_streams("cuda", workload, 40)


@on_standin
def test_models_that_do_not_fit_into_the_memory_are_told():
    workload = workload_of(scenario_of([task(model="builtin:vgg", variants=5)]))
    with installed(memory_mb=10), pytest.raises(DeviceError, match=r"cannot be loaded: OutOfMemoryError: CUDA out of"):
        open_streams("cuda", workload, 2)


def play_to_its_end(streams, scenario, workload, **options):
    """Play a scenario whose run ends with a DeviceError; return its text and the events up to there."""
    runtime = Runtime(scenario, workload, streams, **options)
    with pytest.raises(DeviceError) as told:
        runtime.play(find("edf", "edge"), 0)
    events = np.concatenate(runtime.pieces())
    invariants.check(events, 2, scenario.device.queue_limit)
    assert (events["kind"] == END).sum() == 1
    return str(told.value), events


@on_standin
def test_after_an_error_of_the_device_the_run_ends_in_one_line_and_its_log_is_whole(gpu, faulty_data):
    scenario = scenario_with("make_kernel")
    workload = workload_of(scenario, faulty_data([faulty.FINE, faulty.FINE, faulty.RAISES]), allow_code=True)
    with open_streams("cuda", workload, 2) as streams:
        text, events = play_to_its_end(streams, scenario, workload)
    assert text.startswith("the GPU refuses work: CudaError: CUDA error: device-side assert triggered")
    assert "\n" not in text
    assert (events["kind"] == FINISH).sum() == 2
    assert (events["kind"] == FAIL).sum() == 1


@on_standin
def test_a_kernel_that_hangs_ends_the_run_and_closing_does_not_wait_for_it(gpu, faulty_data, monkeypatch):
    monkeypatch.setattr(cuda, "LONGEST_CLOSE_S", 0.2)
    scenario = scenario_with("make_kernel")
    workload = workload_of(scenario, faulty_data([faulty.FINE, faulty.HANGS]), allow_code=True)
    try:
        with open_streams("cuda", workload, 2) as streams:
            text, events = play_to_its_end(streams, scenario, workload, watchdog=200)
        assert text.startswith("stream ")
        assert "gives no answer" in text
        assert (events["kind"] == START).sum() > (events["kind"] == FINISH).sum() > 0
        assert [streams] == cuda._HANGING
    finally:
        faulty.RELEASE.set()
        for cuda_stream in streams._cuda_streams:
            cuda_stream.thread.join(10)
        cuda._HANGING.clear()
        streams.close()
        faulty.RELEASE.clear()


@pytest.mark.thorough
def test_a_thousand_runs_that_fail_on_the_gpu_lose_and_double_no_job(gpu, faulty_data):
    times = {"kind": "trace", "times_ms": [0.5 * job for job in range(1200)]}
    made = faulty_task("make_arithmetic", arrival=times, deadline_ms=600_000)
    scenario = scenario_of([made], 600_000, queue_limit=2000)
    faults = [faulty.FINE, *[faulty.NOT_A_NUMBER] * 5]
    workload = workload_of(scenario, faulty_data(faults), allow_code=True)
    with open_streams("cuda", workload, 2) as streams:
        found = Runtime(scenario, workload, streams).play(find("edf", "edge"), 0)
    invariants.check(found.events, 2, scenario.device.queue_limit)
    failed = found.events[found.events["kind"] == FAIL]
    assert len(found.faults) == len(failed) == 1000
    assert set((failed["job"] % 6).tolist()) == {1, 2, 3, 4, 5}
    assert (found.events["kind"] == FINISH).sum() == 200


@on_standin
def test_a_gpu_that_is_not_here_is_told():
    with pytest.raises(DeviceError, match="no CUDA device is here"):
        open_streams("cuda", workload_of(two_tasks()), 2)


def test_launches_that_wait_for_their_end_are_refused(gpu, monkeypatch):
    monkeypatch.setenv("CUDA_LAUNCH_BLOCKING", "1")
    with pytest.raises(DeviceError, match="CUDA_LAUNCH_BLOCKING is 1"):
        open_streams("cuda", workload_of(two_tasks()), 2)


def test_an_unknown_device_is_told():
    with pytest.raises(DeviceError, match="unknown device 'tpu': expected one of cpu, cuda, onnxruntime"):
        open_streams("tpu", workload_of(two_tasks()), 2)
