"""Arrival processes of requests: rates as segments, and traces read and checked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import numpy as np

from slipstream.errors import TraceError
from slipstream.families.serving.kernel import state as k
from slipstream.families.serving.scenario import (
    BurstyRate,
    DiurnalRate,
    ListedRates,
    RequestTrace,
    ServedModel,
    ServingScenario,
    SteadyRate,
)
from slipstream.families.shared.schema import LONGEST_MS, NANOSECONDS_PER_MS, nanoseconds, nanoseconds_of
from slipstream.files.inputs import read_text, reading_key
from slipstream.files.tables import read_table, table_error

SEGMENTS_PER_PERIOD = 96
"""Segments of the rate of a day: a quarter of an hour each of a real one."""
LAWS = {"poisson": k.EXPONENTIAL, "gamma": k.GAMMA, "even": k.EVEN}


@dataclass(frozen=True)
class ArrivalProcess:
    """Arrival process of a model: rates on segments, or a list of requests."""

    law: int
    shape: float
    rates: np.ndarray
    """Requests per ns, of each segment."""
    segment: float
    """Length of a segment in ns."""
    listed: np.ndarray
    """Requests of a trace."""
    mean_hz: float

    @property
    def segments(self) -> int:
        return len(self.rates)


def arrival_process(scenario: ServingScenario, model: ServedModel) -> ArrivalProcess:
    """Return the arrival process of a model; an error about its file names the key."""
    if getattr(model.arrivals, "path", None) is None:
        return _arrival_process(scenario, model)
    index = next(index for index, one in enumerate(scenario.models) if one.name == model.name)
    with reading_key(f"models[{index}].arrivals.path"):
        return _arrival_process(scenario, model)


def _arrival_process(scenario: ServingScenario, model: ServedModel) -> ArrivalProcess:
    arrivals = model.arrivals
    if isinstance(arrivals, RequestTrace):
        listed = _requests(scenario, model, arrivals)
        last = float(listed["time"][-1]) if len(listed) else 0.0
        mean = len(listed) * 1e9 / last if last > 0.0 else 0.0
        return ArrivalProcess(k.TRACE, 1.0, np.zeros(0), 1.0, listed, mean)
    if arrivals is None:
        return ArrivalProcess(k.SILENT, 1.0, np.zeros(0), 1.0, np.zeros(0, k.LISTED), 0.0)
    assert scenario.duration_s is not None
    duration = float(nanoseconds_of(scenario.duration_s))
    law = LAWS[arrivals.kind if isinstance(arrivals, SteadyRate) else arrivals.gaps]
    rates, segment = _rates(arrivals, scenario._folder, duration)
    mean = _mean(rates.tolist(), segment, duration)
    return ArrivalProcess(law, arrivals.shape, rates / 1e9, segment, np.zeros(0, k.LISTED), mean)


def _mean(rates: list[float], segment: float, duration: float) -> float:
    """Return the mean rate over the duration, summed segment by segment."""
    total = before = 0.0
    for index, rate in enumerate(rates):
        end = min((index + 1) * segment, duration)
        total += rate * (end - before)
        before = end
    return total / duration


def _rates(
    arrivals: SteadyRate | DiurnalRate | BurstyRate | ListedRates, folder: Path, duration: float
) -> tuple[np.ndarray, float]:
    """Return rates in requests per second that cover `duration`, and the length of their segments in ns."""
    if isinstance(arrivals, SteadyRate):
        return np.array([arrivals.rate]), duration
    if isinstance(arrivals, DiurnalRate):
        period = nanoseconds_of(arrivals.period_s)
        segment = period / SEGMENTS_PER_PERIOD
        rates = []
        for index in range(math.ceil(duration / segment)):
            middle = (index + 0.5) * segment + nanoseconds_of(arrivals.phase_s)
            swing = (1.0 - math.cos(2.0 * math.pi * middle / period)) / 2.0
            rates.append(arrivals.low_hz + (arrivals.peak_hz - arrivals.low_hz) * swing)
        return np.array(rates), segment
    if isinstance(arrivals, BurstyRate):
        segment = float(nanoseconds_of(arrivals.switch_s))
        pattern = np.array([arrivals.low_hz, arrivals.high_hz])
    else:
        segment = float(nanoseconds_of(arrivals.step_s))
        pattern = np.array(arrivals.rates_hz or _read_rates(folder / (arrivals.path or ""))) * arrivals.scale
    return np.resize(pattern, math.ceil(duration / segment)), segment


def _lines(path: Path) -> list[tuple[int, str]]:
    """Return the lines of a text file that are neither empty nor comments, with their numbers."""
    lines = enumerate(read_text(path, "a text file with one line per request or rate", TraceError).splitlines(), 1)
    return [(row, line.strip()) for row, line in lines if line.strip() and not line.startswith("#")]


def _number(path: Path, row: int, what: str, cell: str, least: float, most: float) -> float:
    try:
        value = float(cell)
    except ValueError:
        value = math.nan
    if not least <= value <= most:
        raise table_error(path, f"row {row}: {what}: expected a number from {least:g} to {most:g}, got '{cell[:40]}'")
    return value


def _read_rates(path: Path) -> list[float]:
    rates = [_number(path, row, "rate", line.split(",")[-1], 0.0, 1e7) for row, line in _lines(path)]
    if not rates:
        raise table_error(path, "is empty: expected a rate in each line")
    return rates


# Traces


def _requests(scenario: ServingScenario, model: ServedModel, trace: RequestTrace) -> np.ndarray:
    slo, floor = nanoseconds(model.slo_ms), model.accuracy_floor
    if trace.times_ms is not None:
        rows = [(time, slo, floor) for time in trace.times_ms]
    else:
        path = scenario._folder / (trace.path or "")
        rows = _read_azure(path, slo, floor) if trace.format == "azure-llm" else _read_requests(path, slo, floor)
    listed = np.zeros(len(rows), k.LISTED)
    for request, (time, slack, least) in zip(listed, rows, strict=True):
        if time * trace.stretch > LONGEST_MS:
            text = f"models: '{model.name}': a request arrives after {time * trace.stretch:g} ms"
            raise TraceError(f"{text}: expected at most {LONGEST_MS:g}")
        arrival = nanoseconds(time * trace.stretch)
        request["time"], request["deadline"], request["floor"] = arrival, arrival + slack, least
    return listed


def _read_requests(path: Path, slo: int, floor: float) -> list[tuple[float, int, float]]:
    """Return arrival in ms, time to the deadline in ns and accuracy floor of every line."""
    rows = []
    before = 0.0
    for row, line in _lines(path):
        cells = line.split(",")
        time = _number(path, row, "arrival_ms", cells[0], 0.0, LONGEST_MS)
        if time < before:
            raise table_error(path, f"row {row}: {time:g} is earlier than the row before it: expected ascending times")
        before = time
        least = _number(path, row, "accuracy_floor", cells[1], 0.0, 100.0) if len(cells) > 1 else floor
        slack = slo
        if len(cells) > 2:
            slack = round(_number(path, row, "deadline_ms", cells[2], 1e-6, LONGEST_MS) * NANOSECONDS_PER_MS)
        rows.append((time, slack, least))
    if not rows:
        raise table_error(path, "is empty: expected a request in each line")
    return rows


def _read_azure(path: Path, slo: int, floor: float) -> list[tuple[float, int, float]]:
    """Return the requests of a trace of Azure's LLM services; time 0 is the first."""
    table = read_table(path, ["TIMESTAMP"])
    times = []
    for index, cell in enumerate(table.texts("TIMESTAMP")):
        try:
            times.append(datetime.fromisoformat(cell[:26]))
        except ValueError:
            raise table.error(index, f"TIMESTAMP: expected a date and time, got '{cell[:40]}'") from None
        if times[index] < times[max(0, index - 1)]:
            raise table.error(index, "is earlier than the row before it: expected ascending times")
    if not times:
        raise table_error(path, "has no rows: expected a request in each")
    return [((time - times[0]).total_seconds() * 1e3, slo, floor) for time in times]
