"""Who is measured: a rule by its name, a trained policy by its folder, code by its entry point, or `learned`.

Rules and trained policies are the package's own code and data: they may play whole episodes in compiled code. What
anybody else wrote is shown rows, in a process of its own (`cage`).
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
from slipstream.suite.sandbox import CagedPolicy, entry_module

LEARNED = "learned"
"""For every scenario the trained policy of the package that earns most in its practice episodes."""


@dataclass(frozen=True)
class Player:
    """Who plays a family."""

    family: str
    kind: str
    """`rule`, `folder`, `entry` or `learned`."""
    source: str
    """As it was given."""
    label: str
    """What tables call it."""
    sha256: str
    """Of the files it is made of; empty for rules, which are those of the package."""
    home: Path
    """From where the source is seen."""

    def to_dict(self) -> dict[str, str]:
        """Return who it is as JSON-ready data."""
        return {"policy": self.label, "kind": self.kind, "source": self.source, "sha256": self.sha256}

    def seen_from(self, folder: Path) -> Player:
        """Return the same player, its files named as they are seen from a folder."""
        place, colon, attribute = self.source.rpartition(":") if self.kind == "entry" else (self.source, "", "")
        if self.kind not in ("entry", "folder") or (colon and not place.endswith(".py")):
            return self
        source = Path(os.path.relpath(self.home / place, folder)).as_posix() + colon + attribute
        return replace(self, source=source, home=folder.resolve())

    @contextmanager
    def ready(self, entry: Entry, suite: Suite) -> Iterator[Policy]:
        """Give the policy that plays a scenario."""
        if self.kind == "entry":
            caged = CagedPolicy(self.source, self.home)
            try:
                yield caged
            finally:
                caged.close()
        elif self.kind == LEARNED:
            yield find(_pick(entry, suite.practice), self.family)
        elif self.kind == "folder":
            yield load_policy(self.home / self.source, self.label)
        else:
            yield find(self.source, self.family)


def _pick(entry: Entry, seeds: Seeds) -> str:
    """Return the trained policy of the package that is best in practice; no test episode has a part in it."""
    played = (seeds.episodes, seeds.first, seeds.split)
    means = {name: evaluate(entry.scenario, name, *played).mean("reward") for name in shipped(entry.family)}
    return max(means, key=lambda name: means[name])


def players_of(sources: Sequence[str], suite: Suite, home: Path | None = None) -> tuple[dict[str, Player], list[str]]:
    """Return who plays each family, and in words which families nobody plays and why.

    Raises:
        InputError: One line: what was given, and what was expected.
    """
    place = home or Path.cwd()
    found: dict[str, Player] = {}
    for source in sources:
        for player in _players(source, suite.families, place):
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


def _players(source: str, families: Sequence[str], home: Path) -> list[Player]:
    if source == LEARNED:
        return [
            Player(family, LEARNED, LEARNED, LEARNED, learned_hash(family), home)
            for family in families
            if shipped(family)
        ]
    if is_policy_folder(str(home / source)):
        folder = home / source
        card: Any = load_policy(folder).card
        return [Player(card["family"], "folder", source, folder.resolve().name, folder_hash(folder), home)]
    if ":" in source:
        content = entry_module(source, home).read_bytes()
        caged = CagedPolicy(source, home)
        caged.close()
        if caged.family is None:
            raise SuiteError(f"--policy {source}: says nothing of its family: expected an attribute 'family'")
        return [Player(caged.family, "entry", source, caged.name, hashlib.sha256(content).hexdigest(), home)]
    rule = source.partition("(")[0]
    known = [family for family in families if rule in names(family) or source in shipped(family)]
    if not known:
        find(source, families[0])  # says what is wrong with it
    return [Player(family, "rule", source, source, _rule_hash(source, family), home) for family in known]


def _rule_hash(source: str, family: str) -> str:
    return folder_hash(shipped(family)[source]) if source in shipped(family) else ""


def learned_hash(family: str) -> str:
    """Return a hash of all trained policies of the package for a family."""
    content = "".join(f"{name} {folder_hash(folder)}\n" for name, folder in shipped(family).items())
    return hashlib.sha256(content.encode()).hexdigest()
