"""Python interface of the model library, with the operations of `slipstream library`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from slipstream.errors import InputError, LibraryError
from slipstream.families.contract import FAMILIES, ScenarioLike
from slipstream.library import choosing, merging, rolling_back, splitting, tradeoff, updating
from slipstream.library.generality import Generality, generality
from slipstream.library.judging import EVAL_SPLIT, GATE_EPISODES, Episodes, Judge, Player
from slipstream.library.storage import verifying
from slipstream.library.storage.folders import read_files
from slipstream.library.storage.records import Event, Version, check_name, parse_reference
from slipstream.library.storage.store import Entry, Run, Store
from slipstream.policies.learned import LearnedPolicy, load_policy, shipped
from slipstream.scenario import builtin_names, load


class Library:
    """A folder of models and the workloads that they own."""

    def __init__(
        self,
        folder: str | Path,
        create: bool = False,
        episodes: int = GATE_EPISODES,
        oracle_seconds: float = 0.0,
        progress: Callable[[str], None] | None = None,
    ) -> None:
        """Open a library; with `create`, make a new one if there is none.

        Args:
            folder: The folder of the library.
            create: Whether to make a new one.
            episodes: Number of episodes on which a version is judged.
            oracle_seconds: Time limit of the oracle per episode; if 0, regret is measured against the best reward that
                any policy is known to have reached.
            progress: Called with a description of each evaluation.
        """
        self.store = Store(folder, create)
        self.judge = Judge(self.store, episodes, oracle_seconds, progress)

    @property
    def gate(self) -> Episodes:
        """The episodes on which versions are judged."""
        return Episodes(count=self.judge.gate_episodes)

    def add(
        self,
        name: str,
        policy: str | Path,
        scenarios: Sequence[ScenarioLike] = (),
        held_out: Sequence[ScenarioLike] = (),
        use: bool = False,
        reason: str = "",
    ) -> Version:
        """Add a trained policy as a new model, or as a further version of one.

        A new model is in use at once. A further version is not unless `use` is true, which bypasses every gate. Without
        `scenarios` the model owns the built-in scenario that the policy was trained on.
        """
        check_name(name)
        folder = policy_folder(policy)
        found = load_policy(folder)
        family = str(found.card["family"])
        fitting_scenarios(found, (*scenarios, *held_out))
        owned = [self.judge.remember(one) for one in scenarios or _trained_on(found, name in self.store.models())]
        apart = [self.judge.remember(one) for one in held_out]
        new = name not in self.store.models()
        why = reason or f"added from {policy}"
        entry = Entry(name, family, "add", read_files(folder), why, (), owned, apart, None, new or use)
        version = self.store.publish(entry)
        for signature in (*owned, *apart):
            self.judge.regret(version, signature, self.gate)
        return version

    def policy(self, reference: str) -> LearnedPolicy:
        """Return the policy of a version such as 'cholesky@v3', or of a model's version in use.

        Raises:
            LibraryError: There is none, or its files are not those that were published.
        """
        return self.judge.policy(self.store.version(reference))

    def models(self) -> list[dict[str, Any]]:
        """Return a row per model: version in use, workloads, regret on them, generality.

        The row of a damaged model has an `error`; the others are not affected.
        """
        with self.store.skipping_damage() as skipped:
            rows = [self._model(name, family) for name, family in self.store.models().items()]
        return rows + [{**_nothing_known("", ""), "error": wrong} for wrong in skipped]

    def _model(self, name: str, family: str) -> dict[str, Any]:
        """Return the row of a model."""
        row = _nothing_known(name, family)
        try:
            versions = self.store.versions(name)
            row["versions"] = len(versions)
            used = self.store.aliases().get(name)
            version = next((one for one in versions if one.id == used), None)
            if used is not None and version is None:
                self.store.version(name)  # raises an error that names the problem
            row["in_use"] = None if version is None else version.label
            own = self.store.owned().get(name, ())
            row["scenarios"] = [self.judge.name(one) for one in own]
            row["held_out"] = [self.judge.name(one) for one in self.store.owned(held_out=True).get(name, ())]
            if version is not None:
                self.store.verified_folder(version)
                regrets = [self.judge.regret(version, one, self.gate) for one in own]
                row["regret"] = sum(regrets) / len(regrets) if regrets else None
        except InputError as error:
            return {**row, "error": str(error)}
        if version is not None:
            with suppress(InputError):  # a damaged model has no regret to compare with
                row["generality"] = self.generality(version.label).gap
        return row

    def show(self, reference: str) -> dict[str, Any]:
        """Return versions, regret and events of a model, or of one of its versions."""
        chosen = self.store.version(reference) if "@" in reference else None
        model = parse_reference(reference)[0]
        versions = [one for one in self.store.versions(model) if chosen is None or one.id == chosen.id]
        if not versions:
            self.store.version(reference)  # raises an error that lists the models
        events = [one for one in self.store.events(model) if chosen is None or chosen.label in _labels(one)]
        return {
            "model": model,
            "family": self._family(model),
            "in_use": next((one.label for one in self.store.versions(model) if one.id == self._used(model)), None),
            "versions": [{**one.to_dict(), "folder": str(self.store.folder_of(one))} for one in versions],
            "regret": {one.label: self._regrets(one) for one in versions},
            "events": [one.to_dict() for one in events],
        }

    def _family(self, model: str) -> str:
        families = self.store.models()
        if model not in families:
            raise LibraryError(f"model '{model}' has no record of its own; see `slipstream library verify`")
        return families[model]

    def _used(self, model: str) -> int | None:
        return self.store.aliases().get(model)

    def _regrets(self, version: Version) -> list[dict[str, Any]]:
        found = []
        for held_out, role in ((False, "owned"), (True, "held-out")):
            for signature in self.store.owned(held_out).get(version.model, ()):
                players: list[Player] = [version]
                (regrets,), words = self.judge.regrets(players, signature, self.gate)
                about = {"scenario": self.judge.name(signature), "role": role}
                found.append({**about, "regret": float(regrets.mean()), "reference": words})
        return found

    def choose(
        self, scenario: ScenarioLike, nearest: int = choosing.NEAREST, episodes: int = choosing.RACE_EPISODES
    ) -> choosing.Choice:
        """Return the policy to use for a workload: a version, or the best heuristic if no model beats it."""
        return choosing.choose(self.judge, scenario, nearest, episodes)

    def update(
        self,
        model: str,
        scenario: ScenarioLike,
        changes: Mapping[str, Any] | None = None,
        minutes: float | None = None,
        tolerance: float = updating.TOLERANCE,
        command: str = "",
        report: Callable[[Any], None] | None = None,
        tell_limits: Callable[[str], None] | None = None,
    ) -> updating.Outcome:
        """Fine-tune a model's version in use on a workload; use the result if it improves there and no anchor worsens.

        `changes` are settings of training in the form of `TrainSettings.with_changes`; `report` and `tell_limits` are
        passed to `slipstream.train`.
        """
        return updating.update(
            self.judge, model, scenario, changes or {}, minutes, tolerance, self.gate, command, report, tell_limits
        )

    def merge(
        self,
        references: Sequence[str],
        name: str,
        average: bool = False,
        changes: Mapping[str, Any] | None = None,
        tolerance: float = merging.TOLERANCE,
        command: str = "",
        report: Callable[[int, int], None] | None = None,
    ) -> updating.Outcome:
        """Merge several models by distillation or averaging; use the result if it is within `tolerance` of each."""
        return merging.merge(self.judge, references, name, average, changes, tolerance, self.gate, command, report)

    def split(
        self,
        reference: str,
        name: str,
        scenarios: Sequence[ScenarioLike] = (),
        tolerance: float = updating.TOLERANCE,
    ) -> updating.Outcome:
        """Make a version a separate model, which takes over the workloads on which it improves."""
        return splitting.split(self.judge, reference, name, scenarios, tolerance, self.gate)

    def rollback(self, model: str, to: str | None = None, reason: str = "") -> rolling_back.Check:
        """Set a model's version in use to an earlier one."""
        return rolling_back.roll_back(self.judge, model, to, reason)

    def check(
        self,
        model: str,
        runs: int = rolling_back.RECENT_RUNS,
        drift: float = rolling_back.DRIFT,
        price: float = rolling_back.PRICE,
        play: bool = True,
    ) -> rolling_back.Check:
        """Roll a model back if its recent regret drifted, or if generality was gained at too high a cost."""
        return rolling_back.check(self.judge, model, runs, drift, price, play)

    def record(self, model: str, scenario: ScenarioLike, rewards: Mapping[int, float], split: str = EVAL_SPLIT) -> None:
        """Store external rewards of a model's version in use by seed, as input of `check`."""
        version, signature = self.store.version(model), self.judge.remember(scenario)
        self.store.record(Run(version.id, signature, split, seed, reward) for seed, reward in rewards.items())

    def generality(self, reference: str) -> Generality:
        """Return the excess regret of a version over the owners of the workloads that its model does not own."""
        return generality(self.judge, self.store.version(reference), self.gate)

    def tradeoff(self, family: str, tolerance: float = tradeoff.TOLERANCE) -> tradeoff.Curve:
        """Return the regret over the number of models, for all models in use of `family`."""
        return tradeoff.tradeoff(self.judge, family, self.gate, tolerance)

    def verify(self) -> list[verifying.Finding]:
        """Return all defects of the library's files; `verifying.verify` needs no open library."""
        return verifying.verify(self.store.folder)


def policy_folder(policy: str | Path) -> Path:
    """Return the folder of a policy, given by its path or by the name of one of the package."""
    for family in FAMILIES:
        if str(policy) in shipped(family):
            return shipped(family)[str(policy)]
    return Path(policy)


def fitting_scenarios(policy: LearnedPolicy, scenarios: Sequence[ScenarioLike]) -> None:
    """Raise a LibraryError if a scenario is of another family than `policy`, before that family is compiled."""
    family = str(policy.card["family"])
    for scenario in map(load, scenarios):
        if scenario.family != family:
            name = f"{scenario.family}/{scenario.name}"
            raise LibraryError(f"{name}: '{policy.name}' is for '{family}': expected a scenario of that family")


def _nothing_known(name: str, family: str) -> dict[str, Any]:
    known: dict[str, Any] = {
        "model": name,
        "family": family,
        "in_use": None,
        "versions": 0,
        "scenarios": [],
        "held_out": [],
    }
    return {**known, "regret": None, "generality": None}


def _trained_on(policy: LearnedPolicy, known: bool) -> list[str]:
    """Return the built-in scenario that `policy` was trained on; none for a `known` model without one."""
    name = str(policy.card.get("scenario", ""))
    if name in builtin_names():
        return [name]
    if known:
        return []
    raise LibraryError(f"'{policy.name}' was trained on '{name}', which is no built-in: expected --scenario")


def _labels(event: Event) -> tuple[str | None, ...]:
    return event.before, event.after, event.evidence.get("version"), event.evidence.get("from")
