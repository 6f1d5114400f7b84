"""Charts of LLM engines alone: batch and memory over time, and the distributions of response times."""

from __future__ import annotations

import numpy as np

from slipstream.families.llm.metrics import requests_of, token_gaps
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.charts import Chart, Line, Picture, distribution
from slipstream.sim.eventlog import DONE


def charts(scenario: LlmScenario, events: np.ndarray) -> list[Chart | Picture]:
    """Return the charts of an episode."""
    requests, steps = requests_of(events), events[events["kind"] == DONE]
    engines = range(scenario.engines)
    names = ["" if scenario.engines == 1 else f"engine {engine}" for engine in engines]
    own = [steps[steps["resource"] == engine] for engine in engines]
    batch = [
        Line(name, one["time"].astype(np.float64), one["variant"].astype(np.float64))
        for name, one in zip(names, own, strict=True)
    ]
    blocks = scenario.engine.blocks - 1
    memory = [
        Line(name, one["time"].astype(np.float64), one["task"] / blocks) for name, one in zip(names, own, strict=True)
    ]
    done = requests.done
    gaps, weights = token_gaps(scenario, events, requests)
    times = {
        ("TTFT", "first token"): (requests.first - requests.arrival)[done] / 1e9,
        ("E2E", "last token"): (requests.finish - requests.arrival)[done] / 1e9,
    }
    found: list[Chart | Picture] = [
        Chart("Engines", "Batch", "Requests in the batch of each step.", "time", "requests", tuple(batch), True),
        Chart(
            *("Engines", "Memory", "Share of the blocks that are in use during a step.", "time", "blocks in use"),
            lines=tuple(memory),
            over_time=True,
            percent=True,
        ),
    ]
    for (name, until), values in times.items():
        if len(values):
            caption = f"Share of the requests whose time from arrival to {until} is at most this long."
            lines = (distribution("", values),)
            found.append(Chart("Latency", name, caption, f"{name} (s)", "requests", lines, percent=True))
    if len(gaps):
        order = np.argsort(gaps, kind="stable")
        share = np.cumsum(weights[order]) / weights.sum()
        picks = np.unique(np.linspace(0, len(order) - 1, min(len(order), 400)).round().astype(np.int64))
        line = Line("", gaps[order][picks] / 1e6, share[picks])
        caption = "Share of the gaps between two tokens of a request that are at most this long."
        found.append(Chart("Latency", "ITL", caption, "ITL (ms)", "tokens", (line,), log_x=True, percent=True))
    return found
