"""Hypothesis strategies for serving scenarios: few accelerators, tight deadlines, small queues, many ties."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import strategies as st

from slipstream.families.serving.scenario import ServingScenario
from tests.strategies import Json

Time = Callable[[int, int], float]
KINDS = ("cpu", "gpu", "npu")


@st.composite
def serving_scenarios(draw: st.DrawFn) -> ServingScenario:
    """Draw a small valid scenario of the whole machine; lively choices come first, as drawing prefers the first."""
    return ServingScenario.model_validate(_scenario(draw))


def _scenario(draw: st.DrawFn) -> Json:
    time = _time(draw)
    sizes = draw(st.sampled_from([[1, 2, 4], [1, 2, 4, 8], [1, 3], [1, 2, 4], [1, 2, 4, 8], [1]]))
    kinds = [{"name": name, "count": draw(st.integers(1, 3))} for name in KINDS[: draw(st.integers(1, 3))]]
    if draw(st.integers(0, 3)) == 0:
        kinds[0]["memory_mb"] = 50.0
    names = [kind["name"] for kind in kinds]
    models = [_model(draw, time, number, names, len(sizes)) for number in range(draw(st.integers(1, 3)))]
    if all(model["arrivals"] is None for model in models):
        models[0]["arrivals"] = {"kind": "poisson", "rate_hz": 50.0}
    batching = draw(st.sampled_from(["deadline-aware", "accscale", "aimd", "nexus", "deadline-aware", "none"]))
    proteus = batching in ("accscale", "aimd", "nexus") and draw(st.booleans())
    drops = ["crowded", "hopeless", "expired", "batch", "twice-deadline", "never"]
    mode = draw(st.sampled_from(["plan", "plan", "plan", "route"]))
    initial = _initial(draw, kinds, models, mode == "route")
    return {
        "family": "serving",
        "name": "random",
        "accelerators": kinds,
        "batch_sizes": sizes,
        "slo_share": draw(st.sampled_from([0.5, 0.5, 1.0])),
        "models": models,
        "initial": initial,
        "duration_s": draw(st.sampled_from([0.4, 1.0, 1.5])),
        "mode": mode if initial else "plan",
        "batching": batching,
        "routing": draw(st.sampled_from(["random", "round-robin", "eft", "eft", "lft", "infaas", "weighted"])),
        "drop": "twice-deadline" if proteus else draw(st.sampled_from(drops)),
        "compat": "proteus" if proteus else "strict",
        "queue": draw(st.sampled_from([8, 9, 16])),
        "rows": draw(st.sampled_from([1, 2, 32])),
        "service": draw(
            st.sampled_from([{"kind": "fixed"}] * 3 + [{"kind": "exponential"}, {"kind": "lognormal", "cv": 0.5}])
        ),
        "planning": {
            "interval_s": draw(st.sampled_from([0.1, 0.25, 0.5])),
            "moves": draw(st.sampled_from([1, 3, 3, 100])),
            "headroom": 1.5,
        },
        "forecast": draw(
            st.sampled_from(
                [
                    {"kind": "ewma", "com": 1.6, "sample_s": 0.1},
                    {"kind": "ewma", "com": 0.0, "sample_s": 0.15},
                    {"kind": "holt", "level": 0.4, "trend": 0.2, "margin": 0.5, "sample_s": 0.1},
                ]
            )
        ),
        "reward": {"accuracy": 1.0, "violations": draw(st.sampled_from([1.0, 0.0, 0.3])), "switches": 0.1},
    }


def _time(draw: st.DrawFn) -> Time:
    """Return how this scenario draws its times in ms: on a grid, or any."""
    unit = draw(st.sampled_from([1.0, 1.0, 5.0, None]))
    if unit is None:
        return lambda least, most: draw(st.floats(max(least, 1e-3), most))
    return lambda least, most: unit * draw(st.integers(least, most))


def _model(draw: st.DrawFn, time: Time, number: int, kinds: list[str], sizes: int) -> Json:
    variants = []
    for place in range(draw(st.integers(1, 3))):
        latency: Json = {}
        for kind in kinds:
            if place == 0 or draw(st.integers(0, 3)):
                # Profiles that say nothing of batches are there, but rare.
                steps = [time(1, 8) for _ in range(draw(st.sampled_from([sizes, sizes, *range(1, sizes + 1)])))]
                latency[kind] = [sum(steps[: step + 1]) for step in range(len(steps))]
        variants.append(
            {
                "name": f"m{number}v{place}",
                "accuracy": draw(st.sampled_from([70.0, 80.0, 80.0, 99.5])),
                "latency_ms": latency,
                "memory_mb": draw(st.sampled_from([0.0, 40.0, 60.0])) if place else 0.0,
                "load_s": draw(st.sampled_from([0.0, 0.02, 0.1, 0.3])),
            }
        )
    return {
        "name": f"m{number}",
        # The first variant serves on any kind, in batches more often than not.
        "slo_ms": 2.0 * max(times[draw(st.sampled_from([-1, -1, 0]))] for times in variants[0]["latency_ms"].values())
        + time(1, 30),
        "accuracy_floor": draw(st.sampled_from([0.0, 80.0, 90.0])),
        "expected_rate_hz": draw(st.sampled_from([None, None, 20.0])),
        "variants": variants,
        "arrivals": _arrivals(draw, time),
    }


def _arrivals(draw: st.DrawFn, time: Time) -> Json | None:
    kind = draw(st.sampled_from(["poisson", "gamma", "even", "diurnal", "bursty", "rates", "trace", "trace", None]))
    rate = draw(st.sampled_from([300.0, 400.0, 100.0, 5.0]))
    law = {"gaps": draw(st.sampled_from(["poisson", "gamma", "even"])), "shape": draw(st.sampled_from([0.2, 1.0, 3.0]))}
    if kind is None:
        return None
    if kind in ("poisson", "gamma", "even"):
        return {"kind": kind, "rate_hz": rate, "shape": law["shape"]}
    if kind == "diurnal":
        return {"kind": kind, "low_hz": 0.0, "peak_hz": rate, "period_s": 0.7, "phase_s": 0.1, **law}
    if kind == "bursty":
        return {"kind": kind, "low_hz": draw(st.sampled_from([0.0, 10.0])), "high_hz": rate, "switch_s": 0.2, **law}
    if kind == "rates":
        return {"kind": kind, "rates_hz": [rate, 0.0, rate / 3.0], "step_s": 0.13, "scale": 1.5, **law}
    times = sorted(time(0, 60) for _ in range(draw(st.integers(1, 40))))
    return {"kind": kind, "times_ms": times, "stretch": draw(st.sampled_from([1.0, 1.0, 2.5]))}


def _initial(draw: st.DrawFn, kinds: list[Json], models: list[Json], needed: bool) -> list[Json]:
    hosted = []
    # What is asked for is hosted more often than what is not.
    chosen = [*models, *(model for model in models if model["arrivals"] is not None)]
    for kind in kinds:
        count = draw(st.integers(1 if needed else draw(st.integers(0, 1)), kind["count"]))
        if count:
            model = draw(st.sampled_from(chosen))
            hosted.append({"variant": model["variants"][0]["name"], "accelerator": kind["name"], "count": count})
    return hosted
