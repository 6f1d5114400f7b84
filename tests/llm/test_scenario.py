"""Scenarios and files of LLM engines: what is read, what is refused, and with which words."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from slipstream.errors import InputError, TraceError
from slipstream.families.llm.build import compiled_scenario, spec_arrays
from slipstream.families.llm.workload import servegen
from slipstream.families.llm.workload.distributions import gap_quantiles, lengths_of
from slipstream.families.llm.workload.generator import GENERATOR, MIXES, Settings, generate
from slipstream.policies.base import find
from slipstream.scenario import digest, dump, load
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.simulator import Simulator
from tests.llm.cases import request, scenario


def data(**changes: Any) -> dict[str, Any]:
    return scenario([request(0, 5, 3)]) | changes


def with_file(folder: Path, layout: str, content: str, name: str = "requests.csv", **more: Any) -> Any:
    (folder / name).write_text(content)
    requests = {"kind": "trace", "path": str(folder / name), "format": layout, **more}
    return load(data(requests=requests))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"engine": {"blocks": 4, "version": "0.19", "watermark": 0.1}}, "version 0.19 has none"),
        ({"engine": {"blocks": 4, "seats": 0}}, "engine.seats"),
        ({"engine": {"blocks": 4, "seat": 1}}, "did you mean 'seats'"),
        ({"decide": ["budget"]}, "expected 'levels' exactly where"),
        ({"levels": {"token_budgets": [4]}}, "expected 'levels' exactly where"),
        ({"decide": ["evict", "evict"]}, "each entry once"),
        ({"classes": [{"name": "a"}, {"name": "a"}]}, "'a' exists"),
        (
            {"requests": {"kind": "list", "requests": [request(0, 1, 1, client="x")]}},
            r"requests\[0\].client: 'x': expected one of default",
        ),
        (
            {"requests": {"kind": "list", "requests": [request(5, 1, 1), request(4, 1, 1)]}},
            r"requests\[1\].arrival_s is earlier",
        ),
        ({"requests": {"kind": "list", "requests": [request(0, 1, 1)], "hash_tokens": 6}}, "a multiple of"),
        (
            {
                "decide": ["budget"],
                "levels": {"token_budgets": [4], "watermarks": [0.1]},
                "engine": {"version": "0.19", "blocks": 4},
            },
            "levels.watermarks: version 0.19 has none",
        ),
    ],
)
def test_what_cannot_be_is_refused_in_one_line(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        load(data(**changes))
    assert len(str(error.value).splitlines()) == 1


def test_requests_of_json_lines_are_read_in_either_spelling(tmp_path: Path) -> None:
    lines = [
        {"arrival_s": 0.5, "prompt": 7, "output": 2, "predicted": 4, "hashes": [3]},
        {"arrival_time_ns": 600_000_000, "input_toks": 8, "output_toks": 1, "input_tok_ids": list(range(8))},
    ]
    found = with_file(tmp_path, "jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    rows = spec_arrays(found)["listed"]
    assert rows["time"].tolist() == [500_000_000, 600_000_000]
    assert rows["prompt"].tolist() == [7, 8]
    assert rows["predicted"].tolist() == [4, 0]
    assert rows["hashes"].tolist() == [1, 2]


def test_equal_beginnings_have_equal_numbers_and_others_have_not(tmp_path: Path) -> None:
    tokens = [[1] * 12, [1] * 8 + [2] * 4, [2] * 4 + [1] * 8]
    lines = [{"arrival_s": 0, "prompt": 12, "output": 1, "input_tok_ids": one} for one in tokens]
    found = with_file(tmp_path, "jsonl", "".join(json.dumps(line) + "\n" for line in lines))
    first, second, third = spec_arrays(found)["hashes"].reshape(3, 3).tolist()
    assert first[:2] == second[:2]
    assert len({*first, *second, *third}) == 7


def test_traces_of_azure_and_mooncake_are_read(tmp_path: Path) -> None:
    azure = "TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n2023-11-16 18:17:04.5,7,0\n"
    rows = spec_arrays(with_file(tmp_path, "azure", azure, stretch=2.0))["listed"]
    assert rows["time"].tolist() == [0, 1_040_080_000]
    assert rows["output"].tolist() == [10, 1]
    line = '{"timestamp": 3000, "input_length": 700, "output_length": 5, "hash_ids": [0, 14]}\n'
    found = with_file(tmp_path, "mooncake", line)
    assert spec_arrays(found)["listed"]["time"].tolist() == [3_000_000_000]
    assert spec_arrays(found)["machine"]["hash_tokens"][0] == 512
    assert spec_arrays(found)["hashes"].tolist() == [0, 14]


@pytest.mark.parametrize(
    "shares", ["[1]", "3", "{1e400: 1.0}", "{10**3: 1.0}", "{99999999999999999999: 1.0}", "(" * 300]
)
def test_damaged_histograms_of_servegen_are_refused_in_one_line(tmp_path: Path, shares: str) -> None:
    file = tmp_path / "one-dataset.json"
    file.write_text(json.dumps({"0": {"input_tokens": shares, "output_tokens": "{4: 1.0}"}}))
    with pytest.raises(TraceError, match="0: expected input_tokens and output_tokens, each shares by length"):
        servegen._histograms(file)


def test_a_client_of_servegen_is_drawn_once_from_its_rates_and_histograms(tmp_path: Path) -> None:
    (tmp_path / "one-dataset.json").write_text(
        json.dumps({"0": {"input_tokens": "{10: 0.5, 20: 0.5}", "output_tokens": "{3: 1.0}"}})
    )
    text = "0,0,0,,0,0\n600,2.0,1.0,Gamma,1.0,0.5\n1200,1.0,2.0,Weibull,0.7,0.8\n1800,0,0,,0,0\n"
    found = with_file(tmp_path, "servegen", text, "one-trace.csv")
    found = load(data(requests={"kind": "trace", "path": str(tmp_path / "one"), "format": "servegen"}))
    rows = spec_arrays(found)["listed"]
    assert rows["time"][0] == 0
    assert 1000 < (rows["time"] < 600e9).sum() < 1400
    assert set(rows["prompt"].tolist()) == {10, 20}
    assert set(rows["output"].tolist()) == {3}
    assert spec_arrays(load(dump_of(found)))["listed"].tolist() == rows.tolist()


def dump_of(found: Any) -> Any:
    return json.loads(dump(found))


@pytest.mark.parametrize(
    ("layout", "content", "message"),
    [
        ("jsonl", '{"arrival_s": 0, "prompt": 0, "output": 1}\n', "line 1: prompt: expected a number from 1"),
        ("jsonl", '{"arrival_s": 1, "prompt": 1, "output": 1}\n{"arrival_s": 0, "prompt": 1, "output": 1}\n', "line 2"),
        ("jsonl", '{"arrival_s": 0, "prompt": 1, "output": 1, "client": 3}\n', "a text as client"),
        ("jsonl", '{"arrival_s": 0, "prompt": 1, "output": 1, "client": "x"}\n', "client 'x': expected one of default"),
        ("jsonl", '{"arrival_s": 0, "prompt": 1, "output": 1, "hashes": [0.5]}\n', "a list of whole numbers"),
        ("jsonl", "", "has no requests"),
        ("mooncake", '{"timestamp": "x", "input_length": 1, "output_length": 1}\n', "line 1: arrival"),
        ("azure", "TIMESTAMP,ContextTokens,GeneratedTokens\nnever,1,1\n", "expected a date and time"),
        ("azure", "TIMESTAMP,ContextTokens\n", "GeneratedTokens"),
    ],
)
def test_damaged_traces_are_refused_in_one_line(tmp_path: Path, layout: str, content: str, message: str) -> None:
    with pytest.raises(InputError, match=message) as error:
        compiled_scenario(with_file(tmp_path, layout, content))
    assert len(str(error.value).splitlines()) == 1


def test_an_episode_is_a_window_of_the_part_of_its_split(tmp_path: Path) -> None:
    lines = [json.dumps({"arrival_s": n, "prompt": 1 + n, "output": 1}) + "\n" for n in range(40)]
    (tmp_path / "all.jsonl").write_text("".join(lines))
    requests = {"kind": "trace", "path": str(tmp_path / "all.jsonl"), "requests": 4, "held_out": 0.25}
    found: Any = load(data(requests=requests, engine={"blocks": 40, "block_tokens": 4}))
    begins: dict[str, set[int]] = {"train": set(), "test": set()}
    for split, seen in begins.items():
        for seed in range(60):
            events = Simulator(found).play(find("fcfs", "llm"), seed, split)
            arrivals = events[events["kind"] == ARRIVAL]
            first = int(arrivals["resource"][0]) - 1
            assert arrivals["resource"].tolist() == [1 + first + n for n in range(4)]
            assert arrivals["time"].tolist() == [n * 10**9 for n in range(4)]
            seen.add(first)
    assert begins["train"] <= set(range(27))
    assert begins["test"] <= set(range(30, 37))
    assert len(begins["train"]) > 15
    with pytest.raises(InputError, match="the trace has 40"):
        compiled_scenario(load(data(requests={**requests, "requests": 41})))


def test_gaps_and_lengths_have_the_moments_of_their_laws() -> None:
    rng = np.random.default_rng(0)
    for burstiness in (0.5, 1.0, 2.5):
        table = gap_quantiles(burstiness)
        drawn = np.interp(rng.uniform(size=200_000), np.linspace(0.0, 1.0, len(table)), table)
        assert drawn.mean() == pytest.approx(1.0, rel=0.02)
        assert drawn.std() == pytest.approx(burstiness, rel=0.05)
    found: Any = load("llm/chat")
    lengths = lengths_of(found.requests.lengths.prompt)
    assert np.median(lengths) == 420
    assert np.log(lengths[lengths < 4096]).std() == pytest.approx(1.1, rel=0.08)


def test_step_time_is_read_from_tables_and_from_recorded_steps(tmp_path: Path) -> None:
    parts = ["layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj"]
    dense = [f"{part},{at},{at + 1}" for part in [*parts, "embedding", "final_layernorm"] for at in (1, 9)]
    (tmp_path / "dense.csv").write_text("\n".join(["layer,tokens,time_us", *dense]) + "\n")
    head = [f"{part},{at},{10 * at}" for part in ("lm_head", "sampler") for at in (1, 3)]
    (tmp_path / "per_sequence.csv").write_text("\n".join(["layer,sequences,time_us", *head]) + "\n")
    cells = [(0, 0, 1, 16), (0, 0, 2, 16), (0, 0, 1, 32), (16, 0, 0, 0), (16, 16, 1, 16), (24, 0, 1, 16)]
    attention = [",".join(map(str, (*cell, 5 + index))) for index, cell in enumerate(cells)]
    header = "prefill_chunk,kv_prefill,n_decode,kv_decode,time_us"
    (tmp_path / "attention.csv").write_text("\n".join([header, *attention]) + "\n")
    form = {"kind": "tables", "path": str(tmp_path), "layers": 2, "step_us": 1.0}
    spec = spec_arrays(load(data(step_time=form)))
    # Two layers of eight linear parts, of which two are norms, and two more at 2 us each.
    assert spec["dense"].tolist() == [1e3 * (2 * 8 * 2 + 2 * 2), 1e3 * (2 * 8 * 10 + 2 * 10)]
    assert spec["head"].tolist() == [20e3, 60e3]
    assert [len(spec[name]) for name in ("chunk_at", "context_at", "decode_at", "decode_context_at")] == [2, 2, 3, 3]
    grid = spec["attention"].reshape(2, 2, 3, 3)
    assert grid[0, 0, 1].tolist() == [10e3, 10e3, 14e3]
    assert np.isfinite(grid).all()
    (tmp_path / "steps.csv").write_text(
        "tokens,sequences,context,prefill,us\n"
        + "".join(
            f"{t},{s},{c},{p},{100 + 2 * t + 3 * s + 0.5 * c + 0.25 * p}\n"
            for t, s, c, p in [
                (1, 1, 5, 0),
                (8, 2, 30, 40),
                (64, 3, 9, 0),
                (2, 2, 90, 3),
                (16, 1, 0, 256),
                (5, 5, 5, 5),
            ]
        )
    )
    fitted = spec_arrays(load(data(step_time={"kind": "steps", "path": str(tmp_path / "steps.csv")})))
    machine = fitted["machine"][0]
    assert machine["step"] == pytest.approx(100e3)
    assert machine["per_context"] == pytest.approx(500.0)
    assert machine["per_pair"] == pytest.approx(250.0)
    assert fitted["dense"][1] == pytest.approx(2000e3)
    (tmp_path / "dense.csv").write_text("layer,tokens,time_us\nlayernorm,1,2\n")
    with pytest.raises(InputError, match=r"step_time.path: .*dense.csv: has no rows of 'qkv_proj'"):
        compiled_scenario(load(data(step_time=form)))


def test_generated_scenarios_are_those_of_their_seed_and_traced_ones_play_alike(tmp_path: Path) -> None:
    for mix in MIXES:
        settings = Settings(requests=30, mix=mix, classes=2)
        assert digest(generate(settings, 3)) == digest(generate(settings, 3)) != digest(generate(settings, 4))
    found = generate(Settings(requests=30), 3)
    moved, files = GENERATOR.traced(found, 5, "traces", "csv")
    moved._folder = tmp_path
    for path, content in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_bytes(content)
    logs = [Simulator(one).play(find("fcfs", "llm"), 5) for one in (found, moved)]
    assert logs[0]["time"].tolist() == logs[1]["time"].tolist()
    for seed in range(5):
        assert spec_arrays(GENERATOR.random_scenario(seed))["machine"]["requests"][0] == 200
