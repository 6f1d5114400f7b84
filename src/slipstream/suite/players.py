"""Policies under test: by name, a trained policy by its folder, code by its entry point, or `learned`.

Rules, trained and model-based policies run as the package's own code and may run whole episodes compiled. Submitted
code receives observations in a separate process (`sandbox`).
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from slipstream.errors import PolicyError, SuiteError
from slipstream.evaluation import evaluate
from slipstream.policies import auto
from slipstream.policies.base import Policy, find, names
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.kinds import CODE, HEURISTIC, MODEL_BASED, TRAINED, kind_of
from slipstream.policies.learned import is_policy_folder, load_policy, shipped
from slipstream.policies.rollout import Rollout, is_rollout
from slipstream.suite.catalogue import Entry, Seeds, Suite, folder_hash
from slipstream.suite.sandbox import SandboxedPolicy, entry_module

LEARNED = "learned"
"""For every scenario, the package's trained policy with the greatest reward in its practice episodes."""
KNOWS = {"rule": HEURISTIC, "folder": TRAINED, LEARNED: TRAINED, "entry": CODE, MODEL_BASED: MODEL_BASED}
"""The kind of policy, as tables name it, by the kind of a player."""


@dataclass(frozen=True)
class Player:
    """The policy under test for a family."""

    family: str
    kind: str
    """`rule`, `folder`, `entry`, `learned` or `model-based`."""
    source: str
    """Name, folder or entry point, as given."""
    label: str
    """Name in tables."""
    sha256: str
    """Hash of the files that it reads; empty for what is part of the package's code."""
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
        elif self.source == auto.NAME:
            yield find(_raced(entry), self.family)
        else:
            yield find(self.source, self.family)


def _best_learned(entry: Entry, seeds: Seeds) -> str:
    """Return the package's trained policy with the best mean reward over `seeds`, the practice episodes."""
    played = (seeds.episodes, seeds.first, seeds.split)
    means = {name: evaluate(entry.scenario, name, *played).mean("reward") for name in shipped(entry.family)}
    return max(means, key=lambda name: means[name])


@cache
def _raced(entry: Entry) -> str:
    """Return the policy that `auto` plays in a scenario, by a race in this process.

    Choices that earlier runs stored are not read: they may be stale, or may have been planted.
    """
    return auto.choose_policy(entry.scenario).policy


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
    known = [family for family in families if _is_played(source, family)]
    if not known:
        find(source, families[0])  # raises an error that names the problem
    return [Player(family, _kind(source, family), source, source, _hash(source, family), folder) for family in known]


def _is_played(source: str, family: str) -> bool:
    """Return whether `source` is the name of a policy that the package has for `family`."""
    if not is_rollout(source):
        return source == auto.NAME or source.partition("(")[0] in names(family) or source in shipped(family)
    try:
        find(source, family)
    except PolicyError:
        return False
    return True


def _kind(source: str, family: str) -> str:
    return MODEL_BASED if kind_of(find(source, family)) == MODEL_BASED else "rule"


def _hash(source: str, family: str) -> str:
    """Return a hash of the networks that a policy of the package plays or simulates; empty without any."""
    if source == auto.NAME:
        return learned_hash(family)
    policy = find(source, family)
    bases = policy.bases if isinstance(policy, Rollout) else [policy]
    networks = [base.name for base in bases if isinstance(base, CompiledPolicy)]
    for name in networks:
        if name not in shipped(family):
            raise SuiteError(f"--policy {source}: '{name}': expected a rule, or a network that comes with the package")
    hashes = [folder_hash(shipped(family)[name]) for name in networks]
    if len(hashes) > 1:
        return hashlib.sha256("".join(hashes).encode()).hexdigest()
    return "".join(hashes)


def known_to(player: Mapping[str, str]) -> str:
    """Return the kind of the policy that `player`, the JSON data of one, plays: by what it may know."""
    is_network = player["kind"] == "rule" and player["sha256"]
    return TRAINED if is_network else KNOWS[player["kind"]]


def learned_hash(family: str) -> str:
    """Return a hash of all trained policies of the package for `family`."""
    content = "".join(f"{name} {folder_hash(folder)}\n" for name, folder in shipped(family).items())
    return hashlib.sha256(content.encode()).hexdigest()
