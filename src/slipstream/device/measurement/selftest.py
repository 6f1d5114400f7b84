"""Self-test of a device: whether its streams do what the runtime relies on, and how fast, on one page."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch

from slipstream.device.backends.registry import open_streams
from slipstream.device.backends.streams import Completion, RunRequest, Streams, now
from slipstream.device.models.addresses import load
from slipstream.device.runtime import Runtime
from slipstream.device.workload import Workload, workload_of
from slipstream.errors import DeviceError, SlipstreamError
from slipstream.families.contract import family_of
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.families.shared import invariants
from slipstream.policies import find
from slipstream.sim.eventlog import FINISH

RUN_MS = 20_000.0
"""Length of the run of a scenario."""
LOOPS = 100
"""Runs of each measured loop."""
TOLERANCE = 1e-2
"""Largest difference of an output from that of the same model on the CPU; GPUs round otherwise."""
LONGEST_RUN_S = 30.0
WIDTH = 34
"""Of the names on the page, in characters."""


@dataclass(frozen=True)
class Check:
    """Outcome of one check."""

    name: str
    passed: bool
    found: str


@dataclass
class Page:
    """Result of a self-test."""

    device: str
    hardware: str = ""
    checks: list[Check] = field(default_factory=list)
    figures: dict[str, float | None] = field(default_factory=dict)
    """By name with unit; None where the device cannot tell."""

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.checks)

    def to_dict(self) -> dict[str, Any]:
        """Return the page as JSON data."""
        return {**asdict(self), "passed": self.passed}

    def lines(self, versions: dict[str, str]) -> list[str]:
        """Return the page as text, beginning with `versions`."""
        head = {"device": self.device, "hardware": self.hardware, **versions}
        lines = [f"{name:{WIDTH}}{text}" for name, text in head.items()]
        lines += ["", *(f"{'passed' if c.passed else 'FAILED'}  {c.name}: {c.found}" for c in self.checks), ""]
        lines += [
            f"{name:{WIDTH}}{'none' if value is None else f'{value:.4g}'}" for name, value in self.figures.items()
        ]
        failed = sum(not check.passed for check in self.checks)
        verdict = f"{failed} of {len(self.checks)} checks failed" if failed else f"all {len(self.checks)} checks passed"
        return [*lines, "", f"{verdict}: please send this page to the project"]


def scenario_for_test() -> EdgeScenario:
    """Return the scenario of the test: pictures and texts, in two variants each, on two streams of unlike priority."""
    tasks = [
        {
            "name": name,
            "model": f"builtin:{family}",
            "dataset": dataset,
            "num_variants": 2,
            "variants": [{"latency_ms": 2.0, "accuracy": 0.7}, {"latency_ms": 4.0, "accuracy": 0.8}],
            "arrival": {"kind": "poisson", "mean_gap_ms": gap},
            "deadline_ms": 100,
        }
        for name, family, dataset, gap in (
            ("pictures", "mobilenet", "synthetic:3x32x32", 20),
            ("texts", "transformer", "text-128", 25),
        )
    ]
    device = {"streams": 2, "interference": {"kind": "share"}, "stream_priorities": [1, 0]}
    return EdgeScenario.model_validate(
        {"family": "edge", "name": "selftest", "horizon_ms": RUN_MS, "device": device, "tasks": tasks}
    )


def run_selftest(device: str) -> Page:
    """Return the page of `device`.

    Raises:
        DeviceError: There is no such device.
    """
    scenario = scenario_for_test()
    workload = workload_of(scenario)
    page = Page(device)
    with _opened(device, scenario, workload) as streams:
        page.hardware = streams.hardware
        test = _SelfTest(scenario, workload, streams, page)
        for name, check in test.checks():
            _carry_out(page, name, check)
    _carry_out(page, "opened again", lambda: _open_again(device, scenario, workload))
    return page


def _opened(device: str, scenario: EdgeScenario, workload: Workload) -> Streams:
    return open_streams(device, workload, scenario.device.streams, scenario.device.stream_priorities)


def _carry_out(page: Page, name: str, check: Callable[[], str]) -> None:
    """Add the outcome of a check, which returns what it found, or raises an error that says what is wrong."""
    try:
        page.checks.append(Check(name, True, check()))
    except (SlipstreamError, RuntimeError, OSError) as error:
        text = (str(error).strip().splitlines() or [""])[0]
        page.checks.append(Check(name, False, f"{type(error).__name__}: {text}"))


def _open_again(device: str, scenario: EdgeScenario, workload: Workload) -> str:
    with _opened(device, scenario, workload) as streams:
        _run(streams, 0, RunRequest(0, 0, 0))
    return "closed, opened and run once more"


def _ended(streams: Streams, count: int) -> list[Completion]:
    """Wait for `count` runs to end; return them."""
    until, found = now() + int(LONGEST_RUN_S * 1e9), list[Completion]()
    while len(found) < count:
        found += streams.wait(0.2)
        if now() > until:
            raise DeviceError(f"{count - len(found)} of {count} runs gave no answer within {LONGEST_RUN_S:g} s")
    return found


def _run(streams: Streams, stream: int, request: RunRequest) -> Completion:
    """Make one run; return its completion, or raise its error."""
    streams.submit(stream, request)
    (completion,) = _ended(streams, 1)
    if completion.error:
        raise DeviceError(f"a run failed: {completion.error}")
    return completion


class _SelfTest:
    """The checks of open streams."""

    def __init__(self, scenario: EdgeScenario, workload: Workload, streams: Streams, page: Page) -> None:
        self._scenario, self._workload, self._streams = scenario, workload, streams
        self._figures = page.figures
        self._largest = self._request(workload.model_of[0][-1], 0)

    def checks(self) -> Iterator[tuple[str, Callable[[], str]]]:
        """Yield the checks, by name."""
        yield "results", self._results
        yield "times", self._times
        yield "no run is lost", self._alternating
        yield "not finite", self._not_finite
        yield "a run of a scenario", self._scenario_run

    def _request(self, model: int, sample: int) -> RunRequest:
        task = next(task for task, models in enumerate(self._workload.model_of) if model in models)
        return RunRequest(model, self._workload.set_of[task], sample)

    def _results(self) -> str:
        """Compare the outputs of every model on every stream with those of the model in this process."""
        worst = 0.0
        for number, model in enumerate(self._workload.models):
            reference = load(model.address, model.dataset)
            for sample in (0, 5):
                request = self._request(number, sample)
                batch = torch.from_numpy(self._workload.sets[request.samples].inputs[sample : sample + 1])
                with torch.inference_mode():
                    expected = reference(batch).reshape(-1).numpy()
                for stream in range(self._streams.count):
                    _run(self._streams, stream, request)
                    found = self._streams.output(stream)
                    if found.shape != expected.shape:
                        raise DeviceError(f"model '{model.address.text}': {len(found)} numbers of {len(expected)}")
                    worst = max(worst, float(np.abs(found - expected).max()))
        if not worst <= TOLERANCE:
            raise DeviceError(f"outputs differ from those of the CPU by {worst:.2g}: expected at most {TOLERANCE:g}")
        count = f"{len(self._workload.models)} models on {self._streams.count} streams"
        return f"{count}, at most {worst:.1g} from the CPU"

    def _times(self) -> str:
        """Measure a loop on one stream: the device may not have worked for longer than the host waited."""
        launched, device, host = [], [], []
        for _ in range(LOOPS):
            began = now()
            self._streams.submit(0, self._largest)
            launched.append(now() - began)
            (completion,) = _ended(self._streams, 1)
            if not began < completion.ended <= now():
                raise DeviceError("a run ended before it began, or after it was reported")
            device.append(completion.device_ns)
            host.append(completion.ended - began)
        for name, times in (("submit", launched), ("run on the device", device), ("run for the host", host)):
            for percent in (50, 99):
                self._figures[f"{name} p{percent} us"] = float(np.percentile(times, percent)) / 1e3
        if min(device) <= 0 or any(own > 1.05 * all_of_it for own, all_of_it in zip(device, host, strict=True)):
            raise DeviceError("the time on the device is not between 0 and that of the host")
        return f"{LOOPS} runs, the device's own time within that of the host"

    def _alternating(self) -> str:
        """Keep all streams busy: each run must be answered once, on its stream; report the throughput."""
        count, began = self._streams.count, now()
        for turn in range(LOOPS):
            for stream in range(count):
                self._streams.submit(stream, self._largest._replace(sample=turn % 8))
            found = _ended(self._streams, count)
            if sorted(one.stream for one in found) != list(range(count)) or any(one.error for one in found):
                raise DeviceError(f"turn {turn}: {found}: expected one completion of each stream")
        spent = (now() - began) / 1e3 / (count * LOOPS)
        alone = self._figures.get("run for the host p50 us")
        self._figures["throughput of all streams to one"] = alone / spent if alone else None
        return f"{count * LOOPS} runs on {count} streams side by side"

    def _not_finite(self) -> str:
        """Give a sample that is not a number: its run must fail, and the next one succeed."""
        request = self._largest
        values = self._workload.sets[request.samples].inputs[request.sample]
        self._streams.put(request.samples, request.sample, np.full_like(values, np.nan))
        self._streams.submit(0, request)
        (completion,) = _ended(self._streams, 1)
        self._streams.put(request.samples, request.sample, values)
        if "not finite" not in completion.error:
            raise DeviceError(f"a sample that is not a number gave '{completion.error}': expected an error")
        _run(self._streams, 0, request)
        return "reported, and the stream goes on"

    def _scenario_run(self) -> str:
        """Run the scenario under a rule, and check the laws of its log."""
        before = self._streams.joules()
        execution = Runtime(self._scenario, self._workload, self._streams).play(find("edf-fit", "edge"), 0)
        after = self._streams.joules()
        device = self._scenario.device
        invariants.check(execution.events, device.streams, device.queue_limit)
        figures = family_of(self._scenario).metrics(self._scenario, execution.events)
        self._figures["miss rate"] = figures["miss_rate"]
        self._figures["response p50 ms"] = figures["response_p50_ms"]
        for percent in (50, 99):
            self._figures[f"dispatch p{percent} us"] = float(np.percentile(execution.dispatch_ns, percent)) / 1e3
        self._figures["energy J"] = None if before is None or after is None else after - before
        if execution.faults:
            raise DeviceError(f"{len(execution.faults)} jobs failed, the first with '{execution.faults[0][2]}'")
        finished = int((execution.events["kind"] == FINISH).sum())
        return f"{finished} jobs in {self._scenario.horizon_ms / 1e3:g} s, all laws of the log hold"
