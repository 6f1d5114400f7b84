"""What a scenario asks of a device: models and samples, each once, and one line where that cannot be."""

from __future__ import annotations

import numpy as np
import pytest

from slipstream.device.workload import check_device, workload_of
from slipstream.errors import DeviceError, ModelError
from slipstream.scenario import load
from tests.device.conftest import scenario_of, task


def test_tasks_that_share_a_model_share_it_on_the_device():
    workload = workload_of(
        scenario_of([task("one", variants=2), task("two", variants=3), task("three", "builtin:vgg")])
    )
    assert len(workload.models) == 4
    assert workload.model_of == ((0, 1), (0, 1, 2), (3,))
    assert workload.set_of == (0, 0, 0)


def test_jobs_take_samples_in_turn_and_know_their_labels(tmp_path):
    np.save(tmp_path / "inputs.npy", np.zeros((3, 3, 16, 16), np.float32))
    np.save(tmp_path / "labels.npy", np.array([4, 5, 6]))
    workload = workload_of(scenario_of([task("one"), task("two")]), {"two": tmp_path})
    assert workload.samples(1) == 3
    assert [workload.label(1, job) for job in range(4)] == [4, 5, 6, 4]
    assert workload.label(0, 0) is None


def test_what_cannot_be_is_told_in_one_line_that_names_the_task(tmp_path):
    with pytest.raises(ModelError, match="task 'front_camera': unknown dataset 'coco'"):
        workload_of(load("edge/drone"))
    with pytest.raises(ModelError, match=r"task 'task': model 'builtin:resnet\?variant=1' is one model for 2 variants"):
        workload_of(scenario_of([task(model="builtin:resnet?variant=1", variants=2)]))
    with pytest.raises(ModelError, match="data of task 'none': no such task: expected one of task"):
        workload_of(scenario_of([task()]), {"none": tmp_path})


def test_what_only_the_simulator_can_do_is_refused():
    check_device(scenario_of([task()]))
    with pytest.raises(DeviceError, match=r"device\.preemption is 'restart': expected 'none'"):
        check_device(scenario_of([task()], preemption={"kind": "restart"}))
    with pytest.raises(DeviceError, match="all weights stay loaded here"):
        check_device(scenario_of([task()], memory_mb=10))
