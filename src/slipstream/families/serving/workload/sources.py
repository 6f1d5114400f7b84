"""Scenarios from files: profiles, lists of variants, allocations and traces in the layout that Proteus reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from slipstream.errors import TraceError
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.files.inputs import read_text
from slipstream.files.tables import read_table, table_error

KINDS = {
    "CPU": "onnxruntime_cpu",
    "GPU_AMPERE": "onnxruntime_gpu_ampere",
    "VPU": "onnxruntime_cpu",
    "GPU_PASCAL": "onnxruntime_gpu_pascal",
}
"""Names in a profile of the kinds of Proteus's fleet; its VPUs have the latencies of CPUs."""
ENTRY = re.compile(r"\(\s*['\"]([^'\"]*)['\"]\s*,\s*['\"]([^'\"]*)['\"]\s*\)\s*:\s*(\d{1,9})\s*,?")
"""One entry of an allocation: variant, kind and count."""
PER_KIND = 10
BATCH_SIZES = (1, 2, 4, 8)
MOST_BATCHED = 1 << 20


def read_profile(path: Path, batch_sizes: tuple[int, ...] = BATCH_SIZES) -> dict[str, dict[str, list[float]]]:
    """Return the median latencies in ms of each variant, by the profile's kind and batch size."""
    table = read_table(path, ["Model", "Accel", "batchsize", "50th_pct"])
    found: dict[str, dict[str, dict[int, float]]] = {}
    names, kinds = table.texts("Model"), table.texts("Accel")
    for index, (name, kind, size, time) in enumerate(
        zip(names, kinds, table.numbers("batchsize"), table.numbers("50th_pct"), strict=True)
    ):
        if not 1.0 <= size <= MOST_BATCHED or not 0.0 <= time < LONGEST_MS:
            raise table.error(index, f"batchsize {size:g}, 50th_pct {time:g}: expected a size from 1, and a time in ms")
        found.setdefault(name, {}).setdefault(kind, {})[int(size)] = float(time)
    profile: dict[str, dict[str, list[float]]] = {}
    for name, by_kind in found.items():
        for kind, times in by_kind.items():
            listed: list[float] = []
            for size in batch_sizes:
                if size not in times:
                    break
                # Measured latencies may fall a little with the batch size; the scenario wants them monotone.
                listed.append(max([times[size], *listed]))
            if listed:
                profile.setdefault(name, {})[kind] = listed
    return profile


def read_variants(path: Path) -> dict[str, float]:
    """Return the accuracy of every variant of a list."""
    variants = {}
    for row, line in enumerate(read_text(path, "a list of variants", TraceError).splitlines(), 1):
        if line.strip():
            name, _, accuracy = line.partition(",")
            try:
                variants[name] = float(accuracy)
            except ValueError:
                raise table_error(path, f"row {row}: expected 'variant,accuracy', got '{line[:40]}'") from None
    return variants


def read_allocation(path: Path) -> list[dict[str, Any]]:
    """Return the deployment of an allocation file, as a scenario's `initial`."""
    found = re.search(r"required_predictors:\s*\{([^}]*)\}", read_text(path, "an allocation", TraceError))
    entries = ENTRY.findall(found[1]) if found else []
    if found is None or ENTRY.sub("", found[1]).strip():
        raise table_error(path, "expected 'required_predictors:' and a dictionary like {('variant', 'KIND'): 2}")
    return [
        {"variant": variant, "accelerator": kind, "count": int(count)} for variant, kind, count in entries if int(count)
    ]


def scenario_of(
    profile: Path,
    variants: Path,
    traces: Path,
    slo_ms: float,
    load_s: float = 0.0,
    fleet: Mapping[str, int] | None = None,
    **settings: Any,
) -> dict[str, Any]:
    """Return the scenario of a profile, and of folders of variant lists and of traces with one file per model."""
    latencies = read_profile(profile)
    counts = fleet or dict.fromkeys(KINDS, PER_KIND)
    models = []
    for trace in sorted(traces.glob("*.txt")):
        models.append(
            {
                "name": trace.stem,
                "slo_ms": slo_ms,
                "variants": [
                    {
                        "name": name,
                        "accuracy": accuracy,
                        "latency_ms": {
                            kind: latencies[name][KINDS[kind]]
                            for kind in counts
                            if KINDS[kind] in latencies.get(name, {})
                        },
                        "load_s": load_s,
                    }
                    for name, accuracy in read_variants(variants / trace.stem).items()
                ],
                "arrivals": {"kind": "trace", "path": str(trace.resolve())},
            }
        )
    return {
        "family": "serving",
        "name": traces.name,
        "accelerators": [{"name": kind, "count": count} for kind, count in counts.items()],
        "batch_sizes": list(BATCH_SIZES),
        "models": models,
        **settings,
    }
