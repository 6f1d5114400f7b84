"""Options, live table, live file and summary that the commands share that run models on a device."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from slipstream.cli.common import errors
from slipstream.cli.help_text import DEVICE
from slipstream.errors import printable, unwritable
from slipstream.files.atomic import open_growing

if TYPE_CHECKING:
    from slipstream.device.backends.streams import Streams
    from slipstream.device.engine import Execution
    from slipstream.device.lane import DeviceLane
    from slipstream.device.workload import Workload
    from slipstream.families.edge.scenario import EdgeScenario


DeviceOption = Annotated[
    Literal["cpu", "cuda", "onnxruntime"],
    typer.Option(
        "--device",
        "-d",
        help="What runs the models: worker processes, CUDA streams, or ONNX Runtime.",
        rich_help_panel=DEVICE,
    ),
]
ProfileOption = Annotated[
    Path | None,
    typer.Option(
        help="A profile written by `slipstream profile`: its latencies replace the scenario's.", rich_help_panel=DEVICE
    ),
]
DataOption = Annotated[
    list[str] | None,
    typer.Option(help="Samples of a task's dataset; repeatable.", metavar="TASK=FOLDER", rich_help_panel=DEVICE),
]
CodeOption = Annotated[
    bool,
    typer.Option(
        "--allow-code", help="Run models that are programs: python:, torchscript: and export:.", rich_help_panel=DEVICE
    ),
]
WatchdogOption = Annotated[
    float | None,
    typer.Option(
        help="Milliseconds after which a run of a model is aborted; default: 20 times the longest latency, at least "
        "1000.",
        min=1,
        rich_help_panel=DEVICE,
    ),
]

FRAMES_PER_SECOND = 4


def device_scenario(source: str, profile: Path | None) -> EdgeScenario:
    """Return the device scenario `source`, with the latencies of `profile` if one is given."""
    from slipstream.device.workload import check_device
    from slipstream.families.edge.workload.measured import read_profile, with_profile
    from slipstream.scenario import load

    scenario = check_device(load(source))
    return scenario if profile is None else with_profile(scenario, read_profile(profile))


def device_workload(scenario: EdgeScenario, data: list[str] | None, allow_code: bool) -> Workload:
    """Return the models and samples of `scenario`; `data` holds TASK=FOLDER options."""
    from slipstream.cli.importing import pairs
    from slipstream.device.workload import workload_of

    folders = {task: Path(folder) for task, folder in pairs("--data", data).items()}
    return workload_of(scenario, folders, allow_code)


@contextmanager
def device_streams(device: str, scenario: EdgeScenario, workload: Workload) -> Iterator[Streams]:
    """Open the streams of `device` with all models loaded; close them at the end."""
    from slipstream.device.backends.registry import open_streams

    with errors.status("loading models"):
        streams = open_streams(device, workload, scenario.device.streams, scenario.device.stream_priorities)
    with streams:
        yield streams


def device_command(name: str, source: str, policy: str, device: str, seed: int, profile: Path | None) -> list[str]:
    """Return the arguments of the command that repeats the run."""
    words = ["slipstream", name, source, "--policy", policy, "--device", device, "--seed", str(seed)]
    return words if profile is None else [*words, "--profile", str(profile)]


class LiveTable:
    """Table of the tasks, redrawn in place on a terminal; formatted by hand, since the run waits for it."""

    def __init__(self, scenario: EdgeScenario) -> None:
        self._names = [printable(task.name) for task in scenario.tasks]
        self._width = max(len("task"), *map(len, self._names))
        self._drawn = 0
        self._next = 0
        self._lines = 0

    def __call__(self, time: int, lane: DeviceLane[Any]) -> None:
        """Redraw if the last frame is older than a frame period."""
        if time < self._next or not errors.is_terminal:
            return
        self._next = time + 10**9 // FRAMES_PER_SECOND
        header = lane.header
        head = f"{time / 1e9:7.1f} s   released {header['released']}, finished {header['finished']}"
        head += f", missed {header['missed']}, streams busy {header['busy']}"
        lines = [head, f"{'task':{self._width}}  released  waiting  running  finished"]
        for name, row in zip(self._names, lane.arrays["tasks"][0], strict=True):
            counts = f"{row['released']:8}  {row['length']:7}  {row['running']:7}  {row['finished']:8}"
            lines.append(f"{name:{self._width}}  {counts}")
        up = f"\x1b[{self._lines}A" if self._lines else ""
        sys.stderr.write(up + "".join(f"\x1b[2K{line}\n" for line in lines))
        sys.stderr.flush()
        self._lines = len(lines)


class LiveFile:
    """State of a device as lines of JSON, which the dashboard follows."""

    RECENT_ROWS = 512
    """Latest rows of the event log that the mean latency is taken over: few, since the run waits for it."""

    def __init__(self, scenario: EdgeScenario, path: Path) -> None:
        self._names = [task.name for task in scenario.tasks]
        self._streams = scenario.device.streams
        self._next = 0
        self._file = open_growing(path)
        self.problem = ""
        """Why writing stopped, empty while it works: a run goes on without its live file."""

    def __call__(self, time: int, lane: DeviceLane[Any]) -> None:
        """Write a line if the last one is older than a frame period."""
        if time < self._next or self.problem:
            return
        self._next = time + 10**9 // FRAMES_PER_SECOND
        header, rows = lane.header, lane.arrays["tasks"][0]
        tasks = [
            {"name": name, "waiting": int(row["length"]), **{key: int(row[key]) for key in _COUNTS}}
            for name, row in zip(self._names, rows, strict=True)
        ]
        line = {
            "time_s": round(time / 1e9, 3),
            **{key: int(header[key]) for key in ("released", "finished", "missed", "busy")},
            "streams": self._streams,
            "waiting": int(rows["length"].sum()),
            "latency_ms": self._latency(lane),
            "tasks": tasks,
        }
        try:
            self._file.write((json.dumps(line) + "\n").encode())
            self._file.flush()
        except OSError as error:
            self.problem = unwritable(error)

    def _latency(self, lane: DeviceLane[Any]) -> float | None:
        """Return the mean time from release to finish of jobs that finished lately, in ms."""
        from slipstream.sim.eventlog import ARRIVAL, FINISH

        count = int(lane.header["log_rows"])
        released: dict[tuple[int, int], int] = {}
        found = []
        for time, job, task, _, _, kind in lane.arrays["log"][0, max(0, count - self.RECENT_ROWS) : count].tolist():
            if kind == ARRIVAL:
                released[task, job] = time
            elif kind == FINISH and (task, job) in released:
                found.append(time - released[task, job])
        return round(sum(found) / len(found) / 1e6, 3) if found else None

    def close(self) -> None:
        """Close the file."""
        with suppress(OSError):  # closing flushes what could not be written before
            self._file.close()


_COUNTS = ("released", "running", "finished")


def measured_metrics(scenario: EdgeScenario, execution: Execution) -> dict[str, float]:
    """Return the accuracy metrics of a run with the accuracies measured in it; none without labelled inputs."""
    from slipstream.families.contract import family_of

    if not execution.accuracy:
        return {}
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for index, (row, task) in enumerate(zip(data["tasks"], scenario.tasks, strict=True)):
        row.pop("profile", None)
        row["variants"] = [variant.model_dump(mode="json", exclude_unset=True) for variant in task.ladder]
        for rank, variant in enumerate(row["variants"]):
            tally = execution.accuracy.get((index, rank))
            if tally is not None:
                variant["accuracy"] = tally.right / tally.judged
    measured = type(scenario).model_validate(data)
    measured._folder = scenario._folder
    figures = family_of(scenario).metrics(measured, execution.events)
    return {name: value for name, value in figures.items() if is_accuracy(name)}


def is_accuracy(metric: str) -> bool:
    """Return whether a metric is a mean accuracy, of all tasks or of one."""
    return metric.partition("/")[0] in ("effective_accuracy", "executed_accuracy")


def labelled_figures(figures: dict[str, float], measured: dict[str, float]) -> dict[str, float]:
    """Return the metrics of a run with those of accuracy named by their source: profile, or measured in the run."""
    labelled: dict[str, float] = {}
    for name, value in figures.items():
        labelled[f"{name} (profile)" if is_accuracy(name) else name] = value
        if name in measured:
            labelled[f"{name} (measured)"] = measured[name]
    return labelled


def execution_summary(execution: Execution) -> dict[str, Any]:
    """Return faults, restarts and dispatch latencies of `execution`, as JSON-ready data."""
    import numpy as np

    def micros(values: list[int], percent: float) -> float | None:
        return float(np.percentile(values, percent)) / 1e3 if values else None

    return {
        "faults": dict(Counter(text for _, _, text in execution.faults).most_common()),
        "restarts": execution.restarts,
        "mistakes": execution.mistakes,
        "interrupted": execution.interrupted,
        "dispatch_p50_us": micros(execution.dispatch_ns, 50),
        "dispatch_p99_us": micros(execution.dispatch_ns, 99),
        "wake_p99_us": micros(execution.wake_ns, 99),
    }


def device_summary(scenario: EdgeScenario, execution: Execution) -> dict[str, Any]:
    """Return the summary of `execution` with the measured accuracies, as JSON-ready data."""
    names = [task.name for task in scenario.tasks]
    return {
        **execution_summary(execution),
        "accuracy_source": "measured" if execution.accuracy else "profile",
        "measured_accuracy": {
            f"{names[task]}/{variant}": {"accuracy": tally.right / tally.judged, "runs": tally.judged}
            for (task, variant), tally in sorted(execution.accuracy.items())
        },
    }
