"""CUDA streams: the same tests as for worker processes, where there is a GPU to run them."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from slipstream.device.backends.registry import open_streams
from slipstream.device.backends.streams import RunRequest, now
from slipstream.device.measurement.profiler import Effort, Profiler
from slipstream.device.models import addresses
from slipstream.device.runtime import Runtime
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError, ModelError
from slipstream.families.shared import invariants
from slipstream.policies import find
from tests.device.conftest import faulty_task, scenario_of, task

needs_gpu = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device is here")


def two_tasks():
    text = task("text", "builtin:transformer", "text-128", 2, arrival={"kind": "poisson", "mean_gap_ms": 5})
    return scenario_of([task(variants=3), text], 500, interference={"kind": "share"}, stream_priorities=[1, 0])


@needs_gpu
def test_a_graph_computes_what_the_model_does_on_either_stream():
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


@needs_gpu
def test_both_streams_run_at_once_and_answer_each_for_itself():
    workload = workload_of(two_tasks())
    with open_streams("cuda", workload, 2) as streams:
        for _ in range(50):
            for stream in range(2):
                streams.submit(stream, RunRequest(2, 0, stream))
            ended = []
            while len(ended) < 2:
                ended += streams.wait(10.0)
            assert sorted(one.stream for one in ended) == [0, 1]


@needs_gpu
def test_a_run_on_the_gpu_obeys_the_laws():
    scenario = two_tasks()
    workload = workload_of(scenario)
    with open_streams("cuda", workload, 2, scenario.device.stream_priorities) as streams:
        found = Runtime(scenario, workload, streams).play(find("edf-fit", "edge"), 0)
        invariants.check(found.events, 2, scenario.device.queue_limit)
        assert found.faults == []
        profile = Profiler(scenario, workload, streams, "cuda", Effort(5, 0.05)).measure()
    assert len(profile.variants) == 5


@needs_gpu
def test_what_cannot_be_captured_is_told():
    workload = workload_of(scenario_of([faulty_task()]), allow_code=True)
    with pytest.raises(ModelError, match="cannot be captured"):
        open_streams("cuda", workload, 2)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is one")
def test_a_gpu_that_is_not_here_is_told():
    with pytest.raises(DeviceError, match="no CUDA device is here"):
        open_streams("cuda", workload_of(two_tasks()), 2)


def test_an_unknown_device_is_told():
    with pytest.raises(DeviceError, match="unknown device 'tpu': expected one of cpu, cuda, onnxruntime"):
        open_streams("tpu", workload_of(two_tasks()), 2)
