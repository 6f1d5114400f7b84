"""A surface: readers that take one kind of input, and how to make cases of it."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from collections.abc import Callable
from pathlib import Path
from random import Random

Reading = Callable[[], list[str]]
"""Reads what a case has written; returns all that would be shown."""


class Surface(ABC):
    """One kind of input. `prepare` is called once; `make` for every case, with an empty folder."""

    name: str
    share = 1.0
    """Of the cases, against the other surfaces: what reads fast is tried more often."""

    @abstractmethod
    def prepare(self, home: Path) -> None:
        """Build whole input once, below `home`."""

    def close(self) -> None:  # noqa: B027 - most have nothing open
        """Let go of what is open."""

    @abstractmethod
    def make(self, rng: Random, folder: Path) -> Reading:
        """Write a case into a folder; return what reads it."""


def empty(folder: Path) -> None:
    """Let a folder be empty."""
    if folder.exists():
        shutil.rmtree(folder)
    folder.mkdir(parents=True)


def put(files: dict[str, bytes], folder: Path) -> None:
    """Write files by their names, which may lie in folders of their own."""
    for name, content in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def taken(folder: Path) -> dict[str, bytes]:
    """Return all files below a folder, by their names in it."""
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()
    }
