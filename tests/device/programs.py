"""Programs of tasks that go wrong where their number says so; run as `python:tests.device.programs:NAME`."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

FAULTS = ("raises", "exits", "dies", "crashes", "hangs")


def falter(task):
    """Fail at the first attempt in the way of the task's number, then note that the task is done."""
    way = FAULTS[task.number % len(FAULTS)]
    if task.attempt == 0:
        if way == "raises":
            raise ValueError("not today")
        if way == "exits":
            raise SystemExit(3)
        if way == "dies":
            os._exit(3)
        if way == "crashes":
            os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(3600)
    note(task)


def note(task):
    """Append the task to the file that the environment names."""
    with Path(os.environ["NOTES"]).open("a") as file:
        file.write(f"{task.job} {task.part} {task.number} {task.tasks} {task.attempt}\n")


def produce(task):
    """Write a number for the next stage."""
    (task.folder / f"part-{task.number}").write_text(str(task.number + 1))


def consume(task):
    """Note the sum of what the stage before wrote."""
    total = sum(int(path.read_text()) for path in task.folder.glob("part-*"))
    with Path(os.environ["NOTES"]).open("a") as file:
        file.write(f"{total}\n")


def fail_always(task):
    raise ValueError("never")


not_callable = 3
