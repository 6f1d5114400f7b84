"""Policy protocol, compiled heuristics, and the registry of policies.

A heuristic has one of two forms. A *rule* scores one row; the dispatch row with the highest score wins, ties go to the
lowest row. A *chooser* sees all rows, `(globals, rows, mask) -> index`. Both are compiled on first use, and the same
function decides in the simulator and on the device.
"""

from __future__ import annotations

import difflib
import inspect
import math
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cache, cached_property, partial
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES, Scenario
from slipstream.policies.columns_read import columns_read

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@runtime_checkable
class Policy(Protocol):
    """Protocol of a policy: it picks one row of a decision."""

    @property
    def name(self) -> str:
        """Name of the policy in tables."""

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row to take; raw values, times in ns."""


@runtime_checkable
class WholeEpisodes(Protocol):
    """Policy that decides inside compiled code, many decisions per call."""

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status.

        It takes longer to make and less time to call than `run`: for callers that play one decision at a time.
        """

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status, one of `sim.kernel.lanes`."""


@runtime_checkable
class CompiledEpisodes(WholeEpisodes, Protocol):
    """Policy whose compiled loop code in C can call."""

    def entry_point(self, simulator: Simulator) -> tuple[Any, tuple[Any, ...]]:
        """Return the loop that plays the policy, and its arguments for the simulator's lane but the last: choices."""


@runtime_checkable
class ModelBased(WholeEpisodes, Protocol):
    """Policy that knows the scenario's laws and simulates ahead: it decides from the state of a lane, not from rows."""

    def decide(self, simulator: Simulator) -> int:
        """Return the row to take at the decision that is due in the simulator's lane, which is left unchanged."""


@runtime_checkable
class PlanMaker(Policy, Protocol):
    """Policy whose decisions at one instant are the moves of a plan, which it makes at the first of them."""

    @property
    def heeds_demand(self) -> bool:
        """Whether plans for another demand are worth trying."""

    def demand_before(self, simulator: Simulator) -> np.ndarray:
        """Return the demand between the last plan and the decision that is due in the simulator's lane."""

    def with_demand(self, demand: np.ndarray) -> PlanMaker:
        """Return a copy that plans for `demand` instead of what it forecasts from the rows."""


@dataclass(frozen=True)
class Heuristic:
    """Policy made from one plain function."""

    name: str
    family: str
    function: Callable[..., Any]
    is_rule: bool
    scores_all_rows: bool = False
    """Whether a rule also scores the rows that preempt, drop or wait."""
    parameter: float | None = None
    """Number that the function reads from the globals, in families that have a column for it."""
    prepare: Callable[[Any], None] | None = None
    """Computes from a scenario, before an episode, what the rows show for this policy, such as a plan."""

    def __reduce__(self) -> tuple[Any, ...]:
        # Compiled code is not pickled: an address of machine code means nothing in another process.
        known = _REGISTRY.get(self.family, {}).get(self.name.partition("(")[0])
        if not self.function.__module__.startswith("slipstream."):
            known = None
        if isinstance(known, Heuristic) and self == replace(known, name=self.name, parameter=self.parameter):
            return _registered, (self.family, known.name, self.name, self.parameter)
        import cloudpickle

        # The name of a decorated function is that of the policy made of it, so the function is pickled by value.
        return _heuristic_of, (cloudpickle.dumps({field.name: getattr(self, field.name) for field in fields(self)}),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Heuristic:
        return self  # nothing of it changes

    def with_parameter(self, parameter: float) -> Heuristic:
        """Return the same policy with another `parameter`; its function is compiled once for all."""
        return replace(self, name=f"{self.name.partition('(')[0]}({parameter:g})", parameter=parameter)

    @property
    def description(self) -> str:
        """The first line of the function's docstring."""
        return (inspect.getdoc(self.function) or "").split("\n")[0]

    @cached_property
    def _compiled(self) -> tuple[int, Any]:
        try:
            return _address(self.function, self.is_rule)
        except Exception as error:
            raise PolicyError(f"policy '{self.name}' cannot be compiled: {_reason(error)}") from error

    @property
    def address(self) -> int:
        """Address of the function's machine code."""
        return self._compiled[0]

    @property
    def form(self) -> int:
        """Calling convention of the function in compiled loops, one of `sim.kernel.lanes`."""
        from slipstream.sim.kernel import lanes

        if not self.is_rule:
            return lanes.CHOICE
        if self.scores_all_rows:
            return lanes.RULE_ON_ALL
        read = columns_read(self.function)
        on_demand = FAMILIES[self.family].candidate_features.on_demand
        return lanes.RULE_ON_DISPATCH if read is None or read & on_demand else lanes.PLAIN_RULE

    def prepare_for(self, scenario: Scenario) -> None:
        """Compute what the rows of `scenario` show for this policy, if it needs that."""
        if self.prepare is not None:
            self.prepare(scenario)

    @cached_property
    def _loop(self) -> tuple[Any, int, int]:
        """The compiled loop that plays the heuristic, its form and its address."""
        from slipstream.sim.kernel import lanes

        return lanes.run, self.form, self.address

    def entry_point(self, simulator: Simulator) -> tuple[Any, tuple[Any, ...]]:
        """Prepare the scenario, set the parameter in the lane, and return the compiled loop and its arguments."""
        self.prepare_for(simulator.scenario)
        if self.parameter is not None:
            simulator.header["parameter"] = self.parameter
        loop, form, address = self._loop
        return loop, (simulator.spec, simulator.state, 0, simulator.buffer, form, address)

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status."""
        from slipstream.jit.decorators import code_of

        loop, arguments = self.entry_point(simulator)
        return partial(code_of(loop, *arguments, 0), *arguments)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        loop, arguments = self.entry_point(simulator)
        return int(loop(*arguments, choices))

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row to take, in plain Python."""
        if self.parameter is not None:
            global_row = global_row.copy()
            global_row[FAMILIES[self.family].global_features.index("parameter")] = self.parameter
        if not self.is_rule:
            return int(self.function(global_row, rows, mask))
        dispatch = FAMILIES[self.family].candidate_features.index("dispatch")
        best, best_score = len(mask) - 1, -np.inf
        for index in np.flatnonzero(mask):
            if self.scores_all_rows or rows[index, dispatch] == 1.0:
                score = self.function(rows[index])
                if score > best_score:
                    best, best_score = int(index), score
        return best


def _registered(family: str, known: str, name: str, parameter: float | None) -> Heuristic:
    """Return the heuristic that `family` registers as `known`, under `name` and with `parameter`."""
    FAMILIES[family].register_policies()
    found = _REGISTRY[family][known]
    assert isinstance(found, Heuristic)
    return found if found.name == name else replace(found, name=name, parameter=parameter)


def _heuristic_of(content: bytes) -> Heuristic:
    """Return the heuristic whose fields were pickled."""
    return Heuristic(**pickle.loads(content))


@cache
def _address(function: Callable[..., Any], is_rule: bool) -> tuple[int, Any]:
    """Compile `function` once for all policies made from it; return its address and the object that owns the code."""
    from slipstream.jit import funcptr

    return (funcptr.rule_address if is_rule else funcptr.choice_address)(function)


def _reason(error: Exception) -> str:
    """Return the line of a compiler's report that says what is wrong."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n")
    noise = ("Failed in", "During:", "File ", "<source", "This error may", ">>>", "^", "- ")
    meaningful = [line.strip() for line in lines if line.strip() and not line.strip().startswith(noise)]
    return meaningful[0] if meaningful else type(error).__name__


@runtime_checkable
class Described(Policy, Protocol):
    """Policy that a family lists."""

    @property
    def family(self) -> str:
        """Family whose rows it reads."""

    @property
    def description(self) -> str:
        """What it does, in one sentence."""


_REGISTRY: dict[str, dict[str, Described]] = {}


def register_policy(policy: Described) -> None:
    """Add a policy that is not one compiled function to the registry of its family."""
    _REGISTRY.setdefault(policy.family, {})[policy.name] = policy


def register(heuristic: Heuristic) -> Heuristic:
    """Add a heuristic to the registry of its family; refuse a name that another module uses."""
    if heuristic.family not in FAMILIES:
        raise PolicyError(f"unknown family '{heuristic.family}': expected one of {', '.join(FAMILIES)}")
    if not heuristic.function.__module__.startswith("slipstream."):
        FAMILIES[heuristic.family].register_policies()
    known = _REGISTRY.setdefault(heuristic.family, {})
    before = known.get(heuristic.name)
    if isinstance(before, Heuristic) and before.function.__module__ != heuristic.function.__module__:
        raise PolicyError(f"policy '{heuristic.name}' exists in family '{heuristic.family}': choose another name")
    known[heuristic.name] = heuristic
    return heuristic


def _policy_name(function: Callable[..., Any]) -> str:
    return function.__name__.strip("_").replace("_", "-")


def rule(family: str, scores_all_rows: bool = False) -> Callable[[Callable[..., float]], Heuristic]:
    """Make a heuristic from `row -> score` and register it under the function's name."""
    return lambda function: register(Heuristic(_policy_name(function), family, function, True, scores_all_rows))


def chooser(
    family: str, parameter: float | None = None, prepare: Callable[[Any], None] | None = None
) -> Callable[[Callable[..., int]], Heuristic]:
    """Make a heuristic from `(globals, rows, mask) -> index` and register it under the function's name.

    A heuristic with a `parameter` (its default) is played with another value as `name(number)`. `prepare` computes from
    a scenario what the rows show for this policy.
    """
    return lambda function: register(
        Heuristic(_policy_name(function), family, function, False, parameter=parameter, prepare=prepare)
    )


def names(family: str) -> list[str]:
    """Return the names of the family's policies, in the order of their definition."""
    FAMILIES[family].register_policies()
    return list(_REGISTRY.get(family, {}))


def describe(family: str) -> dict[str, str]:
    """Return a one-sentence description of each policy of the family, by name."""
    return {name: _REGISTRY[family][name].description for name in names(family)}


def applicable(scenario: Scenario) -> list[str]:
    """Return the names of the policies that apply to `scenario`, in the order of their definition."""
    family = FAMILIES[scenario.family]
    return [name for name in names(family.name) if not family.policy_refusal(scenario, name)]


def default_for(scenario: Scenario) -> str:
    """Return the family's default heuristic, or the first that applies to `scenario`."""
    family = FAMILIES[scenario.family]
    known = applicable(scenario)
    return family.default_policy if family.default_policy in known else known[0]


def find_for(policy: str | Policy | None, scenario: Scenario) -> Policy:
    """Return the policy of that name for `scenario`, `auto` with little effort for None, or the object itself.

    Raises:
        PolicyError: One line: the name is unknown, or the policy does not apply to the scenario.
    """
    if policy is None:
        from slipstream.policies.auto import QUICK, Auto

        return Auto(scenario.family, QUICK)
    found = find(policy, scenario.family)
    # A trained policy may have any name; an object is played as it is.
    if isinstance(policy, str) and policy.partition("(")[0] in names(scenario.family):
        refusal = FAMILIES[scenario.family].policy_refusal(scenario, policy)
        if refusal:
            raise PolicyError(f"policy '{policy}' does not apply to {scenario.family}/{scenario.name}: {refusal}")
    return found


def _parameter(policy: str, text: str) -> float:
    """Return the number that the name of a policy gives in parentheses."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise PolicyError(f"policy '{policy}': '{text}' is not a finite number: expected one, as in 1.5")
    return number


def find(policy: str | Policy, family: str) -> Policy:
    """Return the policy of that name, or the object itself."""
    if not isinstance(policy, str):
        if getattr(policy, "family", family) != family:
            raise PolicyError(f"policy '{policy.name}' is for another family: expected one for '{family}'")
        return policy
    known = names(family)
    with_number = re.fullmatch(r"(.+)\(([-+]?[0-9.]+(?:e[-+]?[0-9]+)?)\)", policy)
    if with_number and with_number[1] in known:
        heuristic = _REGISTRY[family][with_number[1]]
        if isinstance(heuristic, Heuristic) and heuristic.parameter is not None:
            return heuristic.with_parameter(_parameter(policy, with_number[2]))
    if policy not in known:
        from slipstream.policies.rollout import is_rollout, make_rollout

        if is_rollout(policy):
            return make_rollout(policy, family)
        if policy == "auto":
            from slipstream.policies.auto import Auto

            return Auto(family)
        from slipstream.policies.learned import folder_and_code, is_policy_folder, load_policy, shipped

        if (with_code := folder_and_code(policy)) is not None:
            return find(_module_policy(*with_code, policy), family)
        learned = shipped(family)
        if policy in learned or is_policy_folder(policy):
            return find(load_policy(learned.get(policy, policy), policy), family)
        known = [*known, *learned]
        for other in FAMILIES:
            if policy in shipped(other):
                raise PolicyError(f"policy '{policy}' is for '{other}': expected one for '{family}'")
        near = difflib.get_close_matches(policy, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
        raise PolicyError(f"unknown policy '{policy}' of family '{family}': {hint}")
    return _REGISTRY[family][policy]


def _module_policy(folder: str, code: str, name: str) -> Policy:
    """Return the trained policy of `folder` whose network is the class at the import path `code`."""
    try:
        from slipstream.policies.torch_policy import load_torch_policy
    except ImportError as error:
        raise PolicyError(f"policy '{name}' needs {error.name}: run `pip install 'slipstream[learn]'`") from None
    return load_torch_policy(folder, code, name)
