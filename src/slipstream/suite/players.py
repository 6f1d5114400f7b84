"""Policies under test: a rule by its name, a trained policy by its folder, code by its entry point, or `learned`.

Rules and trained policies run as the package's own code and may run whole episodes compiled. Submitted code receives
observations in a separate process (`sandbox`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from slipstream.errors import SuiteError
from slipstream.evaluation import evaluate
from slipstream.policies.base import Policy, find, names
from slipstream.policies.learned import is_policy_folder, load_policy, shipped
from slipstream.suite.catalogue import Entry, Seeds, Suite, folder_hash
from slipstream.suite.sandbox import SandboxedPolicy, entry_module

LEARNED = "learned"
"""For every scenario, the package's trained policy with the greatest reward in its practice episodes."""


@dataclass(frozen=True)
class Player:
    """The policy under test for a family."""

    family: str
    kind: str
    """`rule`, `folder`, `entry` or `learned`."""
    source: str
    """Name, folder or entry point, as given."""
    label: str
    """Name in tables."""
    sha256: str
    """Hash of its files; empty for rules, which are part of the package."""
    folder: Path
    """Folder that `source` is relative to."""

    def to_dict(self) -> dict[str, str]:
        """Return the player as JSON-ready data."""
        return {"policy": self.label, "kind": self.kind, "source": self.source, "sha256": self.sha256}

    def relative_to_folder(self, folder: Path) -> Player:
        """Return the player with `source` relative to `folder`."""
        path, colon, attribute = self.source.rpartition(":") if self.kind == "entry" else (self.source, "", "")
        if self.kind not in ("entry", "folder") or (colon and not path.endswith(".py")):
            return self
        source = Path(os.path.relpath(self.folder / path, folder)).as_posix() + colon + attribute
        return replace(self, source=source, folder=folder.resolve())

    @contextmanager
    def open_policy(self, entry: Entry, suite: Suite) -> Iterator[Policy]:
        """Yield the policy for the scenario `entry`; stop its process at the end if it has one."""
        if self.kind == "entry":
            sandboxed = SandboxedPolicy(self.source, self.folder)
            try:
                yield sandboxed
            finally:
                sandboxed.close()
        elif self.kind == LEARNED:
            yield find(_best_learned(entry, suite.practice), self.family)
        elif self.kind == "folder":
            yield load_policy(self.folder / self.source, self.label)
        else:
            yield find(self.source, self.family)


def _best_learned(entry: Entry, seeds: Seeds) -> str:
    """Return the package's trained policy with the best mean reward over `seeds`, the practice episodes."""
    played = (seeds.episodes, seeds.first, seeds.split)
    means = {name: evaluate(entry.scenario, name, *played).mean("reward") for name in shipped(entry.family)}
    return max(means, key=lambda name: means[name])


def players_of(sources: Sequence[str], suite: Suite, folder: Path | None = None) -> tuple[dict[str, Player], list[str]]:
    """Return the player of each family, and messages about families without one.

    Raises:
        InputError: One line: what was given, and what was expected.
    """
    base = folder or Path.cwd()
    found: dict[str, Player] = {}
    for source in sources:
        for player in _players(source, suite.families, base):
            if player.family in found:
                other = found[player.family].source
                raise SuiteError(f"--policy {source}: '{other}' plays {player.family} too: expected one for a family")
            if player.family in suite.families:
                found[player.family] = player
    missing = [family for family in suite.families if family not in found]
    if not found:
        raise SuiteError(f"--policy {', '.join(sources)}: plays none of {', '.join(suite.families)}: expected one")
    none = f"{LEARNED}: no trained policy comes with it" if LEARNED in sources else "no policy was given for it"
    return found, [f"{family}: {none}" for family in missing]


def _players(source: str, families: Sequence[str], folder: Path) -> list[Player]:
    if source == LEARNED:
        return [
            Player(family, LEARNED, LEARNED, LEARNED, learned_hash(family), folder)
            for family in families
            if shipped(family)
        ]
    if is_policy_folder(str(folder / source)):
        own = folder / source
        card: Any = load_policy(own).card
        return [Player(card["family"], "folder", source, own.resolve().name, folder_hash(own), folder)]
    if ":" in source:
        content = entry_module(source, folder).read_bytes()
        sandboxed = SandboxedPolicy(source, folder)
        sandboxed.close()
        if sandboxed.family is None:
            raise SuiteError(f"--policy {source}: says nothing of its family: expected an attribute 'family'")
        return [Player(sandboxed.family, "entry", source, sandboxed.name, hashlib.sha256(content).hexdigest(), folder)]
    rule = source.partition("(")[0]
    known = [family for family in families if rule in names(family) or source in shipped(family)]
    if not known:
        find(source, families[0])  # raises an error that names the problem
    return [Player(family, "rule", source, source, _rule_hash(source, family), folder) for family in known]


def _rule_hash(source: str, family: str) -> str:
    return folder_hash(shipped(family)[source]) if source in shipped(family) else ""


def learned_hash(family: str) -> str:
    """Return a hash of all trained policies of the package for `family`."""
    content = "".join(f"{name} {folder_hash(folder)}\n" for name, folder in shipped(family).items())
    return hashlib.sha256(content.encode()).hexdigest()
