"""The folder of runs: what is in it, and the only door through which the dashboard reads files."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from slipstream.core.eventlog import read_about
from slipstream.core.family import FAMILIES
from slipstream.errors import InputError

RUN, HISTORY = "run.json", "history.jsonl"
"""What `slipstream train` writes; named here, because reading them needs no torch."""
MOST_ENTRIES = 2000
"""Runs that a page lists; what comes behind them is counted, not shown."""
DEEPEST_FOLDER = 6
LARGEST_JSON_BYTES = 64 * 2**20
LIVE = ".live.jsonl"
"""How the name of the file ends to which `slipstream execute --live` writes what it does."""


class UnknownRunError(InputError):
    """There is no such run in the folder."""


@dataclass(frozen=True)
class Entry:
    """Something in the folder that a page can show."""

    name: str
    """Its path inside the folder, with forward slashes."""
    kind: str
    """`run`, `training`, `comparison`, `page` or `live`."""
    modified: float
    about: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-ready data."""
        return {"name": self.name, "kind": self.kind, "modified": self.modified, **self.about}


class RunsFolder:
    """A folder of runs; nothing outside of it is ever opened."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder: expected the folder that holds your runs")
        self.root = root.resolve()
        self._seen: dict[str, tuple[tuple[int, int], Entry | None]] = {}

    def path(self, name: str) -> Path:
        """Return where a file or folder of a name is.

        Raises:
            UnknownRunError: There is none, or it lies outside the folder, also by way of a link.
        """
        parts = PurePosixPath(name).parts
        plain = "\0" not in name and "\\" not in name and not name.startswith("/")
        if parts and plain and not any(part.startswith(".") for part in parts):
            try:
                found = self.root.joinpath(*parts).resolve(strict=True)
            except (OSError, RuntimeError):  # RuntimeError: a ring of links
                found = self.root
            if found != self.root and found.is_relative_to(self.root):
                return found
        raise UnknownRunError(f"{name[:200]!r}: no such run in this folder")

    def entry(self, name: str, kind: str | None = None) -> Entry:
        """Return what is known of a run, of the kind that is expected where one is.

        Raises:
            UnknownRunError: There is none, or it is of another kind.
        """
        found = self._entry(self.path(name), name)
        if found is None or kind not in (None, found.kind):
            raise UnknownRunError(f"{name[:200]!r}: not a {kind or 'run'}: expected one of those that the page lists")
        return found

    def listing(self) -> tuple[list[Entry], int]:
        """Return the runs of the folder, newest first, and how many more there are."""
        found = []
        for path in self._files():
            name = path.relative_to(self.root).as_posix()
            try:
                entry = self._entry(self.path(name), name)
            except UnknownRunError:  # a link that leads outside, or a file that has just gone
                continue
            if entry is not None:
                found.append(entry)
        found.sort(key=lambda entry: (-entry.modified, entry.name))
        return found[:MOST_ENTRIES], max(0, len(found) - MOST_ENTRIES)

    def _files(self) -> Iterator[Path]:
        """Yield the files and the folders of trainings; inside of these nothing is a run of its own."""
        for place, folders, files in os.walk(self.root):
            here = Path(place)
            if RUN in files and here != self.root:
                folders.clear()
                yield here
                continue
            deep = len(here.relative_to(self.root).parts) >= DEEPEST_FOLDER
            folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
            yield from (here / name for name in sorted(files) if not name.startswith("."))

    def _entry(self, path: Path, name: str) -> Entry | None:
        """Return what a file is, read again only where it changed."""
        source = path / HISTORY if path.is_dir() and (path / HISTORY).exists() else path
        try:
            status = source.stat()
        except OSError:
            return None
        stamp = (status.st_mtime_ns, status.st_size)
        known = self._seen.get(name)
        if known is None or known[0] != stamp:
            kind, about = _recognised(path)
            entry = Entry(name, kind, status.st_mtime, about) if kind else None
            known = self._seen[name] = (stamp, entry)
        return known[1]


def _recognised(path: Path) -> tuple[str, dict[str, Any]]:
    """Return the kind of a file and what it says about itself; no kind where a page has no use for it."""
    try:
        if path.is_dir():
            return ("training", _training(path)) if (path / RUN).is_file() else ("", {})
        if path.suffix == ".parquet":
            return "run", _run(path)
        if path.name.endswith(LIVE):
            return "live", {}
        if path.suffix == ".html":
            return "page", {}
        if path.suffix == ".json":
            found = read_comparison(path)
            policies = [one["policy"] for one in found["policies"]]
            shown = {"scenario": found["title"], "episodes": found["episodes"], "seed": found["seed"]}
            return "comparison", {**shown, "policy": ", ".join(policies), "oracle": found.get("oracle") is not None}
    except (InputError, OSError, ValueError, KeyError, TypeError):
        pass  # some other file, or one that is being written
    return "", {}


def _run(path: Path) -> dict[str, Any]:
    about = read_about(path)
    scenario = json.loads(about["scenario"])
    if scenario["family"] not in FAMILIES:
        raise ValueError(scenario["family"])
    return {
        "scenario": f"{scenario['family']}/{scenario['name']}",
        "family": scenario["family"],
        "policy": str(about["policy"]),
        "seed": int(about["seed"]),
        "command": str(about.get("command", "")),
        "device": str(about["device"]) if "device" in about else None,
    }


def _training(path: Path) -> dict[str, Any]:
    about = json.loads((path / RUN).read_text(encoding="utf-8"))
    settings = about.get("settings", {})
    return {
        "scenario": str(about["scenario"]),
        "family": str(about["scenario"]).partition("/")[0],
        "policy": str(settings.get("algo", "")),
        "seed": settings.get("seed"),
        "command": str(about.get("command", "")),
        "steps": settings.get("steps"),
    }


def read_comparison(path: Path) -> dict[str, Any]:
    """Return what `slipstream compare --json` wrote.

    Raises:
        InputError: The file is something else.
    """
    if path.stat().st_size > LARGEST_JSON_BYTES:
        raise InputError(f"{path.name}: larger than {LARGEST_JSON_BYTES >> 20} MB: expected a comparison")
    data = json.loads(path.read_text(encoding="utf-8"))
    if not isinstance(data, dict) or not {"title", "scenario_digest", "episodes", "seed", "policies"} <= data.keys():
        raise InputError(f"{path.name}: expected what `slipstream compare --json` writes")
    return data
