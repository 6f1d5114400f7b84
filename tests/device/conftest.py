"""What tests of devices share: small workloads, and the certainty that nothing is left behind."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import psutil
import pytest

from slipstream.device.backends.cpu import CpuStreams
from slipstream.device.workload import workload_of
from slipstream.families.edge.scenario import EdgeScenario
from tests.device import faulty
from tests.device.cuda_standin import gpu_or_standin


def descendants():
    return {process.pid for process in psutil.Process().children(recursive=True)}


def shared_segments():
    """Return the shared memory that this process maps, and the named segments of the machine but for OpenMP's.

    Any process that loads OpenMP names one, and others may start and end beside the test.
    """
    named = {entry.name for entry in Path("/dev/shm").iterdir()} if Path("/dev/shm").is_dir() else set()
    named = {name for name in named if not name.startswith("__KMP_REGISTERED_LIB_")}
    maps = Path("/proc/self/maps")
    lines = maps.read_text().splitlines() if maps.exists() else []
    mapped = [line for line in lines if "/dev/shm" in line or "/memfd:slipstream" in line]
    return named, len(mapped)


@pytest.fixture
def nothing_left():
    """Fail a test that leaves a process, a shared segment or an open file behind."""
    before, segments, files = descendants(), shared_segments(), psutil.Process().num_fds()
    yield
    assert descendants() <= before
    named, mapped = shared_segments()
    assert named <= segments[0]  # other programs may have ended theirs
    assert mapped <= segments[1]
    assert psutil.Process().num_fds() <= files


@pytest.fixture
def gpu():
    """Provide a GPU: that of this machine, or else the stand-in, of which the fixture is the state."""
    with gpu_or_standin() as state:
        yield state


def task(name="task", model="builtin:mobilenet", dataset="synthetic:3x16x16", variants=1, latency_ms=1.0, **more):
    ladder = [{"latency_ms": latency_ms * (1 + rank), "accuracy": 0.5 + 0.1 * rank} for rank in range(variants)]
    arrival = more.pop("arrival", {"kind": "periodic", "period_ms": 20})
    base = {"name": name, "model": model, "dataset": dataset, "num_variants": variants, "variants": ladder}
    return {**base, "arrival": arrival, "deadline_ms": 50, **more}


def scenario_of(tasks, horizon_ms=300, **device):
    chosen = {"interference": {"kind": "none"}, "latency": {"kind": "fixed"}, **device}
    return EdgeScenario.model_validate(
        {"family": "edge", "name": "small", "horizon_ms": horizon_ms, "device": chosen, "tasks": tasks}
    )


@pytest.fixture
def faulty_data(tmp_path):
    """Return a function that writes a folder of inputs, each with the fault it causes."""

    def write(faults):
        inputs = np.zeros((len(faults), 1, 2, 2), np.float32)
        inputs[:, 0, 0, 0] = faults
        np.save(tmp_path / "inputs.npy", inputs)
        return {"faulty": tmp_path}

    return write


def faulty_task(make="make", **more):
    return task("faulty", f"python:tests.device.faulty:{make}", faulty.DATASET, **more)


@pytest.fixture
def start_faulty(faulty_data):
    """Return a function that starts streams whose samples cause the given faults, in turn."""

    def start(faults, count=2):
        scenario = scenario_of([faulty_task()], streams=count)
        return CpuStreams(workload_of(scenario, faulty_data(faults), allow_code=True), count)

    return start
