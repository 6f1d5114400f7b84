"""The policy protocol, compiled heuristics, and the registry.

A heuristic has one of two forms. A *rule* scores one row; the best dispatch row wins, ties go to the lowest row. A
*choice* looks at everything, `(globals, rows, mask) -> index`. Both are compiled on first use, and the same function
decides in the simulator and on the device.
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
from slipstream.families.contract import FAMILIES
from slipstream.policies.reads import columns_read

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@runtime_checkable
class Policy(Protocol):
    """Anything that picks a row."""

    @property
    def name(self) -> str:
        """How tables call it."""

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row to take; raw values, times in ns."""


@runtime_checkable
class WholeEpisodes(Protocol):
    """A policy that decides inside compiled code, many choices at a time."""

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return what plays on in the simulator's lane as `run` does, called with the number of choices.

        It takes time to be made, and less than `run` to be called: for those who want one choice at a time.
        """

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status, one of `sim.kernel.lanes`."""


@dataclass(frozen=True)
class Heuristic:
    """A policy made from one plain function."""

    name: str
    family: str
    function: Callable[..., Any]
    is_rule: bool
    scores_all_rows: bool = False
    """Whether a rule also scores the rows that preempt, drop or wait."""
    parameter: float | None = None
    """The number that the function finds in the globals, of a family that has a column for it."""
    prepare: Callable[[Any], None] | None = None
    """Works out of a scenario, before an episode, what the rows are to show for this policy, such as a plan."""

    def __reduce__(self) -> tuple[Any, ...]:
        # What was compiled is left behind: an address of machine code means nothing in another process.
        known = _REGISTRY.get(self.family, {}).get(self.name.partition("(")[0])
        if not self.function.__module__.startswith("slipstream."):
            known = None
        if isinstance(known, Heuristic) and self == replace(known, name=self.name, parameter=self.parameter):
            return _registered, (self.family, known.name, self.name, self.parameter)
        import cloudpickle

        # The name of a decorated function is that of the policy made of it, so the function goes by its content.
        return _heuristic_of, (cloudpickle.dumps({field.name: getattr(self, field.name) for field in fields(self)}),)

    def __deepcopy__(self, memo: dict[int, Any]) -> Heuristic:
        return self  # nothing of it changes

    def given(self, parameter: float) -> Heuristic:
        """Return the same policy with another number; its function is compiled once for all."""
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
        """Where its machine code starts."""
        return self._compiled[0]

    @property
    def form(self) -> int:
        """How compiled loops call it."""
        from slipstream.sim.kernel import lanes

        if not self.is_rule:
            return lanes.CHOICE
        if self.scores_all_rows:
            return lanes.RULE_ON_ALL
        read = columns_read(self.function)
        on_demand = FAMILIES[self.family].candidate_features.on_demand
        return lanes.RULE_ON_DISPATCH if read is None or read & on_demand else lanes.PLAIN_RULE

    def prepare_for(self, scenario: Any) -> None:
        """Let the rows of a scenario show what this policy needs."""
        if self.prepare is not None:
            self.prepare(scenario)

    @cached_property
    def _how(self) -> tuple[Any, int, int]:
        """The compiled loop that plays it, its form and its address."""
        from slipstream.sim.kernel import lanes

        return lanes.run, self.form, self.address

    def _given(self, simulator: Simulator) -> tuple[Any, ...]:
        """Let the simulator show what this policy needs; return what the compiled loop is called with."""
        self.prepare_for(simulator.scenario)
        if self.parameter is not None:
            simulator.header["parameter"] = self.parameter
        return simulator.spec, simulator.state, 0, simulator.buffer, *self._how[1:]

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return what plays on in the simulator's lane as `run` does, called with the number of choices."""
        from slipstream.jit.decorators import code_of

        given = self._given(simulator)
        return partial(code_of(self._how[0], *given, 0), *given)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play on in the simulator's lane; return why it stopped."""
        return int(self._how[0](*self._given(simulator), choices))

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
    """Return a heuristic of the package, by the name that it is registered under, with a name and number of its own."""
    FAMILIES[family].register_policies()
    found = _REGISTRY[family][known]
    assert isinstance(found, Heuristic)
    return found if found.name == name else replace(found, name=name, parameter=parameter)


def _heuristic_of(content: bytes) -> Heuristic:
    """Return the heuristic whose fields were pickled."""
    return Heuristic(**pickle.loads(content))


@cache
def _address(function: Callable[..., Any], is_rule: bool) -> tuple[int, Any]:
    """Compile a function once, however many policies are made of it."""
    from slipstream.jit import funcptr

    return (funcptr.rule_address if is_rule else funcptr.choice_address)(function)


def _reason(error: Exception) -> str:
    """Return the line of a compiler's report that says what is wrong."""
    lines = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n")
    noise = ("Failed in", "During:", "File ", "<source", "This error may", ">>>", "^", "- ")
    told = [line.strip() for line in lines if line.strip() and not line.strip().startswith(noise)]
    return told[0] if told else type(error).__name__


@runtime_checkable
class Described(Policy, Protocol):
    """A policy that a family lists."""

    @property
    def family(self) -> str:
        """Whose rows it reads."""

    @property
    def description(self) -> str:
        """What it does, in one sentence."""


_REGISTRY: dict[str, dict[str, Described]] = {}


def enlist(policy: Described) -> None:
    """Let a family list a policy that is not one compiled function."""
    _REGISTRY.setdefault(policy.family, {})[policy.name] = policy


def register(heuristic: Heuristic) -> Heuristic:
    """Make a heuristic known under its name."""
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

    One with a parameter, here its default, is played with another as `name(number)`. `prepare` works out of a scenario
    what the rows are to show for this policy.
    """
    return lambda function: register(
        Heuristic(_policy_name(function), family, function, False, parameter=parameter, prepare=prepare)
    )


def names(family: str) -> list[str]:
    """Return the names of the family's policies, in the order of their definition."""
    FAMILIES[family].register_policies()
    return list(_REGISTRY.get(family, {}))


def describe(family: str) -> dict[str, str]:
    """Return what each policy of the family does, in one sentence each."""
    return {name: _REGISTRY[family][name].description for name in names(family)}


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
            return heuristic.given(_parameter(policy, with_number[2]))
    if policy not in known:
        from slipstream.policies.learned import is_policy_folder, load_policy, shipped

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
