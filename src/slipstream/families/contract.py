"""What a family must provide, and the registry of families.

A family is a folder with the same rooms as the others. Its `Family` object is light: scenarios, kernels and policies
are imported when they are first needed, so that `import slipstream` stays quick.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from importlib import import_module
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from slipstream.errors import InputError
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.charts import Chart, Picture
from slipstream.families.shared.features import FeatureTable, GraphShape
from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.timeline import Timeline

if TYPE_CHECKING:
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.regret import Hindsight
    from slipstream.families.shared.variation import Variation


class Family(ABC):
    """One house: the same rooms behind the same doors. Most doors lead into the room, a module, of the same name."""

    name: ClassVar[str]
    """The value of the scenario key "family"."""
    env_id: ClassVar[str]
    """The Gymnasium id."""
    default_scenario: ClassVar[str]
    """The built-in that an environment made without a scenario runs."""
    time_unit: ClassVar[str]
    nanoseconds_per_unit: ClassVar[int]
    """The unit in which this field speaks of time, in files and in `info`."""
    reward_terms: ClassVar[tuple[str, ...]]
    default_policy: ClassVar[str]
    """The heuristic that commands play unless told otherwise."""

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of whatever holds a family holds the registered one.
        return registered_family, (self.name,)

    def _room(self, name: str) -> Any:
        """Return a module of the family's folder."""
        return import_module(f"{type(self).__module__.rpartition('.')[0]}.{name}")

    @property
    def scenario_package(self) -> str:
        """Where the built-in JSON files are."""
        return f"{type(self).__module__.rpartition('.')[0]}.scenarios"

    @property
    def scenario_type(self) -> Any:
        """The pydantic model of the family's scenarios, named after the family."""
        return getattr(self._room("scenario"), f"{self.name.capitalize()}Scenario")

    @property
    def candidate_features(self) -> FeatureTable:
        """Columns of a candidate row."""
        table: FeatureTable = self._room("features").CANDIDATE
        return table

    @property
    def global_features(self) -> FeatureTable:
        """Columns of the globals."""
        table: FeatureTable = self._room("features").GLOBAL
        return table

    @property
    def node_features(self) -> FeatureTable:
        """Columns of a node, where work is a graph."""
        table: FeatureTable = getattr(self._room("features"), "NODE", FeatureTable(()))
        return table

    def candidate_rows(self, scenario: Any) -> int:
        """Return the number of rows of an observation, wait included."""
        rows: int = self._room("build").candidate_rows(scenario)
        return rows

    def all_rows(self, scenario: Any) -> int:
        """Return the number of rows that heuristics see, wait included: more where an observation is a window.

        Rows of the observation, but for its last, stand for the same in both.
        """
        rows: int = getattr(self._room("build"), "all_rows", self.candidate_rows)(scenario)
        return rows

    def graph(self, scenario: Any) -> GraphShape | None:
        """Return the room that an observation has for a graph; None where work is none."""
        shape: GraphShape | None = getattr(self._room("build"), "graph", lambda _: None)(scenario)
        return shape

    def spec_arrays(self, scenario: Any) -> dict[str, np.ndarray]:
        """Return what does not change during an episode."""
        arrays: dict[str, np.ndarray] = self._room("build").spec_arrays(scenario)
        return arrays

    def make_spec(self, arrays: dict[str, np.ndarray]) -> Any:
        """Build the compiled specification."""
        return self._make("Spec", arrays)

    def state_arrays(self, scenario: Any, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
        """Return fresh state, lanes first in every array."""
        arrays: dict[str, np.ndarray] = self._room("build").state_arrays(scenario, lanes, log_rows)
        return arrays

    def make_state(self, arrays: dict[str, np.ndarray]) -> Any:
        """Build the compiled state."""
        return self._make("State", arrays)

    def _make(self, what: str, arrays: dict[str, np.ndarray]) -> Any:
        """Build one of the two structs of the room `state`."""
        from slipstream.jit.structs import make_struct

        self._room("kernel.observation")  # registers the family's compiled functions
        room = self._room("kernel.state")
        make, struct = getattr(room, f"make_{what.lower()}"), getattr(room, f"{self.name.capitalize()}{what}Type")
        return make_struct(make, struct, arrays)

    def log_margin(self, scenario: Any) -> int:
        """Return how many rows of the event log one event, with the choice before it, may fill."""
        rows: int = self._room("build").log_margin(scenario)
        return rows

    def register_policies(self) -> None:
        """Import the family's policies."""
        self._room("policies")

    def metrics(
        self, scenario: Any, events: np.ndarray, seed: int | None = None, split: str = "test"
    ) -> dict[str, float]:
        """Return the figures this field reports, from the event log of one episode.

        Some families can say more where it is known which episode that was: what was drawn belongs to its seed.
        """
        room = self._room("metrics")
        figures: dict[str, float] = room.metrics(scenario, events)
        if seed is not None and hasattr(room, "in_hindsight"):
            figures |= room.in_hindsight(scenario, events, seed, split)
        return figures

    def oracle(self, scenario: Any, seed: int, split: str, seconds: float) -> OptimumBounds:
        """Return where the best reward of an episode lies, all arrivals known."""
        found: OptimumBounds = self._room("oracle.optimum").optimum_bounds(scenario, seed, split, seconds)
        return found

    def hindsight(self, scenario: Any, seed: int, split: str, seconds: float) -> Hindsight | None:
        """Return a solver of the rest of an episode from any decision on, `seconds` each; None if there is none."""
        solve = getattr(self._room("oracle.optimum"), "hindsight", None)
        return None if solve is None else solve(scenario, seed, split, seconds)

    def check(self, scenario: Any, events: np.ndarray) -> None:
        """Raise an InvariantError that names the row where a log violates an invariant or does not fit the scenario."""
        self._room("invariants").check(events, scenario)

    def timeline(self, scenario: Any, events: np.ndarray) -> Timeline:
        """Return the jobs of one episode and where they ran, from an event log that obeys the laws, for pictures."""
        found: Timeline = self._room("timeline").timeline(scenario, events)
        return found

    def charts(self, scenario: Any, events: np.ndarray) -> list[Chart | Picture]:
        """Return what else this field looks at, from the event log of one episode, for pictures."""
        return []

    def row_name(self, scenario: Any, timeline: Timeline, row: np.ndarray) -> str:
        """Return what taking a raw row would do, in words; nothing where the events that follow tell."""
        return ""

    @property
    def tradeoffs(self) -> tuple[tuple[str, str], ...]:
        """Pairs of metrics between which policies trade."""
        return ()

    def run_labels(self, scenario: Any) -> RunLabels:
        """Return the names and expectations that a picture of a run under way starts from."""
        found: RunLabels = self._room("labels").run_labels(scenario)
        return found

    @property
    def generator(self) -> Generator | None:
        """The source of random scenarios; None where a family has none."""
        return None

    def complete(self, scenario: Any) -> Any:
        """Return a scenario just read from its file, with what it names in other files written out."""
        return scenario

    def vary(self, scenario: Any, variation: Variation, seed: int) -> Any:
        """Return another scenario of the same shape, drawn from around a scenario by a seed; itself if nothing varies.

        Raises:
            InputError: The family's scenarios cannot be varied.
        """
        known = [f"'{name}'" for name, family in FAMILIES.items() if type(family).vary is not Family.vary]
        raise InputError(f"scenarios of the family '{self.name}' cannot be varied: expected one of {', '.join(known)}")

    def timescale(self, scenario: Any) -> int:
        """Return for how long the effects of a choice last, in ns: the unit of time in which returns are discounted."""
        time: int = self._room("build").timescale(scenario)
        return time

    @property
    @abstractmethod
    def headline(self) -> tuple[str, ...]:
        """The metrics that a short table shows, most important first."""


FAMILIES: dict[str, Family] = {}


def register_family(family: Family) -> None:
    """Make a family known to scenarios, policies and the command line."""
    FAMILIES[family.name] = family


def registered_family(name: str) -> Family:
    """Return the family of that name."""
    return FAMILIES[name]


def family_of(scenario: Any) -> Family:
    """Return the family of a scenario object."""
    return FAMILIES[scenario.family]
