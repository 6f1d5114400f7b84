"""`slipstream demo`: a tour through the main commands, each run as it is shown."""

from __future__ import annotations

import io
import json
import os
import shlex
import sys
import webbrowser
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.markup import escape

from slipstream.cli.common import JsonOption, SeedOption, console, print_json
from slipstream.cli.demo_scenario import demo_scenario, longest_latency_ms

if TYPE_CHECKING:
    from slipstream.evaluation import Comparison

EPISODES = 20
GREEDY, CAREFUL = "lookahead", "edf"
"""Heuristics of opposite weakness: large variants that block both streams, and the fastest variants only."""
SETTINGS = (
    "n_envs=64",
    "hindsight.rounds=60",
    "hindsight.own_rounds=40",
    "hindsight.horizon=1.5",
    "variation.profile_error=0.2",
)
"""Settings of the training: what every candidate would have led to is tried in copies of the simulated device."""
WHOLE_S = 115.0
"""Time limit of the whole tour, with compilation."""
AFTERWARDS_S = 40.0
"""Share of it for the runs on the device and the report."""
LEAST_TRAINING_S, MOST_TRAINING_S = 12.0, 40.0
SHOWN_PERIODS = 3
"""Length of the stretch that the schedules at the end show, in periods of the cameras."""
INTERRUPTED = 130
"""Exit code that typer returns for a command ended by a signal."""

OpenOption = Annotated[
    bool, typer.Option("--open/--no-open", help="Open the report in the browser, where there is a screen.")
]
TrainingOption = Annotated[
    float | None, typer.Option(help="Seconds of training; if absent, what is left of the tour's time limit.", min=1.0)
]
OutOption = Annotated[
    Path, typer.Option("--out", "-o", help="New folder for what the tour writes; numbered if there is one already.")
]


def demo(
    seed: SeedOption = 10_000,
    out: OutOption = Path("slipstream-demo"),
    training_seconds: TrainingOption = None,
    open_it: OpenOption = True,
    as_json: JsonOption = False,
) -> None:
    """Take the tour: measure this machine, compare every policy, train one, run it for real, open the report.

    Each step names the command that it runs. The tour takes about a minute and a half (under two minutes the first
    time, when the simulator is compiled) and writes everything to one folder.

    Example: slipstream demo
    """
    tour = Tour(_new_folder(out), seed, as_json)
    tour.run(training_seconds)
    report = tour.folder / "report.html"
    if as_json:
        results = {"steps": tour.steps, "results": tour.results, "ahead": tour.ahead}
        print_json({"scenario": str(tour.scenario.resolve()), **results, "report": str(report.resolve())})
        return
    console.print()
    console.print(
        f"Next: [bold]slipstream dashboard {escape(str(tour.folder))}[/bold] replays these runs decision by decision; "
        f"copy {escape(str(tour.scenario))} to start a scenario of your own.",
        soft_wrap=True,
        markup=True,
    )
    if open_it and sys.stdout.isatty() and _has_screen():
        webbrowser.open(report.resolve().as_uri())
    line = f"Report: [bold]{escape(str(report.resolve()))}[/bold]"
    console.print(line, soft_wrap=True, markup=True)


class Tour:
    """Runs the steps in order; a step that lacks an extra is skipped, and the later ones do without its result."""

    def __init__(self, folder: Path, seed: int, quiet: bool) -> None:
        self.folder = folder
        self.scenario = folder / "scenario.json"
        self.seed = seed
        self.steps: list[dict[str, Any]] = []
        self.results: list[dict[str, Any]] = []
        """A row per policy: simulated reward with its interval, and metrics of the run that was recorded."""
        self.ahead: dict[str, float] | None = None
        """By how much the trained policy is ahead of the best heuristic: mean, low and high, paired over episodes."""
        self._comparison: Comparison
        self._quiet = quiet
        self._began = perf_counter()

    def run(self, training_seconds: float | None) -> None:
        """Run all steps."""
        measured = self._measure()
        compare = ["compare", str(self.scenario), "--episodes", str(EPISODES), "--seed", str(self.seed)]
        compare += ["--metrics", "reward,miss_rate/radar,effective_accuracy/front,utilisation"]
        compare += ["--policies"]
        self._step(
            f"Compare. Every heuristic on the same {EPISODES} simulated episodes. Two cameras and a radar share two "
            "streams; a job that ends by its deadline earns the accuracy of its variant. Large variants block both "
            "streams when the radar needs one, small ones are inaccurate:",
            [*compare, "heuristics"],
        )
        trained = str(self.folder / "trained" / "best") if self._train(training_seconds) else None
        if trained:
            self._step("Compare again, with the trained policy:", [*compare, f"heuristics,{trained}"])
        best = self._evaluate(trained)
        policies = [CAREFUL if best == GREEDY else GREEDY, best, *([trained] if trained else [])]
        logs = [self._record(policy, measured) for policy in policies]
        self._step(
            "Report. The schedules side by side, in one page:",
            ["report", *map(str, logs), "--out", str(self.folder / "report.html")],
        )
        self._conclude(policies, logs, measured)

    def _measure(self) -> bool:
        """Write the scenario with latencies of this machine, or with built-in ones; return whether it was measured."""
        self._write(demo_scenario())
        profile = self.folder / "profile.json"
        words = ["profile", str(self.scenario), "--runs", "15", "--pair-seconds", "0.05", "--out", str(profile)]
        measured = self._step(
            "Measure. How long do the networks take on this machine, alone and side by side?",
            words,
            optional=True,
        )
        if measured:
            longest = longest_latency_ms(json.loads(profile.read_text(encoding="utf-8")))
            self._write(demo_scenario(longest, profile.name))
        return measured

    def _write(self, scenario: dict[str, Any]) -> None:
        self.scenario.write_text(json.dumps(scenario, indent=2) + "\n", encoding="utf-8")

    def _train(self, training_seconds: float | None) -> bool:
        left = WHOLE_S - AFTERWARDS_S - (perf_counter() - self._began)
        minutes = (training_seconds or min(max(left, LEAST_TRAINING_S), MOST_TRAINING_S)) / 60.0
        words = ["train", str(self.scenario), "--warm-start", CAREFUL, "--minutes", f"{minutes:.2f}"]
        for setting in SETTINGS:
            words += ["--set", setting]
        return self._step(
            f"Train. A network first imitates {CAREFUL}, then learns from what other decisions would have led to, in "
            "dozens of simulated devices:",
            [*words, "--out", str(self.folder / "trained")],
            optional=True,
        )

    def _record(self, policy: str, measured: bool) -> Path:
        """Run the scenario under `policy`, for real if it was measured, otherwise simulated; return its log."""
        name = _label(policy)
        log = self.folder / f"{name}.parquet"
        words = [str(self.scenario), "--policy", policy, "--seed", str(self.seed), "--log", str(log)]
        if not measured:
            self._step(f"Simulate one episode under {name}:", ["run", *words], show=False)
            return log
        self._step(
            f"Run for real under {name}: the same jobs, but the networks run on two cores of this machine, in real "
            "time:",
            ["execute", *words, "--out", str(self.folder / f"{name}.html")],
            show=False,
        )
        return log

    def _evaluate(self, trained: str | None) -> str:
        """Compare all heuristics and the trained policy in simulation; return the name of the best heuristic."""
        from slipstream.evaluation import compare

        playing = f"all,{trained}" if trained else "all"
        self._comparison = compare(str(self.scenario), playing, episodes=EPISODES, seed=self.seed)
        heuristics = [one.policy for one in self._comparison.evaluations if one.policy != trained]
        best = max(heuristics, key=lambda name: (self._comparison.of(name).mean("reward"), name == CAREFUL))
        if trained:
            mean, low, high = self._comparison.difference(trained, best, "reward")
            self.ahead = {"mean": mean, "low": low, "high": high}
            self._print(_verdict(best, self.ahead))
        return best

    def _conclude(self, policies: Sequence[str], logs: Sequence[Path], measured: bool) -> None:
        """Print the results of the recorded policies, and a stretch of their schedules."""
        from slipstream.cli.demo_schedule import schedules, stretch_with_misses
        from slipstream.reports.runs import read_run

        for policy, log in zip(policies, logs, strict=True):
            evaluation, metrics = self._comparison.of(policy), read_run(log).metrics
            self.results.append(
                {
                    "policy": _label(policy),
                    "simulated_reward": evaluation.mean("reward"),
                    "simulated_interval": list(evaluation.interval("reward")),
                    "recorded": "device" if measured else "simulation",
                    "recorded_reward": metrics["reward"],
                    "radar_miss_rate": metrics["miss_rate/radar"],
                    "camera_accuracy": metrics["effective_accuracy/front"],
                }
            )
        self._print("")
        self._print_results(measured)
        period = float(json.loads(self.scenario.read_text(encoding="utf-8"))["tasks"][0]["arrival"]["period_ms"])
        begin = stretch_with_misses(logs[0], SHOWN_PERIODS * period)
        drawn = [(_label(policy), log) for policy, log in zip(policies, logs, strict=True)]
        self._print("")
        for line in schedules(drawn, begin, begin + SHOWN_PERIODS * period):
            self._print(line)

    def _print_results(self, measured: bool) -> None:
        place = "this machine" if measured else "one episode"
        self._print(
            f"{'policy':<10}{'simulated reward':>18}{f'reward, {place}':>23}{'radar missed':>14}{'accuracy':>10}"
        )
        for row in self.results:
            self._print(
                f"{row['policy']:<10}{row['simulated_reward']:>18.0f}{row['recorded_reward']:>23.0f}"
                f"{row['radar_miss_rate']:>13.0%}{row['camera_accuracy']:>10.2f}"
            )

    def _step(self, text: str, words: Sequence[str], optional: bool = False, show: bool = True) -> bool:
        """Run the command `words` as a user would; return whether it ran. An `optional` one may lack an extra."""
        from slipstream.cli.application import app
        from slipstream.errors import InputError

        command = shlex.join(["slipstream", *words])
        self._print("")
        self._print(f"[bold]{len(self.steps) + 1}. {text}[/bold]")
        self._print(f"[cyan]$ {escape(command)}[/cyan]")
        began, skipped, output = perf_counter(), "", io.StringIO()
        arguments, sys.argv = sys.argv, ["slipstream", *words]
        try:
            if self._quiet or not show:
                with redirect_stdout(output):
                    code = app(list(words), standalone_mode=False)
            else:
                code = app(list(words), standalone_mode=False)
            if code == INTERRUPTED:
                raise KeyboardInterrupt  # which typer turns into a number
        except InputError as error:
            if not (optional and "pip install" in str(error)):
                raise
            skipped = str(error)
            self._print(f"Left out: {escape(skipped)}. The tour goes on without it.")
        finally:
            sys.argv = arguments
        seconds = perf_counter() - began
        self.steps.append({"command": command, "seconds": round(seconds, 1), "left_out": skipped or None})
        if not skipped:
            self._print(f"[dim]({seconds:.1f} s)[/dim]")
        return not skipped

    def _print(self, text: str) -> None:
        if not self._quiet:
            console.print(text, soft_wrap=True, highlight=False, markup=True)


def _label(policy: str) -> str:
    """Return the name of a policy for tables and files: "trained" for the one that was trained."""
    return "trained" if "/" in policy or os.sep in policy else policy


def _verdict(best: str, ahead: dict[str, float]) -> str:
    """Return the sentence that says whether the trained policy is ahead of the best heuristic."""
    interval = f"{ahead['mean']:+.1f} per episode, 95% interval {ahead['low']:+.1f} to {ahead['high']:+.1f}"
    if ahead["low"] > 0.0:
        return f"[bold green]The trained policy is ahead of every heuristic:[/] {interval} against {best}, the best."
    return f"[bold]The trained policy is not ahead of {best}:[/] {interval}. Train for longer: --training-seconds 60."


def _new_folder(wanted: Path) -> Path:
    """Create the folder `wanted`, or the first of `wanted-2`, `wanted-3`, ... that is free; return its path."""
    from slipstream.errors import InputError, unwritable

    for number in range(1, 1000):
        folder = wanted if number == 1 else wanted.with_name(f"{wanted.name}-{number}")
        try:
            folder.mkdir()
        except FileExistsError:
            continue
        except OSError as error:
            raise InputError(f"{folder}: cannot be made ({unwritable(error)}): expected a writable place") from None
        return folder
    raise InputError(f"{wanted}: exists 999 times, with numbers: expected another name, by --out")


def _has_screen() -> bool:
    return sys.platform in ("darwin", "win32") or any(os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY"))
