"""Integrity check of a library: finds and names every damage."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from slipstream.errors import InputError, LibraryError, one_line
from slipstream.files.inputs import json_object, unreadable
from slipstream.library.storage.folders import content_hash, fault, read_files
from slipstream.library.storage.store import DATABASE, INCOMING, VERSIONS, Store

DAMAGE, LEFTOVER = "damage", "leftover"
"""Kinds of findings: damage, and harmless leftovers of killed writers."""


@dataclass(frozen=True)
class Finding:
    """A defect of a library."""

    kind: str
    place: str
    what: str

    def to_dict(self) -> dict[str, Any]:
        """Return the finding as JSON-ready data."""
        return asdict(self)


def verify(folder: str | Path) -> list[Finding]:
    """Return all defects of the library in `folder`, damages first."""
    try:
        store = Store(folder)
    except LibraryError as error:
        if not (Path(folder) / DATABASE).exists():
            raise
        return [Finding(DAMAGE, DATABASE, str(error))]
    try:
        found = [Finding(DAMAGE, DATABASE, text) for text in store.check_database()]
        if found:
            return found
        found = [
            *_check_versions(store),
            *_check_aliases(store),
            *_check_scenarios(store),
            *_check_folders(store),
        ]
    except InputError as error:  # damaged since the check of the database
        found = [Finding(DAMAGE, DATABASE, str(error))]
    finally:
        store.close()
    return sorted(found, key=lambda finding: finding.kind != DAMAGE)


def _check_versions(store: Store) -> Iterator[Finding]:
    numbers: dict[str, int] = {}
    for version in store.versions():
        numbers[version.model] = numbers.get(version.model, 0) + 1
        if version.number != numbers[version.model]:
            yield Finding(DAMAGE, version.label, f"follows v{numbers[version.model] - 1}: a version between is lost")
            numbers[version.model] = version.number
        folder = store.folder_of(version)
        wrong = fault(folder, version.sha256)
        if wrong is not None:
            yield Finding(DAMAGE, version.label, f"{folder}: {wrong}")


def _check_aliases(store: Store) -> Iterator[Finding]:
    """Check that every alias is a version of its model and agrees with the last event that set it."""
    labels = {version.id: version for version in store.versions()}
    recorded: dict[str, str | None] = {}
    for event in store.events():
        if event.after is not None:
            recorded[event.model] = event.after
    aliases = store.aliases()
    for name, used in aliases.items():
        version = labels[used]  # dangling references were found before
        if version.model != name:
            yield Finding(DAMAGE, name, f"stands for {version.label}, which is a version of another model")
        elif recorded.get(name) != version.label:
            yield Finding(DAMAGE, name, f"stands for {version.label}, but by its last event for {recorded.get(name)}")
    for name in recorded:
        if name not in aliases:
            yield Finding(DAMAGE, name, f"stands for nothing, but by its last event for {recorded[name]}")


def _check_scenarios(store: Store) -> Iterator[Finding]:
    """Check that every stored scenario has its digest."""
    from slipstream.scenario import digest, load

    for signature, known in store.scenarios().items():
        place = f"scenario {signature[:12]} ({one_line(known.name, 100)})"
        try:
            data = json_object(known.text, "text", LibraryError)
            found = digest(load(data, Path(known.folder)))
        except InputError as error:
            yield Finding(DAMAGE, place, str(error))
            continue
        if found != signature:
            yield Finding(DAMAGE, place, f"is another scenario than was remembered: its digest is {found}")


def _check_folders(store: Store) -> Iterator[Finding]:
    known = {store.folder_of(version).name for version in store.versions()}
    for folder in _entries(store.folder / VERSIONS):
        if folder.name in known:
            continue
        try:
            whole = content_hash(read_files(folder)).startswith(folder.name)
        except LibraryError:
            whole = False
        state = "whole" if whole else "not whole"
        place = one_line(f"{VERSIONS}/{folder.name}")
        yield Finding(LEFTOVER, place, f"no version is in it ({state}): its writer was stopped")
    for entry in _entries(store.folder / INCOMING):
        place = one_line(f"{INCOMING}/{entry.name}")
        yield Finding(LEFTOVER, place, "was never put in place: its writer was stopped, or is writing")


def _entries(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir()) if folder.is_dir() else []
    except OSError as error:
        raise LibraryError(f"{folder}: {unreadable(error)}: expected a folder of the library") from None
