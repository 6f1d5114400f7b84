"""Expected durations of kernels: READYS's table, tables of the scenario, and StarPU's measurements from a file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from slipstream.errors import TraceError
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.taskgraph.scenario import Profile, ReadysTable, TaskgraphScenario
from slipstream.files.inputs import read_object, reading_key
from slipstream.files.tables import table_error

READYS_MS: dict[str, tuple[float, float]] = {
    "POTRF": (18.0, 11.0),
    "SYRK": (57.0, 2.0),
    "TRSM": (52.0, 8.0),
    "GEMM": (95.0, 3.0),
    "LU": (18.0, 11.0),
    "BMOD": (95.0, 3.0),
    "BDIV": (52.0, 8.0),
    "FWD": (52.0, 8.0),
    "GEQRT": (4.0, 3.0),
    "TSQRT": (6.0, 3.0),
    "ORMQR": (6.0, 1.0),
    "TSMQR": (10.0, 1.0),
}
"""On a CPU and a GPU. Grinsztajn et al., READYS (IEEE Cluster 2021), RL_for_dynamic_scheduling, env/utils.py."""

MOST_TILES = 4
"""Most tiles of a kernel: StarPU stores a measurement under their total size."""


def kernel_table(scenario: TaskgraphScenario) -> Mapping[str, Mapping[str, float]]:
    """Return the expected milliseconds of each kernel by kind of processor."""
    source = scenario.durations
    if isinstance(source, ReadysTable):
        return {name: {"cpu": cpu, "gpu": gpu} for name, (cpu, gpu) in READYS_MS.items()}
    if isinstance(source, Profile):
        with reading_key("durations.path"):
            return _profile(source, scenario._folder / source.path)
    return source.kernels_ms


def _profile(source: Profile, path: Path) -> dict[str, dict[str, float]]:
    data = read_object(path, "the format of starpu_perfmodels.json", TraceError)
    try:
        rows = data["kernels"]
        sizes = {source.tile_bytes * tiles for tiles in range(1, MOST_TILES + 1)}
        rows = [row for row in rows if row["machine"] == source.machine and row["size_bytes"] in sizes]
        found: dict[tuple[str, str], list[tuple[float, int]]] = {}
        for row in rows:
            if row["ncores"] == 1:
                mean, runs = float(row["mean_us"]), int(row["n"])
                if not 0.0 < mean <= LONGEST_MS * 1e3 or runs < 1:
                    raise ValueError(f"mean_us {mean:g} of {runs} runs")
                found.setdefault((row["kernel"], row["arch"]), []).append((mean, runs))
    except (ValueError, KeyError, TypeError, OverflowError) as error:
        raise table_error(path, f"{error!r}: expected the format of starpu_perfmodels.json") from error
    table: dict[str, dict[str, float]] = {}
    for kernel, model in source.kernels.items():
        for kind, arch in source.kinds.items():
            measured = found.get((model, arch))
            if not measured:
                what = f"model '{model}' on {arch} of machine '{source.machine}' with tiles of {source.tile_bytes} B"
                raise table_error(path, f"no measurement of {what}")
            # Devices of one kind were measured separately: take the mean over all runs.
            runs = sum(n for _, n in measured)
            table.setdefault(kernel, {})[kind] = sum(mean * n for mean, n in measured) / runs / 1000.0
    return table
