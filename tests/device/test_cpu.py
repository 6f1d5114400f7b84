"""The worker processes behind CPU streams: they run models, survive what models do, and leave nothing behind."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import psutil
import pytest
import torch

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.backends.streams import RunRequest, now
from slipstream.device.models import addresses
from slipstream.device.workers import ipc
from slipstream.device.workers.pool import cores_for
from slipstream.device.workload import workload_of
from slipstream.errors import DeviceError, ModelError
from tests.cli.test_writing import no_file_larger_than
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
            request = RunRequest(workload.model_of[number][variant], workload.set_of[number], 5)
            began = now()
            streams.submit(stream, request)
            ended = completion(streams)
            assert (ended.stream, ended.error) == (stream, "")
            assert began < ended.ended <= now()
            assert 0 < ended.device_ns <= ended.ended - began
            with torch.inference_mode():
                batch = torch.from_numpy(workload.sets[workload.set_of[number]].inputs[5:6])
                expected = addresses.load(model.address, model.dataset)(batch).reshape(-1)
            assert np.allclose(streams.output(stream), expected, atol=1e-4)


def test_both_streams_run_at_once(start_faulty):
    with start_faulty([faulty.FINE, faulty.HANGS]) as streams:
        streams.submit(0, RunRequest(0, 0, 1))
        streams.submit(1, RunRequest(0, 0, 0))
        assert completion(streams).stream == 1
        assert streams.wait(0.05) == []
        streams.replace(0)
        streams.submit(0, RunRequest(0, 0, 0))
        assert completion(streams).error == ""


@pytest.mark.parametrize(
    ("fault", "message"),
    [
        (faulty.RAISES, "ValueError: this input is too much"),
        (faulty.NOT_A_NUMBER, "ArithmeticError: the output is not finite"),
        (faulty.DIES, "the worker died"),
        (faulty.CRASHES, "the worker died"),
    ],
)
def test_a_fault_is_told_and_the_stream_goes_on(start_faulty, fault, message):
    with start_faulty([faulty.FINE, fault]) as streams:
        for _ in range(3):
            streams.submit(0, RunRequest(0, 0, 1))
            assert completion(streams).error == message
            streams.submit(0, RunRequest(0, 0, 0))
            ended = completion(streams)
            assert ended.error == ""
            assert streams.output(0).tolist() == list(range(10))
        assert streams.restarts == (3 if message == "the worker died" else 0)


def test_a_worker_that_dies_idle_is_replaced(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        workers = psutil.Process(streams._process.pid).children()
        assert len(workers) == 2
        workers[0].kill()
        assert streams.wait(5.0) == []
        for stream in range(2):
            streams.submit(stream, RunRequest(0, 0, 0))
            assert completion(streams).error == ""
        assert streams.restarts == 1


@contextmanager
def open_files_limited(limit, pid=0):
    """Let a process, this one unless another is named, open no file whose descriptor is `limit` or more."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (limit, before[1]))
    try:
        yield
    finally:
        resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def first_worker(streams):
    return min(worker.pid for worker in psutil.Process(streams._process.pid).children())


@pytest.mark.parametrize("where", ["controller", "process that starts workers"])
def test_a_worker_that_cannot_be_replaced_now_is_replaced_later(start_faulty, caplog, where):
    """No descriptor is left when it dies: the other stream goes on, and its own run waits for its next worker."""
    with start_faulty([faulty.FINE]) as streams:
        pid = os.getpid() if where == "controller" else streams._process.pid
        first = first_worker(streams)
        with open_files_limited(3, pid):
            os.kill(first, signal.SIGKILL)
            until = time.monotonic() + 60
            while not caplog.records and time.monotonic() < until:
                assert streams.wait(0.1) == []
            (message,) = [record.getMessage() for record in caplog.records]
            assert "no worker can be started" in message
            assert ("too many open files" in message) == (where == "controller")
            streams.submit(0, RunRequest(0, 0, 0))
            for _ in range(3):
                streams.submit(1, RunRequest(0, 0, 0))
                ended = completion(streams)
                assert (ended.stream, ended.error) == (1, "")
        ended = completion(streams)
        assert (ended.stream, ended.error) == (0, "")
        assert caplog.records[-1].getMessage() == "stream 0: a worker has been started again"
        assert len(caplog.records) == 2


def test_a_run_that_waits_for_a_worker_in_vain_can_be_given_up(start_faulty, caplog):
    with start_faulty([faulty.FINE]) as streams:
        first = first_worker(streams)
        with open_files_limited(3):
            os.kill(first, signal.SIGKILL)
            until = time.monotonic() + 60
            while not caplog.records and time.monotonic() < until:
                streams.wait(0.1)
            streams.submit(0, RunRequest(0, 0, 0))
            assert streams.since(0) <= now()
            streams.replace(0)
            streams.submit(0, RunRequest(0, 0, 0))
        assert completion(streams).error == ""
        assert streams.wait(0.2) == []


def test_streams_run_where_more_than_a_thousand_files_are_open(start_faulty):
    """As in a service with many connections: `select` knows no descriptor above 1023."""
    with open_files_limited(2000):
        many = [os.open(os.devnull, os.O_RDONLY) for _ in range(1100)]
        try:
            with start_faulty([faulty.FINE, faulty.DIES]) as streams:
                assert min(streams._stream_at) > 1023
                streams.submit(0, RunRequest(0, 0, 1))
                assert completion(streams).error == "the worker died"
                for stream in range(2):
                    streams.submit(stream, RunRequest(0, 0, 0))
                    assert completion(streams).error == ""
                assert streams.wait(0.0) == []
        finally:
            for descriptor in many:
                os.close(descriptor)


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
        "from slipstream.device.backends.cpu import CpuStreams; from slipstream.device.workload import workload_of;"
        "streams = CpuStreams(workload_of(scenario_of([task()]))); print(streams._process.pid, flush=True);"
        "time.sleep(60)"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))}
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, env=env)
    forkserver = psutil.Process(int(child.stdout.readline()))
    family = [forkserver, *forkserver.children()]
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
        with streams.controller_migration():
            for stream in (0, 1, 0):
                streams.submit(stream, RunRequest(0, 0, 0))
                assert completion(streams).error == ""
                assert os.sched_getaffinity(0) == set(cores_for(2)[stream])
        assert os.sched_getaffinity(0) == before
        streams.submit(1, RunRequest(0, 0, 0))
        assert completion(streams).error == ""
        assert os.sched_getaffinity(0) == before


@pytest.mark.skipif(sys.platform != "linux", reason="other allocators have other habits")
def test_a_run_finds_the_memory_that_the_last_one_gave_back():
    hungry = task("hungry", "python:tests.device.faulty:make_hungry", faulty.DATASET)
    with CpuStreams(workload_of(scenario_of([hungry]), allow_code=True)) as streams:
        for _ in range(4):
            streams.submit(0, RunRequest(0, 0, 0))
            assert completion(streams).error == ""
        assert streams.output(0)[0] < faulty.HUNGRY_PAGES / 4


def test_workers_loop_by_themselves_to_be_compared_with(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        made = streams.loop(RunRequest(0, 0, 0), 0.1)
        assert len(made) == 2
        assert all(runs > 1 and spent >= 100_000_000 for runs, spent in made)
    with start_faulty([faulty.FINE, faulty.RAISES]) as streams, pytest.raises(DeviceError, match="loop of stream"):
        streams.loop(RunRequest(0, 0, 0), 0.1)


def test_a_ctrl_c_does_not_reach_the_workers(start_faulty):
    with start_faulty([faulty.FINE]) as streams:
        for process in psutil.Process(streams._process.pid).children():
            process.send_signal(signal.SIGINT)
        time.sleep(0.05)
        streams.submit(0, RunRequest(0, 0, 0))
        assert completion(streams).error == ""
        assert streams.restarts == 0


def test_a_small_dev_shm_does_not_end_a_run():
    """Containers have 64 MB there; here it is one, and the inputs of the scenario take more than ten."""
    code = (
        "from tests.device.conftest import scenario_of, task;"
        "from slipstream.device.backends.cpu import CpuStreams;"
        "from slipstream.device.backends.streams import RunRequest;"
        "from slipstream.device.workload import workload_of;"
        "streams = CpuStreams(workload_of(scenario_of([task(dataset='synthetic:3x128x128')])));"
        "streams.submit(0, RunRequest(0, 0, 63)); print([one.error for one in streams.wait(60.0)]); streams.close()"
    )
    small = f'mount -t tmpfs -o size=1m tmpfs /dev/shm || exit 77; exec "{sys.executable}" -c "{code}"'
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, [str(Path.cwd()), *sys.path]))}
    try:
        done = subprocess.run(
            ["unshare", "--mount", "sh", "-c", small], env=env, capture_output=True, text=True, timeout=300
        )
    except FileNotFoundError:
        pytest.skip("there is no `unshare` here to make a mount of our own")
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip("only root may make a small /dev/shm of its own")
    assert (done.returncode, done.stdout) == (0, "['']\n"), done.stderr


def test_shared_memory_that_is_not_there_is_told_in_one_line():
    with pytest.raises(DeviceError, match=r"^the inputs need [0-9,]+ MB of shared memory: [0-9,]+ MB are free"):
        ipc.shared_file(1 << 55)


@pytest.mark.skipif(not hasattr(os, "memfd_create"), reason="only Linux has files in memory without a mount point")
def test_shared_memory_is_there_from_the_start(monkeypatch):
    descriptor = ipc.shared_file(3 << 20)
    try:
        assert os.fstat(descriptor).st_blocks * 512 >= 3 << 20
    finally:
        os.close(descriptor)
    with (
        no_file_larger_than(1 << 20),
        pytest.raises(DeviceError, match=r"need 4 MB of shared memory: cannot be written \(file too large\)"),
    ):
        ipc.shared_file(3 << 20)
