"""Traces from files: read once, checked row by row."""

from __future__ import annotations

import tempfile
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.errors import TraceError
from slipstream.families.edge.scenario import Trace
from slipstream.families.edge.workload.arrivals import trace_bytes, trace_times
from slipstream.policies import find
from slipstream.scenario import digest, load
from slipstream.sim.eventlog import ARRIVAL
from slipstream.sim.simulator import Simulator


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
    "arrival_ms,task\n1,a\n,b\n": "row 3: arrival_ms: expected a number, got nothing",
    "arrival_ms\n1\n\n-2\n": "row 4: expected a time between 0 and 8.64e+09 ms, got -2",
    "arrival_ms\r\n2\r\n1.25\r\n": "row 3: 1.25 is earlier than the row before it: expected ascending times",
    'arrival_ms\n1\n"two\nlines"\n': r"row 4: arrival_ms: expected a number, got 'two\nlines'",
    "arrival_ms\n1\n2,5\n": "row 3: expected 1 cells as in row 1, got 2",
    "arrival_ms,arrival_ms\n1,2\n": "row 1: column 'arrival_ms' appears 2 times: expected it once",
    "arrival_ms\n1\n" + "2" * 200_000 + "\n": "row 3: not CSV: field larger than field limit (131072)",
}


@pytest.mark.parametrize("text", BAD_CSV, ids=lambda text: text[:40])
def test_damaged_csv_is_told_with_its_row(text, tmp_path):
    (tmp_path / "t.csv").write_bytes(text.encode())
    with pytest.raises(TraceError) as problem:
        trace_times(trace("t.csv"), tmp_path)
    assert str(problem.value) == f"{tmp_path / 't.csv'}: {BAD_CSV[text]}"


def test_the_last_of_a_million_rows_is_checked_too(tmp_path):
    (tmp_path / "long.csv").write_text("arrival_ms\n" + "7\n" * 999_999 + "6\n")
    with pytest.raises(TraceError, match=r"row 1000001: 6 is earlier than the row before it"):
        trace_times(trace("long.csv"), tmp_path)


def test_a_byte_that_is_not_utf_8_is_told_with_its_row_and_place(tmp_path):
    (tmp_path / "far.csv").write_bytes(b"arrival_ms\n" + b"1\n" * 10_000 + b"\xff\n")
    with pytest.raises(TraceError, match=r"far\.csv: row 10002: not UTF-8 at byte 20011: expected a text file"):
        trace_times(trace("far.csv"), tmp_path)


def test_a_byte_order_mark_is_no_part_of_the_first_column(tmp_path):
    (tmp_path / "t.csv").write_bytes(b"\xef\xbb\xbfarrival_ms\n1\n")
    assert trace_times(trace("t.csv"), tmp_path).tolist() == [1_000_000]


def test_an_empty_parquet_cell_is_told_with_its_row(tmp_path):
    pq.write_table(pa.table({"arrival_ms": [1.0, 2.0, None, None]}), tmp_path / "t.parquet")
    words = r"row 3: arrival_ms: expected a number in each row, got nothing \(2 rows are empty\)"
    with pytest.raises(TraceError, match=words):
        trace_times(trace("t.parquet"), tmp_path)


def test_a_parquet_file_damaged_in_the_middle_is_told(tmp_path):
    file = tmp_path / "t.parquet"
    pq.write_table(pa.table({"arrival_ms": [float(n) for n in range(10_000)]}), file, compression="zstd")
    raw = bytearray(file.read_bytes())
    raw[100:5000] = b"\0" * 4900
    file.write_bytes(raw)
    with pytest.raises(TraceError, match="damaged: expected a whole Parquet file"):
        trace_times(trace("t.parquet"), tmp_path)


@given(st.lists(st.integers(0, 10**14), max_size=20), st.sampled_from(["csv", "parquet"]))
def test_a_written_trace_reads_back_to_the_nanosecond(times, kind):
    times = np.array(sorted(times), np.int64)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / f"t.{kind}").write_bytes(trace_bytes(times, kind))
        assert trace_times(trace(f"t.{kind}"), Path(folder)).tolist() == times.tolist()


@given(st.binary(max_size=80), st.sampled_from(["csv", "parquet"]))
def test_any_bytes_are_a_trace_or_an_error_in_one_line(raw, kind):
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / f"t.{kind}"
        file.write_bytes(b"arrival_ms\n1\n" + raw if kind == "csv" else raw)
        assert outcome(file).startswith(("a trace", f"{file}: "))
        assert len(outcome(file).splitlines()) == 1


def outcome(file):
    try:
        times = trace_times(trace(file.name), file.parent)
    except TraceError as error:
        return str(error)
    assert (np.diff(times) >= 0).all()
    return "a trace"


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
        "gone.csv": "no such file",
        "gone.parquet": "no such file",
        "trace.txt": "expected a .csv or .parquet file",
    }
    for name, words in expected.items():
        with pytest.raises(TraceError, match=words):
            trace_times(trace(name), tmp_path)
