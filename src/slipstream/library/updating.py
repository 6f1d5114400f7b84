"""Fine-tuning a version to a workload, behind a gate: it must gain there, and lose nothing where it is already used."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipstream.errors import LibraryError
from slipstream.library.judging import Episodes, Judge, Shift
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.records import Version
from slipstream.library.storage.store import Entry
from slipstream.policies.learned import LearnedPolicy

TOLERANCE = 0.02
"""Regret that an update may cost on a workload that the model has already."""

ACCEPTED, REJECTED, SPLIT = "accepted", "rejected", "split"


@dataclass(frozen=True)
class Outcome:
    """A version that was made, what it changes on every workload that counts, and what became of it."""

    verdict: str
    """`accepted`: the model's name stands for it. `rejected`: kept, but not used. `split`: it gains on its target and
    breaks something else, so it is worth a model of its own."""
    version: Version
    shifts: tuple[Shift, ...]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        shifts = [shift.to_dict() for shift in self.shifts]
        return {"verdict": self.verdict, "version": self.version.label, "reason": self.reason, "shifts": shifts}


def judge_update(shifts: Sequence[Shift], tolerance: float) -> tuple[str, str]:
    """Return whether an update is accepted, and why; the first shift is that of the target."""
    target, anchors = shifts[0], shifts[1:]
    if not target.high < 0.0:
        return REJECTED, (
            f"regret on {target.scenario} does not fall for sure: it changes by {_told(target)}, "
            "and the interval should lie below 0"
        )
    gain = f"regret on {target.scenario} falls, by {_told(target)}"
    broken = [anchor for anchor in anchors if anchor.high > tolerance]
    if broken:
        worst = max(broken, key=lambda anchor: anchor.high)
        return SPLIT, f"{gain}, but that on {worst.scenario} changes by {_told(worst)}, more than {tolerance:.1%}"
    kept = f", and none of {len(anchors)} anchors loses more than {tolerance:.1%}" if anchors else ""
    return ACCEPTED, gain + kept


def _told(shift: Shift) -> str:
    return f"{shift.mean:+.2%} [{shift.low:+.2%}, {shift.high:+.2%}]"


def anchors_of(judge: Judge, model: str, target: str) -> list[tuple[str, str]]:
    """Return the other workloads that a model answers for, each with its role."""
    own = [(one, "anchor") for one in judge.store.owned().get(model, ())]
    held_out = [(one, "held-out") for one in judge.store.owned(held_out=True).get(model, ())]
    return [(one, role) for one, role in (*own, *held_out) if one != target]


def train_settings(policy: LearnedPolicy, changes: Mapping[str, Any]) -> Any:
    """Return settings that build the network of a policy again, with some changed."""
    from slipstream.learn.networks.networks import NetworkSettings
    from slipstream.learn.settings import TrainSettings

    return TrainSettings(network=NetworkSettings.from_card(policy.card)).with_changes(changes)


def fine_tune(
    judge: Judge,
    parent: Version,
    signature: str,
    changes: Mapping[str, Any],
    minutes: float | None,
    command: str,
    report: Callable[[Any], None] | None,
    tell_limits: Callable[[str], None] | None,
) -> dict[str, bytes]:
    """Go on with a version's training on a scenario; return the files of the best policy on the way."""
    from slipstream.learn.training import train

    settings = train_settings(judge.policy(parent), {**changes, "start_from": str(judge.store.place(parent))})
    with TemporaryDirectory() as place:
        run = Path(place) / "run"
        scenario = judge.scenario(signature)
        train(scenario, settings, run, minutes, command=command, report=report, tell_limits=tell_limits)
        return read_files(run / "best")


def update(
    judge: Judge,
    model: str,
    scenario: str | Path | dict[str, Any] | Any,
    changes: Mapping[str, Any],
    minutes: float | None = None,
    tolerance: float = TOLERANCE,
    episodes: Episodes | None = None,
    command: str = "",
    report: Callable[[Any], None] | None = None,
    tell_limits: Callable[[str], None] | None = None,
) -> Outcome:
    """Fine-tune a model's version in use on a scenario, and use the result if the gate lets it through."""
    parent = judge.store.version(model)
    target = judge.remember(scenario)
    family = judge.store.models()[parent.model]
    if judge.scenario(target).family != family:
        raise LibraryError(f"model '{parent.model}' is for '{family}': expected a scenario of that family")
    files = fine_tune(judge, parent, target, changes, minutes, command, report, tell_limits)
    made = f"fine-tuned from {parent.label} on {judge.name(target)}"
    about = {"target": target, "parent": parent.label}
    child = judge.store.publish(Entry(parent.model, family, "update", files, made, (parent,), evidence=about))
    return settle(judge, parent, child, target, tolerance, episodes or Episodes(count=judge.gate_episodes))


def settle(judge: Judge, parent: Version, child: Version, target: str, tolerance: float, episodes: Episodes) -> Outcome:
    """Judge a version that was made for a target, and use it if it gains there and loses nothing elsewhere."""
    places = [(target, "target"), *anchors_of(judge, parent.model, target)]
    shifts = tuple(judge.shift(parent, child, one, role, episodes) for one, role in places)
    verdict, reason = judge_update(shifts, tolerance)
    evidence = {
        "target": target,
        "version": child.label,
        "parent": parent.label,
        "verdict": verdict,
        "tolerance": tolerance,
        "shifts": [shift.to_dict() for shift in shifts],
    }
    accepted = verdict == ACCEPTED
    used, owned = (child, [target]) if accepted else (None, [])
    judge.store.note(f"update {verdict}", parent.model, reason, evidence, used, parent, owned)
    return Outcome(verdict, child, shifts, reason)
