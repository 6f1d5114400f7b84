"""The folder of runs: a listing of its entries, and checked paths, by which alone the dashboard reads files."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from slipstream.dashboard.results.twins import about_twin, is_twin
from slipstream.errors import InputError, one_line
from slipstream.families.contract import FAMILIES
from slipstream.files.confined import refuse_links_out
from slipstream.files.inputs import as_object, read_json, show
from slipstream.learn.files import EXCESS, HISTORY, RUN, read_history
from slipstream.learn.files import read_about as read_training
from slipstream.reports.runs import scenario_of
from slipstream.sim.eventlog import OtherTableError, read_about

MOST_ENTRIES = 2000
"""Maximum number of runs listed; further ones are only counted."""
DEEPEST_FOLDER = 6
LARGEST_FIGURE = 1e150
"""Largest value of a metric in a comparison: sums of larger ones would overflow."""
LONGEST_TEXT = 500
"""Maximum number of characters of a name or command in the list."""
MOST_METRICS = 200
"""Maximum number of metrics of a validation."""
VALIDATION = {"scenario", "policy", "seed", "device", "metrics", "causes"}
"""Keys by which the result of `slipstream validate --json` is recognised."""
UNREADABLE = "unreadable"
LIVE = ".live.jsonl"
"""Suffix of the files that `slipstream execute --live` writes."""
ENDINGS = (".parquet", ".json", ".html", LIVE)
"""Suffixes of the files that a page may show."""


class UnknownRunError(InputError):
    """The folder has no such run."""


@dataclass(frozen=True)
class Entry:
    """Entry of the folder that a page can show."""

    name: str
    """Its path inside the folder, with forward slashes."""
    kind: str
    """`run`, `training`, `comparison`, `validation`, `twin`, `page`, `live`, or `unreadable` with the reason as
    `error`."""
    modified: float
    about: dict[str, Any]

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as JSON-ready data."""
        return {"name": self.name, "kind": self.kind, "modified": self.modified, **self.about}


class RunsFolder:
    """Folder of runs; no file outside of it is opened."""

    def __init__(self, root: Path) -> None:
        if not root.is_dir():
            raise InputError(f"{root}: no such folder: expected the folder that holds your runs")
        self.root = root.resolve()
        self._seen: dict[str, tuple[list[tuple[int, int]], Entry | None]] = {}

    def path(self, name: str) -> Path:
        """Return the path of the file or folder `name`.

        Raises:
            UnknownRunError: There is none, or it lies outside the folder, also by way of a link.
        """
        parts = PurePosixPath(name).parts
        plain = name.isprintable() and "\\" not in name and not name.startswith("/")
        if parts and plain and not any(part.startswith(".") for part in parts):
            try:
                found = self.root.joinpath(*parts).resolve(strict=True)
            except (OSError, RuntimeError):  # RuntimeError: a cycle of links
                found = self.root
            if found != self.root and found.is_relative_to(self.root):
                return found
        raise UnknownRunError(f"{name[:200]!r}: no such run in this folder")

    def entry(self, name: str, kind: str | None = None) -> Entry:
        """Return the entry `name`, which must be of `kind` if that is given.

        Raises:
            UnknownRunError: There is none, or it is of another kind.
        """
        found = self._entry(self.path(name), name)
        if found is not None and found.kind == UNREADABLE:
            raise InputError(str(found.about["error"]))
        if found is None or kind not in (None, found.kind):
            raise UnknownRunError(f"{name[:200]!r}: not a {kind or 'run'}: expected one of those that the page lists")
        return found

    def listing(self) -> tuple[list[Entry], int]:
        """Return the runs of the folder, newest first, and the number of those left out."""
        found = []
        for path in self._files():
            name = path.relative_to(self.root).as_posix()
            try:
                entry = self._entry(self.path(name), name) if name.isprintable() else _unprintable(path, name)
            except UnknownRunError:  # a link that leads outside, or a file removed since
                entry = _link_out(path, name)
            if entry is not None:
                found.append(entry)
        found.sort(key=lambda entry: (-entry.modified, entry.name))
        return found[:MOST_ENTRIES], max(0, len(found) - MOST_ENTRIES)

    def _files(self) -> Iterator[Path]:
        """Yield the files and the folders of trainings; files inside these are no runs of their own."""
        for place, folders, files in os.walk(self.root):
            here = Path(place)
            if RUN in files and here != self.root:
                folders.clear()
                yield here
                continue
            yield from (here / name for name in sorted(folders) if self._leads_out(here / name))
            deep = len(here.relative_to(self.root).parts) >= DEEPEST_FOLDER
            folders[:] = [] if deep else sorted(name for name in folders if not name.startswith("."))
            yield from (here / name for name in sorted(files) if not name.startswith("."))

    def _leads_out(self, path: Path) -> bool:
        """Return whether `path` is a link to a target outside the folder."""
        try:
            return path.is_symlink() and not path.resolve().is_relative_to(self.root)
        except (OSError, RuntimeError):
            return True

    def _entry(self, path: Path, name: str) -> Entry | None:
        """Return the entry of a file, read again only if it changed."""
        inside = (path, path / RUN, path / HISTORY) if path.is_dir() else (path,)
        stamps = [stamp for one in inside if (stamp := _stamp(one)) is not None]
        if not stamps:
            return None
        known = self._seen.get(name)
        if known is None or known[0] != stamps:
            kind, about = _recognised(path, name)
            entry = Entry(name, kind, max(changed for changed, _ in stamps) / 1e9, about) if kind else None
            known = self._seen[name] = (stamps, entry)
        return known[1]


def _stamp(path: Path) -> tuple[int, int] | None:
    """Return modification time in ns and size of a file; None if it does not exist."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size


def _link_out(path: Path, name: str) -> Entry | None:
    """Return the `unreadable` entry of a link that leads out of the folder, if its suffix is one that pages show."""
    try:
        modified = path.lstat().st_mtime
    except OSError:
        return None
    if not path.is_symlink() or not (path.is_dir() or path.name.endswith(ENDINGS)):
        return None
    error = f"{name}: is a link that leads out of the folder: expected a file in it"
    return Entry(name, UNREADABLE, modified, {"error": error})


def _unprintable(path: Path, name: str) -> Entry | None:
    """Return the `unreadable` entry of a file with an unprintable name, if its suffix is one that pages show."""
    stamp = _stamp(path)
    if stamp is None or not (path.is_dir() or path.name.endswith(ENDINGS)):
        return None
    shown = one_line(name, LONGEST_TEXT)
    error = f"{shown}: its name is not printable: expected a name without control characters"
    return Entry(shown, UNREADABLE, stamp[0] / 1e9, {"error": error})


def _recognised(path: Path, name: str) -> tuple[str, dict[str, Any]]:
    """Return the kind of a file and its metadata; an empty kind if no page shows it.

    A file that should be a run but cannot be read is `unreadable`, with the reason: the others are listed all the same.
    """
    try:
        if path.is_dir():
            if not (path / RUN).exists():
                return "", {}
            refuse_links_out(path, (RUN, HISTORY))
            return "training", _training(path)
        if not path.name.endswith(ENDINGS):
            return "", {}
        if not stat.S_ISREG(path.stat().st_mode):
            raise InputError(f"{path}: is not a regular file: expected a run")
        if path.suffix == ".parquet":
            return "run", _run(path)
        if path.suffix == ".json":
            return _results(path) if path.stat().st_size else ("", {})  # empty while it is being written
        return ("live" if path.name.endswith(LIVE) else "page"), {}
    except OtherTableError:
        return "", {}
    except OSError as error:
        return UNREADABLE, {
            "error": one_line(f"{name}: cannot be read ({(error.strerror or 'unknown reason').lower()})")
        }
    except InputError as error:
        return UNREADABLE, {"error": str(error).replace(str(path), name)}


def _text(value: str) -> str:
    return one_line(value, LONGEST_TEXT)


def _short(value: Any) -> Any:
    return _text(value) if isinstance(value, str) else value


def _run(path: Path) -> dict[str, Any]:
    about = read_about(path)
    scenario = scenario_of(path, about)
    family, name = scenario.get("family"), scenario.get("name", "")
    if not isinstance(family, str) or family not in FAMILIES or not isinstance(name, str):
        raise InputError(f"{path}: its scenario: family is {show(family)}: expected one of {', '.join(FAMILIES)}")
    return {
        "scenario": _text(f"{family}/{name}"),
        "family": family,
        "policy": _text(about["policy"]),
        "seed": about["seed"],
        "command": _text(about.get("command", "")),
        "digest": _text(about.get("scenario_digest", "")),
        "device": _text(about["device"]) if "device" in about else None,
        "hardware": _text(about.get("hardware", "")),
    }


def _training(path: Path) -> dict[str, Any]:
    about = read_training(path, ("scenario",), ("settings",))
    settings = about["settings"]
    for key, kind in (("algo", str), ("seed", int), ("steps", int)):
        if key in settings and type(settings[key]) is not kind:
            raise InputError(f"{path / RUN}: settings.{key}: got {show(settings[key])}: expected {_WORDS[kind]}")
    command = about.get("command", "")
    return {
        "scenario": _text(about["scenario"]),
        "family": _text(about["scenario"].partition("/")[0]),
        "policy": _text(settings.get("algo", "")),
        "seed": settings.get("seed"),
        "command": _text(command) if isinstance(command, str) else "",
        "steps": settings.get("steps"),
        **_progress(path),
    }


def _progress(path: Path) -> dict[str, Any]:
    """Return the evaluations of a training in short; nothing if there are none yet, or they cannot be read."""
    try:
        lines = read_history(path)
    except InputError:
        return {}
    if not lines:
        return {}
    last = lines[-1]
    # As the training chose: of the policies that exceed limits least, the one with the highest reward.
    best = -min((line.get(EXCESS, 0.0), -line["reward"]) for line in lines)[1]
    return {"trained_steps": last["steps"], "best_reward": best, "heuristic_reward": last["heuristic_reward"]}


_WORDS: dict[type, str] = {str: "a text", int: "a whole number"}


def _results(path: Path) -> tuple[str, dict[str, Any]]:
    """Return kind and metadata of a JSON file: a comparison, a validation, a twin, or neither, which no page shows."""
    found = _read_comparison(path)
    if found is not None:
        return "comparison", _comparison(found)
    data = read_json(path, "what `slipstream validate --json` writes")
    if is_twin(data):
        return "twin", {key: _short(value) for key, value in about_twin(path, data).items()}
    return ("validation", _validation(path, data)) if isinstance(data, dict) and data.keys() >= VALIDATION else ("", {})


def _validation(path: Path, data: dict[str, Any]) -> dict[str, Any]:
    """Return what `slipstream validate --json` wrote, as the page shows it."""
    for key in ("scenario", "policy", "device"):
        if not isinstance(data[key], str):
            raise InputError(f"{path}: {key}: expected a text, got {show(data[key])}")
    figures = []
    for metric, sides in as_object(data["metrics"], f"{path}: metrics").items():
        sides = as_object(sides, f"{path}: metrics.{metric}")
        if any(type(sides.get(side)) not in (int, float) for side in ("measured", "simulated")):
            raise InputError(f"{path}: metrics.{metric}: expected numbers for 'measured' and 'simulated'")
        figures.append({"name": _text(metric), "measured": sides["measured"], "simulated": sides["simulated"]})
    about = {key: _text(data[key]) for key in ("scenario", "policy", "device")}
    seed, runs = (data[key] if type(data.get(key)) is int else None for key in ("seed", "runs"))
    hardware = _text(data["hardware"]) if isinstance(data.get("hardware"), str) else ""
    return {**about, "seed": seed, "runs": runs, "hardware": hardware, "metrics": figures[:MOST_METRICS]}


def read_comparison(path: Path) -> dict[str, Any]:
    """Return what `slipstream compare --json` wrote.

    Raises:
        InputError: The file is something else.
    """
    found = _read_comparison(path)
    if found is None:
        raise InputError(f"{path.name}: expected what `slipstream compare --json` writes")
    return found


def _read_comparison(path: Path) -> dict[str, Any] | None:
    """Return the checked comparison at `path`; None if the file is something else."""
    data = read_json(path, "what `slipstream compare --json` writes")
    if not isinstance(data, dict) or not {"title", "scenario_digest", "episodes", "seed", "policies"} <= data.keys():
        return None
    label = str(path)
    for key in ("title", "scenario_digest"):
        if not isinstance(data[key], str):
            raise InputError(f"{label}: {key}: expected a text, got {show(data[key])}")
    for key in ("episodes", "seed"):
        if type(data[key]) is not int or not 0 <= data[key] < 2**62:
            raise InputError(f"{label}: {key}: expected a whole number, got {show(data[key])}")
    if not isinstance(data["policies"], list) or not data["policies"]:
        raise InputError(f"{label}: policies: expected a list of policies, got {show(data['policies'])}")
    for number, policy in enumerate(data["policies"]):
        _check_policy(policy, f"{label}: policies[{number}]")
    if data.get("oracle") is not None:
        as_object(data["oracle"], f"{label}: oracle")
    return data


def _check_policy(policy: Any, label: str) -> None:
    """Raise InputError for a policy of a comparison without a name, or with metrics that are not numbers."""
    found = as_object(policy, label)
    if not isinstance(found.get("policy"), str):
        raise InputError(f"{label}.policy: expected a text, got {show(found.get('policy'))}")
    for metric, figures in as_object(found.get("metrics"), f"{label}.metrics").items():
        values = as_object(figures, f"{label}.metrics.{metric}").get("values")
        numbers = isinstance(values, list) and all(
            type(one) in (int, float) and abs(one) <= LARGEST_FIGURE for one in values
        )
        if not numbers or not values:
            raise InputError(f"{label}.metrics.{metric}.values: expected numbers, one for each episode")


def _comparison(found: dict[str, Any]) -> dict[str, Any]:
    policies = ", ".join(one["policy"] for one in found["policies"])
    about = {"scenario": _text(found["title"]), "episodes": found["episodes"], "seed": found["seed"]}
    about |= {"family": _text(found["title"].partition("/")[0]), "digest": _text(found["scenario_digest"])}
    return {**about, "policy": _text(policies), "oracle": found.get("oracle") is not None}
