"""Trained policies of LLM engines next to rules with tuned budget, watermark and router: docs/llm-results.md.

Each trace is cut once by time, each list of lengths in one place: rules are tuned and policies are trained on the
first part, and compared on windows of the second that do not overlap. For each workload and load, a rule has the
setting of a grid with the highest SLO attainment, and the one with the lowest mean time from arrival to last token
(E2E), on windows of the first part. A trained policy has one network for all loads. All play the same arrivals;
differences are paired over windows, with bootstrap 95% intervals. A load is the mean arrival rate as a share of what
`fcfs` with the engine's defaults serves when many requests are there from the beginning.

    python benchmarks/llm_policies.py --parts runs/llm                           # scenarios to train on
    python benchmarks/llm_policies.py --parts runs/llm --json --write docs/llm-results.md
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass, field
from functools import cache
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
from tables import commands, write_tables

import slipstream
from slipstream.evaluation import bootstrap_interval
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import Policy, find, names
from slipstream.policies.learned import shipped
from slipstream.sim.simulator import Simulator

LOADS = (0.6, 0.8, 1.0)
TRAINED_AT = 0.9
SATURATING = 1600
"""Requests that are there at once where the rate is measured that `fcfs` serves."""
FIRST_PART = 0.6
TUNED_ON, TESTED_ON, DRAWN = 6, 40, 20
"""Windows at most, and episodes where lengths are drawn."""
TUNING_SEED, SEED = 0, 10_000
BUDGETS, WATERMARKS = (128, 256, 512, 1024, 2048, 4096), (0.0, 0.03, 0.05, 0.1)
ROUTED_BUDGETS, ROUTED_WATERMARKS = (512, 1024, 2048, 8192), (0.0, 0.05)
ROUTERS = ("round-robin", "least-load", "prefix-affinity")
METRICS = ("slo_attainment", "e2e_mean_s", "e2e_p99_s", "ttft_mean_s", "tpot_mean_ms")
SKIPPED = ("random", "sarathi", "least-load", "prefix-affinity", "priority", "earliest-deadline", "vtc")
"""`sarathi` and the routers are `fcfs` with another budget or router, which tuning tries; the last three play as `fcfs`
where there is one class of requests."""
BUILT_IN = {"RTX 4090": "llm/chat", "RTX PRO 6000": "llm/code"}
"""Built-ins with the step times of an accelerator."""


@dataclass(frozen=True)
class Workload:
    """Requests, the engines that serve them, and what counts as good."""

    source: str
    """File of the requests, in the folder of data."""
    layout: str
    accelerator: str
    engine: dict[str, Any]
    ttft_s: float
    tpot_ms: float
    engines: int = 1
    window: int = 200
    """Requests of a window: enough for a queue to build up."""
    levels: dict[str, Any] = field(
        default_factory=lambda: {"token_budgets": [128, 256, 512, 1024, 2048], "watermarks": [0.0, 0.05]}
    )
    start: dict[str, Any] = field(default_factory=lambda: {"token_budget": 256, "watermark": 0.03})
    """Engine and router from which a training goes on: settings that suit the rules."""

    @property
    def grid(self) -> list[dict[str, Any]]:
        """Settings among which a rule is tuned."""
        if self.engines == 1:
            return [{"token_budget": one, "watermark": two} for one, two in product(BUDGETS, WATERMARKS)]
        tried = product(ROUTED_BUDGETS, ROUTED_WATERMARKS, ROUTERS)
        return [{"token_budget": one, "watermark": two, "router": three} for one, two, three in tried]


SHORT, ROOMY = {"blocks": 2588, "seats": 256}, {"blocks": 20001, "seats": 128}
CACHED = {"blocks": 5001, "seats": 128, "block_tokens": 64, "prefix_cache": True, "longest_tokens": 200_000}
WORKLOADS = {
    "azure-code": Workload(
        "serving/azure_llm_ccby/AzureLLMInferenceTrace_code.csv",
        "azure",
        "RTX PRO 6000",
        ROOMY,
        2.0,
        50.0,
        start={"token_budget": 512},
    ),
    "azure-conv": Workload(
        "serving/azure_llm_ccby/AzureLLMInferenceTrace_conv.csv", "azure", "RTX 4090", SHORT, 2.0, 50.0
    ),
    "sharegpt": Workload(
        "llm/lengths/sharegpt_8k_filtered_stats_llama2_tokenizer.csv", "pairs", "RTX 4090", SHORT, 2.0, 50.0
    ),
    "mooncake": Workload(
        "llm/mooncake/conversation_trace.jsonl",
        "mooncake",
        "RTX PRO 6000",
        CACHED,
        10.0,
        100.0,
        engines=4,
        levels={"token_budgets": [256, 512, 1024, 2048], "watermarks": [0.0]},
        start={"token_budget": 1024, "router": "least-load"},
    ),
}
TRAINED = {name: f"learned-{name}" for name in WORKLOADS}
"""Policy of each workload, if the package has it."""


def part_path(name: str, folder: Path, part: str) -> Path:
    """Return the file of a part of a workload's requests."""
    return folder.resolve() / f"{name}-{part}.{'jsonl' if WORKLOADS[name].layout == 'mooncake' else 'csv'}"


def write_parts(data: Path, folder: Path) -> None:
    """Write both parts of the requests of every workload."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, workload in WORKLOADS.items():
        lines = (data / workload.source).read_text().splitlines()
        header, rows = ([], lines) if workload.layout == "mooncake" else (lines[:1], lines[1:])
        cut = round(FIRST_PART * len(rows))
        for part, chosen in (("train", rows[:cut]), ("test", rows[cut:])):
            part_path(name, folder, part).write_text("\n".join([*header, *chosen]) + "\n")


def described(name: str, folder: Path, part: str, seconds: float, changes: dict[str, Any]) -> dict[str, Any]:
    """Return the scenario of a part of a workload with `seconds` between two requests; `changes` are of its engines."""
    workload = WORKLOADS[name]
    model: Any = slipstream.load(BUILT_IN[workload.accelerator])
    engine = {"version": "0.32", "prefix_cache": False, **workload.engine}
    router = changes.get("router", "round-robin")
    engine |= {key: value for key, value in changes.items() if key != "router"}
    path = str(part_path(name, folder, part))
    if workload.layout == "pairs":
        lengths = {"kind": "pairs", "path": path}
        requests: dict[str, Any] = {
            "kind": "drawn",
            "requests": workload.window,
            "rate_hz": 1.0 / seconds,
            "lengths": lengths,
        }
    else:
        requests = {"kind": "trace", "path": path, "format": workload.layout, "requests": workload.window}
        requests |= {"stretch": seconds / mean_gap(name, folder, part), "held_out": 0.0}
    limits = {"name": "all", "ttft_s": workload.ttft_s, "tpot_ms": workload.tpot_ms}
    return {
        "family": "llm",
        "name": name,
        "engines": workload.engines,
        "engine": engine,
        "router": router,
        "step_time": model.step_time.model_dump(mode="json"),
        "requests": requests,
        "classes": [limits],
        "prediction": {"cv": 0.7},
        "reward": {"time": 0.1, "violations": 1.0},
    }


@cache
def mean_gap(name: str, folder: Path, part: str) -> float:
    """Return the mean seconds between two requests of a trace's part."""
    workload = WORKLOADS[name]
    source = {"kind": "trace", "path": str(part_path(name, folder, part)), "format": workload.layout}
    engine = {"blocks": 2, "block_tokens": workload.engine.get("block_tokens", 16)}
    step = {"kind": "closed", "dense": [{"at": 0, "us": 1.0}]}
    found: Any = slipstream.load({"family": "llm", "engine": engine, "step_time": step, "requests": source})
    times = FAMILIES["llm"].spec_arrays(found)["listed"]["time"]
    return float(times[-1] - times[0]) / 1e9 / (len(times) - 1)


@cache
def served_hz(name: str, folder: Path) -> float:
    """Return the requests per second that `fcfs` serves with defaults, when many are there at once."""
    data = described(name, folder, "train", 1e-6, {})
    data["requests"]["requests"] = SATURATING
    scenario: Any = slipstream.load(data)
    return float(np.mean([played(scenario, find("fcfs", "llm"), seed)["requests_hz"] for seed in range(4)]))


def gap_s(name: str, folder: Path, load: float) -> float:
    """Return the mean seconds between two requests at a load."""
    return 1.0 / (load * served_hz(name, folder))


def training_scenario(name: str, folder: Path) -> dict[str, Any]:
    """Return the scenario that the policy of a workload is trained on."""
    workload = WORKLOADS[name]
    scenario = described(name, folder, "train", gap_s(name, folder, TRAINED_AT), workload.start)
    decide = ["budget", "route"] if workload.engines > 1 else ["budget"]
    if workload.layout != "pairs":
        scenario["requests"]["held_out"] = 0.3
    # A network sees so many waiting requests; rules always see all.
    return scenario | {"decide": decide, "levels": workload.levels, "rows": workload.window}


# Windows


def windows(scenario: Any, seed: int, most: int) -> list[int]:
    """Return seeds of episodes: of windows of a trace that have no common request, any if lengths are drawn."""
    if scenario.requests.kind == "drawn":
        return list(range(seed, seed + most))
    simulator, first = Simulator(scenario), {}
    for one in range(seed, seed + 3000):
        simulator.reset(one, "test")
        first.setdefault(int(simulator.header["first"]), one)
    chosen: list[int] = []
    end = -1
    for begin in sorted(first):
        if begin >= end:
            chosen.append(first[begin])
            end = begin + scenario.requests.requests
    share = max(1, len(chosen) // most)
    return chosen[::share][:most]


_SIMULATORS: dict[int, tuple[Any, Simulator]] = {}


def played(scenario: Any, policy: Policy, seed: int) -> dict[str, float]:
    """Return the metrics of an episode."""
    if id(scenario) not in _SIMULATORS:
        _SIMULATORS.clear()
        _SIMULATORS[id(scenario)] = (scenario, Simulator(scenario))
    events = _SIMULATORS[id(scenario)][1].play(policy, seed, "test")
    found: dict[str, float] = FAMILIES["llm"].metrics(scenario, events, seed, "test")
    return found


def episodes(scenario: Any, policy: Policy, seeds: list[int]) -> dict[str, np.ndarray]:
    """Return the metrics of episodes."""
    found = [played(scenario, policy, seed) for seed in seeds]
    return {metric: np.array([one[metric] for one in found]) for metric in METRICS}


# Tuning and comparison


def tuned(name: str, folder: Path, load: float, rules: list[str]) -> dict[str, dict[str, dict[str, Any]]]:
    """Return for every rule the setting with the highest attainment and the one with the lowest mean E2E.

    They are kept in the folder, so that another policy is compared without tuning the rules again.
    """
    kept = folder / f"{name}-tuned-{load}.json"
    if kept.is_file():
        found: dict[str, dict[str, dict[str, Any]]] = json.loads(kept.read_text())
        return found
    seeds: list[int] = []
    attained: dict[str, list[float]] = {rule: [] for rule in rules}
    taken: dict[str, list[float]] = {rule: [] for rule in rules}
    grid = WORKLOADS[name].grid
    for setting in grid:
        scenario: Any = slipstream.load(described(name, folder, "train", gap_s(name, folder, load), setting))
        seeds = seeds or windows(scenario, TUNING_SEED, TUNED_ON)
        for rule in rules:
            figures = episodes(scenario, find(rule, "llm"), seeds)
            attained[rule].append(float(figures["slo_attainment"].mean()))
            taken[rule].append(float(figures["e2e_mean_s"].mean()))
    best = {
        rule: {"attainment": grid[int(np.argmax(attained[rule]))], "e2e": grid[int(np.argmin(taken[rule]))]}
        for rule in rules
    }
    kept.write_text(json.dumps(best))
    return best


def gap(ours: np.ndarray, theirs: np.ndarray) -> dict[str, float]:
    """Return the mean of a paired difference and its interval."""
    low, high = bootstrap_interval(ours - theirs)
    return {"mean": float((ours - theirs).mean()), "low": low, "high": high}


def compared(name: str, folder: Path, load: float, policy: str | None) -> dict[str, Any]:
    """Return the figures of every tuned rule on test windows, and the trained policy's differences to them."""
    rules = [rule for rule in names("llm") if rule not in SKIPPED]
    settings = tuned(name, folder, load, rules)
    seconds = gap_s(name, folder, load)
    plain: Any = slipstream.load(described(name, folder, "test", seconds, {}))
    seeds = windows(plain, SEED, DRAWN if plain.requests.kind == "drawn" else TESTED_ON)
    rows: dict[str, Any] = {}
    ours = None
    if policy is not None:
        data = training_scenario(name, folder)
        requests = described(name, folder, "test", seconds, {})["requests"]
        ours = episodes(slipstream.load({**data, "requests": requests}), find(policy, "llm"), seeds)
        rows["trained"] = {metric: float(ours[metric].mean()) for metric in METRICS}
    for rule in rules:
        row: dict[str, Any] = {"settings": settings[rule]}
        for aim, setting in settings[rule].items():
            theirs = episodes(
                slipstream.load(described(name, folder, "test", seconds, setting)), find(rule, "llm"), seeds
            )
            row[aim] = {metric: float(theirs[metric].mean()) for metric in METRICS}
            if ours is not None:
                row[aim]["ahead"] = {metric: gap(ours[metric], theirs[metric]) for metric in METRICS[:3]}
        rows[rule] = row
    return {"windows": len(seeds), "settings": len(WORKLOADS[name].grid), "policies": rows}


# Tables


def shown(figures: dict[str, float], digits: int) -> str:
    """Return a difference with its interval."""
    return f"{figures['mean']:+.{digits}f} [{figures['low']:+.{digits}f}, {figures['high']:+.{digits}f}]"


def setting_text(setting: dict[str, Any]) -> str:
    """Return a setting as a table shows it."""
    router = f", {setting['router']}" if "router" in setting else ""
    return f"{setting['token_budget']}, {setting['watermark']:.0%}{router}"


def verdict(rows: dict[str, Any]) -> list[str]:
    """Return how many rules the trained policy beats in attainment, and in E2E without a greater p99."""
    rules = [row for policy, row in rows.items() if policy != "trained"]
    attained = sum(row["attainment"]["ahead"]["slo_attainment"]["low"] > 0.0 for row in rules)
    faster = [row["e2e"]["ahead"]["e2e_mean_s"]["high"] < 0.0 for row in rules]
    tail = [row["e2e"]["ahead"]["e2e_p99_s"]["low"] <= 0.0 for row in rules]
    both = sum(one and two for one, two in zip(faster, tail, strict=True))
    return [f"{attained} of {len(rules)}", f"{sum(faster)} of {len(rules)}", f"{both} of {len(rules)}"]


def verdicts(figures: dict[str, Any]) -> str:
    """Return the table of all workloads and loads: the trained policy next to the best rule of each aim."""
    lines = [
        "| workload | load | windows | attainment: best rule | trained | ahead by | beats rules "
        "| mean E2E: best rule, s | trained, s | less by, s | its p99, s | trained p99, s | beats rules "
        "| with p99 no greater |",
        "|---" * 14 + "|",
    ]
    for name, loads in figures.items():
        for load, found in loads.items():
            rows = found["policies"]
            rules = {policy: row for policy, row in rows.items() if policy != "trained"}
            first = max(rules, key=lambda one: rules[one]["attainment"]["slo_attainment"])
            second = min(rules, key=lambda one: rules[one]["e2e"]["e2e_mean_s"])
            best, fast = rules[first]["attainment"], rules[second]["e2e"]
            ours = rows.get("trained")
            cells = [name, str(load), str(found["windows"]), f"`{first}` {best['slo_attainment']:.3f}"]
            if ours is None:
                cells += [
                    "",
                    "",
                    "",
                    f"`{second}` {fast['e2e_mean_s']:.2f}",
                    "",
                    "",
                    f"{fast['e2e_p99_s']:.1f}",
                    "",
                    "",
                    "",
                ]
            else:
                beaten, faster, both = verdict(rows)
                cells += [f"{ours['slo_attainment']:.3f}", shown(best["ahead"]["slo_attainment"], 3), beaten]
                cells += [f"`{second}` {fast['e2e_mean_s']:.2f}", f"{ours['e2e_mean_s']:.2f}"]
                less = fast["ahead"]["e2e_mean_s"]
                less = {"mean": -less["mean"], "low": -less["high"], "high": -less["low"]}
                cells += [shown(less, 2), f"{fast['e2e_p99_s']:.1f}", f"{ours['e2e_p99_s']:.1f}", faster, both]
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def all_rules(figures: dict[str, Any]) -> str:
    """Return a table per workload and load with every rule."""
    lines = []
    for name, loads in figures.items():
        for load, found in loads.items():
            lines += [
                f"### {name}, load {load}",
                "",
                "| rule | tuned for attainment | attainment | trained ahead by | tuned for E2E | mean E2E, s "
                "| trained minus rule, s | p99, s | trained minus rule, s |",
                "|---" * 9 + "|",
            ]
            for policy, row in found["policies"].items():
                if policy == "trained":
                    continue
                one, two, settings = row["attainment"], row["e2e"], row["settings"]
                ahead = [("", "", "")]
                if "ahead" in one:
                    ahead = [
                        (
                            shown(one["ahead"]["slo_attainment"], 3),
                            shown(two["ahead"]["e2e_mean_s"], 2),
                            shown(two["ahead"]["e2e_p99_s"], 1),
                        )
                    ]
                first, second, third = ahead[0]
                lines.append(
                    f"| `{policy}` | {setting_text(settings['attainment'])} | {one['slo_attainment']:.3f} | {first} "
                    f"| {setting_text(settings['e2e'])} | {two['e2e_mean_s']:.2f} | {second} "
                    f"| {two['e2e_p99_s']:.1f} | {third} |"
                )
            lines.append("")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=Path("../shared/data"), help="folder with llm/ and serving/")
    parser.add_argument("--parts", type=Path, default=Path("runs/llm"), help="folder for the parts of the traces")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="names, with commas between them")
    parser.add_argument("--policies", type=Path, help="folder with trained policies that the package has not")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--write", type=Path, help="put the tables into this page")
    arguments = parser.parse_args()
    write_parts(arguments.data, arguments.parts)
    figures: dict[str, Any] = {}
    for name in arguments.workloads.split(","):
        path = arguments.parts / f"{name}.json"
        path.write_text(json.dumps(training_scenario(name, arguments.parts), indent=2) + "\n")
        if not (arguments.json or arguments.write):
            continue
        policy = TRAINED[name] if TRAINED[name] in shipped("llm") else None
        if arguments.policies is not None and (arguments.policies / TRAINED[name]).is_dir():
            policy = str(arguments.policies / TRAINED[name])
        figures[name] = {}
        for load in LOADS:
            figures[name][str(load)] = compared(name, arguments.parts, load, policy)
            print(f"{name}, load {load}: done", file=sys.stderr)
    if arguments.json:
        print(json.dumps(figures, indent=2))
    if arguments.write is not None:
        tables = {"verdicts": verdicts(figures), "rules": all_rules(figures), "commands": commands("llm")}
        write_tables(arguments.write, tables)


if __name__ == "__main__":
    main()
