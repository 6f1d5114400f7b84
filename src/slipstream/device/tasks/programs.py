"""Programs that tasks run: their addresses, and how a worker runs them.

`python:MODULE:CALLABLE` is called with a `Task`. `command:WORDS` is started without a shell, in the folder of its job,
with the fields of the task in its environment.
"""

from __future__ import annotations

import importlib
import os
import re
import shlex
import subprocess
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from slipstream.device.models.addresses import Address as ModelAddress
from slipstream.device.models.addresses import parse
from slipstream.device.models.datasets import DatasetType, dataset_type
from slipstream.device.tasks.networks import NetworkProgram
from slipstream.device.tasks.task import Task
from slipstream.device.workers.process import die_with_parent
from slipstream.errors import ModelError

PYTHON, COMMAND, MODEL = "python:", "command:", "model:"
ERROR_BYTES = 4096
"""How much of the end of a command's error output is read for its last line."""


Program = Callable[[Task], object]


@dataclass(frozen=True)
class Address:
    """Validated address of a program."""

    text: str
    home: str
    """Folder that relative names of commands start from: that of the scenario."""


def parse_programs(texts: tuple[str, ...], home: Path, allow_code: bool) -> list[Address]:
    """Return the validated addresses of programs.

    Raises:
        ModelError: One line: the address, what is wrong with it and what was expected.
    """
    for text in texts:
        if text.startswith(MODEL):
            parse_model(text, home, allow_code)
            continue
        if not text.startswith((PYTHON, COMMAND)):
            raise ModelError(f"program '{text}': expected an address that begins with {PYTHON} or {COMMAND}")
        if text.startswith(PYTHON) and not re.fullmatch(r"[\w.]+:[\w.]+", text.removeprefix(PYTHON)):
            raise ModelError(f"program '{text}': expected python:MODULE:CALLABLE")
        if text.startswith(COMMAND):
            _words(text)
        if not allow_code:
            raise ModelError(f"program '{text}': can do anything: expected --allow-code with it")
    return [Address(text, str(home.absolute())) for text in texts]


def parse_model(text: str, home: Path, allow_code: bool) -> tuple[ModelAddress, DatasetType]:
    """Return the network of an address 'model:DATASET|RANK|ADDRESS', and the type of its inputs."""
    dataset, rank, address = text.removeprefix(MODEL).split("|", 2)
    return parse(address, int(rank), home, allow_code), dataset_type(dataset)


def _words(text: str) -> list[str]:
    try:
        words = shlex.split(text.removeprefix(COMMAND))
    except ValueError as error:
        raise ModelError(f"program '{text}': {str(error).lower()}: expected the words of a command") from None
    if not words or "\0" in text:
        raise ModelError(f"program '{text}': expected the words of a command")
    return words


def load_program(address: Address) -> Program:
    """Return the program of an address.

    Raises:
        ModelError: One line: the address, and why it cannot be loaded.
    """
    if address.text.startswith(MODEL):
        return NetworkProgram(*parse_model(address.text, Path(address.home), True))
    if address.text.startswith(COMMAND):
        return _Command(_words(address.text), address.home)
    module, _, name = address.text.removeprefix(PYTHON).partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except Exception as error:  # foreign modules may raise anything
        reason = (str(error).strip().splitlines() or [""])[0][:300]
        raise ModelError(f"program '{address.text}': cannot be loaded: {type(error).__name__}: {reason}") from error
    if not callable(found):
        raise ModelError(f"program '{address.text}': is a {type(found).__name__}: expected a function of a task")
    program: Program = found
    return program


class _Command:
    """A command as a program; it fails with its last line of error output, or with its exit status."""

    def __init__(self, words: list[str], home: str) -> None:
        first = words[0]
        if "/" in first:
            first = str(Path(home) / first)
        self._words = [first, *words[1:]]
        self._home = home

    def __call__(self, task: Task) -> None:
        fields = {f"SLIPSTREAM_{name.upper()}": str(value) for name, value in task._asdict().items()}
        with tempfile.TemporaryFile() as said:
            status = subprocess.run(
                self._words,
                cwd=task.folder,
                env={**os.environ, **fields, "SLIPSTREAM_HOME": self._home},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=said,
                check=False,
                preexec_fn=die_with_parent,
            ).returncode
            if status:
                said.seek(max(0, said.seek(0, os.SEEK_END) - ERROR_BYTES))
                lines = said.read().decode(errors="replace").strip().splitlines()
                how = f"exit status {status}" if status > 0 else f"signal {-status}"
                raise RuntimeError(f"{how}{': ' + lines[-1] if lines else ''}")
