"""Built-in variant ladders: latency and accuracy of model variants on named devices, each with its source.

Measured rows are copied from public tables; derived rows say how. docs/edge.md gives the full derivation.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from pydantic import Field, model_validator
from pydantic_core import PydanticCustomError

from slipstream.families.shared.schema import NonNegativeMs, PositiveMs, StrictModel


class BatchRun(StrictModel):
    """A run of several jobs of one task at once."""

    size: int = Field(ge=2, le=1024)
    """Jobs of the run: exactly this number."""
    latency_ms: PositiveMs
    """Mean time of the run alone on the device."""
    power_w: float | None = Field(default=None, ge=0.0, le=1e6)
    """Power that the run adds to the idle device; that of the variant if absent."""


class Variant(StrictModel):
    """One variant of a ladder: a version of the model with its own latency and accuracy."""

    name: str = ""
    """For people only."""
    latency_ms: PositiveMs
    """Mean time of one run alone on the device, as profiled: what policies expect."""
    accuracy: float = Field(ge=0.0, le=1.0)
    """Share of right answers (or mAP), between 0 and 1."""
    demand: float = Field(default=1.0, ge=1e-3, le=1e3)
    """Relative weight with which a run claims the device from its co-runners (interference 'share')."""
    compute_share: float = Field(default=1.0, ge=0.0, le=1.0)
    """Share of the device's arithmetic that a run alone keeps busy (interference 'roofline')."""
    bandwidth_share: float = Field(default=1.0, ge=0.0, le=1.0)
    """Share of the device's memory bandwidth that a run alone keeps busy (interference 'roofline')."""
    stages: int = Field(default=1, ge=1, le=1000)
    """Parts of equal work; with preemption 'stage' a run can be interrupted between them."""
    memory_mb: float = Field(default=0.0, ge=0.0, le=1e9)
    """Memory that the weights take while they are on the device."""
    load_ms: NonNegativeMs = 0.0
    """Time to load the weights onto the device, before a run that does not find them there."""
    power_w: float | None = Field(default=None, ge=0.0, le=1e6)
    """Power that a run adds to the idle device; the device's busy_w if absent."""
    actual_ms: PositiveMs | None = None
    """Actual mean time of a run alone on the device, where the profile is wrong; latency_ms if absent."""
    batches: Annotated[list[BatchRun], Field(min_length=1, max_length=64)] | None = None
    """Runs of several jobs at once, from the smallest size on; the same sizes in all variants of a task."""

    newer_keys: ClassVar[tuple[str, ...]] = (
        "compute_share",
        "bandwidth_share",
        "stages",
        "memory_mb",
        "load_ms",
        "power_w",
        "actual_ms",
        "batches",
    )

    @property
    def solo_ms(self) -> float:
        """Actual mean time of a run alone on the device: actual_ms if set, else latency_ms."""
        return self.latency_ms if self.actual_ms is None else self.actual_ms

    @property
    def runs(self) -> list[BatchRun | Variant]:
        """The kinds of runs: of one job, then those of the batches."""
        return [self, *(self.batches or [])]

    def solo_run_ms(self, run: BatchRun | Variant) -> float:
        """Return the actual mean time of one of `runs` alone on the device; a wrong profile is wrong for all alike."""
        return self.solo_ms if run is self else run.latency_ms * (self.solo_ms / self.latency_ms)

    @model_validator(mode="after")
    def _batches_grow(self) -> Variant:
        smaller, least = 1, self.latency_ms
        for index, batch in enumerate(self.batches or []):
            if batch.size <= smaller or batch.latency_ms < least:
                text = (
                    "batches[{index}] of {size} jobs takes {time} ms, after {before} jobs in {least} ms: "
                    "expected larger sizes that are no faster"
                )
                context = {"index": index, "size": batch.size, "time": batch.latency_ms}
                raise PydanticCustomError("batches", text, context | {"before": smaller, "least": least})
            smaller, least = batch.size, batch.latency_ms
        return self


@dataclass(frozen=True)
class Profile:
    """Variants of a model as measured on one device."""

    device: str
    source: str
    variants: tuple[Variant, ...]


def _ladder(rows: list[tuple[str, float, float]], demand: float = 1.0) -> tuple[Variant, ...]:
    return tuple(
        Variant(name=name, latency_ms=latency, accuracy=round(percent / 100, 5), demand=demand)
        for name, latency, percent in rows
    )


_TORCH2TRT = "torch2trt benchmarks (TensorRT fp16, batch 1, 224x224); accuracy: torchvision weights metadata"

VGG_DEMAND = 2.87
"""Fitted to VGG19 beside ResNet152, both in a closed loop, in DISB's TensorRT results on an RTX 3080."""

RESNET_MS_AT_ZERO, RESNET_MS_PER_GFLOP = 0.3133, 0.72167
"""Least-squares line through the five measured ResNets on Xavier (latency against multiply-add GFLOPs)."""


def _from_gflops(gflops: float) -> float:
    return round(RESNET_MS_AT_ZERO + RESNET_MS_PER_GFLOP * gflops, 2)


PROFILES: dict[str, Profile] = {
    "resnet@xavier-trt": Profile(
        "Jetson AGX Xavier",
        _TORCH2TRT,
        _ladder(
            [
                ("resnet18", 1.64, 69.758),
                ("resnet34", 2.79, 73.314),
                ("resnet50", 3.37, 76.130),
                ("resnet101", 6.04, 77.374),
                ("resnet152", 8.57, 78.312),
            ]
        ),
    ),
    "vgg@xavier-trt": Profile(
        "Jetson AGX Xavier",
        _TORCH2TRT + "; AlexNet is the rough end of the ladder",
        _ladder(
            [
                ("alexnet", 2.02, 56.522),
                ("vgg11", 5.24, 69.020),
                ("vgg13", 6.34, 69.928),
                ("vgg16", 7.46, 71.592),
                ("vgg19", 8.61, 72.376),
            ],
            VGG_DEMAND,
        ),
    ),
    "mobile@xavier-trt": Profile(
        "Jetson AGX Xavier",
        _TORCH2TRT + "; the measured small networks stand in for MobileNetV3, which was not measured",
        _ladder(
            [
                ("squeezenet1_1", 1.02, 58.178),
                ("mnasnet0_5", 1.40, 67.734),
                ("mobilenet_v2", 1.67, 71.878),
                ("mnasnet1_0", 1.77, 73.456),
                ("mnasnet1_3", 2.02, 76.506),
            ]
        ),
    ),
    "vit@xavier-trt": Profile(
        "Jetson AGX Xavier",
        "derived: no transformer was measured there; latency from GFLOPs along the ResNet line; accuracy and GFLOPs: "
        "torchvision weights metadata, DeiT-Ti: arXiv 2012.12877",
        _ladder(
            [
                ("deit_tiny", _from_gflops(1.30), 72.2),
                ("vit_b_32", _from_gflops(4.41), 75.912),
                ("swin_t", _from_gflops(4.49), 81.474),
                ("swin_s", _from_gflops(8.74), 83.196),
                ("swin_b", _from_gflops(15.43), 83.582),
            ]
        ),
    ),
    "resnet@xavier-pytorch": Profile(
        "Jetson AGX Xavier",
        "torch2trt benchmarks (PyTorch fp16, batch 1, 224x224); accuracy: torchvision weights metadata",
        _ladder(
            [
                ("resnet18", 7.33, 69.758),
                ("resnet34", 12.9, 73.314),
                ("resnet50", 17.9, 76.130),
                ("resnet101", 35.1, 77.374),
                ("resnet152", 53.2, 78.312),
            ]
        ),
    ),
    "yolov8@orin-nano-int8": Profile(
        "Jetson Orin Nano 8 GB",
        "the0807/YOLOv8-ONNX-TensorRT (TensorRT int8, batch 1, 640x640, mAP 50-95 on COCO val2017)",
        _ladder(
            [
                ("yolov8n", 5.8, 33.0),
                ("yolov8s", 8.2, 41.2),
                ("yolov8m", 17.1, 46.2),
                ("yolov8l", 22.4, 50.1),
                ("yolov8x", 33.9, 51.1),
            ]
        ),
    ),
}
