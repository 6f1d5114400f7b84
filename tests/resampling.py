"""What tests of resampled futures share: scenarios, and states that differ only in what a policy cannot know."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from slipstream.families.contract import Scenario
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.kernel.heap import BLOCK, NEVER
from slipstream.sim.simulator import Simulator
from slipstream.suite import load_suite
from tests.reference.numbers import normal

State = dict[str, np.ndarray]
PERIODIC, BURSTY = 0, 2
"""Arrivals of tasks of the edge family."""
RUNNING, ENDED = 1, 2
"""Status of a job of the cluster family."""


def suite_data(family: str, name: str) -> dict[str, Any]:
    """Return a scenario of the suite as JSON data."""
    entry = next(one for one in load_suite().of(family) if one.name == name)
    return dict(entry.scenario.model_dump(mode="json", exclude_unset=True))


def dag_scenario() -> Scenario:
    """Return a stream of jobs with stragglers, failures and a horizon that nobody knows."""
    data = suite_data("dag", "small")
    data["arrivals"] = {"kind": "poisson", "jobs": 12, "mean_gap_s": 60.0, "initial_jobs": 2}
    data["stragglers"] = {"probability": 0.2, "factor": 3.0}
    data["failures"] = {"probability": 0.1}
    data["horizon"] = {"kind": "memoryless", "mean_s": 5000.0}
    return load(data)


def taskgraph_scenario() -> Scenario:
    """Return a stream of graphs whose tasks take lognormal times."""
    data = suite_data("taskgraph", "small")
    data["arrivals"] = {"kind": "poisson", "jobs": 3, "mean_gap_ms": 30.0}
    data["noise"] = {"kind": "lognormal", "cv": 0.4}
    return load(data)


def cluster_scenario() -> Scenario:
    """Return jobs whose users ask for up to twice the time that they need, and that can be interrupted."""
    data = suite_data("cluster", "shifted-profiles")
    data["jobs"]["most_overestimate"] = 2.0
    data["preemption"] = {"cost_s": 30.0}
    data["episode"] = {"jobs": 40}
    return load(data)


def edge_scenario() -> Scenario:
    """Return tasks with releases of every random kind, whose run times vary and differ from their profiles."""
    data = suite_data("edge", "small")
    for key in ("periodic_tasks", "poisson_tasks"):
        data.pop(key)
    data["device"]["latency"] = {"kind": "lognormal", "cv": 0.4}
    for task, arrival in zip(data["tasks"], EDGE_ARRIVALS, strict=False):
        task["arrival"] = arrival
    for variant in data["tasks"][0]["variants"]:
        variant["actual_ms"] = 1.3 * variant["latency_ms"]
    return load(data)


def serving_scenario() -> Scenario:
    """Return models to plan for, with requests of every random kind, batches of exponential length, and a trace."""
    arrivals = (
        {"kind": "gamma", "rate_hz": 30.0, "shape": 0.3},
        {"kind": "bursty", "low_hz": 20.0, "high_hz": 60.0, "switch_s": 1.0, "gaps": "even"},
        {"kind": "rates", "rates_hz": [10.0, 30.0, 50.0, 20.0, 5.0], "step_s": 0.5},
        {"kind": "trace", "times_ms": list(SERVING_TRACE)},
    )
    data = {**SERVING, "models": [{**SERVING["models"][0], **own} for own in map(served, arrivals)]}
    return load({**data, "service": {"kind": "exponential"}, "routing": "random"})


def serving_routes() -> Scenario:
    """Return requests of one model to route to accelerators of two kinds, whose batches take lognormal times."""
    data = {**SERVING, "mode": "route", "initial": [{"variant": "slow", "accelerator": kind} for kind in ("a", "b")]}
    data["initial"].append({"variant": "quick", "accelerator": "b", "count": 2})
    model = {**SERVING["models"][0], "arrivals": {"kind": "gamma", "rate_hz": 120.0, "shape": 2.5}}
    return load({**data, "models": [model], "service": {"kind": "lognormal", "cv": 0.5}, "duration_s": 2.0})


def served(arrivals: dict[str, Any]) -> dict[str, Any]:
    """Return name, variants and arrivals of one of several models."""
    variants = [{**one, "name": f"{one['name']}-{arrivals['kind']}"} for one in SERVING["models"][0]["variants"]]
    return {"name": arrivals["kind"], "variants": variants, "arrivals": arrivals, "expected_rate_hz": 25.0}


SERVING: dict[str, Any] = {
    "family": "serving",
    "name": "resampled",
    "accelerators": [{"name": "a", "count": 3}, {"name": "b", "count": 3}],
    "models": [
        {
            "name": "model",
            "slo_ms": 150.0,
            "variants": [
                {
                    "name": "quick",
                    "accuracy": 80.0,
                    "latency_ms": {"a": [20.0, 30.0, 45.0], "b": [12.0, 16.0, 25.0]},
                    "load_s": 0.1,
                },
                {
                    "name": "slow",
                    "accuracy": 95.0,
                    "latency_ms": {"a": [50.0, 70.0], "b": [30.0, 40.0, 60.0]},
                    "load_s": 0.2,
                },
            ],
        }
    ],
    "duration_s": 5.0,
    "planning": {"interval_s": 0.1},
    "forecast": {"kind": "ewma", "sample_s": 0.25},
}
SERVING_TRACE = tuple(30.0 * number + 11.0 * (number % 3) for number in range(160))


EDGE_ARRIVALS: tuple[dict[str, Any], ...] = (
    {"kind": "bursty", "calm_gap_ms": 40.0, "burst_gap_ms": 5.0, "calm_ms": 200.0, "burst_ms": 60.0},
    {"kind": "poisson", "mean_gap_ms": 15.0},
    {"kind": "periodic", "period_ms": 12.0, "jitter_ms": 8.0},
)


def elastic_scenario() -> Scenario:
    """Return two kinds of GPUs that are allocated every two minutes, and jobs of two models."""
    data = load("elastic/tiny").model_dump(mode="json")
    data["jobs"] |= {"jobs": 40, "mean_gap_s": 150.0}
    return load({**data, "name": "resampled"})


def llm_scenario() -> Scenario:
    """Return two engines whose memory is short, requests in bursts, and rough predictions of their outputs."""
    return load({**LLM, "prediction": {"cv": 0.5}})


def llm_unpredicted() -> Scenario:
    """Return the same with nothing predicted, and ends that the engine finds out."""
    return load({**LLM, "engine": {**LLM["engine"], "stop": "eos"}})


LLM: dict[str, Any] = {
    "family": "llm",
    "name": "resampled",
    "engines": 2,
    "engine": {"token_budget": 64, "seats": 6, "blocks": 60, "block_tokens": 4, "longest_tokens": 200},
    "step_time": {"kind": "closed", "dense": [{"at": 0, "us": 4000.0}, {"at": 64, "us": 9000.0}]},
    "requests": {
        "kind": "drawn",
        "requests": 80,
        "rate_hz": 60.0,
        "burstiness": 1.7,
        "lengths": {
            "kind": "independent",
            "prompt": {"kind": "uniform", "least": 5, "most": 60},
            "output": {"kind": "lognormal", "median": 20.0, "sigma": 0.8, "most": 100},
        },
    },
}


SCENARIOS: dict[str, Callable[[], Scenario]] = {
    "dag": dag_scenario,
    "edge": edge_scenario,
    "taskgraph": taskgraph_scenario,
    "cluster": cluster_scenario,
    "serving": serving_scenario,
    "serving-route": serving_routes,
    "elastic": elastic_scenario,
    "llm": llm_scenario,
    "llm-unpredicted": llm_unpredicted,
}
"""By family; the serving family has two kinds of decisions, and outputs of llm are predicted or not."""
RULES = {
    "dag": "fair",
    "edge": "edf",
    "taskgraph": "mct",
    "cluster": "saf",
    "serving": "infaas",
    "serving-route": "eft",
    "elastic": "srpt",
    "llm": "sjf",
    "llm-unpredicted": "fcfs",
}


def family_of(name: str) -> str:
    """Return the family of one of the scenarios."""
    return name.partition("-")[0]


def decisions(family: str, seed: int, every: int, split: str = "test") -> list[Simulator]:
    """Return simulators without a log, each at another decision of an episode, `every` decisions apart."""
    scenario, policy = SCENARIOS[family](), find(RULES[family], family_of(family))
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(seed, split)
    found = []
    while simulator.asking:
        if simulator.header["choices"] % every == 0:
            copy = Simulator(scenario, log_rows=0)
            copy.restore(simulator.save())
            found.append(copy)
        simulator.step(policy.choose(*simulator.observe()))
    return found


def event_time(state: State, slot: int) -> int:
    """Return the time of an event of the heap."""
    heap = state["heap"][0]
    return int(heap[len(heap) // (1 + BLOCK) + slot])


def set_event(state: State, slot: int, time: int) -> None:
    """Set the time of an event of the heap."""
    heap = state["heap"][0]
    blocks = len(heap) // (1 + BLOCK)
    heap[blocks + slot] = time
    heap[:blocks] = heap[blocks:].reshape(blocks, BLOCK).min(axis=1)


def alter_events(state: State, slots: range, rng: np.random.Generator) -> None:
    """Give every pending event of `slots` another time after now."""
    now = int(state["lanes"][0]["now"])
    for slot in slots:
        if event_time(state, slot) < NEVER:
            set_event(state, slot, now + int(rng.integers(1, 10**12)))


def alter_keys(state: State, names: tuple[str, ...], rng: np.random.Generator) -> None:
    """Give the episode other random numbers."""
    header = state["lanes"][0]
    header["seed"] = rng.integers(2**60)
    for name in names:
        header[name] = rng.integers(2**63)


def alter_edge(simulator: Simulator, state: State, rng: np.random.Generator) -> None:
    """Alter releases to come, the states of bursty tasks, and the run times of all jobs that have not ended."""
    spec = simulator.family.spec_arrays(simulator.scenario)
    device, tasks = spec["device"][0], spec["tasks"]
    now, streams = int(state["lanes"][0]["now"]), len(state["streams"][0])

    def drawn(task: int, variant: int, job: int) -> float:
        factor = math.exp(device["sigma"] * normal(int(state["tasks"][0, task]["latency_key"]), job) - half)
        return float(spec["variants"]["actual"][task, variant] * factor)

    half = float(device["half_variance"])
    running = [stream for stream in range(streams) if state["streams"][0, stream]["task"] >= 0]
    jobs = [tuple(int(state["streams"][0, one][name]) for name in ("task", "variant", "job")) for one in running]
    done = [drawn(*job) - float(state["streams"][0, one]["work"]) for one, job in zip(running, jobs, strict=True)]
    alter_keys(state, ("key",), rng)
    for task, counts in enumerate(state["tasks"][0]):
        counts["draws"] += 5
        for name in ("arrival_key", "latency_key"):
            counts[name] = rng.integers(2**63)
        if tasks[task]["arrival"] == BURSTY:
            counts["burst"] = 1 - counts["burst"]
            counts["spell_end"] = now + rng.integers(10**8)
        slot = streams + len(tasks) + task
        if tasks[task]["arrival"] != PERIODIC and event_time(state, slot) < NEVER:
            set_event(state, slot, now + int(rng.integers(1, 10**7)))
    for stream, job, before in zip(running, jobs, done, strict=True):
        state["streams"][0, stream]["work"] = drawn(*job) - before
        set_event(state, stream, now + int(rng.integers(1, 10**7)))


def alter_serving(simulator: Simulator, state: State, rng: np.random.Generator) -> None:
    """Alter requests to come, whether any come, and the ends of batches that have not ended."""
    spec = simulator.family.spec_arrays(simulator.scenario)
    accelerators, now = len(spec["kinds"]), int(state["lanes"][0]["now"])
    alter_keys(state, ("key",), rng)
    for model, own in enumerate(state["models"][0]):
        for name in ("gap_key", "accept_key", "boost_key", "service_key", "route_key"):
            own[name] = rng.integers(2**63)
        own["time"] = now + rng.integers(1, 10**9)
        own["segment"] += 3 * (spec["models"][model]["segments"] > 0)
        slot = 2 * accelerators + 2 + model
        ends = rng.random() < 0.3
        set_event(state, slot, NEVER if ends else now + int(rng.integers(1, 10**9)))
    if simulator.scenario.mode == "route" and rng.random() < 0.5:  # type: ignore[attr-defined]
        # As after the last request.
        state["lanes"][0]["streams"] = 0
        set_event(state, 2 * accelerators, NEVER)
    for accelerator, own in enumerate(state["accelerators"][0]):
        if own["busy"]:
            alter_events(state, range(accelerator, accelerator + 1), rng)


def alter_llm(simulator: Simulator, state: State, rng: np.random.Generator) -> None:
    """Alter requests to come, and how long the outputs of unfinished requests become."""
    alter_keys(state, ("key",), rng)
    header = state["lanes"][0]
    for name in ("gap_key", "class_key", "prompt_key", "output_key", "group_key", "prediction_key"):
        header[name] = rng.integers(2**63)
    for request in state["requests"][0, : header["arrived"]]:
        if request["status"] not in (3, 4):
            request["output"] += rng.integers(1, 50)
    engines = simulator.scenario.engines  # type: ignore[attr-defined]
    alter_events(state, range(engines, engines + 1), rng)


def altered(simulator: Simulator, rng: np.random.Generator) -> State:
    """Return the simulator's state with everything altered that its policy cannot know."""
    state, family = simulator.save(), simulator.family.name
    header = state["lanes"][0]
    if family == "edge":
        alter_edge(simulator, state, rng)
        return state
    if family == "llm":
        alter_llm(simulator, state, rng)
        return state
    if family == "serving":
        alter_serving(simulator, state, rng)
        return state
    if family == "elastic":
        alter_keys(state, ("key", "arrival_key", "template_key"), rng)
        arrival = state["jobs"].shape[1]
        alter_events(state, range(arrival, arrival + 1), rng)
        return state
    if family == "cluster":
        alter_keys(state, ("key",), rng)
        for job in state["jobs"][0, : header["arrived"]]:
            if job["status"] != ENDED:
                more = rng.integers(1, 10**12)
                job["run"] += more
                job["left"] += more
                job["end"] += more if job["status"] == RUNNING else 0
                job["bound"] *= 2.0
        header["rate"] /= 2.0
        return state
    alter_keys(state, ("key", "arrival_key", "template_key"), rng)
    jobs = state["order"][0, : header["active"]] if family == "dag" else range(header["arrived"])
    for job in jobs:
        state["jobs"][0, job]["key"] = rng.integers(2**63)
    if family == "dag":
        workers = len(state["executors"][0])
        running = [index for index in range(workers) if state["executors"][0, index]["activity"] == 1]
        last = (workers, workers + 1)
    else:
        workers = len(state["processors"][0])
        running = [index for index in range(workers) if state["processors"][0, index]["runs"]]
        last = (workers + state["links"].shape[1],)
    for slot in (*running, *last):
        alter_events(state, range(slot, slot + 1), rng)
    return state


def same(one: State, other: State) -> bool:
    """Return whether two states are equal in every field."""
    return all(np.array_equal(one[name], other[name]) for name in one)
