"""`execute` and `validate --engine starpu`: what they write, and how they refuse."""

from __future__ import annotations

import json

import pytest

from slipstream.families.contract import family_of
from slipstream.reports.runs import read_run
from slipstream.scenario import load
from slipstream.sim.eventlog import read
from tests.cli.test_tasks import write
from tests.device.test_starpu import missing
from tests.device.test_tasks import tiled

pytestmark = [pytest.mark.thorough, pytest.mark.skipif(bool(missing()), reason=missing() or "StarPU is there")]


@pytest.fixture
def tiles(tmp_path):
    write(tmp_path / "tiles.json", tiled())
    return "tiles.json"


def test_execute_writes_a_log_and_a_report_that_other_commands_read(slipstream, tmp_path, tiles):
    options = ("--engine", "starpu", "--policy", "heft", "--tile-side", "16", "--log", "run.parquet")
    code, output, _ = slipstream("execute", tiles, *options, "--out", "run.html", "--json")
    assert code == 0
    said = json.loads(output)
    assert said["metrics"]["tasks"] == 20.0
    assert said["residual"] < 1e-12
    assert said["dispatch_p50_us"] <= said["dispatch_p99_us"]
    events, about = read(tmp_path / "run.parquet")
    family_of(load(tmp_path / tiles)).check(load(tmp_path / tiles), events)
    assert "slipstream execute tiles.json --policy heft --seed 0 --engine starpu --tile-side 16" in about["command"]
    assert about["device"].startswith("StarPU 1.3")
    assert "</html>" in (tmp_path / "run.html").read_text()
    assert read_run(tmp_path / "run.parquet").digest == said["digest"]


def test_validate_writes_a_page_with_both_sides(slipstream, tmp_path, tiles):
    options = ("--engine", "starpu", "--policy", "heft", "--tile-side", "16", "--runs", "2", "--fit", "fitted.json")
    code, output, _ = slipstream("validate", tiles, *options, "--json")
    assert code == 0
    row = json.loads(output)["metrics"]["makespan_ms"]
    assert row["measured"] > 0
    assert row["simulated"] > 0
    assert "Mean of 2 real runs" in (tmp_path / "validation.html").read_text()
    assert slipstream("run", "fitted.json", "--policy", "heft", "--json")[0] == 0


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (("dag/tiny",), "--engine starpu: a scenario of the family 'dag': expected one of 'taskgraph'"),
        (("taskgraph/tiny",), "graphs: expected one graph of the kinds cholesky, lu, qr, gemm for --engine starpu"),
        (("tiles.json", "--time-scale", "2"), "--time-scale: is for --engine device only"),
        (("tiles.json", "--spin"), "--spin: is for --engine device only"),
        (("tiles.json", "--allow-code"), "--allow-code: is for --engine device only"),
        (("tiles.json", "--watchdog-ms", "9000"), "--watchdog-ms: is for --engine device only"),
        (("tiles.json", "--policy", "rollout"), "simulates ahead: expected a rule or a network"),
    ],
)
@pytest.mark.usefixtures("tiles")
def test_what_cannot_run_is_refused_in_one_line(slipstream, words, expected):
    code, output, errors = slipstream("execute", *words, "--engine", "starpu")
    assert (code, output) == (2, "")
    assert expected in errors
    assert len(errors.strip().splitlines()) == 1
