"""Metrics of the service in the text format of Prometheus."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping

BUCKETS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class ServiceMetrics:
    """Counters of requests by task and outcome, latency histograms, and missed deadlines."""

    def __init__(self, tasks: Iterable[str]) -> None:
        self._tasks = list(tasks)
        self._requests: Counter[tuple[str, str]] = Counter()
        self._missed: Counter[str] = Counter()
        self._buckets: Counter[tuple[str, float]] = Counter()
        self._seconds = dict.fromkeys(self._tasks, 0.0)

    def refused(self, task: str, reason: str) -> None:
        """Count a request of `task` that was refused for `reason`."""
        self._requests[task, reason] += 1

    def ended(self, task: str, outcome: str, seconds: float, on_time: bool) -> None:
        """Count a job that has ended; add its latency in `seconds` if it was done."""
        self._requests[task, outcome] += 1
        self._missed[task] += not on_time
        if outcome == "done":
            self._seconds[task] += seconds
            for bucket in BUCKETS_S:
                self._buckets[task, bucket] += seconds <= bucket

    def text(self, gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> str:
        """Return all metrics; `gauges` has by name a help text and a value for each task, or for '' without a task."""
        return "\n".join([*self._counters(), *_gauges(gauges), ""])

    def _counters(self) -> Iterator[str]:
        yield from _head("slipstream_requests_total", "counter", "Requests by task and how they ended.")
        for (task, outcome), count in sorted(self._requests.items()):
            yield f'slipstream_requests_total{{task="{_quoted(task)}",outcome="{outcome}"}} {count}'
        yield from _head("slipstream_deadlines_missed_total", "counter", "Jobs that did not end by their deadline.")
        for task in self._tasks:
            yield f'slipstream_deadlines_missed_total{{task="{_quoted(task)}"}} {self._missed[task]}'
        name = "slipstream_latency_seconds"
        yield from _head(name, "histogram", "Time from the release of a job to its end, of jobs that were done.")
        for task in self._tasks:
            label, count = f'task="{_quoted(task)}"', self._requests[task, "done"]
            for bucket in BUCKETS_S:
                yield f'{name}_bucket{{{label},le="{bucket:g}"}} {self._buckets[task, bucket]}'
            yield f'{name}_bucket{{{label},le="+Inf"}} {count}'
            yield f"{name}_sum{{{label}}} {self._seconds[task]:.9g}"
            yield f"{name}_count{{{label}}} {count}"


def _gauges(gauges: Mapping[str, tuple[str, Mapping[str, float]]]) -> Iterator[str]:
    for name, (meaning, values) in gauges.items():
        yield from _head(name, "gauge", meaning)
        for task, value in values.items():
            yield f'{name}{{task="{_quoted(task)}"}} {value:g}' if task else f"{name} {value:g}"


def _head(name: str, kind: str, meaning: str) -> tuple[str, str]:
    return f"# HELP {name} {meaning}", f"# TYPE {name} {kind}"


def _quoted(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
