"""The built-in ladders are the published figures, and the derived ones follow from them."""

from __future__ import annotations

import csv

import numpy as np
import pytest

from slipstream.families.edge.workload.profiles import PROFILES, RESNET_MS_AT_ZERO, RESNET_MS_PER_GFLOP

SOURCES = {
    "resnet@xavier-trt": ("jetson_agx_xavier", "tensorrt", "fp16"),
    "vgg@xavier-trt": ("jetson_agx_xavier", "tensorrt", "fp16"),
    "mobile@xavier-trt": ("jetson_agx_xavier", "tensorrt", "fp16"),
    "resnet@xavier-pytorch": ("jetson_agx_xavier", "pytorch_eager", "fp16"),
    "yolov8@orin-nano-int8": ("jetson_orin_nano_8gb", "tensorrt", "int8"),
}


@pytest.fixture(name="table")
def _table(shared_data):
    with (shared_data / "edge" / "profiles.csv").open() as file:
        return [row for row in csv.DictReader(file) if row["batch"] == "1"]


@pytest.mark.parametrize("name", SOURCES)
def test_measured_ladders_equal_their_source(name, table):
    device, runtime, precision = SOURCES[name]
    rows = {
        row["model"]: row
        for row in table
        if (row["device"], row["runtime"], row["precision"]) == (device, runtime, precision)
    }
    for variant in PROFILES[name].variants:
        assert variant.latency_ms == float(rows[variant.name]["latency_ms"])
        assert variant.accuracy == pytest.approx(float(rows[variant.name]["accuracy"]) / 100, abs=1e-5)


def test_the_transformer_ladder_lies_on_the_line_through_the_resnets(table):
    resnets = [
        row
        for row in table
        if (row["device"], row["runtime"], row["family"]) == ("jetson_agx_xavier", "tensorrt", "resnet")
    ]
    slope, start = np.polyfit([float(r["gflops"]) for r in resnets], [float(r["latency_ms"]) for r in resnets], 1)
    assert (start, slope) == pytest.approx((RESNET_MS_AT_ZERO, RESNET_MS_PER_GFLOP), abs=1e-4)
    assert PROFILES["vit@xavier-trt"].variants[-1].latency_ms == pytest.approx(start + slope * 15.43, abs=0.01)


def test_every_ladder_climbs_and_names_its_source():
    for profile in PROFILES.values():
        latencies = [variant.latency_ms for variant in profile.variants]
        assert latencies == sorted(latencies)
        assert len(profile.variants) == 5
        assert profile.source
        assert profile.device
