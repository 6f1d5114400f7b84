"""Files from elsewhere are read within bounds, or refused in one line."""

from __future__ import annotations

import gzip
import io
import os
import tracemalloc
import zipfile

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from slipstream.errors import InputError, PolicyError, TraceError
from slipstream.families.cluster.workload.sources import swf
from slipstream.families.dag.workload.sources import tpch
from slipstream.files import inputs
from slipstream.files.arrays import read_array, read_arrays
from slipstream.files.inputs import read_bytes, read_json, read_lines, read_object
from slipstream.files.tables import read_table
from slipstream.sim.eventlog import EVENT, read, read_chunks, to_arrow

MB = 2**20


@pytest.fixture
def small_limits(monkeypatch):
    """Let little memory be too much, so that no test needs much."""
    monkeypatch.setattr(inputs, "UNPACKED_BYTES", MB)


def told(error, function, *arguments):
    with pytest.raises(error) as caught:
        function(*arguments)
    assert str(caught.value).isprintable()
    return str(caught.value)


# JSON


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"[" * 100_000, "is nested too deeply"),
        (b"[1]", "expected a JSON object, got a list"),
        (b'{"a": NaN}', "a: expected a finite number (below 1.8e308 in size), got NaN"),
        (b'{"a": [1e999]}', "a[0]: expected a finite number (below 1.8e308 in size), got Infinity"),
        (b'{"a": "\\ud800"}', "a: expected valid Unicode"),
        (b'{"a": 1, "a": 2}', "the key 'a' appears twice"),
        (b'{"a\\u001b[2J": [[[NaN]]]}', r"a\x1b[2J[0][0][0]: expected a finite number"),
        (b"\xff", "is not UTF-8 text (byte 0)"),
        (b"", "is empty"),
        (b"{", "is not JSON at line 1, column 2"),
    ],
)
def test_json_that_nothing_else_can_hold_is_refused(tmp_path, content, expected):
    (tmp_path / "a.json").write_bytes(content)
    line = told(PolicyError, read_object, tmp_path / "a.json", "a card", PolicyError)
    assert line.startswith(f"{tmp_path / 'a.json'}: ")
    assert expected in line


def test_what_is_not_a_regular_file_is_refused_at_once(tmp_path):
    os.mkfifo(tmp_path / "pipe.json")
    for path, expected in (
        (tmp_path / "pipe.json", "is not a regular file: expected a JSON file"),
        (tmp_path, "is a folder: expected a JSON file"),
        (tmp_path / "none.json", "no such file: expected a JSON file"),
        (tmp_path / "a\0b", "cannot be read (embedded null byte): expected a JSON file"),
    ):
        assert expected in told(InputError, read_json, path)


def test_a_small_file_is_read_without_memory_for_the_largest_that_is_allowed(tmp_path):
    (tmp_path / "small.json").write_bytes(b"{}")
    tracemalloc.start()
    try:
        assert read_bytes(tmp_path / "small.json", "a small file") == b"{}"
        assert tracemalloc.get_traced_memory()[1] < 1_000_000
    finally:
        tracemalloc.stop()


def test_a_last_line_that_is_not_complete_does_not_count(tmp_path):
    path = tmp_path / "lines"
    path.write_bytes(b'{"a": 1}\n{"a": 2}\n{"a"')
    assert read_lines(path, "lines") == [{"a": 1}, {"a": 2}]
    path.write_bytes(b'{"a": 1}\n[2]\n')
    assert told(InputError, read_lines, path, "lines") == f"{path}: line 2: expected a JSON object, got a list"


# What is packed


def column(rows):
    return pa.table({"arrival_ms": pa.array(np.zeros(rows))})


def test_a_parquet_file_of_few_bytes_and_many_rows_is_refused_unread(tmp_path, small_limits):
    path = tmp_path / "log.parquet"
    rows = np.zeros(MB, EVENT)
    pq.write_table(pa.Table.from_batches([to_arrow(rows)]), path, compression="zstd")
    assert path.stat().st_size < rows.nbytes / 64
    expected = "log.parquet: declares 1,048,576 rows, which would take over 1 MB: expected an event log"
    assert expected in told(TraceError, read, path)
    assert expected in told(TraceError, list, read_chunks(path))
    pq.write_table(column(MB), path, compression="zstd")
    assert "declares 1,048,576 rows" in told(TraceError, read_table, path, ["arrival_ms"])


def test_a_page_that_unpacks_to_far_more_than_the_file_is_refused_unread(tmp_path, small_limits):
    path = tmp_path / "table.parquet"
    pq.write_table(pa.table({"task": ["a" * 2 * MB]}), path, compression="zstd", use_dictionary=False)
    assert path.stat().st_size < MB / 64
    assert "its pages unpack to over 1 MB" in told(TraceError, read_table, path, ["task"])


def test_a_long_text_that_many_rows_share_is_unpacked_once(tmp_path):
    path = tmp_path / "table.parquet"
    text = "a" * (MB // 4)
    shared = pa.DictionaryArray.from_arrays(np.zeros(20_000, np.int32), [text])
    pq.write_table(pa.table({"task": shared}), path, compression="zstd")
    cells = read_table(path, ["task"]).columns["task"]  # as texts of their own they would take 5 GB
    assert len(cells) == 20_000
    assert cells[-1] == text


def test_sizes_in_front_of_pages_count_whatever_the_footer_says(tmp_path):
    path = tmp_path / "table.parquet"
    pq.write_table(column(1000), path, compression="none", use_dictionary=False)
    content = path.read_bytes()
    place = pq.ParquetFile(path).metadata.row_group(0).column(0).data_page_offset
    # The header begins with the type of the page, its unpacked and its packed size, as zigzag numbers of seven bits.
    assert content[place : place + 2] == b"\x15\x00"
    assert content[place + 2] == 0x15
    sizes = content[place + 3 : place + 8].split(b"\x15")[0]
    huge = bytes([*(0xFF for _ in sizes[:-1]), 0x7E])
    path.write_bytes(content[: place + 3] + huge + content[place + 3 + len(sizes) :])
    assert "damaged" in told(TraceError, read_table, path, ["arrival_ms"])


def test_a_gzip_file_that_unpacks_to_far_more_is_refused(tmp_path, small_limits):
    path = tmp_path / "log.swf.gz"
    path.write_bytes(gzip.compress(b"; \n" * MB))
    assert "unpacks to over 1 MB" in told(TraceError, swf.jobs, path)


def test_an_archive_that_unpacks_to_far_more_is_refused(tmp_path, small_limits):
    path = tmp_path / "jobs.npz"
    np.savez_compressed(path, stage_ptr=np.zeros(MB, np.int64))
    assert "unpacks to over 1 MB" in told(TraceError, read_arrays, path, ["stage_ptr"], "jobs", TraceError)


def npy(shape, descr="'<f8'"):
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode()
    header += b" " * (117 - len(header)) + b"\n"
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + bytes(16)


@pytest.mark.parametrize("shape", ["(10**13,)", "(10000000000000,)", "(-1,)", "(3, 3)", "7", "(1e3,)"])
def test_an_array_that_is_shorter_than_its_header_says_is_refused(tmp_path, shape):
    (tmp_path / "a.npy").write_bytes(npy(shape))
    told(InputError, read_array, tmp_path / "a.npy", "numbers", InputError)
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.npy", npy(shape))
    (tmp_path / "a.npz").write_bytes(packed.getvalue())
    told(InputError, read_arrays, tmp_path / "a.npz", ["a"], "numbers", InputError)


def test_pickles_in_arrays_are_refused(tmp_path):
    np.save(tmp_path / "a.npy", np.array([{}], object), allow_pickle=True)
    assert "holds pickles" in told(InputError, read_array, tmp_path / "a.npy", "numbers", InputError)


def test_a_pickle_that_refers_to_a_part_of_a_huge_number_takes_no_memory(tmp_path):
    path = tmp_path / "task_duration_1.npy"
    memo = b"\x80\x02}r\xff\xff\xff\x3f."  # LONG_BINPUT 1,073,741,823: the reader in C made room for twice as many
    path.write_bytes(npy("()", "'|O'")[:-16] + memo)
    assert "damaged: expected a dictionary" in told(TraceError, tpch._read_profile, path)


def test_a_footer_that_ends_the_process_in_its_usual_reader_is_refused(tmp_path):
    path = tmp_path / "log.parquet"
    pq.write_table(pa.Table.from_batches([to_arrow(np.zeros(9, EVENT))]), path)
    content = path.read_bytes()
    # The column may have no empty cells any more, but its statistics still count them: Arrow throws where it must not.
    optional, required = b"\x25\x02\x18\x04time", b"\x25\x00\x18\x04time"
    assert content.count(optional) == 1
    path.write_bytes(content.replace(optional, required))
    assert "damaged: expected an event log" in told(TraceError, read, path)
