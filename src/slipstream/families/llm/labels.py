"""Names and expectations of a scenario of LLM engines, for rendering a run in progress."""

from __future__ import annotations

from typing import TYPE_CHECKING

from slipstream.families.llm import features as f
from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.scenario import LlmScenario
from slipstream.families.shared.labels import Nouns, RunLabels, printable_names

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator

SLACK = 4
"""Time that a lone engine would take for all requests, in multiples of which an episode surely ends."""


def seat_names(scenario: LlmScenario) -> tuple[str, ...]:
    """Return a name for each seat of every engine."""
    seats = scenario.engine.seats
    return tuple(f"engine {engine} seat {seat}" for engine in range(scenario.engines) for seat in range(seats))


def run_labels(scenario: LlmScenario) -> RunLabels:
    """Return the labels of a run: seats of the engines as resources, classes as tasks."""
    spec = compiled_scenario(scenario).spec
    machine = spec["machine"][0]
    expected = max(1, round(float(machine["decode_token"]) * int(machine["mean_output"])))
    listed = int(spec["listed"]["time"][-1]) if len(spec["listed"]) else 0
    last = listed if listed else round(float(machine["mean_gap"]) * int(machine["requests"]))
    classes = len(scenario.classes)
    return RunLabels(
        nouns=Nouns(resource="seat", job="request", task="class", bar="request"),
        resources=seat_names(scenario),
        tasks=tuple(one.name for one in scenario.classes),
        variants=(("",),) * classes,
        expected=((expected,),) * classes,
        end=last + SLACK * expected,
        known_lengths=False,
    )


def row_name(simulator: Simulator[LlmScenario], row: int) -> str:
    """Return what taking a row of the last observation would do, such as 'admit request 3 of default'."""
    values, whole = simulator.raw["rows"][0, row], simulator.raw["globals"][0]
    engine = f"engine {int(whole[f.ENGINE])}"
    if values[f.WAIT] == 1.0 or not any(values[column] for column in (f.ADMIT, f.LEVEL, f.EVICT, f.SEND)):
        return f"{engine} admits nothing more" if whole[f.ASKS_ADMIT] == 1.0 else f"{engine} follows its own rule"
    if values[f.LEVEL] == 1.0:
        return f"{engine} takes a budget of {int(values[f.BUDGET])} tokens and keeps {values[f.HEADROOM]:.0%} free"
    if values[f.SEND] == 1.0:
        return f"send the request to engine {int(values[f.NUMBER])}"
    request = simulator.arrays["requests"][0, int(values[f.NUMBER])]
    name = printable_names(simulator.scenario.classes[int(values[f.CLASS])].name)
    what = "admits" if values[f.ADMIT] == 1.0 else "preempts"
    return f"{engine} {what} request {int(request['number'])} of {name}"
