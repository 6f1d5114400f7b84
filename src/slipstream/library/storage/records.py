"""What the library's database holds, as Python sees it."""

from __future__ import annotations

import re
from dataclasses import asdict, dataclass, field
from typing import Any

from slipstream.errors import LibraryError

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
REFERENCE = re.compile(rf"({NAME.pattern})(?:@v([0-9]{{1,9}}))?")


@dataclass(frozen=True)
class Version:
    """One trained policy: never changed, never removed."""

    id: int
    model: str
    number: int
    """Counts within the model, from 1."""
    sha256: str
    """Of the folder's files and their names."""
    operation: str
    """What made it: add, update, merge, average or split."""
    created: str
    parents: tuple[str, ...] = ()
    """The versions that it was made from."""

    @property
    def label(self) -> str:
        """How people call it."""
        return f"{self.model}@v{self.number}"

    def to_dict(self) -> dict[str, Any]:
        """Return the version as JSON-ready data."""
        return {"version": self.label, **asdict(self), "parents": list(self.parents)}


@dataclass(frozen=True)
class Event:
    """Something that happened to a model, with the evidence for it."""

    id: int
    time: str
    operation: str
    model: str
    before: str | None
    """The version that the model's name stood for until then."""
    after: str | None
    """The version that it has stood for since; None where the event did not touch the name."""
    reason: str
    evidence: dict[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the event as JSON-ready data."""
        return asdict(self)


@dataclass(frozen=True)
class KnownScenario:
    """A workload that the library has met."""

    digest: str
    family: str
    name: str
    text: str
    """The scenario as JSON."""
    folder: str
    """Where relative paths inside it start."""
    traits: dict[str, float]


def check_name(name: str) -> str:
    """Return the name of a model if it is one."""
    if not NAME.fullmatch(name):
        raise LibraryError(f"model '{name}': expected a name of letters, digits, dots, dashes and underscores")
    return name


def parse_reference(text: str) -> tuple[str, int | None]:
    """Return model and number of a text such as 'cholesky@v3'; without a number it means the version in use."""
    found = REFERENCE.fullmatch(text)
    if found is None:
        raise LibraryError(f"version '{text}': expected a model, or one of its versions as in 'cholesky@v3'")
    return found[1], None if found[2] is None else int(found[2])
