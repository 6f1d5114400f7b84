"""Small taskgraph episodes worked out by hand: the compiled kernel and the reference must both play them so.

Times are in milliseconds. A tile has 1 MB and takes 1 ms on every link. What is expected are starts (time, job, task,
processor), transfers (time, tile, link), evictions (time, tile, node), and the end.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from slipstream.families.taskgraph.scenario import TaskgraphScenario
from slipstream.scenario import load
from slipstream.sim.eventlog import END, EVICT, MOVE, START
from tests.kernels import play_case

Json = dict[str, Any]
WAIT = -1
LINK = {"bandwidth_mb_s": 1000.0}
LINKS = {"to_device": LINK, "to_host": LINK}
GPU = {"name": "gpu", "count": 1, "device": True}
CPU = {"name": "cpu", "count": 1}
A, B = {"name": "a", "count": 1}, {"name": "b", "count": 1}


def task(duration: float | Json, *after: str, **accesses: str) -> Json:
    """Return a task without its name; keywords say what it does with which tiles."""
    return {"duration_ms": duration, "after": list(after), "accesses": accesses}


def scenario(tasks: dict[str, Json], processors: list[Json], **more: Any) -> Json:
    listed = [{"name": name, **one} for name, one in tasks.items()]
    return {
        "family": "taskgraph",
        "processors": processors,
        "graphs": [{"kind": "inline", "tasks": listed, "tile_bytes": 1_000_000}],
        **more,
    }


@dataclass(frozen=True)
class Case:
    """An episode: what is chosen, and what comes of it."""

    name: str
    scenario: Json
    actions: list[int]
    """Rows; -1 waits. When they are used up, the first legal row is taken."""
    starts: list[tuple[float, int, int, int]]
    end: float
    moves: list[tuple[float, int, int]] = field(default_factory=list)
    evictions: list[tuple[float, int, int]] = field(default_factory=list)


SLOW_CPU = {"gpu": 2.0, "cpu": 10.0}
READ_THREE = {"a": task(1.0, t0="r"), "b": task(1.0, "a", t1="r"), "c": task(1.0, "b", t2="r")}
READ_AGAIN = {**READ_THREE, "d": task(1.0, "c", t0="r")}
SMALL = {**GPU, "memory_mb": 2.0}
WRITE_ON_BOTH = {"a": task(2.0, t0="rw"), "b": task(2.0, t0="rw")}
CASES = [
    Case(
        "a chain runs one after the other",
        scenario({"a": task(2.0), "b": task(3.0, "a")}, [CPU]),
        [],
        [(0, 0, 0, 0), (2, 0, 1, 0)],
        5,
    ),
    Case(
        "two processors share what is ready",
        scenario({"a": task(2.0), "b": task(3.0)}, [{**CPU, "count": 2}]),
        [],
        [(0, 0, 0, 0), (0, 0, 1, 1)],
        3,
    ),
    Case(
        "a task that writes waits for those that read before, and these for the writer",
        scenario(
            {"a": task(1.0, t="w"), "b": task(3.0, t="r"), "c": task(1.0, t="r"), "d": task(1.0, t="rw")},
            [
                {**CPU, "count": 2},
            ],
        ),
        [],
        [(0, 0, 0, 0), (1, 0, 1, 0), (1, 0, 2, 1), (4, 0, 3, 0)],
        5,
    ),
    Case(
        "waiting for the fast processor beats the slow one",
        scenario({"a": task(SLOW_CPU), "b": task(SLOW_CPU)}, [GPU, CPU]),
        # The GPU takes a; the CPU waits, and when the GPU is free again it takes b.
        [0, WAIT, 0],
        [(0, 0, 0, 0), (2, 0, 1, 0)],
        4,
    ),
    Case(
        "the slow processor takes what is there",
        scenario({"a": task(SLOW_CPU), "b": task(SLOW_CPU)}, [GPU, CPU]),
        [0, 0],
        [(0, 0, 0, 0), (0, 0, 1, 1)],
        10,
    ),
    Case(
        "a task starts when its tiles have come, one after the other",
        scenario({"a": task(3.0, t0="r", t1="rw")}, [GPU], links=LINKS),
        [],
        [(2, 0, 0, 0)],
        5,
        [(0, 0, 0), (1, 1, 0)],
    ),
    Case(
        "a link has a latency",
        scenario({"a": task(3.0, t0="r")}, [GPU], links={**LINKS, "to_device": {**LINK, "latency_us": 250.0}}),
        [],
        [(1.25, 0, 0, 0)],
        4.25,
        [(0, 0, 0)],
    ),
    Case(
        "what is only written need not come",
        scenario({"a": task(3.0, t0="w")}, [GPU], links=LINKS),
        [],
        [(0, 0, 0, 0)],
        3,
    ),
    Case(
        "without a pipeline tiles are loaded when a task is taken",
        scenario({"a": task(3.0, t0="rw"), "b": task(1.0, t1="rw")}, [GPU], links=LINKS),
        [],
        [(1, 0, 0, 0), (5, 0, 1, 0)],
        6,
        [(0, 0, 0), (4, 1, 0)],
    ),
    Case(
        "with a pipeline they are loaded while a task runs",
        scenario({"a": task(3.0, t0="rw"), "b": task(1.0, t1="rw")}, [GPU], links=LINKS, pipeline=2),
        [],
        [(1, 0, 0, 0), (4, 0, 1, 0)],
        5,
        [(0, 0, 0), (1, 1, 0)],
    ),
    Case(
        "from device to device by way of the host",
        scenario(WRITE_ON_BOTH, [{**GPU, "count": 2}], links=LINKS, mode="push"),
        # a is placed on device 1, b on device 2: up at 3, down at 4.
        [0, 1],
        [(1, 0, 0, 0), (5, 0, 1, 1)],
        7,
        [(0, 0, 0), (3, 0, 1), (4, 0, 3)],
    ),
    Case(
        "from device to device at once",
        scenario(WRITE_ON_BOTH, [{**GPU, "count": 2}], links={**LINKS, "peer": LINK}, mode="push"),
        [0, 1],
        [(1, 0, 0, 0), (4, 0, 1, 1)],
        6,
        [(0, 0, 0), (3, 0, 5)],
    ),
    Case(
        "what a CPU needs comes from the device",
        scenario(WRITE_ON_BOTH, [GPU, CPU], links=LINKS, mode="push"),
        [0, 1],
        [(1, 0, 0, 0), (4, 0, 1, 1)],
        6,
        [(0, 0, 0), (3, 0, 1)],
    ),
    Case(
        "what a device has written stays there",
        scenario(WRITE_ON_BOTH, [GPU, CPU], links=LINKS, mode="push"),
        [0, 0],
        [(1, 0, 0, 0), (3, 0, 1, 0)],
        5,
        [(0, 0, 0)],
    ),
    Case(
        "what is written elsewhere is lost here",
        scenario({**WRITE_ON_BOTH, "c": task(1.0, t0="r")}, [GPU, CPU], links=LINKS, mode="push"),
        # The device writes, the CPU writes, so the device has to load again.
        [0, 1, 0],
        [(1, 0, 0, 0), (4, 0, 1, 1), (7, 0, 2, 0)],
        8,
        [(0, 0, 0), (3, 0, 1), (6, 0, 0)],
    ),
    Case(
        "of two devices that have a tile the lower one sends it",
        scenario(
            {"a": task(2.0, t0="rw"), "b": task(1.0, t0="r"), "c": task(1.0, "b", t0="r")},
            [{**GPU, "count": 2}, CPU],
            links={**LINKS, "peer": LINK},
            mode="push",
        ),
        # Device 2 writes it, device 1 reads it, then the CPU does.
        [1, 0, 2],
        [(1, 0, 0, 1), (4, 0, 1, 0), (6, 0, 2, 2)],
        7,
        [(0, 0, 3), (3, 0, 2), (5, 0, 1)],
    ),
    Case(
        "a full memory lets the least recently used tile go",
        scenario(READ_THREE, [SMALL], links=LINKS),
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (5, 0, 2, 0)],
        6,
        [(0, 0, 0), (2, 1, 0), (4, 2, 0)],
        [(4, 0, 1)],
    ),
    Case(
        "what was written is written back before it goes",
        scenario({**READ_THREE, "a": task(1.0, t0="rw")}, [SMALL], links=LINKS),
        # Tile 0 goes up from 4 to 5; then there is room for tile 2.
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (6, 0, 2, 0)],
        7,
        [(0, 0, 0), (2, 1, 0), (4, 0, 1), (5, 2, 0)],
        [(5, 0, 1)],
    ),
    Case(
        "a task does not write a tile that is being copied",
        scenario(
            {"a": task(1.0, t0="rw"), "b": task(5.0, t1="r"), "c": task(1.0, t2="r", t3="r"), "d": task(1.0, t0="rw")},
            [{**GPU, "memory_mb": 3.0}],
            links={**LINKS, "to_host": {"bandwidth_mb_s": 100.0}},
            pipeline=2,
        ),
        # c needs room at 3, so tile 0 goes up until 13. At 7 tile 1 can go instead, and c runs. d has its tile, but
        # waits for the copy to be complete.
        [],
        [(1, 0, 0, 0), (2, 0, 1, 0), (8, 0, 2, 0), (13, 0, 3, 0)],
        14,
        [(0, 0, 0), (1, 1, 0), (2, 2, 0), (3, 0, 1), (7, 3, 0)],
        [(7, 1, 1)],
    ),
    Case(
        "lru lets go what is needed again",
        scenario(READ_AGAIN, [SMALL], links=LINKS, eviction="lru"),
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (5, 0, 2, 0), (7, 0, 3, 0)],
        8,
        [(0, 0, 0), (2, 1, 0), (4, 2, 0), (6, 0, 0)],
        [(4, 0, 1), (6, 1, 1)],
    ),
    Case(
        "belady keeps what is needed again",
        scenario(READ_AGAIN, [SMALL], links=LINKS, eviction="belady"),
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (5, 0, 2, 0), (6, 0, 3, 0)],
        7,
        [(0, 0, 0), (2, 1, 0), (4, 2, 0)],
        [(4, 1, 1)],
    ),
    Case(
        "luf keeps what a visible task uses",
        scenario(READ_AGAIN, [SMALL], links=LINKS, eviction="luf"),
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (5, 0, 2, 0), (6, 0, 3, 0)],
        7,
        [(0, 0, 0), (2, 1, 0), (4, 2, 0)],
        [(4, 1, 1)],
    ),
    Case(
        "luf does not know what is not visible",
        scenario(READ_AGAIN, [SMALL], links=LINKS, eviction="luf", visibility={"kind": "parents"}),
        [],
        [(1, 0, 0, 0), (3, 0, 1, 0), (5, 0, 2, 0), (7, 0, 3, 0)],
        8,
        [(0, 0, 0), (2, 1, 0), (4, 2, 0), (6, 0, 0)],
        [(4, 0, 1), (6, 1, 1)],
    ),
    Case(
        "a window shows one task at a time",
        scenario({"a": task(1.0), "b": task(1.0)}, [{**CPU, "count": 2}], visibility={"kind": "window", "tasks": 1}),
        [],
        [(0, 0, 0, 0), (1, 0, 1, 0)],
        2,
    ),
    Case(
        "jobs arrive one after the other",
        scenario({"a": task(2.0)}, [CPU], arrivals={"kind": "trace", "times_ms": [0, 1, 5]}),
        [],
        [(0, 0, 0, 0), (2, 1, 0, 0), (5, 2, 0, 0)],
        7,
    ),
    Case(
        "a processor chooses from its queue",
        scenario({"a": task(1.0), "b": task(1.0), "c": task(1.0)}, [CPU], mode="push"),
        # All three are placed; then the third is taken, then the second, and the first is all that is left.
        [0, 0, 0, 2, 1],
        [(0, 0, 2, 0), (1, 0, 1, 0), (2, 0, 0, 0)],
        3,
    ),
    Case(
        "tiles of queued tasks are loaded beforehand",
        scenario({"a": task(3.0, t0="rw"), "b": task(1.0, t1="rw")}, [GPU], links=LINKS, mode="push", prefetch=1),
        [0, 0, 0],
        [(1, 0, 0, 0), (4, 0, 1, 0)],
        5,
        [(0, 0, 0), (1, 1, 0)],
    ),
    Case(
        "a processor may leave a task to one that was not asked yet",
        scenario({"x": task({"a": 10.0, "b": 1.0}), "y": task({"a": 1.0, "b": 20.0}, "x")}, [B, A]),
        # Kind a is faster on both together, so it is processor 0 and asked first. Nothing is pending, but b is left.
        [WAIT, 0, 0],
        [(0, 0, 0, 1), (1, 0, 1, 0)],
        2,
    ),
    Case(
        "a task may let the next one be placed before it",
        scenario({"u": task(2.0), "v": task(3.0)}, [CPU], mode="push"),
        [WAIT, 0, 0],
        [(0, 0, 1, 0), (3, 0, 0, 0)],
        5,
    ),
    Case(
        "a processor may wait while another one has a queue to take from",
        scenario({name: task(2.0) for name in "uvw"}, [{**CPU, "count": 2}], mode="push"),
        # u and v go to processor 0, w to processor 1. Processor 0 waits, w runs, and at 2 ms v is taken before u.
        [0, 0, 1, WAIT, 1],
        [(0, 0, 2, 1), (2, 0, 1, 0), (4, 0, 0, 0)],
        6,
    ),
    Case(
        "a task that waits is asked again",
        scenario({"a": task(2.0), "b": task(2.0)}, [{**CPU, "count": 2}], mode="push"),
        # b waits until a has ended, and goes to processor 0 then.
        [0, WAIT, 0],
        [(0, 0, 0, 0), (2, 0, 1, 0)],
        4,
    ),
]


def check(case: Case, make: Callable[[TaskgraphScenario], Any]) -> None:
    """Assert that a lane made of the case's scenario goes as worked out."""
    log, total = play_case(case.actions, make(load(case.scenario)))
    processors = sum(kind["count"] for kind in case.scenario["processors"])
    rows = [(time / 1e6, kind, job, number, resource) for time, kind, number, job, _, resource in log]
    assert [(t, job, number, resource) for t, kind, job, number, resource in rows if kind == START] == case.starts
    moves = [(t, tile, resource - processors) for t, kind, _, tile, resource in rows if kind == MOVE]
    assert moves == case.moves
    assert [(t, tile, node) for t, kind, _, tile, node in rows if kind == EVICT] == case.evictions
    assert [t for t, kind, *_ in rows if kind == END] == [case.end]
    assert total == pytest.approx(-case.end)
