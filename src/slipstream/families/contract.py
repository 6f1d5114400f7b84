"""What a family provides, typed, and the registry of families.

A family has two parts. Its `Family` object is light: names, units and where its folder is, so that `import slipstream`
stays quick. Its `Members` are its functions: compiled kernel, arrays, metrics, oracle, pictures. They stand in the
family's `members.py`, which is imported when one of them is first needed.
"""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
from functools import cached_property
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, Protocol, TypeAlias, TypeVar

import gymnasium
import numpy as np

from slipstream.errors import FamilyError, InputError
from slipstream.families.shared.bounds import OptimumBounds
from slipstream.families.shared.charts import Chart, Picture
from slipstream.families.shared.features import FeatureTable, GraphShape
from slipstream.families.shared.labels import RunLabels
from slipstream.families.shared.timeline import Timeline

if TYPE_CHECKING:
    from slipstream.families.shared.generator import Generator
    from slipstream.families.shared.importing import TraceImporter
    from slipstream.families.shared.regret import Hindsight
    from slipstream.families.shared.schema import ScenarioModel
    from slipstream.families.shared.variation import Variation
    from slipstream.sim.kernel.lanes import KernelFunctions
    from slipstream.sim.simulator import Simulator


class Scenario(Protocol):
    """What the scenarios of all families have in common; each family's own class is in its `scenario.py`."""

    _folder: Path
    """Where relative paths inside the scenario start."""

    @property
    def family(self) -> str:
        """Name of the family, which decides all other keys."""

    @property
    def name(self) -> str:
        """What tables and figures call the scenario."""

    @property
    def description(self) -> str:
        """One or two sentences for people."""

    def model_dump(self, *, mode: str = "python", exclude_unset: bool = False) -> dict[str, Any]:
        """Return the keys and their values; as JSON data with mode 'json', without defaults with `exclude_unset`."""


ScenarioLike: TypeAlias = str | Path | dict[str, Any] | Scenario
"""What `slipstream.load` takes: the name of a built-in scenario, a path, a dictionary, or a scenario object."""

S = TypeVar("S", bound=Scenario)

NO_COLUMNS = FeatureTable(())


def usual_margin(_scenario: Scenario) -> int:
    """Return `LOG_MARGIN`, which is enough where an event and the decision before it fill a few rows."""
    from slipstream.sim.kernel.lanes import LOG_MARGIN

    return LOG_MARGIN


def observed_rows_only(_scenario: Scenario) -> None:
    """Return None: heuristics see the rows of the observation and no others."""


def no_graph(_scenario: Scenario) -> None:
    """Return None: work is no graph."""


def everything_modelled(_scenario: Scenario) -> set[str]:
    """Return no names: every metric is about something that the scenario models."""
    return set()


def same_spec(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Return the arrays of a specification as they are: all of it is public."""
    return arrays


def no_charts(_scenario: Scenario, _events: np.ndarray) -> list[Chart | Picture]:
    """Return no charts beyond those that every report has."""
    return []


def no_row_name(_simulator: Simulator[Any], _row: int) -> str:
    """Return no name: the events that follow tell what a row did."""
    return ""


def every_policy_applies(_scenario: Scenario, _policy: str) -> str:
    """Return no reason: every policy of the family applies to every scenario."""
    return ""


NO_PROGRAM = -1
"""In place of a program: a stand-in, which takes the drawn time."""


class Work(NamedTuple):
    """What a worker process runs for a resource of a lane."""

    job: int
    """Number of the job."""
    part: int
    """Number of the stage, or of the task, within the job."""
    tasks: int
    """Number of tasks of that part; 0 for a move, which is no task."""
    planned: int
    """Drawn time in ns."""
    program: int = NO_PROGRAM
    """Index into the programs of the scenario."""


class EngineLane(Protocol):
    """What an engine, a real machine, reads from and reports to a lane of a family that follows it.

    While its clock is not 0, a lane takes nothing from its laws that the machine knows better: it starts work and waits
    until the end of it is reported. Resources are numbered as in the event log.
    """

    def running(self, resource: int) -> tuple[int, ...] | None:
        """Return what `resource` has to run, in the fields that its engine takes; None if it is idle.

        None also if the end of it was reported, but is not applied yet: a decision may be due in between. On worker
        processes that is a `Work`.
        """

    def end(self, resource: int, time: int, failed: bool) -> None:
        """Report that what `resource` runs ended at `time`, or failed then; applied when the lane resumes."""


def nothing_to_load(_scenario: Scenario, _arrays: dict[str, np.ndarray]) -> dict[int, Work]:
    """Return nothing: resources need no data of their own."""
    return {}


@dataclass(frozen=True, kw_only=True)
class Processes(Generic[S]):
    """How the tasks of a family run on worker processes, one for each resource."""

    noun: str
    """What a resource is called."""
    count: Callable[[S], int]
    """Number of resources."""
    longest: Callable[[S], int]
    """Longest time in ns for which a resource may be busy with one task, for the watchdog."""
    attempts: Callable[[S], int]
    """How often a task is tried before the run is given up."""
    programs: Callable[[S], tuple[str, ...]]
    """Addresses of the programs that tasks run; none where all tasks are stand-ins that take the drawn time."""
    fitted: Callable[[S, np.ndarray], S]
    """The scenario with the durations of tasks that an event log has."""
    preloads: Callable[[S, dict[str, np.ndarray]], dict[int, Work]] = nothing_to_load
    """By resource, what it loads before the clock starts, given the state after the decisions of the first instant."""


@dataclass(frozen=True, kw_only=True)
class Members(Generic[S]):
    """The functions of one family, all in one place; those with a default are optional."""

    kernel: KernelFunctions
    """The compiled functions and the types of their structs."""
    policies: ModuleType
    """The module whose decorators register the family's heuristics when it is imported."""

    candidate_features: FeatureTable
    """Columns of a candidate row."""
    global_features: FeatureTable
    """Columns of the globals."""
    node_features: FeatureTable = NO_COLUMNS
    """Columns of a node, where work is a graph; default: none."""

    candidate_rows: Callable[[S], int] | None = None
    """Number of rows of an observation, the wait row included; default: those of the spec's `static_rows`."""
    all_rows: Callable[[S], int | None] = observed_rows_only
    """Number of rows that heuristics see, the wait row included; default: those of an observation."""
    graph: Callable[[S], GraphShape | None] = no_graph
    """Most nodes and edges of an observation's graph; default: None, work is no graph."""
    spec_arrays: Callable[[S], dict[str, np.ndarray]]
    """Arrays that do not change during an episode, by field of `kernel.spec_type`."""
    state_arrays: Callable[[S, int, int], dict[str, np.ndarray]]
    """Fresh state of a number of lanes with rows of log each, lanes first, by field of `kernel.state_type`."""
    log_margin: Callable[[S], int] = usual_margin
    """Rows of the event log that one event, with the decision before it, may fill; default: 8."""
    known_spec: Callable[[dict[str, np.ndarray]], dict[str, np.ndarray]] = same_spec
    """The arrays of `spec_arrays` as a policy that simulates ahead may know them; default: as they are."""
    timescale: Callable[[S], int]
    """Time in ns for which the effects of a decision last: the unit in which returns are discounted."""

    metrics: Callable[[S, np.ndarray], dict[str, float]]
    """Metrics of one episode, from its event log."""
    metrics_in_hindsight: Callable[[S, np.ndarray, int, str], dict[str, float]] | None = None
    """Further metrics where seed and split are known, since what was drawn can be drawn again; default: none."""
    unmodelled_metrics: Callable[[S], set[str]] = everything_modelled
    """Names of the metrics that say nothing about a scenario, such as energy without power; default: none."""
    optimum_bounds: Callable[[S, int, str, float], OptimumBounds]
    """Bounds of the best reward of an episode (seed, split), all arrivals known, within about `seconds`."""
    hindsight: Callable[[S, int, str, float], Hindsight[S]] | None = None
    """Solver of the rest of an episode from any decision on; default: None, heuristics play on instead."""
    check: Callable[[np.ndarray, S], None] | None = None
    """Raises an error that names the row where an event log breaks an invariant; default: `shared.runs.check`."""
    timeline: Callable[[S, np.ndarray], Timeline] | None = None
    """Jobs of one episode and where they ran, from a log without errors; default: `shared.runs.timeline_of`."""
    run_labels: Callable[[S], RunLabels]
    """Names and expectations that pictures of a run start from."""
    charts: Callable[[S, np.ndarray], list[Chart | Picture]] = no_charts
    """Charts of one episode beyond those that every report has; default: none."""
    row_name: Callable[[Simulator[S], int], str] = no_row_name
    """What taking a row of the last observation would do, in words; default: nothing, the events that follow tell."""
    policy_refusal: Callable[[S, str], str] = every_policy_applies
    """Why a policy of the family, by name, does not apply to a scenario; empty if it does; default: all apply."""
    trace_importer: TraceImporter[S] | None = None
    """Import of arrivals from tables, for `slipstream import trace`; default: none."""
    engine_lane: Callable[[S, dict[str, np.ndarray]], EngineLane] | None = None
    """How an engine reads and drives a lane, given its arrays of state; default: None, it can only be simulated."""
    processes: Processes[S] | None = None
    """How tasks run on worker processes; default: None, another engine runs them, or none."""

    generator: Generator | None = None
    """Source of random scenarios for `slipstream generate`; default: none."""
    vary: Callable[[S, Variation, int], S] | None = None
    """Another scenario of the same shape, drawn from around a scenario by a seed; default: none can be drawn."""

    def __post_init__(self) -> None:
        """Refuse members that are of another kind than declared."""
        tables = {"candidate_features", "global_features", "node_features"}
        for field in fields(self):
            value = vars(self)[field.name]
            if field.name in tables and not isinstance(value, FeatureTable):
                raise FamilyError(f"member '{field.name}': expected a FeatureTable, got {type(value).__name__}")
            if str(field.type).startswith("Callable") and not (callable(value) or value is field.default):
                raise FamilyError(f"member '{field.name}': expected a function, got {type(value).__name__}")


@dataclass(frozen=True)
class RolloutDefaults:
    """How far and how often `rollout` simulates ahead in a family, measured as best on training episodes."""

    futures: int = 8
    """Resampled futures of a decision."""
    candidates: int = 6
    """Most candidates that are tried."""
    all_rows: bool = False
    """Whether all legal rows are tried; else what the family's rules would choose."""
    arrivals: int | None = 2
    """Jobs that arrive in a future before it is played to its end; None: all."""
    spans: float | None = None
    """Length of a future in multiples of the family's timescale; None: to its end."""


@dataclass(frozen=True)
class Constraint:
    """Most of a metric that a trained policy may have, relative to the best heuristic on the same episodes."""

    metric: str
    """Metric of which less is better."""
    share: float
    """Share of the heuristic's mean that the policy's may be above it."""
    slack: float
    """What it may be above that, in the metric's unit: a heuristic may have 0."""

    def limit(self, heuristic: float) -> float:
        """Return the most that a policy may have where the best heuristic has `heuristic`."""
        return (1.0 + self.share) * heuristic + self.slack


class Family(ABC):
    """One family of environments: its names and units, and its members behind methods that fill in the defaults."""

    name: ClassVar[str]
    """The value of the scenario key "family"."""
    folder: ClassVar[Path]
    """Where its modules, `scenarios/` and `learned/` are; default: the folder of the module that defines the class."""
    env_id: ClassVar[str]
    """The Gymnasium id; default: made of the name, as in 'slipstream/Edge-v0'."""
    default_scenario: ClassVar[str]
    """The built-in that an environment made without a scenario runs."""
    time_unit: ClassVar[str] = "s"
    """The unit in which this field speaks of time, in files and in `info`, such as "ms"; default: "s"."""
    nanoseconds_per_unit: ClassVar[int] = 1_000_000_000
    """How many nanoseconds the unit has; default: those of a second."""
    reward_terms: ClassVar[tuple[str, ...]]
    """Names of the terms of which the reward is the weighted sum."""
    default_policy: ClassVar[str]
    """The heuristic that `rollout` simulates, and that `auto` plays where episodes are too long to race."""
    headline: ClassVar[tuple[str, ...]]
    """The metrics that a short table shows, most important first."""
    summary: ClassVar[tuple[str, ...]] = ()
    """The metrics that `slipstream run` prints, the eight first of those that are modelled; default: the headline."""
    counts: ClassVar[tuple[str, ...]] = ()
    """Metrics that count something: whole numbers in one episode; default: none."""
    tradeoffs: ClassVar[tuple[tuple[str, str], ...]] = ()
    """Pairs of metrics between which policies trade; default: none."""
    constraints: ClassVar[tuple[Constraint, ...]] = ()
    """What a trained policy may not pay for its reward with, such as the longest wait; default: nothing."""
    rollout: ClassVar[RolloutDefaults] = RolloutDefaults()
    """How the policy `rollout` simulates ahead."""

    def __init_subclass__(cls) -> None:
        """Fill in the folder and the Gymnasium id where the class does not state them."""
        if "folder" not in vars(cls):
            cls.folder = Path(inspect.getfile(cls)).parent
        if "env_id" not in vars(cls) and "name" in vars(cls):
            cls.env_id = f"slipstream/{cls.name.capitalize()}-v0"

    @property
    @abstractmethod
    def scenario_type(self) -> type[ScenarioModel]:
        """The pydantic model of the family's scenarios."""

    @abstractmethod
    def load_members(self) -> Members[Any]:
        """Import the family's `members` module and return what it provides."""

    def complete(self, scenario: Scenario) -> Scenario:
        """Return a scenario just read from its file, with what it names in other files written out."""
        return scenario

    @cached_property
    def members(self) -> Members[Any]:
        """The family's functions, imported on first use; its compiled functions are registered then.

        Raises:
            FamilyError: A member is missing, misspelt or of another kind, or a module of the family cannot be imported.
        """
        vars(self)["_loading"] = True
        try:
            members = self.load_members()
        except (TypeError, FamilyError, ImportError) as error:  # a dataclass raises TypeError for wrong arguments
            raise FamilyError(f"family '{self.name}': {str(error).replace('Members.__init__() ', '')}") from error
        finally:
            vars(self)["_loading"] = False
        members.kernel.register()
        return members

    def __reduce__(self) -> tuple[Any, ...]:
        # A copy of an object that refers to a family refers to the registered one.
        return registered_family, (self.name,)

    def register_policies(self) -> None:
        """Import the family's policies, unless this is called while they are imported."""
        if not vars(self).get("_loading", False):
            _ = self.members

    @property
    def candidate_features(self) -> FeatureTable:
        """Columns of a candidate row."""
        return self.members.candidate_features

    @property
    def global_features(self) -> FeatureTable:
        """Columns of the globals."""
        return self.members.global_features

    @property
    def node_features(self) -> FeatureTable:
        """Columns of a node; none where work is no graph."""
        return self.members.node_features

    def candidate_rows(self, scenario: Scenario) -> int:
        """Return the number of rows of an observation, the wait row included."""
        if self.members.candidate_rows is None:
            return len(self.members.spec_arrays(scenario)["static_rows"])
        return self.members.candidate_rows(scenario)

    def all_rows(self, scenario: Scenario) -> int:
        """Return the number of rows that heuristics see, the wait row included.

        It is greater than `candidate_rows` where an observation is a window. Rows of the observation, but for its last,
        stand for the same in both.
        """
        rows = self.members.all_rows(scenario)
        return self.candidate_rows(scenario) if rows is None else rows

    def graph(self, scenario: Scenario) -> GraphShape | None:
        """Return the most nodes and edges of an observation's graph; None where work is no graph."""
        return self.members.graph(scenario)

    def spec_arrays(self, scenario: Scenario) -> dict[str, np.ndarray]:
        """Return the arrays that do not change during an episode."""
        return self.members.spec_arrays(scenario)

    def known_spec(self, scenario: Scenario) -> Any:
        """Return the compiled specification as a policy that simulates ahead may know it."""
        return self.make_spec(self.members.known_spec(self.spec_arrays(scenario)))

    def make_spec(self, arrays: dict[str, np.ndarray]) -> Any:
        """Return the compiled specification over its arrays."""
        return self.members.kernel.spec_of(arrays)

    def state_arrays(self, scenario: Scenario, lanes: int, log_rows: int) -> dict[str, np.ndarray]:
        """Return fresh state, lanes first in every array."""
        return self.members.state_arrays(scenario, lanes, log_rows)

    def make_state(self, arrays: dict[str, np.ndarray]) -> Any:
        """Return the compiled state over its arrays."""
        return self.members.kernel.state_of(arrays)

    def log_margin(self, scenario: Scenario) -> int:
        """Return how many rows of the event log one event, with the decision before it, may fill."""
        return self.members.log_margin(scenario)

    def timescale(self, scenario: Scenario) -> int:
        """Return the time in ns for which the effects of a decision last: the unit in which returns are discounted."""
        return self.members.timescale(scenario)

    def metrics(
        self, scenario: Scenario, events: np.ndarray, seed: int | None = None, split: str = "test"
    ) -> dict[str, float]:
        """Return the metrics of one episode from its event log; with its `seed`, those that need what was drawn too."""
        figures = self.members.metrics(scenario, events)
        if seed is not None and self.members.metrics_in_hindsight is not None:
            figures |= self.members.metrics_in_hindsight(scenario, events, seed, split)
        return figures

    def unmodelled_metrics(self, scenario: Scenario) -> set[str]:
        """Return the names of the metrics that say nothing about `scenario`: tables for people leave them out."""
        return self.members.unmodelled_metrics(scenario)

    def oracle(self, scenario: Scenario, seed: int, split: str, seconds: float) -> OptimumBounds:
        """Return the bounds of the best reward of an episode, all arrivals known."""
        return self.members.optimum_bounds(scenario, seed, split, seconds)

    def hindsight(self, scenario: S, seed: int, split: str, seconds: float) -> Hindsight[S] | None:
        """Return a solver of the rest of an episode from any decision on, `seconds` each; None if there is none."""
        solver = self.members.hindsight
        return None if solver is None else solver(scenario, seed, split, seconds)

    def check(self, scenario: Scenario, events: np.ndarray) -> None:
        """Raise an error that names the row where an event log breaks an invariant, or is not of the scenario."""
        if self.members.check is not None:
            self.members.check(events, scenario)
        else:
            from slipstream.families.shared.runs import check

            check(self.run_labels(scenario), events)

    def timeline(self, scenario: Scenario, events: np.ndarray) -> Timeline:
        """Return the jobs of one episode and where they ran, from an event log that holds the invariants."""
        if self.members.timeline is not None:
            return self.members.timeline(scenario, events)
        from slipstream.families.shared.runs import timeline_of

        return timeline_of(self.run_labels(scenario), events)

    def charts(self, scenario: Scenario, events: np.ndarray) -> list[Chart | Picture]:
        """Return the charts of one episode that this family adds to the report."""
        return self.members.charts(scenario, events)

    def row_name(self, simulator: Simulator[Any], row: int) -> str:
        """Return what taking a row of the simulator's last observation would do, such as 'stream 0 waits'.

        It is empty where the family has no words for it.
        """
        return self.members.row_name(simulator, row)

    def policy_refusal(self, scenario: Scenario, policy: str) -> str:
        """Return why a policy of the family does not apply to a scenario, and what was expected; empty if it does.

        `policy` is a name; a number in parentheses does not matter.
        """
        return self.members.policy_refusal(scenario, policy.partition("(")[0])

    @property
    def trace_importer(self) -> TraceImporter[Any] | None:
        """The import of arrivals from tables; None where the family has none."""
        return self.members.trace_importer

    def run_labels(self, scenario: Scenario) -> RunLabels:
        """Return the names and expectations that a picture of a run under way starts from."""
        return replace(
            self.members.run_labels(scenario),
            scenario=f"{self.name}/{scenario.name}",
            unit=self.time_unit,
            nanoseconds_per_unit=self.nanoseconds_per_unit,
        )

    @property
    def generator(self) -> Generator | None:
        """The source of random scenarios; None where the family has none."""
        return self.members.generator

    def vary(self, scenario: S, variation: Variation, seed: int) -> S:
        """Return another scenario of the same shape, drawn from around a scenario by a seed; itself if nothing varies.

        Raises:
            InputError: The family's scenarios cannot be varied.
        """
        vary: Callable[[S, Variation, int], S] | None = self.members.vary
        if vary is None:
            known = [f"'{name}'" for name, family in FAMILIES.items() if family.members.vary is not None]
            raise InputError(
                f"scenarios of the family '{self.name}' cannot be varied: expected one of {', '.join(known)}"
            )
        return vary(scenario, variation, seed)


FAMILIES: dict[str, Family] = {}

REQUIRED = ("name", "default_scenario", "reward_terms", "default_policy", "headline")
"""Class attributes that every `Family` states."""


def register_family(family: Family, *, lazy: bool = False) -> None:
    """Make a family known to scenarios, policies, Gymnasium and the command line.

    Its members are imported and checked now; with `lazy`, for families whose members are tested elsewhere, when one of
    them is first needed.

    Raises:
        FamilyError: A member is missing, misspelt or of another kind, or another family has the name.
    """
    missing = [name for name in REQUIRED if not hasattr(type(family), name)]
    if missing:
        raise FamilyError(f"family {type(family).__name__}: '{missing[0]}' is missing")
    for name, other in FAMILIES.items():
        if other is not family and (name == family.name or other.env_id == family.env_id):
            raise FamilyError(f"family '{family.name}', {family.env_id}: the name or the id is taken by '{name}'")
    FAMILIES[family.name] = family
    if not lazy:
        try:
            _ = family.members
        except FamilyError:
            del FAMILIES[family.name]
            raise
    if family.env_id not in gymnasium.registry:
        gymnasium.register(
            id=family.env_id,
            entry_point="slipstream.environments:make_env",
            vector_entry_point="slipstream.envs.vector:SchedulingVectorEnv",
            kwargs={"family": family.name},
        )


def registered_family(name: str) -> Family:
    """Return the family of that name."""
    return FAMILIES[name]


def family_of(scenario: Scenario) -> Family:
    """Return the family of a scenario object."""
    return FAMILIES[scenario.family]
