"""Commands of Slurm as processes: no shell, a time limit, errors in one line, a bounded rate of changes."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections import deque
from collections.abc import Callable
from pathlib import Path

from slipstream.errors import DeviceError

TIMEOUT_S = 20.0
"""Longest time for an answer of the controller."""
QUERIES = ("sinfo", "squeue", "scontrol")
CHANGES = ("update", "release", "uhold", "requeue", "requeuehold")
"""What `change` may ask `scontrol` for; none of them cancels a job."""
LONGEST_ERROR = 300


class Slurm:
    """The commands of one Slurm cluster."""

    def __init__(self, config: Path | None = None, changes_per_s: float = 50.0, timeout_s: float = TIMEOUT_S) -> None:
        self.environment = {**os.environ, "SLURM_TIME_FORMAT": "standard", "LC_ALL": "C"}
        """Of all commands; times are printed in the local time zone, as the controller has it."""
        if config is not None:
            self.environment["SLURM_CONF"] = str(config)
        self._config = self.environment.get("SLURM_CONF", "")
        self.timeout_s = timeout_s
        self._rate = RateLimit(changes_per_s)

    def query(self, *words: str) -> str:
        """Return what a command that changes nothing prints.

        Raises:
            DeviceError: One line: the program is missing, or the controller did not answer.
        """
        assert words[0] in QUERIES
        assert words[0] != "scontrol" or "show" in words
        return self._run(list(words))

    def change(self, verb: str, *words: str) -> None:
        """Ask the controller for a change of jobs, not sooner than the bounded rate allows."""
        assert verb in CHANGES, verb
        self._rate.wait()
        self._run(["scontrol", verb, *words])

    def submit(self, script: str, *words: str) -> int:
        """Submit the text of a batch script; return the number of the job."""
        self._rate.wait()
        return int(self._run(["sbatch", "--parsable", *words], script).strip().partition(";")[0])

    def _run(self, words: list[str], script: str | None = None) -> str:
        if shutil.which(words[0]) is None:
            raise DeviceError(f"no {words[0]} on this machine: expected the commands of Slurm in the search path")
        if self._config and not Path(self._config).is_file():
            raise DeviceError(f"{self._config}: no such file: expected the configuration of a Slurm cluster")
        return output_of(words, self.timeout_s, self.environment, script)


def output_of(
    words: list[str], timeout_s: float, environment: dict[str, str] | None = None, script: str | None = None
) -> str:
    """Return what the program `words` prints, given the text `script` as its input; no shell reads its words.

    Raises:
        DeviceError: One line: it could not be run, failed, or did not end within `timeout_s`.
    """
    try:
        process = subprocess.Popen(
            [shutil.which(words[0]) or words[0], *words[1:]],
            stdin=subprocess.DEVNULL if script is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment,
            # A Ctrl-C is for this program, which may have to end what it began.
            start_new_session=True,
        )
        out, error = process.communicate(None if script is None else script.encode(), timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        raise DeviceError(f"{words[0]}: no answer within {timeout_s:g} s") from None
    except OSError as problem:
        raise DeviceError(f"{words[0]}: cannot be run ({problem.strerror})") from None
    if process.returncode:
        said = error.decode(errors="replace").strip() or f"ended with {process.returncode}"
        plain = "".join(character if character.isprintable() else " " for character in said)
        raise DeviceError(f"{words[0]}: {' '.join(plain.split())[:LONGEST_ERROR]}")
    return out.decode(errors="replace")


class RateLimit:
    """Delays calls so that at most `per_s` of them begin within any second."""

    def __init__(
        self,
        per_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._most = max(1, int(per_s))
        self._span = self._most / per_s
        self._clock, self._sleep = clock, sleep
        self._calls: deque[float] = deque(maxlen=self._most)

    def wait(self) -> None:
        """Return when another call may begin."""
        if len(self._calls) == self._most:
            rest = self._calls[0] + self._span - self._clock()
            if rest > 0.0:
                self._sleep(rest)
        self._calls.append(self._clock())
