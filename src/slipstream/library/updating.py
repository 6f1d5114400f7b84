"""Fine-tuning of a version on a workload, with a gate: it must improve there and not regress on other workloads."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from slipstream.errors import LibraryError
from slipstream.families.contract import ScenarioLike
from slipstream.files.confined import refuse_links_out
from slipstream.files.lock import FolderLock
from slipstream.library.judging import Episodes, Judge, Shift
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.records import Version
from slipstream.library.storage.store import Entry
from slipstream.policies.learned import LearnedPolicy

TOLERANCE = 0.02
"""Greatest increase of regret on the other workloads of the model."""

UPDATES = "updates"
"""Folder of a library with a folder per model that is being updated: one process at a time updates a model."""
ACCEPTED, REJECTED, SPLIT = "accepted", "rejected", "split"


@dataclass(frozen=True)
class Outcome:
    """A new version, its change of regret on every relevant workload, and the verdict."""

    verdict: str
    """`accepted`: it is in use. `rejected`: stored, but not in use. `split`: it improves on its target and regresses on
    another workload, so that it is a candidate for a separate model."""
    version: Version
    shifts: tuple[Shift, ...]
    reason: str

    def to_dict(self) -> dict[str, Any]:
        """Return the outcome as JSON-ready data."""
        shifts = [shift.to_dict() for shift in self.shifts]
        return {"verdict": self.verdict, "version": self.version.label, "reason": self.reason, "shifts": shifts}


def judge_update(shifts: Sequence[Shift], tolerance: float) -> tuple[str, str]:
    """Return verdict and reason for an update; the first of `shifts` is that of the target."""
    target, anchors = shifts[0], shifts[1:]
    if not target.high < 0.0:
        return REJECTED, (
            f"regret on {target.scenario} does not fall for sure: it changes by {_change(target)}, "
            "and the interval should lie below 0"
        )
    gain = f"regret on {target.scenario} falls, by {_change(target)}"
    broken = [anchor for anchor in anchors if anchor.high > tolerance]
    if broken:
        worst = max(broken, key=lambda anchor: anchor.high)
        return SPLIT, f"{gain}, but that on {worst.scenario} changes by {_change(worst)}, more than {tolerance:.1%}"
    kept = f", and none of {len(anchors)} anchors loses more than {tolerance:.1%}" if anchors else ""
    return ACCEPTED, gain + kept


def _change(shift: Shift) -> str:
    return f"{shift.mean:+.2%} [{shift.low:+.2%}, {shift.high:+.2%}]"


def anchors_of(judge: Judge, model: str, target: str) -> list[tuple[str, str]]:
    """Return the owned and held-out workloads of `model` other than `target`, each with its role."""
    own = [(one, "anchor") for one in judge.store.owned().get(model, ())]
    held_out = [(one, "held-out") for one in judge.store.owned(held_out=True).get(model, ())]
    return [(one, role) for one, role in (*own, *held_out) if one != target]


def train_settings(policy: LearnedPolicy, changes: Mapping[str, Any]) -> Any:
    """Return training settings with the network of `policy` and the given `changes`."""
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
    """Continue training of the version `parent` on a scenario; return the files of its best policy."""
    from slipstream.learn.training import train

    settings = train_settings(judge.policy(parent), {**changes, "start_from": str(judge.store.verified_folder(parent))})
    with TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        scenario = judge.scenario(signature)
        train(scenario, settings, run, minutes, command=command, report=report, tell_limits=tell_limits)
        return read_files(run / "best")


def update(
    judge: Judge,
    model: str,
    scenario: ScenarioLike,
    changes: Mapping[str, Any],
    minutes: float | None = None,
    tolerance: float = TOLERANCE,
    episodes: Episodes | None = None,
    command: str = "",
    report: Callable[[Any], None] | None = None,
    tell_limits: Callable[[str], None] | None = None,
) -> Outcome:
    """Fine-tune a model's version in use on a scenario; use the result if it passes the gate."""
    parent = judge.store.version(model)
    target = judge.remember(scenario)
    family = judge.store.models()[parent.model]
    if judge.scenario(target).family != family:
        raise LibraryError(f"model '{parent.model}' is for '{family}': expected a scenario of that family")
    refuse_links_out(judge.store.folder, (UPDATES, f"{UPDATES}/{parent.model}"))
    with FolderLock(judge.store.folder / UPDATES / parent.model, f"updating model '{parent.model}'"):
        files = fine_tune(judge, parent, target, changes, minutes, command, report, tell_limits)
        made = f"fine-tuned from {parent.label} on {judge.name(target)}"
        about = {"target": target, "parent": parent.label}
        child = judge.store.publish(Entry(parent.model, family, "update", files, made, (parent,), evidence=about))
        return settle(judge, parent, child, target, tolerance, episodes or Episodes(count=judge.gate_episodes))


def settle(judge: Judge, parent: Version, child: Version, target: str, tolerance: float, episodes: Episodes) -> Outcome:
    """Judge the version `child` made for `target`; use it if it improves there and does not regress elsewhere."""
    workloads = [(target, "target"), *anchors_of(judge, parent.model, target)]
    shifts = tuple(judge.shift(parent, child, one, role, episodes) for one, role in workloads)
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
    judge.store.record_event(f"update {verdict}", parent.model, reason, evidence, used, parent, owned)
    return Outcome(verdict, child, shifts, reason)
