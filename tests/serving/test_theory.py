"""Known theory agrees: waiting times of M/D/1 and M/M/c, Little's law, and what a batch server can do."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from slipstream.families.serving.metrics import requests_of
from slipstream.policies.base import find
from slipstream.scenario import load
from slipstream.sim.simulator import Simulator


def scenario_of_servers(servers: int, rate_hz: float, service: str, count: int) -> dict[str, Any]:
    """Return servers of 10 ms that answer one request at a time; nobody is given up."""
    return {
        "family": "serving",
        "accelerators": [{"name": "gpu", "count": servers}],
        "batch_sizes": [1],
        "models": [
            {
                "name": "a",
                "slo_ms": 1e6,
                "variants": [{"name": "A", "accuracy": 90.0, "latency_ms": {"gpu": [10.0]}}],
                "arrivals": {"kind": "poisson", "rate_hz": rate_hz},
            }
        ],
        "initial": [{"variant": "A", "accelerator": "gpu", "count": servers}],
        "duration_s": count / rate_hz,
        "batching": "none",
        "drop": "never",
        "queue": 65536,
        "service": {"kind": service},
        "planning": {"interval_s": 1e6},
    }


def play(servers: int, rate_hz: float, service: str, **more: Any) -> Any:
    """Return the requests of an episode."""
    scenario: Any = load({**scenario_of_servers(servers, rate_hz, service, 200_000), **more})
    return requests_of(scenario, Simulator(scenario).play(find("eft", "serving"), 3))


@pytest.mark.parametrize("load_", [0.5, 0.8])
def test_waits_of_a_single_server_are_those_of_m_d_1(load_: float) -> None:
    requests = play(1, load_ * 100.0, "fixed")
    wait_ms = float((requests.start - requests.arrival).mean()) / 1e6
    assert wait_ms == pytest.approx(load_ / (2.0 * (1.0 - load_)) * 10.0, rel=0.03)


def erlang_c(servers: int, offered: float) -> float:
    """Return the chance that an arrival has to wait in M/M/c."""
    last = offered**servers / math.factorial(servers) * servers / (servers - offered)
    return last / (sum(offered**k / math.factorial(k) for k in range(servers)) + last)


def test_one_queue_for_exponential_servers_is_m_m_1() -> None:
    requests = play(1, 70.0, "exponential")
    assert float((requests.start - requests.arrival).mean()) / 1e6 == pytest.approx(0.7 / 0.3 * 10.0, rel=0.04)


def test_requests_that_go_to_whoever_is_free_first_wait_as_in_m_d_c() -> None:
    # With fixed times the earliest finish is the first server that is free: the queues together are one for all.
    servers, offered = 4, 3.2
    requests = play(servers, offered * 100.0, "fixed")
    wait_ms = float((requests.start - requests.arrival).mean()) / 1e6
    m_m_c = erlang_c(servers, offered) * 10.0 / (servers - offered)
    # Cosmetatos (1976): exact to about 1% here.
    busy = offered / servers
    correction = (1.0 - busy) * (servers - 1) * (math.sqrt(4.0 + 5.0 * servers) - 2.0) / (16.0 * busy * servers)
    assert wait_ms == pytest.approx(0.5 * m_m_c * (1.0 + correction), rel=0.03)


def test_losses_where_nobody_waits_are_those_of_m_m_c_c() -> None:
    servers, offered, count = 3, 2.0, 12_000
    scenario: Any = load(
        {
            **scenario_of_servers(servers, offered * 100.0, "exponential", count),
            "mode": "route",
            "queue": 1,
        }
    )
    simulator = Simulator(scenario, log_rows=0)
    simulator.reset(3)
    lost = asked = 0
    while simulator.asking:
        idle = np.flatnonzero(simulator.arrays["accelerators"][0]["busy"] == 0)
        asked += 1
        lost += not len(idle)
        # Members are listed in the order of their numbers here.
        simulator.step(int(idle[0]) if len(idle) else servers)
    erlang_b = offered**servers / math.factorial(servers)
    erlang_b /= sum(offered**k / math.factorial(k) for k in range(servers + 1))
    assert lost / asked == pytest.approx(erlang_b, rel=0.06)


def test_littles_law_holds() -> None:
    requests = play(2, 150.0, "exponential")
    seconds = requests.end / 1e9
    stay = (requests.finish - requests.arrival) / 1e9
    times = np.concatenate((requests.arrival, requests.finish))
    steps = np.concatenate((np.ones(len(stay)), -np.ones(len(stay))))
    order = np.argsort(times, kind="stable")
    present = np.cumsum(steps[order])[:-1]
    mean_present = float((present * np.diff(times[order])).sum() / 1e9 / seconds)
    assert mean_present == pytest.approx(len(stay) / seconds * stay.mean(), rel=1e-9)


@pytest.mark.parametrize(
    ("law", "shape", "cv"), [("poisson", 1.0, 1.0), ("gamma", 0.25, 2.0), ("gamma", 4.0, 0.5), ("even", 1.0, 0.0)]
)
def test_gaps_have_the_mean_and_spread_of_their_law(law: str, shape: float, cv: float) -> None:
    requests = play(1, 100.0, "fixed", models=[_model(law, shape)])
    gaps = np.diff(requests.arrival) / 1e6
    assert gaps.mean() == pytest.approx(10.0, rel=0.02)
    assert gaps.std() / gaps.mean() == pytest.approx(cv, rel=0.03, abs=1e-3)


def _model(law: str, shape: float) -> dict[str, Any]:
    return {
        "name": "a",
        "slo_ms": 1e6,
        "variants": [{"name": "A", "accuracy": 90.0, "latency_ms": {"gpu": [1.0]}}],
        "arrivals": {"kind": law, "rate_hz": 100.0, "shape": shape},
    }
