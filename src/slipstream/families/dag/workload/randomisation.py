"""Domain randomisation of dag scenarios: arrival rates and episode lengths."""

from __future__ import annotations

from slipstream.families.dag.build import timescale
from slipstream.families.dag.scenario import DagScenario, MemorylessHorizon, PoissonStream
from slipstream.families.shared.schema import LONGEST_MS
from slipstream.families.shared.variation import Variation
from slipstream.sim.simulator import check_seed


def vary(scenario: DagScenario, variation: Variation, seed: int) -> DagScenario:
    """Return a random variation of `scenario` drawn by `seed`; the scenario itself if nothing varies.

    The rate applies to Poisson arrivals; batches and traces keep their arrival times.
    """
    check_seed(seed)
    if variation.is_identity:
        return scenario
    variation.require_only("dag", "rate", "load", "length")
    changes: dict[str, object] = {
        "description": " ".join(filter(None, [scenario.description, variation.description(seed)]))
    }
    if isinstance(scenario.arrivals, PoissonStream):
        rate = variation.load * float(variation.factors(seed, "rate", 1)[0])
        gap = min(LONGEST_MS / 1e3, max(1e-9, round(scenario.arrivals.gap_s / rate, 9)))
        kept = scenario.arrivals.model_dump(exclude={"rate_hz"}, exclude_unset=True)
        changes["arrivals"] = PoissonStream(**kept | {"mean_gap_s": gap})
    if variation.length > 0.0:
        mean = round(variation.length * timescale(scenario) / 1e9, 9)
        changes["horizon"] = MemorylessHorizon(kind="memoryless", mean_s=mean)
    varied = scenario.model_copy(update=changes)
    varied._folder = scenario._folder
    return varied
