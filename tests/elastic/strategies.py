"""Hypothesis strategies for scenarios of elastic jobs: few GPUs, coarse times, many ties."""

from __future__ import annotations

from hypothesis import strategies as st

from slipstream.families.elastic.scenario import ElasticScenario
from tests.strategies import Json


@st.composite
def elastic_scenarios(draw: st.DrawFn) -> ElasticScenario:
    """Draw a small valid scenario of the whole machine."""
    return ElasticScenario.model_validate(_scenario(draw))


def _scenario(draw: st.DrawFn) -> Json:
    compat = draw(st.sampled_from([None, None, None, "gavel"]))
    length = draw(st.sampled_from([10.0, 10.0, 4.0, None])) if compat is None else 10.0
    kinds = [
        {"name": f"kind-{index}", "gpus": draw(st.sampled_from([2, 4, 1, 3]))}
        for index in range(draw(st.integers(1, 3)))
    ]
    models = [_model(draw, index, kinds, length, compat is not None) for index in range(draw(st.integers(1, 3)))]
    scenario: Json = {
        "family": "elastic",
        "name": "random",
        "kinds": kinds,
        "models": models,
        "jobs": _jobs(draw, models),
        "round_s": length,
        "at_events": compat is None and length is not None and draw(st.sampled_from([False, False, True])),
        "compat": compat,
        "rows": draw(st.sampled_from([32, 4, 2])),
        "reward": {"time": draw(st.sampled_from([1.0, 0.1])), "restarts": draw(st.sampled_from([0.0, 2.5]))},
    }
    return scenario


def _model(draw: st.DrawFn, index: int, kinds: list[Json], length: float | None, compat: bool) -> Json:
    places = [(kind["name"], gpus) for kind in kinds for gpus in range(1, kind["gpus"] + 1)]
    chosen = draw(st.lists(st.sampled_from(places), min_size=1, max_size=5, unique=True))
    # On a grid of whole seconds, jobs end together with rounds and arrivals.
    rates = st.sampled_from([1.0, 0.5, 2.0]) if draw(st.booleans()) else st.floats(0.3, 3.0)
    times = st.sampled_from([0.0, 1.0, 2.0, 3.5]) if not compat else st.just(0.0)
    return {
        "name": f"model-{index}",
        "configurations": [{"kind": kind, "gpus": gpus, "per_s": draw(rates)} for kind, gpus in chosen],
        "start_s": draw(times),
        "restart_s": draw(times),
    }


def _jobs(draw: st.DrawFn, models: list[Json]) -> Json:
    def job() -> Json:
        model = draw(st.sampled_from(models))
        sizes = sorted({one["gpus"] for one in model["configurations"]})
        return {
            "model": model["name"],
            "work": float(draw(st.sampled_from([5, 10, 20, 3, 40]))),
            "gpus": draw(st.sampled_from([None, None, [sizes[0]], sizes])),
            "weight": draw(st.sampled_from([1.0, 2.0])),
        }

    if draw(st.booleans()):
        times = sorted(draw(st.lists(st.integers(0, 40), min_size=1, max_size=8)))
        return {"kind": "list", "jobs": [{"arrival_s": float(time), **job()} for time in times]}
    return {
        "kind": "drawn",
        "jobs": draw(st.integers(1, 8)),
        "mean_gap_s": draw(st.sampled_from([5.0, 20.0, 1.0])),
        "initial_jobs": draw(st.sampled_from([0, 1, 3])),
        "templates": [job() for _ in range(draw(st.integers(1, 3)))],
    }
