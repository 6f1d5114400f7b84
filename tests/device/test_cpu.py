"""The worker processes behind CPU streams: they run models, survive what models do, and leave nothing behind."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from slipstream.device import models
from slipstream.device.cpu import CpuStreams, cores_for
from slipstream.device.streams import Order, now
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError, ModelError
from tests.device import faulty
from tests.device.conftest import scenario_of, task

pytestmark = pytest.mark.usefixtures("nothing_left")


def completion(streams):
    """Return the next run that ends."""
    for _ in range(200):
        ended = streams.wait(0.1)
        if ended:
            return ended[0]
    raise AssertionError("nothing ended within 20 s")


@pytest.mark.parametrize("engine", ["torch", "onnxruntime"])
def test_a_worker_computes_what_the_model_does(engine):
    workload = workload_of(scenario_of([task(variants=2), task("text", "builtin:transformer", "text-128")]))
    with CpuStreams(workload, 2, engine) as streams:
        assert all(size > 0 for size in streams.memory_mb)
        for stream, (name, variant) in enumerate([("task", 1), ("text", 0)]):
            number = 0 if name == "task" else 1
            model = workload.models[workload.model_of[number][variant]]
            order = Order(workload.model_of[number][variant], workload.set_of[number], 5)
            began = now()
            streams.submit(stream, order)
            ended = completion(streams)
            assert (ended.stream, ended.error) == (stream, "")
            assert began < ended.ended <= now()
            assert 0 < ended.device_ns <= ended.ended - began
            with torch.inference_mode():
                batch = torch.from_numpy(workload.sets[workload.set_of[number]].inputs[5:6])
                expected = models.load(model.address, model.dataset)(batch).reshape(-1)
            assert np.allclose(streams.output(stream), expected, atol=1e-4)


def test_both_streams_run_at_once(start_faulty):
    with start_faulty([faulty.FINE, faulty.HANGS]) as streams:
        streams.submit(0, Order(0, 0, 1))
        streams.submit(1, Order(0, 0, 0))
        assert completion(streams).stream == 1
        assert streams.wait(0.05) == []
        streams.replace(0)
        streams.submit(0, Order(0, 0, 0))
        assert completion(streams).error == ""


@pytest.mark.parametrize(
    ("fault", "told"),
    [
        (faulty.RAISES, "ValueError: this input is too much"),
        (faulty.NOT_A_NUMBER, "ArithmeticError: the output is not finite"),
        (faulty.DIES, "the worker died"),
        (faulty.CRASHES, "the worker died"),
    ],
)
def test_a_fault_is_told_and_the_stream_goes_on(start_faulty, fault, told):
    with start_faulty([faulty.FINE, fault]) as streams:
        for _ in range(3):
            streams.submit(0, Order(0, 0, 1))
            assert completion(streams).error == told
            streams.submit(0, Order(0, 0, 0))
            ended = completion(streams)
            assert ended.error == ""
            assert streams.output(0).tolist() == list(range(10))
        assert streams.restarts == (3 if told == "the worker died" else 0)


def test_a_worker_that_dies_idle_is_replaced(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        workers = psutil.Process(streams._process.pid).children()
        assert len(workers) == 2
        workers[0].kill()
        assert streams.wait(5.0) == []
        for stream in range(2):
            streams.submit(stream, Order(0, 0, 0))
            assert completion(streams).error == ""
        assert streams.restarts == 1


def test_a_model_that_cannot_be_made_is_told_in_one_line():
    broken = task("faulty", "python:tests.device.faulty:make_broken", faulty.DATASET)
    with pytest.raises(ModelError, match="cannot be loaded: RuntimeError: no model today"):
        CpuStreams(workload_of(scenario_of([broken]), allow_code=True))


def test_a_model_that_fails_on_its_first_sample_is_told_in_one_line(start_faulty):
    with pytest.raises(ModelError, match="this input is too much"):
        start_faulty([faulty.RAISES])


def test_a_nursery_that_dies_takes_its_workers_with_it_and_is_told(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        workers = psutil.Process(streams._process.pid).children()
        streams._process.kill()
        psutil.wait_procs(workers, timeout=10)
        with pytest.raises(DeviceError, match="process that starts the workers died"):
            streams.wait(1.0)


def test_workers_die_with_a_controller_that_is_killed():
    code = (
        "import sys, time; from tests.device.conftest import scenario_of, task;"
        "from slipstream.device.cpu import CpuStreams; from slipstream.device.workload import workload_of;"
        "streams = CpuStreams(workload_of(scenario_of([task()]))); print(streams._process.pid, flush=True);"
        "time.sleep(60)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    nursery = psutil.Process(int(child.stdout.readline()))
    family = [nursery, *nursery.children()]
    assert len(family) == 3
    child.send_signal(signal.SIGKILL)
    child.wait()
    child.stdout.close()
    _, alive = psutil.wait_procs(family, timeout=10)
    assert not alive


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes")
def test_workers_are_pinned_to_their_own_cores(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        found = [worker.cpu_affinity() for worker in psutil.Process(streams._process.pid).children()]
    assert sorted(found) == sorted(cores_for(2))


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux pins processes")
def test_who_waits_for_a_run_wakes_up_where_it_ended(start_faulty):
    before = os.sched_getaffinity(0)
    with start_faulty([faulty.FINE, faulty.RAISES]) as streams:
        with streams.attended():
            for stream in (0, 1, 0):
                streams.submit(stream, Order(0, 0, 0))
                assert completion(streams).error == ""
                assert os.sched_getaffinity(0) == set(cores_for(2)[stream])
        assert os.sched_getaffinity(0) == before
        streams.submit(1, Order(0, 0, 0))
        assert completion(streams).error == ""
        assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators have other habits")
def test_a_run_finds_the_memory_that_the_last_one_gave_back():
    hungry = task("hungry", "python:tests.device.faulty:make_hungry", faulty.DATASET)
    with CpuStreams(workload_of(scenario_of([hungry]), allow_code=True)) as streams:
        for _ in range(4):
            streams.submit(0, Order(0, 0, 0))
            assert completion(streams).error == ""
        assert streams.output(0)[0] < faulty.HUNGRY_PAGES / 4


def test_workers_loop_by_themselves_to_be_compared_with(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        made = streams.loop(Order(0, 0, 0), 0.1)
        assert len(made) == 2
        assert all(runs > 1 and spent >= 100_000_000 for runs, spent in made)
    with start_faulty([faulty.FINE, faulty.RAISES]) as streams, pytest.raises(DeviceError, match="loop of stream"):
        streams.loop(Order(0, 0, 0), 0.1)


def test_a_ctrl_c_does_not_reach_the_workers(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        for process in psutil.Process(streams._process.pid).children():
            process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        streams.submit(0, Order(0, 0, 0))
        assert completion(streams).error == ""
        assert streams.restarts == 0
