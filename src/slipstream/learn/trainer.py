"""One training: lanes, network and algorithm, advanced update by update, with a state that can be saved.

All random numbers are derived from the seed and the number of the update, so a training that resumes from a saved state
does exactly what it would have done without the interruption.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch

from slipstream.errors import InputError
from slipstream.families.contract import Family, Scenario, family_of
from slipstream.learn.algorithms.advantages import discounts, returns_to_go
from slipstream.learn.algorithms.hindsight import Hindsight
from slipstream.learn.algorithms.imitation import Imitation
from slipstream.learn.algorithms.oracle_imitation import Oracle
from slipstream.learn.algorithms.ppo import PPO
from slipstream.learn.algorithms.reinforce import Reinforce
from slipstream.learn.algorithms.states import Branching, StateEvaluator, States
from slipstream.learn.generated.scenarios import GeneratedScenarios
from slipstream.learn.networks.networks import CandidateScorer, NetworkSettings, Scorer
from slipstream.learn.networks.own import OwnNetwork, is_compilable
from slipstream.learn.networks.own_settings import check_playable
from slipstream.learn.networks.scales import MEASURED_CHOICES, scale_inputs
from slipstream.learn.rollout.remote_rollouts import RemotePool
from slipstream.learn.rollout.rollout import LanePool, Rollout
from slipstream.learn.rollout.torch_learner import make_learner
from slipstream.learn.rollout.torch_rollouts import TorchPool
from slipstream.learn.settings import ORACLE, TrainSettings
from slipstream.networks.inputs import Columns
from slipstream.policies.base import Heuristic, find, names
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.compiled.networks import compiled_heuristics
from slipstream.policies.learned import LearnedPolicy, load_policy
from slipstream.policies.torch_policy import TorchPolicy
from slipstream.scale.executor import Executor, InProcess
from slipstream.sim.simulator import Simulator

PHASE = "phase"
"""Global column of families with two alternating kinds of choices; it tells them apart."""
EXPERT_EPISODES = 3
"""Training episodes by which the best of several experts is chosen for a generated scenario."""
INPUT_LAYERS = {"row": ("row",), "global": ("row_globals", "context_globals")}
"""Layers of a network of kind `rows` that read its inputs."""


class Trainer:
    """Network in training on one scenario and its variations, or on generated scenarios."""

    def __init__(
        self,
        scenario: Scenario,
        settings: TrainSettings,
        executor: Executor | None = None,
        generated: GeneratedScenarios | None = None,
    ) -> None:
        """Lanes play in this process, or on `executor`; groups play `generated` scenarios, if given."""
        self.scenario, self.settings, self.executor = scenario, settings, executor or InProcess()
        self.generated = generated
        if generated is not None and settings.warm_start == ORACLE:
            raise InputError(f"training: warm start '{ORACLE}' with generated scenarios: expected that of one scenario")
        self.family = family_of(scenario)
        self.experts = find_experts(settings, self.family.name)
        if generated is None and len(self.experts) > 1:
            raise InputError(f"training: warm start '{settings.warm_start}': expected one heuristic for one scenario")
        self.judges = [self._find_judge(name) for name in settings.judges.split(",") if name]
        torch.manual_seed(settings.seed)
        self.network = build_network(self.family, settings.network)
        if isinstance(self.network, OwnNetwork):
            check_playable(self.network, settings, self.executor)
            if generated is not None and not is_compilable(self.network):
                raise InputError("training: network.module cannot be compiled: expected one that can, with --general")
        if settings.start_from is not None:
            load_weights(self.network, load_policy(settings.start_from, settings.start_from), "start_from")
        self.update_number = 0
        self.steps = 0
        self.on_rollout: Callable[[int, dict[str, float]], None] | None = None
        """Called after every rollout with its choices and figures, before the network learns from it."""
        self.drawn_at = (0, 0)
        """Update and steps at which the current scenarios were drawn."""
        self.pool = self._draw_pool()
        self.learner = make_learner(
            self.network, self.pool.candidates, settings.threads, self.pool.graph, settings.backend
        )
        horizon = self.horizon
        self.imitation = Imitation(self.learner, settings.imitation, horizon)
        self.hindsight = Hindsight(self.learner, settings.hindsight)
        self.state_evaluator = self._make_state_evaluator()
        self.algorithm: PPO | Reinforce = (
            PPO(self.learner, settings.ppo, horizon)
            if settings.algo == "ppo"
            else Reinforce(self.learner, settings.reinforce, horizon)
        )

    def _make_state_evaluator(self) -> StateEvaluator | None:
        settings = self.settings
        if settings.warm_start == ORACLE:
            own = settings.hindsight
            return Oracle(self.scenario, self.learner, own.episodes, settings.seed, own.oracle_seconds)
        if not self.experts:
            return None
        horizon = settings.hindsight.horizon
        based = settings.hindsight_rounds - settings.hindsight.own_rounds
        own = settings.hindsight
        return Branching(self.learner, self.experts[0], horizon, own.candidates, based, own.relative)

    def _find_judge(self, name: str) -> Heuristic:
        judge = find(name, self.family.name)
        if not isinstance(judge, Heuristic) or judge.parameter is not None:
            raise InputError(f"training: judges has '{name}': expected names of heuristics without a number")
        return judge

    @property
    def horizon(self) -> np.ndarray:
        """Discount horizon of every lane in ns, (lanes, 1)."""
        return self.settings.algorithm.discount_horizon * self.pool.timescales

    @property
    def redraws(self) -> bool:
        """Whether groups get new scenarios from time to time."""
        return self.generated is not None or self.settings.varies

    @property
    def phase(self) -> str:
        """Phase of the next update: `imitation` of the expert, `hindsight` beyond it, then `ppo` or `reinforce`."""
        if self.update_number < self.settings.imitation_rollouts:
            return "imitation"
        after = self.update_number - self.settings.imitation_rollouts
        return "hindsight" if after < self.settings.hindsight_rounds else self.settings.algo

    def plan_hindsight(self, rounds: int) -> None:
        """Set the number of hindsight rounds, none of which was made beyond it; `own_rounds` stay the same share."""
        hindsight = self.settings.hindsight
        own_rounds = hindsight.own_rounds * rounds // max(1, hindsight.rounds)
        hindsight = replace(hindsight, rounds=rounds, own_rounds=own_rounds)
        self.settings = replace(self.settings, hindsight=hindsight)
        if isinstance(self.state_evaluator, Branching):
            self.state_evaluator.based_rounds = rounds - hindsight.own_rounds

    @property
    def progress(self) -> float:
        """Share of the planned steps that is done, from 0 to 1."""
        return min(1.0, self.steps / self.settings.planned_steps)

    def _draw_pool(self) -> LanePool:
        """Return lanes for the current round: a scenario per group, every lane at the start of an episode."""
        settings = self.settings
        self.drawn_at = (self.update_number, self.steps)
        round_number = self.update_number // settings.redraw if self.redraws else 0
        bounds = settings.group_bounds
        groups = len(bounds) - 1
        scenarios = [self.scenario] * groups
        draws = np.random.default_rng([settings.seed, round_number]).integers(2**31, size=groups).tolist()
        if self.generated is not None:
            scenarios = [self.generated.scenario("train", draw) for draw in draws]
        timescales = [float(self.family.timescale(self.scenario))] * groups
        if self.generated is not None:
            timescales = [float(self.family.timescale(one)) for one in scenarios]
        if settings.varies:
            now = {"load": self._load(), "length": settings.length_at(self.progress)}
            variation = replace(settings.variation, **now)
            scenarios = [
                self.family.vary(scenario, variation, draw) for scenario, draw in zip(scenarios, draws, strict=True)
            ]
        reads, judges = self.network.reads_graph, self.judges
        pool: LanePool
        if not is_compilable(self.network):
            pool = TorchPool(self.network, scenarios, settings.n_envs, judges, bounds, timescales)
        elif isinstance(self.executor, InProcess):
            pool = LanePool(scenarios, settings.n_envs, settings.threads, reads, judges, bounds, timescales)
        else:
            pool = RemotePool(self.executor, scenarios, settings.n_envs, reads, judges, bounds, timescales)
        if len(self.experts) > 1:
            for group in pool.groups:
                group.expert = best_expert(group.scenario, self.experts)
        pool.start(self._seeds(round_number))
        return pool

    def _renew_pool(self) -> None:
        """Draw the lanes of the current round, and adapt the network's capacities and the horizons to them."""
        self.pool = self._draw_pool()
        self.learner.enlarge(self.pool.candidates, self.pool.graph)
        self.imitation.horizon = self.algorithm.horizon = self.horizon

    def _load(self) -> float:
        return self.settings.variation.load * self.settings.load_at(self.progress)

    def _seeds(self, round_number: int) -> np.ndarray:
        """Return the seeds of the lanes; for REINFORCE, neighbours share theirs, and so their arrivals."""
        settings = self.settings
        same = settings.reinforce.same_arrivals if self.phase == "reinforce" else 1
        seeds = np.random.default_rng([settings.seed, 1, round_number]).integers(
            2**61, size=-(-settings.n_envs // same)
        )
        return np.repeat(seeds, same)[: settings.n_envs]

    def collect(self) -> Rollout:
        """Collect the rollout of the next update."""
        settings = self.settings
        key = (settings.seed, self.update_number)
        choices = settings.choices_per_lane(settings.n_steps)
        if self.phase == "imitation":
            expert_probability = settings.imitation.expert_probability(self.update_number)
            return self.pool.collect(
                self.learner.layout, self.learner.weights, choices, key, self.experts[0], expert_probability
            )
        if self.phase == "hindsight":
            n_steps = settings.choices_per_lane(settings.hindsight.steps_between)
            return self.pool.collect(self.learner.layout, self.learner.weights, n_steps, key)
        if settings.algo == "reinforce":
            self.pool.start(self._seeds(self.update_number))
            most = settings.episode_choices
            return self.pool.collect(self.learner.layout, self.learner.weights, most, key, until_end=True)
        return self.pool.collect(self.learner.layout, self.learner.weights, choices, key)

    def update(self) -> dict[str, float]:
        """Collect one rollout and learn from it; return statistics."""
        settings = self.settings
        if self.redraws and self.update_number and self.update_number % settings.redraw == 0:
            self._renew_pool()
        if self.update_number == 0 and settings.start_from is None:
            self._measure_scales()
        elif self.update_number == 0 and settings.open_columns:
            self._open_columns()
        rollout = self.collect()
        made, collected = int(rollout.length.sum()), self._figures_of(rollout)
        if self.on_rollout is not None:
            self.on_rollout(made, collected)
        rng = np.random.default_rng([settings.seed, 2, self.update_number])
        done = self.update_number - settings.imitation_rollouts
        if self.phase == "imitation":
            figures = self.imitation.update(rollout, 1.0 + done / settings.imitation_rollouts, rng)
        elif self.state_evaluator is not None and self.phase == "hindsight":
            states = self.state_evaluator.evaluate_states(self.pool, done)
            # Where all lanes are in the same state, as at the start of a graph, none of them may have a choice.
            figures = {}
            if states is not None:
                figures = self.hindsight.update(states, done / settings.hindsight_rounds, rng)
        else:
            figures = self.algorithm.update(rollout, self.progress, rng)
        self.steps += made
        self.update_number += 1
        return {**figures, **collected}

    def _figures_of(self, rollout: Rollout) -> dict[str, float]:
        """Return the reward per unit of simulated time in a rollout, and the mean number of candidates."""
        spent = float(rollout.elapsed[rollout.made].sum()) / self.family.nanoseconds_per_unit
        reward = float(rollout.reward[rollout.made].sum())
        return {
            "reward_rate": reward / spent if spent > 0 else 0.0,
            "candidates": float(rollout.count[rollout.made].mean()),
        }

    def _measure_scales(self) -> None:
        """Collect a rollout by the expert, or the initial network, and set the scales of inputs and value from it."""
        settings, network = self.settings, self.network
        expert = self.experts[0] if self.experts else None
        rollout = self.pool.collect(
            self.learner.layout,
            self.learner.weights,
            settings.n_steps,
            (settings.seed, 2**31),
            expert,
            0.0 if expert is None else 1.0,
        )
        seen = rollout.choices()
        seen = seen.picked(np.arange(min(len(seen), MEASURED_CHOICES)))
        scale_inputs(network, self.family, seen, rollout.globals[rollout.made], settings.hidden)
        discount = discounts(rollout.elapsed, self.horizon)
        returns = returns_to_go(rollout.reward, np.zeros_like(rollout.reward), rollout.ended, discount, rollout.length)[
            rollout.made
        ]
        rate = rollout.reward[rollout.made].sum() / max(1.0, float(rollout.elapsed[rollout.made].sum()))
        network.value_scale[:] = max(float(returns.std()), 1e-3)
        network.value_shift[:] = float(rate * self.horizon.mean())

    def _open_columns(self) -> None:
        """Measure the scales of inputs that were hidden before; their weights are zero, so no output changes.

        Inputs that were visible keep their scale, for which the weights were learned.
        """
        network = self.network
        before = {name: buffer.clone() for name, buffer in network.named_buffers()}
        self._measure_scales()
        with torch.no_grad():
            for name, layers in INPUT_LAYERS.items():
                known = before[f"{name}_scale"] != 0.0
                for part in ("scale", "shift"):
                    buffer = network.get_buffer(f"{name}_{part}")
                    buffer[known] = before[f"{name}_{part}"][known]
                for layer in layers:
                    network.get_parameter(f"{layer}.weight")[:, ~known] = 0.0
        network.value_scale[:], network.value_shift[:] = before["value_scale"], before["value_shift"]

    def policy(self, name: str = "learned") -> CompiledPolicy | TorchPolicy:
        """Return the current network as a policy."""
        network = self.network
        if isinstance(network, OwnNetwork) and network.not_compilable:
            return TorchPolicy(name, self.family.name, copy.deepcopy(network.module), network.scales(copied=True))
        return CompiledPolicy(name, self.family.name, network.operations(), network.arrays(), network.guides)

    def state(self) -> tuple[dict[str, np.ndarray], dict[str, Any]]:
        """Return the state to resume from: arrays, and numbers."""
        arrays = {f"network/{name}": array for name, array in self.network.arrays().items()}
        for name, optimizer in self._optimizers().items():
            for index, values in optimizer.state_dict()["state"].items():
                for key, value in values.items():
                    arrays[f"{name}/{index}/{key}"] = torch.as_tensor(value).numpy().copy()
        if self.phase == "hindsight":
            for number, one in enumerate(self.hindsight.buffer):
                for name, array in one.arrays().items():
                    arrays[f"buffer/{number}/{name}"] = array
        for number, group in enumerate(self.pool.groups):
            for name, array in group.arrays.items():
                arrays[f"lanes/{number}/{name}"] = np.frombuffer(array.tobytes(), np.uint8)
        return arrays, {"update": self.update_number, "steps": self.steps, "drawn_at": list(self.drawn_at)}

    def restore(self, arrays: dict[str, np.ndarray], numbers: dict[str, Any]) -> None:
        """Resume from a state; one that does not fit this training raises ValueError, LookupError or RuntimeError."""
        drawn_at = numbers["drawn_at"]
        counts = [numbers["update"], numbers["steps"], *drawn_at]
        if len(counts) != 4 or not all(type(count) is int and 0 <= count < 2**62 for count in counts):
            raise ValueError("numbers: expected update, steps and the two of drawn_at, whole and not negative")
        self.update_number, self.steps = counts[:2]
        tensors = {name: torch.from_numpy(arrays[f"network/{name}"].copy()) for name in self.network.state_dict()}
        self.network.load_state_dict(tensors)
        for name, optimizer in self._optimizers().items():
            state = optimizer.state_dict()
            state["state"] = {}
            for key, array in arrays.items():
                if key.startswith(f"{name}/"):
                    _, index, field = key.split("/")
                    state["state"].setdefault(int(index), {})[field] = torch.from_numpy(array.copy())
            _check_fits(optimizer, state["state"], name)
            optimizer.load_state_dict(state)
        rounds = sum(key.startswith("buffer/") and key.endswith("/advantages") for key in arrays)
        self.hindsight.buffer = [
            States.from_arrays(_with_prefix(arrays, f"buffer/{number}/")) for number in range(rounds)
        ]
        if self.redraws:
            now = self.update_number, self.steps
            self.update_number, self.steps = drawn_at
            self._renew_pool()
            self.update_number, self.steps = now
        for number, group in enumerate(self.pool.groups):
            for name, array in group.arrays.items():
                kept = arrays[f"lanes/{number}/{name}"]
                if kept.dtype != np.uint8 or kept.shape != (array.nbytes,):
                    raise ValueError(f"lanes/{number}/{name}: expected {array.nbytes} bytes")
                array.view(np.uint8).reshape(-1)[:] = kept

    def _optimizers(self) -> dict[str, torch.optim.Optimizer]:
        return {
            "imitation": self.imitation.optimizer.adam,
            "hindsight": self.hindsight.optimizer.adam,
            "algorithm": self.algorithm.optimizer.adam,
        }


def best_expert(scenario: Scenario, experts: Sequence[Heuristic]) -> Heuristic:
    """Return the expert with the highest mean reward on training episodes of `scenario`."""
    simulator, family = Simulator(scenario), family_of(scenario)
    means = []
    for expert in experts:
        logs = [simulator.play(expert, seed, "train") for seed in range(EXPERT_EPISODES)]
        means.append(np.mean([family.metrics(scenario, log)["reward"] for log in logs]))
    return experts[int(np.argmax(means))]


def find_experts(settings: TrainSettings, family: str) -> list[Heuristic]:
    """Return the heuristics of the warm start, separated by commas; none if there is none, or if it is the oracle."""
    if settings.warm_start is None or settings.warm_start == ORACLE:
        return []
    return [_find_expert(name, family) for name in settings.warm_start.split(",")]


def _find_expert(name: str, family: str) -> Heuristic:
    expert = find(name, family)
    if isinstance(expert, Heuristic):
        return expert
    known = [one for one in names(family) if isinstance(find(one, family), Heuristic)]
    raise InputError(
        f"warm start: '{name}' is no heuristic that can be imitated: expected one of {', '.join(known)}, or '{ORACLE}'"
    )


def _check_fits(optimizer: torch.optim.Optimizer, state: dict[int, dict[str, torch.Tensor]], name: str) -> None:
    """Refuse optimizer moments whose shapes are not those of the parameters, which torch does not check."""
    parameters = [one for group in optimizer.param_groups for one in group["params"]]
    for index, values in state.items():
        for field, value in values.items():
            known = 0 <= index < len(parameters)
            if not known or (value.numel() != 1 if field == "step" else value.shape != parameters[index].shape):
                raise ValueError(f"{name}/{index}/{field}: expected the shape of the network")


def build_network(family: Family, settings: NetworkSettings) -> Scorer:
    """Return an untrained network for the observations of a family."""
    if settings.module is not None:
        return OwnNetwork(Columns.of(family), settings)
    columns, global_columns = len(family.candidate_features.observed), len(family.global_features.observed)
    if settings.kind == "rows":
        guides = tuple(name.strip() for name in settings.heuristics.split(",") if name.strip())
        scorer = CandidateScorer(columns + len(guides), global_columns, settings)
        if guides:
            compiled_heuristics(family.name, guides)
            scorer.heuristics = (family.name, guides)
        return scorer
    node_columns = len(family.node_features.observed)
    if not node_columns:
        raise InputError(f"training: network.kind is '{settings.kind}', and the family '{family.name}' has no graphs")
    from slipstream.learn.networks.decima import Decima

    names = family.global_features.observed.names
    flag = names.index(PHASE) if PHASE in names else None
    return Decima(columns, global_columns, node_columns, settings, flag)


def _with_prefix(arrays: dict[str, np.ndarray], prefix: str) -> dict[str, np.ndarray]:
    """Return the arrays whose names begin with `prefix`, by the rest of their names."""
    return {name.removeprefix(prefix): array for name, array in arrays.items() if name.startswith(prefix)}


def load_weights(network: Scorer, policy: LearnedPolicy, label: str) -> None:
    """Copy weights and measured scales of a trained policy into `network`; errors begin with `label`."""
    known = {name: tuple(tensor.shape) for name, tensor in network.tensors().items()}
    found = {name: tensor.shape for name, tensor in policy.tensors.items()}
    if found != known or policy.heuristics != network.guides:
        raise InputError(
            f"{label}: '{policy.name}' is another network: expected one with the settings of this training"
        )
    network.load_state_dict({name: torch.from_numpy(tensor.copy()) for name, tensor in policy.tensors.items()})
