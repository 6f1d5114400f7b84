"""An event log survives the disk unchanged, and a damaged one is refused in words."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from slipstream.errors import TraceError
from slipstream.sim.eventlog import (
    COLUMNS,
    EVENT,
    KINDS,
    LogWriter,
    digest,
    from_arrow,
    read,
    read_about,
    read_chunks,
    to_arrow,
)

ROWS = st.lists(
    st.tuples(
        st.integers(0, 2**62),
        st.integers(-1, 2**40),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**31 - 1),
        st.integers(-1, 2**15 - 1),
        st.integers(0, len(KINDS) - 1),
    ),
    max_size=30,
)


def events_of(rows: list[tuple[int, ...]]) -> np.ndarray:
    return np.array(rows, EVENT)


SMALL = events_of([(5, 0, 0, -1, -1, 0), (5, 0, 0, 1, 2, 1), (9, 0, 0, 1, 2, 2), (9, -1, -1, -1, -1, 6)])


def written(path: Path, events: np.ndarray = SMALL) -> Path:
    writer = LogWriter(path, {"seed": 3})
    writer.write(events)
    writer.close()
    return path


@pytest.mark.parametrize(
    ("about", "expected"),
    [
        ({"seed": 3, "namespace": "eval"}, {"seed": 3, "split": "eval"}),
        ({"seed": 3, "split": "train"}, {"seed": 3, "split": "train"}),
    ],
)
def test_the_split_of_a_log_is_read_under_its_old_name_too(
    tmp_path: Path, about: dict[str, object], expected: dict[str, object]
) -> None:
    writer = LogWriter(tmp_path / "log.parquet", about)
    writer.write(SMALL)
    writer.close()
    assert read_about(tmp_path / "log.parquet") == expected
    assert read(tmp_path / "log.parquet")[1] == expected


@given(ROWS)
def test_arrow_columns_hold_every_row(rows: list[tuple[int, ...]]) -> None:
    events = events_of(rows)
    assert (from_arrow(to_arrow(events)) == events).all()


@pytest.mark.parametrize("pieces", [1, 3, 50])
def test_a_log_comes_back_from_parquet_as_it_was_written(tmp_path: Path, pieces: int) -> None:
    rng = np.random.default_rng(1)
    events = np.zeros(1000, EVENT)
    for name in COLUMNS:
        events[name] = rng.integers(-1, 100, len(events))
    path, about = tmp_path / "log.parquet", {"scenario": "edge/heavy", "seed": 7, "policy": "edf"}
    writer = LogWriter(path, about)
    for piece in np.array_split(events, pieces):
        writer.write(piece)
    writer.close()
    back, said = read(path)
    assert back.dtype == EVENT
    assert (back == events).all()
    assert said == about
    assert (np.concatenate(list(read_chunks(path))) == events).all()
    assert digest(back) == digest(events)


def test_an_empty_log_comes_back_empty(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    LogWriter(path, {}).close()
    events, about = read(path)
    assert (len(events), about, list(read_chunks(path))) == (0, {}, [])


def test_the_digest_is_the_same_on_any_machine() -> None:
    assert digest(SMALL) == "559c1007b81dc6f8ef69271f4212a02841455b92a046584914fb204e8ff35833"
    # Neither the layout in memory nor the byte order matters.
    packed = np.zeros(len(SMALL), [(name, EVENT[name].newbyteorder(">")) for name in reversed(COLUMNS)])
    for name in COLUMNS:
        packed[name] = SMALL[name]
    assert digest(packed) == digest(SMALL)
    assert digest(np.repeat(SMALL, 2)[::2]) == digest(SMALL)


@given(st.sampled_from(COLUMNS), st.integers(0, len(SMALL) - 1))
def test_the_digest_depends_on_every_cell(column: str, row: int) -> None:
    changed = SMALL.copy()
    changed[column][row] += 1
    assert digest(changed) != digest(SMALL)


def test_the_digest_depends_on_the_order() -> None:
    assert digest(SMALL[::-1]) != digest(SMALL)


def test_a_file_appears_under_its_name_only_when_complete(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    writer = LogWriter(path, {})
    assert not path.exists()
    writer.write(SMALL)
    assert not path.exists()
    writer.close()
    assert [file.name for file in tmp_path.iterdir()] == ["log.parquet"]


def test_an_abandoned_file_leaves_nothing_behind(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "log.parquet", {})
    writer.write(SMALL)
    writer.abandon()
    assert list(tmp_path.iterdir()) == []


def test_abandoning_leaves_the_log_written_before(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet")
    writer = LogWriter(path, {})
    writer.write(SMALL[:1])
    writer.abandon()
    assert (read(path)[0] == SMALL).all()


def read_both(path: Path) -> None:
    """Read the file in each of the two ways; both must object."""
    with pytest.raises(TraceError, match=path.name):
        list(read_chunks(path))
    read(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"nowhere\.parquet: no such file"):
        read_both(tmp_path / "nowhere.parquet")


@pytest.mark.parametrize("content", [b"", b"PAR1", b"time,kind\n1,2\n", bytes(1000)])
def test_what_is_not_parquet_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.parquet"
    path.write_bytes(content)
    with pytest.raises(TraceError, match="not a Parquet file"):
        read_both(path)


def test_a_file_cut_short_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet")
    whole = path.read_bytes()
    for length in range(0, len(whole), 97):
        path.write_bytes(whole[:length])
        with pytest.raises(TraceError, match="not a Parquet file"):
            read_both(path)


def test_a_missing_column_is_named(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_batches([to_arrow(SMALL)]).drop_columns(["resource"]), path)
    with pytest.raises(TraceError, match="column 'resource' is missing"):
        read_both(path)


def test_damaged_pages_are_refused(tmp_path: Path) -> None:
    path = written(tmp_path / "log.parquet", np.repeat(SMALL, 100))
    whole = path.read_bytes()
    for start in range(4, 200, 28):
        path.write_bytes(whole[:start] + bytes(byte ^ 0xFF for byte in whole[start : start + 20]) + whole[start + 20 :])
        with pytest.raises(TraceError, match=r"log\.parquet"):
            read_both(path)


@pytest.mark.parametrize("values", [["a"] * 4, [1.5] * 4, [None, 1, 2, 3], [2**40] * 4])
def test_a_column_of_the_wrong_kind_is_named(tmp_path: Path, values: list[object]) -> None:
    path = tmp_path / "log.parquet"
    table = pa.Table.from_batches([to_arrow(SMALL)])
    pq.write_table(table.set_column(table.column_names.index("task"), "task", pa.array(values)), path)
    with pytest.raises(TraceError, match="task"):
        read_both(path)


def test_a_damaged_description_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.Table.from_batches([to_arrow(SMALL)]).replace_schema_metadata({"slipstream": "{not json"})
    pq.write_table(table, path)
    with pytest.raises(TraceError, match=r"log\.parquet"):
        read(path)
