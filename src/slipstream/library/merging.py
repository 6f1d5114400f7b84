"""Merging of several models into one: by distillation, or by averaging the weights of children of one parent.

Averaging the weights of independently trained models is refused. The result is judged on every owned and held-out
workload of every merged model, against the model that owns it; those models are not changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from slipstream.errors import LibraryError
from slipstream.evaluation import evaluate
from slipstream.library.judging import Episodes, Judge, Shift, shares_lost
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.records import Version, check_name
from slipstream.library.storage.store import Entry
from slipstream.library.updating import ACCEPTED, REJECTED, Outcome, train_settings
from slipstream.policies.learned import load_policy, save_policy

TOLERANCE = 0.05
"""Greatest excess regret of a merged model over each specialist."""

Duty = tuple[str, str, Version]
"""A workload, its role, and the specialist that owns it."""


def duties_of(judge: Judge, versions: Sequence[Version]) -> list[Duty]:
    """Return the owned and held-out workloads of all `versions`."""
    found = []
    for held_out, role in ((False, "owned"), (True, "held-out")):
        owned = judge.store.owned(held_out)
        for version in versions:
            found += [(one, role, version) for one in owned.get(version.model, ())]
    if not any(role == "owned" for _, role, _ in found):
        raise LibraryError("merge: none of these models has a workload of its own: expected some to merge on")
    return found


def merge(
    judge: Judge,
    references: Sequence[str],
    name: str,
    average: bool = False,
    changes: Mapping[str, Any] | None = None,
    tolerance: float = TOLERANCE,
    episodes: Episodes | None = None,
    command: str = "",
    report: Callable[[int, int], None] | None = None,
) -> Outcome:
    """Merge several versions into the model `name`; use it if it is within `tolerance` of each on its workloads."""
    store, episodes = judge.store, episodes or Episodes(count=judge.gate_episodes)
    versions = [store.version(one) for one in references]
    if len({version.id for version in versions}) < 2:
        raise LibraryError("merge: expected at least two different versions")
    families = {store.models()[version.model] for version in versions}
    if len(families) > 1:
        raise LibraryError(f"merge: models of {', '.join(sorted(families))}: expected models of one family")
    family = families.pop()
    if check_name(name) in store.models() and store.models()[name] != family:
        raise LibraryError(f"model '{name}' is for '{store.models()[name]}': expected another name")
    duties = duties_of(judge, versions)
    if average:
        files, kept = _averaged(judge, versions, duties, family, episodes)
        how = f"weights averaged of {', '.join(version.label for version in kept)}"
    else:
        files = _distilled(judge, versions, duties, changes or {}, command, report)
        how = f"distilled from {', '.join(version.label for version in versions)}"
    operation = "average" if average else "merge"
    child = store.publish(Entry(name, family, operation, files, how, versions))
    shifts = tuple(judge.shift(owner, child, one, role, episodes) for one, role, owner in duties)
    verdict, reason = judge_merge(shifts, tolerance)
    evidence = {
        "version": child.label,
        "verdict": verdict,
        "tolerance": tolerance,
        "shifts": [shift.to_dict() for shift in shifts],
    }
    accepted = verdict == ACCEPTED
    owned = [one for one, role, _ in duties if role == "owned"] if accepted else []
    store.record_event(
        f"{operation} {verdict}", name, f"{how}: {reason}", evidence, use=child if accepted else None, owned=owned
    )
    return Outcome(verdict, child, shifts, reason)


def judge_merge(shifts: Sequence[Shift], tolerance: float) -> tuple[str, str]:
    """Return verdict and reason for a merged model."""
    worst = max(shifts, key=lambda shift: shift.high)
    loss = f"{worst.mean:+.2%} [{worst.low:+.2%}, {worst.high:+.2%}] on {worst.scenario} ({worst.role})"
    if worst.high > tolerance:
        return REJECTED, f"it loses up to {loss}, more than {tolerance:.1%} against the specialist"
    return ACCEPTED, f"on {len(shifts)} workloads it loses at most {loss}, within {tolerance:.1%} of each specialist"


def _distilled(
    judge: Judge,
    versions: Sequence[Version],
    duties: Sequence[Duty],
    changes: Mapping[str, Any],
    command: str,
    report: Callable[[int, int], None] | None,
) -> dict[str, bytes]:
    """Return the files of a network distilled from every specialist on its own workloads."""
    from slipstream.learn.algorithms.distillation import Teacher, distil

    teachers = [Teacher(judge.scenario(one), judge.policy(owner)) for one, role, owner in duties if role == "owned"]
    settings = train_settings(judge.policy(versions[0]), changes)
    with TemporaryDirectory() as folder:
        about = {"scenario": ", ".join(judge.name(one) for one, role, _ in duties if role == "owned")}
        distil(teachers, settings, Path(folder) / "policy", {**about, "command": command}, report)
        return read_files(Path(folder) / "policy")


def share_a_parent(versions: Sequence[Version]) -> bool:
    """Return whether all `versions` are updates of one parent, or that parent itself."""
    shared = {version.parents for version in versions if version.operation == "update"}
    if len(shared) != 1:
        return False
    (parents,) = shared
    return all(version.operation == "update" or (version.label,) == parents for version in versions)


def _averaged(
    judge: Judge, versions: Sequence[Version], duties: Sequence[Duty], family: str, episodes: Episodes
) -> tuple[dict[str, bytes], list[Version]]:
    """Return the files of a greedy soup (Wortsman et al. 2022): a version is added only if regret does not rise."""
    if not share_a_parent(versions):
        raise LibraryError(
            "merge: these versions have no parent in common, and the average of weights that were trained apart is "
            "worth nothing: expected updates of one version, or a merge by distillation"
        )
    signatures = list(dict.fromkeys(one for one, _, _ in duties))
    ranked = sorted(versions, key=lambda one: np.mean([judge.regret(one, s, episodes) for s in signatures]))
    kept = [ranked[0]]
    least = _mean_regret(judge, read_files(judge.store.verified_folder(ranked[0])), signatures, episodes)
    for version in ranked[1:]:
        files = _soup(judge, [*kept, version], family)
        found = _mean_regret(judge, files, signatures, episodes)
        if found <= least:
            kept, least = [*kept, version], found
    return _soup(judge, kept, family), kept


def _soup(judge: Judge, versions: Sequence[Version], family: str) -> dict[str, bytes]:
    """Return the files of a policy with the mean weights of `versions`."""
    policies = [judge.policy(version) for version in versions]
    networks = {json.dumps([one.heuristics, *(step.to_dict() for step in one.operations)]) for one in policies}
    if len(networks) > 1:
        raise LibraryError("merge: these versions are different networks: expected the same operations in all")
    tensors = {
        name: np.stack([policy.tensors[name] for policy in policies]).mean(axis=0, dtype=np.float32)
        for name in policies[0].tensors
    }
    own = ("scenario", "settings", "algorithm", "network", "version")
    about = {key: policies[0].card[key] for key in own if key in policies[0].card}
    about["averaged"] = [version.label for version in versions]
    with TemporaryDirectory() as folder:
        save_policy(Path(folder), family, policies[0].operations, tensors, about, policies[0].heuristics)
        return read_files(Path(folder))


def _mean_regret(judge: Judge, files: Mapping[str, bytes], signatures: Sequence[str], episodes: Episodes) -> float:
    """Return the mean regret of the policy in `files`, which is not in the library."""
    with TemporaryDirectory() as folder:
        for name, content in files.items():
            (Path(folder) / name).write_bytes(content)
        policy = load_policy(folder, "soup")
        lost = []
        for signature in signatures:
            best, _ = judge.reference(signature, episodes)
            scenario = judge.scenario(signature)
            earned = evaluate(scenario, policy, episodes.count, episodes.first, episodes.split).of("reward")
            lost.append(float(shares_lost(best, earned).mean()))
    return float(np.mean(lost))
