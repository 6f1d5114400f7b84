"""Slipstream decides what deep-learning work runs next on which accelerator.

One JSON scenario to simulate, compare, train on and run for real:

    import slipstream
    print(slipstream.evaluate("edge/heavy", "edf-fit", episodes=10).mean("miss_rate"))
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from slipstream import interrupts as _interrupts

_interrupts.exit_silently_during_startup()  # before the slow imports

from slipstream.families.cluster.family import FAMILY as _CLUSTER  # noqa: E402
from slipstream.families.contract import register_family  # noqa: E402
from slipstream.families.dag.family import FAMILY as _DAG  # noqa: E402
from slipstream.families.edge.family import FAMILY as _EDGE  # noqa: E402
from slipstream.families.elastic.family import FAMILY as _ELASTIC  # noqa: E402
from slipstream.families.installed import register_installed_families  # noqa: E402
from slipstream.families.llm.family import FAMILY as _LLM  # noqa: E402
from slipstream.families.serving.family import FAMILY as _SERVING  # noqa: E402
from slipstream.families.taskgraph.family import FAMILY as _TASKGRAPH  # noqa: E402

if TYPE_CHECKING:
    from slipstream import errors, importers
    from slipstream.evaluation import compare, evaluate, oracle, what_if
    from slipstream.families.contract import Scenario
    from slipstream.learn.training import train
    from slipstream.policies import Policy, chooser, rule
    from slipstream.results import Comparison, Evaluation
    from slipstream.runs import Run, report, run
    from slipstream.scenario import digest, dump, load
    from slipstream.sim.simulator import Simulator

__version__ = "0.1.0"

_MODULES = {
    "Comparison": "slipstream.results",
    "Evaluation": "slipstream.results",
    "Policy": "slipstream.policies",
    "Run": "slipstream.runs",
    "Scenario": "slipstream.families.contract",
    "Simulator": "slipstream.sim.simulator",
    "chooser": "slipstream.policies",
    "compare": "slipstream.evaluation",
    "digest": "slipstream.scenario",
    "dump": "slipstream.scenario",
    "evaluate": "slipstream.evaluation",
    "load": "slipstream.scenario",
    "oracle": "slipstream.evaluation",
    "report": "slipstream.runs",
    "rule": "slipstream.policies",
    "run": "slipstream.runs",
    "train": "slipstream.learn.training",
    "what_if": "slipstream.evaluation",
}
"""Modules of the public names; they are imported on first use, so that `import slipstream` stays fast."""

__all__ = [
    "Comparison",
    "Evaluation",
    "Policy",
    "Run",
    "Scenario",
    "Simulator",
    "__version__",
    "chooser",
    "compare",
    "digest",
    "dump",
    "errors",
    "evaluate",
    "importers",
    "load",
    "oracle",
    "report",
    "rule",
    "run",
    "train",
    "what_if",
]

register_family(_EDGE, lazy=True)
register_family(_DAG, lazy=True)
register_family(_TASKGRAPH, lazy=True)
register_family(_SERVING, lazy=True)
register_family(_CLUSTER, lazy=True)
register_family(_LLM, lazy=True)
register_family(_ELASTIC, lazy=True)

register_installed_families()


def __getattr__(name: str) -> Any:
    if name == "importers":
        return import_module("slipstream.importers")
    if name in _MODULES:
        return getattr(import_module(_MODULES[name]), name)
    raise AttributeError(f"module 'slipstream' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted(__all__)
