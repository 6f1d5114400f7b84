"""Compile a serving scenario into the arrays of the kernel."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError
from slipstream.families.serving.kernel import state as k
from slipstream.families.serving.scenario import (
    Accelerators,
    Ewma,
    FixedService,
    Holt,
    ListedRates,
    LognormalService,
    ModelVariant,
    RequestTrace,
    ServedModel,
    ServingScenario,
)
from slipstream.families.serving.workload.arrivals import ArrivalProcess, arrival_process
from slipstream.families.shared.schema import nanoseconds, nanoseconds_of
from slipstream.sim.compiled_scenario import cached_per_scenario
from slipstream.sim.eventlog import EVENT
from slipstream.sim.kernel.heap import empty_heap
from slipstream.sim.kernel.lanes import LOG_MARGIN

BATCHING = {
    "none": k.NONE,
    "accscale": k.ACCSCALE,
    "aimd": k.AIMD,
    "nexus": k.NEXUS,
    "deadline-aware": k.DEADLINE_AWARE,
}
ROUTING = {
    "random": k.RANDOM,
    "round-robin": k.ROUND_ROBIN,
    "eft": k.EFT,
    "lft": k.LFT,
    "infaas": k.INFAAS,
    "weighted": k.WEIGHTED,
}
DROPPING = {
    "never": k.NEVER_DROP,
    "expired": k.EXPIRED,
    "hopeless": k.HOPELESS,
    "batch": k.BATCH,
    "twice-deadline": k.TWICE_DEADLINE,
    "crowded": k.CROWDED,
}


@dataclass(frozen=True)
class CompiledScenario:
    """A scenario as arrays."""

    spec: dict[str, np.ndarray]
    models: tuple[ServedModel, ...]
    """The active ones: with arrivals, or hosted at the beginning."""
    processes: tuple[ArrivalProcess, ...]
    column_of: np.ndarray
    """Column of each kind and variant, -1 where it cannot serve."""

    @property
    def variants(self) -> tuple[ModelVariant, ...]:
        """Variants of the active models, in the order of their numbers."""
        return tuple(variant for model in self.models for variant in model.variants)


def candidate_rows(scenario: ServingScenario) -> int:
    """Return the number of rows of an observation, wait included."""
    return int(compiled_scenario(scenario).spec["machine"][0]["rows"]) + 1


def log_margin(scenario: ServingScenario) -> int:
    """Return the most rows of the log that one event, with the decision before it, may write."""
    return int(compiled_scenario(scenario).spec["machine"][0]["log_margin"])


def timescale(scenario: ServingScenario) -> int:
    """Return the time between two plans or, where decisions route requests, the mean time to their deadline."""
    if scenario.mode == "plan":
        return nanoseconds_of(scenario.planning.interval_s)
    return round(float(compiled_scenario(scenario).spec["models"]["slo"].mean()))


def spec_arrays(scenario: ServingScenario) -> dict[str, np.ndarray]:
    """Return the constants of an episode."""
    return compiled_scenario(scenario).spec


def state_arrays(scenario: ServingScenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
    """Return fresh state for `lanes` lanes, each keeping up to `log_rows` rows of its event log."""
    spec = compiled_scenario(scenario).spec
    accelerators, models = len(spec["kinds"]), len(spec["models"])
    alarms = k.ALARMS_PER_REQUEST * scenario.queue if scenario.compat == "proteus" else 1
    return {
        "lanes": np.zeros(lanes, k.LANE),
        "models": np.zeros((lanes, models), k.MODEL_STATE),
        "replicas": np.zeros((lanes, models, accelerators), np.int32),
        "accelerators": np.zeros((lanes, accelerators), k.ACCELERATOR_STATE),
        # Ring buffers are indexed by masking, so that their size is a power of two.
        "queues": np.zeros((lanes, accelerators, 1 << (scenario.queue - 1).bit_length()), k.REQUEST),
        "alarms": np.zeros((lanes, accelerators, alarms), k.ALARM),
        "columns": np.zeros((lanes, len(spec["columns"])), k.COLUMN_STATE),
        "idle": np.zeros((lanes, len(scenario.kinds)), np.int64),
        "heap": empty_heap(lanes, 2 * accelerators + 2 + models),
        "terms": np.zeros((lanes, 3)),
        "log": np.zeros((lanes, log_rows), EVENT),
    }


# The arrays of the spec


@cached_per_scenario
def compiled_scenario(scenario: ServingScenario) -> CompiledScenario:
    """Return the scenario as arrays."""
    hosted = {one.variant for one in scenario.initial}
    active = [
        (number, model)
        for number, model in enumerate(scenario.models)
        if model.arrivals is not None or any(variant.name in hosted for variant in model.variants)
    ]
    if not active:
        raise ScenarioError("models: none has arrivals or is hosted: expected at least one")
    models = tuple(model for _, model in active)
    processes = tuple(arrival_process(scenario, model) for model in models)
    variants = [(index, variant) for index, model in enumerate(models) for variant in model.variants]
    service = _service(scenario, [variant for _, variant in variants])
    columns, column_of = _columns(scenario, models, variants, service)
    spec = {
        "machine": np.zeros(1, k.MACHINE),
        "kinds": np.repeat(np.arange(len(scenario.kinds)), [kind.count for kind in scenario.kinds]),
        "models": _models(scenario, active, processes),
        "variants": np.array(
            [(index, variant.accuracy, nanoseconds_of(variant.load_s)) for index, variant in variants], k.VARIANT
        ),
        "columns": columns,
        "sizes": np.array(scenario.batch_sizes, np.int64),
        "service": service,
        "rates": np.concatenate([np.zeros(0), *(process.rates for process in processes)]),
        "requests": np.concatenate([np.zeros(0, k.LISTED), *(process.listed for process in processes)]),
        "initial": _initial(scenario, [variant for _, variant in variants], column_of),
    }
    _fill_machine(spec["machine"][0], scenario, spec)
    return CompiledScenario(spec, models, processes, column_of)


def _service(scenario: ServingScenario, variants: list[ModelVariant]) -> np.ndarray:
    """Return the service time of each number of requests, by kind and variant; 0 where a variant cannot run as many."""
    most = scenario.batch_sizes[-1]
    times = np.zeros((len(scenario.kinds), len(variants), most + 1), np.int64)
    for row, kind in enumerate(scenario.kinds):
        for column, variant in enumerate(variants):
            smallest = 1
            for size, latency in zip(scenario.batch_sizes, variant.latency_ms.get(kind.name, []), strict=False):
                times[row, column, smallest : size + 1] = nanoseconds(latency)
                smallest = size + 1
    return times


def _largest_batch(
    scenario: ServingScenario, model: ServedModel, variant: ModelVariant, kind: Accelerators, times: np.ndarray
) -> int:
    if kind.memory_mb is not None and variant.memory_mb > kind.memory_mb:
        return 0
    limit = scenario.slo_share * nanoseconds(model.slo_ms)
    return max((size for size in scenario.batch_sizes if 0 < times[size] < limit), default=0)


def _columns(
    scenario: ServingScenario,
    models: tuple[ServedModel, ...],
    variants: list[tuple[int, ModelVariant]],
    service: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Return the pairs of a variant and a kind that can serve it, and the index of each pair."""
    rows: list[tuple[int, int, int, int, float]] = []
    column_of = np.full((len(scenario.kinds), len(variants)), -1, np.int64)
    for number, (index, variant) in enumerate(variants):
        for row, kind in enumerate(scenario.kinds):
            largest = _largest_batch(scenario, models[index], variant, kind, service[row, number])
            if largest:
                column_of[row, number] = len(rows)
                peak = largest * 1e9 / float(service[row, number, largest])
                rows.append((index, number, row, largest, peak))
    if not rows:
        raise ScenarioError(
            "models: no variant can run on any accelerator: expected a latency below slo_share times slo_ms"
        )
    return np.array(rows, k.COLUMN), column_of


def _models(
    scenario: ServingScenario, active: list[tuple[int, ServedModel]], processes: tuple[ArrivalProcess, ...]
) -> np.ndarray:
    rows = np.zeros(len(active), k.MODEL)
    segments = requests = 0
    for row, (number, model), process in zip(rows, active, processes, strict=True):
        row["number"], row["slo"], row["floor"] = number, nanoseconds(model.slo_ms), model.accuracy_floor
        row["law"], row["gamma_shape"], row["segment"] = process.law, process.shape, process.segment
        row["first_segment"], row["segments"] = segments, process.segments
        row["end"] = nanoseconds_of(scenario.duration_s or 0.0)
        row["first_request"], row["requests"] = requests, len(process.listed)
        row["recorded"] = isinstance(model.arrivals, ListedRates | RequestTrace)
        row["expected"] = process.mean_hz if model.expected_rate_hz is None else model.expected_rate_hz
        segments += process.segments
        requests += len(process.listed)
    return rows


def _initial(scenario: ServingScenario, variants: list[ModelVariant], column_of: np.ndarray) -> np.ndarray:
    numbers = {variant.name: number for number, variant in enumerate(variants)}
    kinds = {kind.name: number for number, kind in enumerate(scenario.kinds)}
    columns = []
    for index, hosted in enumerate(scenario.initial):
        column = int(column_of[kinds[hosted.accelerator], numbers[hosted.variant]])
        if column < 0:
            text = f"initial[{index}]: '{hosted.variant}' cannot serve its SLO on '{hosted.accelerator}'"
            raise ScenarioError(f"{text}: expected a latency below slo_share times slo_ms, and memory for it")
        columns += [column] * hosted.count
    return np.array(columns, np.int64)


def _fill_machine(row: Any, scenario: ServingScenario, spec: dict[str, np.ndarray]) -> None:
    accelerators, columns, most = len(spec["kinds"]), len(spec["columns"]), scenario.batch_sizes[-1]
    row["accelerators"], row["models"], row["columns"] = accelerators, len(spec["models"]), columns
    row["sizes"], row["queue"] = len(scenario.batch_sizes), scenario.queue
    row["batching"], row["routing"] = BATCHING[scenario.batching], ROUTING[scenario.routing]
    row["drop"], row["proteus"] = DROPPING[scenario.drop], scenario.compat == "proteus"
    row["route"] = scenario.mode == "route"
    row["rows"] = min(scenario.rows, accelerators) if scenario.mode == "route" else k.ROWS_PER_COLUMN * columns
    plan, forecast, reward = scenario.planning, scenario.forecast, scenario.reward
    row["interval"], row["moves"] = nanoseconds_of(plan.interval_s), plan.moves
    row["headroom"], row["shortage"], row["accuracy_weight"] = plan.headroom, plan.shortage, plan.accuracy_weight
    row["served_share"], row["gap"], row["seconds"] = plan.served_share, plan.gap, plan.seconds
    row["sample"] = nanoseconds_of(forecast.sample_s)
    row["forecast"] = k.EWMA if isinstance(forecast, Ewma) else k.HOLT
    row["level_weight"] = 1.0 / (1.0 + forecast.com) if isinstance(forecast, Ewma) else forecast.level
    if isinstance(forecast, Holt):
        row["trend_weight"], row["margin"] = forecast.trend, forecast.margin
        row["ahead"] = plan.interval_s / forecast.sample_s / 2.0
    if not isinstance(scenario.service, FixedService):
        row["service"] = k.EXPONENTIAL_SERVICE
        if isinstance(scenario.service, LognormalService):
            row["service"] = k.LOGNORMAL
            row["spread"] = math.sqrt(math.log(1.0 + scenario.service.cv**2))
    row["accuracy"], row["violations"], row["switches"] = reward.accuracy, reward.violations, reward.switches
    # Freeing an accelerator routes a whole queue again, which may start batches and drop requests elsewhere; only under
    # the rules of Proteus do more requests than fit a batch wait at an idle accelerator.
    waiting = scenario.queue if scenario.compat == "proteus" else most
    row["log_margin"] = LOG_MARGIN + 4 * scenario.queue + 4 * accelerators * (1 + waiting)
