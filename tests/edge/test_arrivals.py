"""Traces from files: read once, checked row by row."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.core.eventlog import ARRIVAL
from slipstream.core.simulator import Simulator
from slipstream.edge.arrivals import trace_times
from slipstream.edge.scenario import Trace
from slipstream.errors import TraceError
from slipstream.policies import find
from slipstream.scenario import digest, load


def trace(path, column="arrival_ms"):
    return Trace(kind="trace", path=str(path), column=column)


def scenario(arrival):
    task = {"name": "a", "model": "m", "dataset": "d", "num_variants": 1, "deadline_ms": 5, "arrival": arrival}
    task["variants"] = [{"latency_ms": 1, "accuracy": 0.5}]
    return {"family": "edge", "horizon_ms": 100, "tasks": [task]}


def test_csv_parquet_and_inline_times_are_the_same_work(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    times = [0.0, 2.5, 2.5, 40.000001]
    (tmp_path / "t.csv").write_text("task,arrival_ms\n" + "".join(f"x,{time!r}\n" for time in times))
    pq.write_table(pa.table({"arrival_ms": times}), tmp_path / "t.parquet")
    arrivals = [{"kind": "trace", "path": "t.csv"}, {"kind": "trace", "path": "t.parquet"}]
    scenarios = [load(scenario(arrival)) for arrival in (*arrivals, {"kind": "trace", "times_ms": times})]
    assert len({digest(one) for one in scenarios}) == 1
    for one in scenarios:
        events = Simulator(one).play(find("edf", "edge"), 0)
        assert events["time"][events["kind"] == ARRIVAL].tolist() == [0, 2_500_000, 2_500_000, 40_000_001]


def test_a_million_rows_are_read(tmp_path):
    pq.write_table(pa.table({"arrival_ms": [float(n) for n in range(1_000_000)]}), tmp_path / "long.parquet")
    times = trace_times(trace("long.parquet"), tmp_path)
    assert (len(times), times[-1]) == (1_000_000, 999_999_000_000)


BAD_CSV = {
    "arrival_ms\n1\n-2\n": "row 3: expected a time between 0 and 8.64e+09 ms, got -2",
    "arrival_ms\n5\n4\n": "row 3: 4 is earlier than the row before it: expected ascending times",
    "arrival_ms\n1\n\n2\nx\n": "row 5: arrival_ms: expected a number, got 'x'",
    "arrival_ms\nnan\n": "row 2: expected a time between 0 and 8.64e+09 ms, got nan",
    "time\n1\n": "row 1: column 'arrival_ms' is missing (found time)",
    "": "row 1: column 'arrival_ms' is missing (found none)",
    "task,arrival_ms\nx\n": "row 2: arrival_ms: expected a number, got nothing",
}


@pytest.mark.parametrize("text", BAD_CSV)
def test_damaged_csv_is_told_with_its_row(text, tmp_path):
    (tmp_path / "t.csv").write_text(text)
    with pytest.raises(TraceError) as problem:
        trace_times(trace("t.csv"), tmp_path)
    assert str(problem.value) == f"{tmp_path / 't.csv'}: {BAD_CSV[text]}"


def test_what_is_no_trace_is_told(tmp_path):
    (tmp_path / "binary.csv").write_bytes(b"arrival_ms\n\xff\xfe\n")
    (tmp_path / "text.parquet").write_text("arrival_ms\n1\n")
    pq.write_table(pa.table({"arrival_ms": ["soon"]}), tmp_path / "words.parquet")
    pq.write_table(pa.table({"arrival_ms": [1.0, None]}), tmp_path / "holes.parquet")
    expected = {
        "binary.csv": "not UTF-8",
        "text.parquet": "not a Parquet file",
        "words.parquet": "arrival_ms: expected numbers, got string",
        "holes.parquet": "1 rows are empty",
        "gone.csv": "cannot be read: No such file",
        "gone.parquet": "no such file",
        "trace.txt": "expected a .csv or .parquet file",
    }
    for name, words in expected.items():
        with pytest.raises(TraceError, match=words):
            trace_times(trace(name), tmp_path)
