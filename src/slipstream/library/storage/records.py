"""Records of the library's database as dataclasses."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from slipstream.errors import LibraryError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
REFERENCE = re.compile(rf"({NAME.pattern})(?:@v([0-9]{{1,9}}))?")


@dataclass(frozen=True)
class Version:
    """One trained policy: immutable and never removed."""

    id: int
    model: str
    number: int
    """Number within the model, from 1."""
    sha256: str
    """Hash of names and contents of the folder's files."""
    operation: str
    """Operation that made it: add, update, merge, average or split."""
    created: str
    parents: tuple[str, ...] = ()
    """Versions that it was derived from."""

    @property
    def label(self) -> str:
        """Name such as 'cholesky@v3'."""
        return f"{self.model}@v{self.number}"

    def to_dict(self) -> dict[str, Any]:
        """Return the version as JSON-ready data."""
        return {"version": self.label, **asdict(self), "parents": list(self.parents)}


@dataclass(frozen=True)
class Event:
    """An event in the history of a model, with its evidence."""

    id: int
    time: str
    operation: str
    model: str
    before: str | None
    """Version in use before the event."""
    after: str | None
    """Version in use after the event; None if it did not change."""
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True)
class KnownScenario:
    """A workload that is stored in the library."""

    digest: str
    family: str
    name: str
    text: str
    """The scenario as JSON."""
    folder: str
    """Folder that its relative paths start from."""
    traits: dict[str, float]


def check_name(name: str) -> str:
    """Return `name` if it is a valid name of a model; else raise a LibraryError."""
    if not NAME.fullmatch(name):
        raise LibraryError(f"model '{name}': expected a name of letters, digits, dots, dashes and underscores")
    return name


def parse_reference(text: str) -> tuple[str, int | None]:
    """Return model and number of a reference such as 'cholesky@v3'; None for the version in use."""
    found = REFERENCE.fullmatch(text)
    if found is None:
        raise LibraryError(f"version '{text}': expected a model, or one of its versions as in 'cholesky@v3'")
    return found[1], None if found[2] is None else int(found[2])
