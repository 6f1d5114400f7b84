"""Fuzzing as a command: `python -m tests.fuzz --minutes 10 --cases 100000 --seed 1 --jobs 2`.

A failing case is run again by itself with `--surface NAME --seed SEED --case NUMBER`.
"""

from __future__ import annotations

import argparse
import json
import secrets
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from tests.fuzz.checks import limit_memory, work_folder
from tests.fuzz.run import SURFACES, Runner, Tally, planned, work

SHOWN = 20
"""Failures that are printed of each surface."""


def main() -> int:
    """Run the command; return 1 if a case broke a rule, or none was run."""
    options = _options()
    if options.worker:
        return _worker(options)
    if options.case is not None:
        return _single(options)
    return _parent(options)


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description="Feed damaged input to every reader.")
    parser.add_argument("--minutes", type=float, default=10.0, help="stop after so long (10)")
    parser.add_argument("--cases", type=int, default=100_000, help="cases in all (100000)")
    parser.add_argument("--seed", type=int, default=None, help="decides every case; drawn if absent")
    parser.add_argument("--jobs", type=int, default=2, help="processes (2)")
    parser.add_argument("--surface", action="append", choices=[kind.name for kind in SURFACES], help="only this one")
    parser.add_argument("--case", type=int, default=None, help="run one case of one surface, and show it")
    parser.add_argument("--worker", default="", help=argparse.SUPPRESS)
    return parser.parse_args()


def _single(options: argparse.Namespace) -> int:
    if options.seed is None or not options.surface or len(options.surface) != 1:
        raise SystemExit("--case needs --seed and one --surface")
    (kind,) = [kind for kind in SURFACES if kind.name == options.surface[0]]
    with tempfile.TemporaryDirectory(dir=work_folder()) as home:
        tally = Tally()
        with Runner(kind, Path(home), options.seed) as runner:
            runner.run(options.case, tally)
    for _, broken in tally.failures:
        print(broken)
    print("broken" if tally.failures else "accepted" if tally.accepted else "refused in one line")
    return 1 if tally.failures else 0


def _worker(options: argparse.Namespace) -> int:
    given = json.loads(options.worker)
    limit_memory()
    work(Path(given["home"]), options.seed, given["plan"], given["end"])
    return 0


class _Workers:
    """Processes that share the cases, and what they say."""

    def __init__(self, options: argparse.Namespace, seed: int, home: Path) -> None:
        self.options, self.seed, self.home = options, seed, home
        self.tallies = {kind.name: Tally() for kind in SURFACES}
        self.crashes: list[str] = []
        self.lock = threading.Lock()

    def run(self) -> None:
        chosen = self.options.surface or [kind.name for kind in SURFACES]
        counts = {name: count for name, count in planned(self.options.cases).items() if name in chosen}
        end = time.time() + 60.0 * self.options.minutes
        threads = []
        for number in range(self.options.jobs):
            plan = {name: (number, count, self.options.jobs) for name, count in counts.items()}
            threads.append(threading.Thread(target=self._share, args=(number, plan, end)))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _share(self, number: int, plan: dict[str, tuple[int, int, int]], end: float) -> None:
        """Run a worker to its end; where a case takes it down, go on behind that case with another."""
        while plan and time.time() < end:
            given = json.dumps({"home": str(self.home / str(number)), "plan": plan, "end": end})
            words = [sys.executable, "-m", "tests.fuzz", "--seed", str(self.seed), "--worker", given]
            process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            errors: list[str] = []
            reader = threading.Thread(target=lambda p=process, e=errors: e.append(p.stderr.read()[-2000:]))
            reader.start()
            at: Any = None
            assert process.stdout is not None
            for line in process.stdout:
                with suppress(json.JSONDecodeError):
                    at = self._hear(json.loads(line), at, plan)
            code = process.wait()
            reader.join()
            if code == 0:
                return
            name, case = at or ("preparing", -1)
            with self.lock:
                self.crashes.append(f"{name} --case {case}: the process ended with {code}: {errors[0].strip()[-500:]}")
            if at is None:
                return
            plan[name] = (case + self.options.jobs, *plan[name][1:])

    def _hear(self, line: dict[str, Any], at: Any, plan: dict[str, tuple[int, int, int]]) -> Any:
        with self.lock:
            if "failed" in line:
                name, case, broken = line["failed"]
                self.tallies[name].failures.append((case, broken))
            elif "done" in line:
                name, cases, accepted, seconds, following = line["done"]
                self.tallies[name].add(Tally(cases, accepted, seconds))
                plan[name] = (plan[name][1] if following is None else following, *plan[name][1:])
        return line.get("at", at)


def _parent(options: argparse.Namespace) -> int:
    seed = secrets.randbelow(2**32) if options.seed is None else options.seed
    print(f"seed {seed}")
    began = time.time()
    with tempfile.TemporaryDirectory(dir=work_folder()) as home:
        workers = _Workers(options, seed, Path(home))
        workers.run()
    total = sum(tally.cases for tally in workers.tallies.values())
    failed = sum(len(tally.failures) for tally in workers.tallies.values()) + len(workers.crashes)
    for name, tally in workers.tallies.items():
        if tally.cases or tally.failures:
            speed = tally.cases / tally.seconds if tally.seconds else 0.0
            counts = f"{tally.cases:7,} cases, {tally.accepted:6,} accepted, {len(tally.failures):4} failed"
            print(f"{name:18} {counts}, {speed:5.0f}/s")
            for case, broken in tally.failures[:SHOWN]:
                print(f"  --surface {name} --seed {seed} --case {case}: {broken}")
    for crash in workers.crashes:
        print(f"  --seed {seed} --surface {crash}")
    print(f"{total:,} cases in {time.time() - began:.0f} s, {failed} failed, seed {seed}")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
