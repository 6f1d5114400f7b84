"""Pairs of writers on one library, killed at random points: run as a program, which forks them.

Half of the victims kill themselves after a number of lines of the library's own code, so that the points between any
two of its lines are met; the other half are killed from outside at a random time, in the middle of a system call too.
A writer says through a pipe what it has published, as soon as that returned.

    python writers.py FOLDER ROUNDS SEED
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from slipstream.errors import LibraryError
from slipstream.library.storage import folders, records, store
from slipstream.library.storage.store import Entry, Store
from slipstream.library.storage.verifying import DAMAGE, verify

OWN_CODE = {module.__file__ for module in (folders, records, store)}
LINES = 220
"""About as many lines of the library's code as a writer runs."""
SECONDS = 0.03
"""About as long as it takes."""
ROUNDS_PER_LIBRARY = 20
"""Every version is hashed after every round, so a library does not grow without end."""


def die_after(lines):
    """Let this process kill itself when it has run so many lines of the library's code."""
    left = [lines]

    def count(frame, event, _):
        if frame.f_code.co_filename not in OWN_CODE:
            return None
        if event == "line":
            left[0] -= 1
            if left[0] <= 0:
                os.kill(os.getpid(), signal.SIGKILL)
        return count

    sys.settrace(count)


def write(folder, name, number, told, lines):
    """Publish versions of a model that both writers share, and one of its own; move the shared name."""
    if lines is not None:
        die_after(lines)
    library = Store(folder)
    for model, use in (("shared", True), (name, False)):
        files = {"policy.json": json.dumps([name, number, model]).encode(), "weights": os.urandom(2000)}
        version = library.publish(Entry(model, "edge", "add", files, "a test", use=use))
        os.write(told, f"{version.label} {version.sha256}\n".encode())
    earlier = library.version("shared@v1")
    library.record_event("rollback", "shared", "a test", {}, use=earlier)
    os.write(told, b"done\n")


def start(folder, name, number, lines):
    """Fork a writer; return its process and the end of the pipe that it tells through."""
    heard, told = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(heard)
        try:
            write(folder, name, number, told, lines)
        finally:
            os._exit(0)
    os.close(told)
    return child, heard


def heard_from(pipe):
    with os.fdopen(pipe) as file:
        return [line.split() for line in file.read().splitlines()]


def main():
    folder, rounds, seed = Path(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
    draw = random.Random(seed)
    told = {"promised": 0, "killed": 0, "finished": 0, "leftovers": 0}
    for first in range(0, rounds, ROUNDS_PER_LIBRARY):
        numbers = range(first, min(rounds, first + ROUNDS_PER_LIBRARY))
        for key, value in interleave(folder / str(first), numbers, draw).items():
            told[key] += value
    print(json.dumps(told))


def interleave(folder, numbers, draw):
    """Let pairs of writers work on a new library; check it after every pair."""
    Store(folder, create=True).publish(Entry("shared", "edge", "add", {"policy.json": b"first"}, "a test", use=True))
    promised, killed, finished, leftovers = {}, 0, 0, 0
    for number in numbers:
        by_line = number % 2 == 0
        writers = [
            start(folder, f"own-{who}", number, draw.randrange(LINES) if by_line and who else None) for who in (0, 1)
        ]
        if not by_line:
            time.sleep(draw.random() * SECONDS)
            os.kill(writers[draw.randrange(2)][0], signal.SIGKILL)
        for child, pipe in writers:
            lines = heard_from(pipe)
            finished += ["done"] in lines
            promised.update({line[0]: line[1] for line in lines if len(line) == 2})
            _, status = os.waitpid(child, 0)
            killed += os.WIFSIGNALED(status)
        library = Store(folder)
        known = {version.label: version for version in library.versions()}
        for label, sha256 in promised.items():
            assert known[label].sha256 == sha256, f"round {number}: {label} is lost"
        last = [event.after for event in library.events("shared") if event.after is not None][-1]
        assert library.version("shared").label == last, f"round {number}: a half alias"
        findings = verify(folder)
        assert not [one for one in findings if one.kind == DAMAGE], f"round {number}: {findings}"
        leftovers = len(findings)
        library.close()
    return {"promised": len(promised), "killed": killed, "finished": finished, "leftovers": leftovers}


if __name__ == "__main__":
    try:
        main()
    except LibraryError as error:
        sys.exit(str(error))
