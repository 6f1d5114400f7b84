"""Runs started from the page: commands in subprocesses, limited in time, memory and number."""

from __future__ import annotations

import json
import os
import secrets
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from time import time
from typing import Any

from slipstream.errors import InputError
from slipstream.files.atomic import remove_unfinished_in, replace_file
from slipstream.files.confined import resolve_inside

MOST_RUNNING = 2
MOST_REMEMBERED = 100
SECONDS, MEGABYTES = 300, 4096
"""Limits of one run: wall-clock seconds, and data memory."""
HOME = "tried"
"""Folder of such runs, inside the folder of runs."""
MESSAGE_CHARACTERS = 2000
"""Of the error output of a failed command that are shown, from its end."""


class TooManyJobsError(InputError):
    """The maximum number of runs is under way."""


@dataclass
class Job:
    """One run started from the page: commands executed in sequence in one folder."""

    name: str
    commands: list[list[str]]
    folder: Path
    began: float = field(default_factory=time)
    state: str = "running"
    """`running`, `done`, `failed`, `cancelled` or `too long`."""
    message: str = ""
    ended: float | None = None
    process: subprocess.Popen[bytes] | None = None

    def to_dict(self) -> dict[str, Any]:
        """Return the state of the job as JSON-ready data."""
        seconds = (self.ended or time()) - self.began
        shown = [shlex.join(["slipstream", *command]) for command in self.commands]
        return {
            "name": self.name,
            "state": self.state,
            "message": self.message,
            "seconds": round(seconds, 1),
            "commands": shown,
            "folder": f"{HOME}/{self.name}",
        }


class Jobs:
    """Starts, lists and cancels runs."""

    def __init__(self, root: Path, seconds: int = SECONDS, megabytes: int = MEGABYTES) -> None:
        self._root, self._seconds, self._megabytes = root, seconds, megabytes
        self._jobs: dict[str, Job] = {}
        self._lock = threading.Lock()

    def start(self, scenario: dict[str, Any], policies: Sequence[str], episodes: int, seed: int, oracle: float) -> Job:
        """Compare policies on a scenario, and record one episode of each.

        Raises:
            TooManyJobsError: Others are under way.
            InputError: The folder cannot be written.
        """
        with self._lock:
            if sum(job.state == "running" for job in self._jobs.values()) >= MOST_RUNNING:
                raise TooManyJobsError(
                    f"{MOST_RUNNING} runs are under way: expected you to wait for one, or to cancel it"
                )
            name = secrets.token_hex(4)
            folder = self._root / HOME / name
            try:
                (self._root / HOME).mkdir(exist_ok=True)
                resolve_inside(self._root, HOME)
                folder.mkdir()
                replace_file(folder / "scenario.json", (json.dumps(scenario, indent=2) + "\n").encode())
            except OSError as error:
                reason = (error.strerror or "unknown reason").lower()
                raise InputError(f"{HOME}/{name}: cannot be written ({reason}): expected a writable folder") from None
            compare = ["compare", "scenario.json", "--policies", ",".join(policies), "--episodes", str(episodes)]
            compare += ["--seed", str(seed), *(["--oracle", str(oracle)] if oracle else []), "--json"]
            commands = [compare]
            for number, policy in enumerate(policies):
                log = f"{number}-{_plain(policy)}.parquet"
                commands.append(["run", "scenario.json", "--policy", policy, "--seed", str(seed), "--log", log])
            job = self._jobs[name] = Job(name, commands, folder)
            self._forget()
        threading.Thread(target=self._work, args=(job,), daemon=True).start()
        return job

    def find(self, name: str) -> Job:
        """Return a job by its name."""
        if name not in self._jobs:
            raise InputError(f"'{name[:40]}': no such run: expected one that was started from the page")
        return self._jobs[name]

    def all(self) -> list[Job]:
        """Return the jobs, newest first."""
        return sorted(self._jobs.values(), key=lambda job: -job.began)

    def cancel(self, name: str) -> Job:
        """Stop a job that is under way."""
        job = self.find(name)
        with self._lock:
            if job.state == "running":
                job.state = "cancelled"
                _kill(job.process)
        return job

    def close(self) -> None:
        """Stop all that is under way."""
        for name in list(self._jobs):
            self.cancel(name)

    def _work(self, job: Job) -> None:
        end = job.began + self._seconds
        for command in job.commands:
            words = [sys.executable, "-m", "slipstream.dashboard.limits", str(self._seconds), str(self._megabytes)]
            # The output of a comparison becomes a file that the page lists like any other.
            output = job.folder / ("comparison.json" if command[0] == "compare" else "run.txt")
            with output.open("wb") as out, (job.folder / "errors.txt").open("wb") as err:
                with self._lock:
                    if job.state != "running":
                        break
                    job.process = subprocess.Popen(
                        [*words, *command], stdin=subprocess.DEVNULL, stdout=out, stderr=err, cwd=job.folder,
                        start_new_session=True, env={**os.environ, "COLUMNS": "200"},
                    )  # fmt: skip
                try:
                    code = job.process.wait(max(end - time(), 0.1))
                except subprocess.TimeoutExpired:
                    _kill(job.process)
                    code = job.process.wait()
                    self._end(job, "too long", f"stopped after {self._seconds} seconds")
                    break
            if code:
                words_left = (job.folder / "errors.txt").read_text(encoding="utf-8", errors="replace").strip()
                self._end(
                    job,
                    "failed",
                    words_left[-MESSAGE_CHARACTERS:] or f"ended with code {code}: too much time or memory",
                )
                output.unlink(missing_ok=True)
                break
        remove_unfinished_in(job.folder)  # a killed command leaves its temporary files
        self._end(job, "done")
        job.ended = time()

    def _end(self, job: Job, state: str, message: str = "") -> None:
        with self._lock:
            if job.state == "running":
                job.state, job.message = state, message

    def _forget(self) -> None:
        over = [job for job in self.all() if job.state != "running"]
        for job in over[MOST_REMEMBERED:]:
            del self._jobs[job.name]


def _plain(policy: str) -> str:
    return "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in policy)[:60]


def _kill(process: subprocess.Popen[bytes] | None) -> None:
    """Kill a command and its subprocesses, which form a process group."""
    if process is not None and process.poll() is None:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
