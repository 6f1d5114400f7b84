"""Choices of a recorded run with their alternatives, reconstructed by replaying its policy in the simulator.

A log records what was started, not the alternatives. The same scenario, seed and policy make the same choices, so they
are replayed up to the requested one; snapshots of the state, kept on the way, make going back quick. The effect of each
candidate is found by choosing it in a copy.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from functools import cache
from time import monotonic
from typing import Any, Protocol, runtime_checkable

import numpy as np

from slipstream.dashboard.replay import Recording
from slipstream.errors import InputError
from slipstream.families.shared.features import Feature
from slipstream.policies.auto import Auto
from slipstream.policies.base import Heuristic, WholeEpisodes, find
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.rollout import Estimate, Rollout
from slipstream.reports.runs import played_policy
from slipstream.sim.eventlog import DROP, KINDS, MOVE, PREEMPT, START, TAKE
from slipstream.sim.simulator import Simulator, check_action

STRIDE = 2048
"""Choices between two snapshots of the state."""
SIMULATED_STRIDE = 32
"""The same where each choice is simulated ahead, which takes milliseconds."""
MOST_COPIES = 256
MOST_CANDIDATES = 64
"""Maximum number of candidates shown of one choice."""
MOST_RANKS, MOST_RANKING_S = 16, 0.5
"""Rows that a chooser is asked to rank, and the seconds that this may take."""
SCORED = "The candidate with the highest score is taken."
RANKED = (
    "This policy picks a row directly and gives no scores. The rank is the order in which it would pick the rows "
    "if those ranked above were not allowed."
)
DIRECT = "This policy picks a row directly and gives no scores."
ONLY = "The base and all rules would choose this row, so nothing was simulated ahead."
EFFECTS = (START, DROP, PREEMPT, TAKE, MOVE)
"""Kinds of events that a choice causes at once."""


UNTRIED: dict[str, float | None] = {"mean": None, "lead": None, "error": None}
"""What is known of the rewards of a candidate that was not simulated."""


@runtime_checkable
class Scoring(Protocol):
    """Policy that reports scores although it is no rule."""

    def scores(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> dict[int, float]:
        """Return the scores by row, for rows that have one."""


class Decisions:
    """Access to the choices of one recording, by number or time."""

    def __init__(self, recording: Recording) -> None:
        recording.vouch()
        about = recording.about
        if "device" in about:
            raise InputError(
                "This run was executed on real hardware: its decisions cannot be reconstructed in the simulator."
            )
        self._recording = recording
        self._policy: Any = find(played_policy(about), recording.family.name)
        if isinstance(self._policy, Auto):
            self._policy = self._policy.policy_for(recording.scenario)
        self._stride = SIMULATED_STRIDE if isinstance(self._policy, Rollout) else STRIDE
        self._simulator = Simulator(recording.scenario, log_rows=0)
        margin = recording.family.log_margin(recording.scenario)
        self._trial = Simulator(recording.scenario, log_rows=4 * margin + 64)
        self._simulator.reset(int(about["seed"]), str(about.get("split", "test")))
        if isinstance(self._policy, WholeEpisodes):
            self._policy.run(self._simulator, 0)  # the policy may prepare columns of its rows
        self._numbers = [0]
        self._times = [self._now]
        self._copies = [self._copy()]

    @property
    def _now(self) -> int:
        return int(self._simulator.header["now"])

    @property
    def _made(self) -> int:
        """Number of choices made, which is the number of the next one."""
        return int(self._simulator.header["choices"]) - 1

    def at(self, time: float) -> dict[str, Any]:
        """Return the last choice at or before `time`, in the family's unit; the first if there is none."""
        wanted = self._recording.nanoseconds(time)
        self._go_to(self._numbers[max(bisect_right(self._times, wanted) - 1, 0)])
        stride = self._stride
        while stride and self._simulator.asking:
            before = self._copy()
            self._play(stride)
            if self._simulator.asking and self._now <= wanted:
                self._keep()
            else:
                _put(before, self._simulator)
                stride //= 2
        return self._description()

    def number(self, number: int) -> dict[str, Any]:
        """Return the choice `number`, from 0; the last if there are fewer."""
        self._go_to(max(number, 0))
        return self._description()

    # Replay to a choice ----------------------------------------------------------------------------------------------

    def _go_to(self, number: int) -> None:
        nearest = bisect_right(self._numbers, number) - 1
        if not self._numbers[nearest] <= self._made <= number:
            _put(self._copies[nearest], self._simulator)
        while self._made < number:
            before = self._copy()
            self._play(min(self._stride, number - self._made))
            if self._simulator.asking:
                self._keep()
            else:
                number = self._made  # the last choice of the episode
                _put(before, self._simulator)

    def _play(self, choices: int) -> None:
        if isinstance(self._policy, WholeEpisodes):
            self._policy.run(self._simulator, choices)
        else:
            for _ in range(choices):
                if self._simulator.asking:
                    self._simulator.step(self._policy.choose(*self._simulator.observe()))

    def _copy(self) -> dict[str, np.ndarray]:
        return {name: array.copy() for name, array in self._simulator.arrays.items() if name != "log"}

    def _keep(self) -> None:
        if self._made >= self._numbers[-1] + self._stride and len(self._numbers) < MOST_COPIES:
            self._numbers.append(self._made)
            self._times.append(self._now)
            self._copies.append(self._copy())

    # Description of a choice ----------------------------------------------------------------------------------------

    def _description(self) -> dict[str, Any]:
        simulator, family = self._simulator, self._recording.family
        if not simulator.asking:
            return {"number": 0, "time": 0.0, "candidates": [], "note": "No choice was made in this run."}
        global_row, rows, mask = (array.copy() for array in simulator.observe())
        legal = np.flatnonzero(mask)
        estimate = self._policy.estimate(simulator) if isinstance(self._policy, Rollout) else None
        scores, chosen = self._scores(global_row, rows, mask) if estimate is None else ({}, estimate.action)
        means = {} if estimate is None else _means(estimate)
        ranks = {} if self._gives_scores else self._ranks(global_row, rows, mask, chosen)
        wait = len(mask) - 1
        shown = (
            legal[:MOST_CANDIDATES] if chosen in legal[:MOST_CANDIDATES] else [*legal[: MOST_CANDIDATES - 1], chosen]
        )
        before = self._copy()
        columns = [n for n, feature in enumerate(family.candidate_features.features) if feature.observed]
        candidates: list[dict[str, Any]] = []
        agrees = True
        for row in map(int, shown):
            effects = self._effects(before, row)
            if row == chosen and len(effects):
                agrees = bool(np.isin(effects[:1], self._recorded(int(effects["time"][0]))).all())
            row_name = family.row_name(simulator, row)
            # Whatever happens while a policy waits is no effect of the wait row.
            name = row_name or ("wait" if row == wait else self._name(effects) or f"candidate {row}")
            values = [_readable(family.candidate_features.features[n], rows[row, n])[0] for n in columns]
            judged = {"score": scores.get(row), "rank": ranks.get(row), "chosen": row == chosen}
            candidates.append({"row": row, "name": name, **judged, **means.get(row, UNTRIED), "values": values})
        candidates.sort(key=_order)
        return {
            "number": self._made,
            "time": self._now / self._recording.unit,
            "asked": self._asked(candidates),
            "policy": self._policy.name,
            "rule": getattr(self._policy, "description", "a trained network gives every candidate a score"),
            "judgement": self._judgement(ranks) if estimate is None else _simulated(estimate, self._policy),
            "rows": len(mask),
            "legal": len(legal),
            "columns": [_explained(family.candidate_features.features[n]) for n in columns],
            "candidates": candidates,
            "situation": self._situation(global_row),
            "note": "" if agrees else "The log does not hold this choice: it was made by another version.",
        }

    def _judgement(self, ranks: dict[int, int]) -> str:
        return SCORED if self._gives_scores else RANKED if ranks else DIRECT

    @property
    def _gives_scores(self) -> bool:
        policy = self._policy
        return isinstance(policy, CompiledPolicy | Scoring) or (isinstance(policy, Heuristic) and policy.is_rule)

    def _scores(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> tuple[dict[int, float], int]:
        """Return the scores by row, for rows that the policy scored, and the row that it chooses."""
        policy = self._policy
        if isinstance(policy, CompiledPolicy):
            return self._logits(policy)
        chosen = check_action(policy.choose(global_row, rows, mask))
        scores: dict[int, float] = {}
        if isinstance(policy, Scoring):
            scores = policy.scores(global_row, rows, mask)
        elif isinstance(policy, Heuristic) and policy.is_rule:
            dispatch = self._recording.family.candidate_features.index("dispatch")
            for row in map(int, np.flatnonzero(mask)):
                if policy.scores_all_rows or rows[row, dispatch] == 1.0:
                    scores[row] = float(policy.function(rows[row]))
        return {row: score for row, score in scores.items() if np.isfinite(score)}, chosen

    def _ranks(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray, chosen: int) -> dict[int, int]:
        """Return the order in which a chooser takes rows, from 1, if each that it takes is then forbidden; {} if none.

        Only choosers can be asked again: they are functions of what they see. The others may keep a plan.
        """
        if not isinstance(self._policy, Heuristic):
            return {}
        ranks, left = {chosen: 1}, mask.copy()
        left[chosen] = False
        end = monotonic() + MOST_RANKING_S
        while left.any() and len(ranks) < MOST_RANKS and monotonic() < end:
            row = int(self._policy.choose(global_row, rows, left))
            if not 0 <= row < len(left) or not left[row]:
                break  # it has no further preference
            ranks[row] = len(ranks) + 1
            left[row] = False
        return ranks if len(ranks) > 1 else {}

    def _logits(self, policy: CompiledPolicy) -> tuple[dict[int, float], int]:
        """Return the network's logits by row and the row it chooses; the simulator's state is restored."""
        simulator, before = self._simulator, self._copy()
        policy.run(simulator, 1)
        shape = simulator.family.graph(simulator.scenario) if policy.reads_graph else None
        capacity = (shape.nodes, shape.edges) if shape is not None else ()
        registers, ports, starts = _registers(policy.network(len(simulator.raw["mask"][0]), *capacity))
        legal = _legal(simulator.observed if shape is None else simulator.observed_graph)
        _put(before, simulator)
        logits = registers[ports[2] + starts[0] : ports[2] + starts[1]]
        last, wait = simulator.family.candidate_rows(simulator.scenario) - 1, len(simulator.raw["mask"][0]) - 1
        found = [wait if row == last else int(row) for row in legal[: len(logits)]]
        return dict(zip(found, map(float, logits), strict=True)), found[int(np.argmax(logits))]

    def _effects(self, before: dict[str, np.ndarray], row: int) -> np.ndarray:
        """Return the events that choosing `row` causes in the state `before`."""
        _put(before, self._trial)
        self._trial.header["log_rows"] = 0
        pieces: list[np.ndarray] = []
        self._trial.step(row, pieces.append)
        events = np.concatenate([*pieces, self._trial.log()])
        return np.asarray(events[np.isin(events["kind"], EFFECTS)])

    def _recorded(self, time: int) -> np.ndarray:
        events = self._recording.events
        first, last = (np.searchsorted(events["time"], time, side=side) for side in ("left", "right"))
        return np.asarray(events[first:last])

    def _name(self, effects: np.ndarray) -> str:
        if not len(effects):
            return ""
        line, first = self._recording.timeline, effects[0]
        task, variant = int(first["task"]), int(first["variant"])
        words = f"{KINDS[int(first['kind'])]} {line.tasks[task] if 0 <= task < len(line.tasks) else f'task {task}'}"
        if 0 <= task < len(line.tasks) and 0 <= variant < len(line.variants[task]) and line.variants[task][variant]:
            words += f", {line.variants[task][variant]}"
        resource = self._resource(int(first["resource"]))
        return f"{words} on {resource}" if resource else words

    def _asked(self, candidates: list[dict[str, Any]]) -> str:
        """Return the resource that the decision is for; empty where it is for a pool, a plan or a request."""
        asked = self._resource(int(self._simulator.header["asked"]))
        return asked if any(one["name"].startswith(f"{asked} ") for one in candidates) else ""

    def _resource(self, number: int) -> str:
        names = self._recording.timeline.resources
        return names[number] if 0 <= number < len(names) else ""

    def _situation(self, global_row: np.ndarray) -> list[dict[str, Any]]:
        features = self._recording.family.global_features.features
        shown = [n for n, feature in enumerate(features) if feature.observed]
        return [{**_explained(features[n]), "value": _readable(features[n], global_row[n])[0]} for n in shown]


def _order(candidate: dict[str, Any]) -> tuple[bool, float, float, bool]:
    """Return the sort key of a candidate: highest score or mean first, then lowest rank, then the chosen one."""
    score, rank = candidate["score"] if candidate["mean"] is None else candidate["mean"], candidate["rank"]
    return score is None, -(score or 0.0), np.inf if rank is None else rank, not candidate["chosen"]


def _means(estimate: Estimate) -> dict[int, dict[str, float]]:
    """Return for each row that was simulated its mean reward and its lead over the base's choice, with its error.

    Several plans may begin with the same row: it has the figures of the best one.
    """
    if not len(estimate.totals):
        return {}
    means, errors, rows = estimate.means, estimate.errors, estimate.actions.tolist()
    return {
        rows[index]: {
            "mean": float(means[index]),
            "lead": float(means[index] - means[0]),
            "error": float(errors[index]),
        }
        for index in sorted(range(len(rows)), key=lambda index: (means[index], -index))
    }


def _simulated(estimate: Estimate, policy: Rollout) -> str:
    """Return how a policy that simulates ahead came to its choice."""
    if not len(estimate.totals):
        return ONLY
    bases = " or ".join(base.name for base in policy.bases)
    return (
        f"Each candidate with a mean was played on by {bases} in the same {len(estimate.totals)} resampled futures. "
        f"The best one is taken if it leads what {policy.bases[0].name} would choose by more than a standard error."
    )


def _put(arrays: dict[str, np.ndarray], simulator: Simulator) -> None:
    for name, array in arrays.items():
        simulator.arrays[name][...] = array


def _readable(feature: Feature, raw: float) -> tuple[float, str]:
    """Return a raw feature value and its unit without scaling: '100 ms' becomes ms, 'jobs / 10' jobs."""
    value = float(raw) * feature.scale
    multiple = re.fullmatch(r"(\d+) (.+)", feature.unit)
    share = re.fullmatch(r"(.+) / (\d+)", feature.unit)
    if multiple:
        value, unit = value * int(multiple[1]), multiple[2]
    elif share:
        value, unit = value * int(share[2]), share[1]
    else:
        unit = feature.unit
    return (float(f"{value:.6g}") if np.isfinite(value) else 0.0), unit


def _explained(feature: Feature) -> dict[str, Any]:
    return {"name": feature.name.replace("_", " "), "unit": _readable(feature, 0.0)[1], "meaning": feature.meaning}


@cache
def _readers() -> tuple[Any, Any]:
    """Return the compiled accessors of struct fields; compiled on first use, since only learned policies need them."""
    from numba import njit

    return (
        njit(lambda network: (network.registers, network.ports, network.starts)),
        njit(lambda buffer: buffer.legal),
    )


def _registers(network: Any) -> Any:
    return _readers()[0](network)


def _legal(buffer: Any) -> Any:
    return _readers()[1](buffer)[0]
