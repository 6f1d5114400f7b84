"""Splitting a version off as a separate model, if it improves on some workloads and regresses on others."""

from __future__ import annotations

from collections.abc import Sequence

from slipstream.errors import LibraryError
from slipstream.families.contract import ScenarioLike
from slipstream.library.judging import Episodes, Judge
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.records import check_name
from slipstream.library.storage.store import Entry
from slipstream.library.updating import ACCEPTED, REJECTED, TOLERANCE, Outcome, anchors_of, judge_update


def split(
    judge: Judge,
    reference: str,
    name: str,
    scenarios: Sequence[ScenarioLike] = (),
    tolerance: float = TOLERANCE,
    episodes: Episodes | None = None,
) -> Outcome:
    """Make a version the separate model `name`, which takes over `scenarios`, by default the target of its update.

    It is refused if the version does not improve on each of them, or if it causes no regression on the other workloads
    of its model: then that model may use it.
    """
    store, episodes = judge.store, episodes or Episodes(count=judge.gate_episodes)
    version, parent = store.version(reference), store.version(reference.partition("@")[0])
    if check_name(name) in store.models():
        raise LibraryError(f"model '{name}' exists: expected a new name for what is split off")
    if version.id == parent.id:
        raise LibraryError(f"{version.label} is in use by its model: expected another version of it to split off")
    targets = [judge.remember(one) for one in scenarios] or _made_for(judge, version.label, version.model)
    gains = [judge.shift(parent, version, target, "target", episodes) for target in targets]
    others = [(one, role) for one, role in anchors_of(judge, parent.model, "") if one not in targets]
    losses = [judge.shift(parent, version, one, role, episodes) for one, role in others]
    verdicts = [judge_update([gain, *losses], tolerance) for gain in gains]
    shifts = (*gains, *losses)
    without = next((reason for verdict, reason in verdicts if verdict == REJECTED), None)
    if without is not None or all(verdict == ACCEPTED for verdict, _ in verdicts):
        reason = without or f"{version.label} breaks nothing of '{parent.model}', which may as well use it"
        store.record_event("split refused", parent.model, reason, {"shifts": [shift.to_dict() for shift in shifts]})
        return Outcome(REJECTED, version, shifts, reason)
    reason = f"split off from {parent.model}: {verdicts[0][1]}"
    evidence = {"shifts": [shift.to_dict() for shift in shifts], "from": version.label}
    family = store.models()[version.model]
    child = store.publish(
        Entry(
            name,
            family,
            "split",
            read_files(store.verified_folder(version)),
            reason,
            (version,),
            owned=targets,
            taken_from=parent.model,
            use=True,
            evidence=evidence,
        )
    )
    return Outcome(ACCEPTED, child, shifts, reason)


def _made_for(judge: Judge, label: str, model: str) -> list[str]:
    """Return the workloads that the version `label` was fine-tuned on."""
    for event in judge.store.events(model):
        if event.evidence.get("version") == label and "target" in event.evidence:
            return [str(event.evidence["target"])]
    raise LibraryError(f"{label} was not made by an update: expected --scenario, the workloads it should take over")
