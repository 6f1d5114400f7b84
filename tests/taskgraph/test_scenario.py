"""Scenarios that make no sense are refused, with the key and what was expected."""

from __future__ import annotations

import json

import pytest

from slipstream.errors import ScenarioError
from slipstream.families.taskgraph.build import compiled_scenario, transfer_time
from slipstream.families.taskgraph.scenario import Link
from slipstream.scenario import digest, dump, load

LINK = {"bandwidth_mb_s": 1000.0}
BASE = {
    "family": "taskgraph",
    "processors": [{"name": "cpu", "count": 1}, {"name": "gpu", "count": 1, "device": True}],
    "graphs": [{"kind": "cholesky", "n": 2}],
}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"processors": [{"name": "cpu", "count": 1}] * 2}, "two kinds of processors have the same name"),
        ({"processors": [{"name": "cpu", "count": 1, "memory_mb": 2.0}]}, "memory_mb is given but device is false"),
        ({"processors": [{"name": f"k{k}", "count": 200} for k in range(2)]}, "400 in all: expected at most 256"),
        ({"noise": {"kind": "lognormal", "cv": 0.1, "kinds": ["tpu"]}}, "no kind 'tpu' among the processors"),
        ({"arrivals": {"kind": "trace", "times_ms": [2.0, 1.0]}}, "earlier than the time before it"),
        ({"arrivals": {"kind": "trace", "times_ms": [1.0], "names": ["a", "b"]}}, "names lists 2 but times_ms 1"),
        ({"arrivals": {"kind": "poisson", "jobs": 1, "mean_gap_ms": 1.0, "initial_jobs": 2}}, "initial_jobs is 2"),
        ({"pipeline": 3}, "pipeline"),
        ({"eviction": "fifo"}, "eviction"),
        ({"memory": 3}, "unknown key 'memory'"),
        ({"graphs": [{"kind": "cholesky", "n": 0}]}, "n"),
    ],
)
def test_what_makes_no_sense_is_refused(change, message):
    with pytest.raises(ScenarioError, match=message):
        load({**BASE, **change})


def test_a_memory_too_small_for_a_task_is_refused():
    processors = [{"name": "gpu", "count": 1, "device": True, "memory_mb": 7.0}]
    small = {**BASE, "processors": processors, "links": {"to_device": LINK, "to_host": LINK}}
    with pytest.raises(ScenarioError, match=r"task 'TRSM 1 0' of graph 'cholesky-2' needs 7.3728 MB at once"):
        compiled_scenario(load(small))
    # Where nothing has to move, memory does not matter.
    assert compiled_scenario(load({**small, "links": None})).sizes.devices == 1


def test_a_trace_names_graphs_of_the_scenario():
    arrivals = {"kind": "trace", "times_ms": [0.0], "names": ["cholesky-3"]}
    with pytest.raises(ScenarioError, match=r"no graph 'cholesky-3': expected one of cholesky-2"):
        compiled_scenario(load({**BASE, "arrivals": arrivals}))


@pytest.mark.parametrize(
    ("latency", "bandwidth", "size", "time"),
    [(0.0, 1000.0, 1, 1), (0.0, 3.0, 1, 334), (0.0, 3.0, 3, 1000), (2.5, 1000.0, 10, 2510), (0.0, 1e6, 1, 1)],
)
def test_transfers_are_rounded_up_exactly(latency, bandwidth, size, time):
    assert transfer_time(Link(latency_us=latency, bandwidth_mb_s=bandwidth), size) == time


def test_no_window_is_larger_than_all_there_is():
    sizes = compiled_scenario(load(BASE)).sizes
    # Four tasks: no more than four candidates and nodes; wait is a row of its own.
    assert (sizes.tasks, sizes.rows, sizes.nodes, sizes.edges) == (4, 5, 4, 3)


def test_graphs_that_would_fill_the_memory_are_refused():
    base = json.loads(dump(load("taskgraph/tiny")))
    layered = {"kind": "layered", "layers": 10_000, "width": 10_000}
    with pytest.raises(ScenarioError, match=r"layers x width is 100000000: expected at most 1000000 tasks"):
        load({**base, "graphs": [layered]})
    tiled = {**base, "durations": {"kind": "readys"}, "graphs": [{"kind": "cholesky", "n": 128}] * 200}
    tiled["processors"] = [{"name": "gpu", "count": 1}, {"name": "cpu", "count": 1}]
    with pytest.raises(ScenarioError, match=r"graphs: the first \d+ have .* tasks: expected at most 2,200,000"):
        digest(load(tiled))
