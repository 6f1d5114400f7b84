"""What compiled code takes as one argument."""

from __future__ import annotations

import numpy as np
import pytest
from numba import types

from slipstream.jit.decorators import entry
from slipstream.jit.structs import CACHE_LINE, make_struct, on_cache_lines, struct

PAIR = np.dtype([("whole", "i8"), ("part", "f4")], align=True)


@pytest.mark.parametrize("shape", [(7,), (3, 5), (2, 3, 4), (3, 0), (0,)])
@pytest.mark.parametrize("kind", [np.dtype(np.int8), np.dtype(np.float64), PAIR])
def test_arrays_on_cache_lines_are_writable_copies_that_begin_there(shape: tuple[int, ...], kind: np.dtype) -> None:
    array = np.zeros(shape, kind)
    array.reshape(-1).view(np.int8)[:] = np.arange(array.nbytes) % 100
    copy = on_cache_lines({"name": array})["name"]
    assert (copy.shape, copy.dtype) == (array.shape, array.dtype)
    assert np.array_equal(copy, array)
    assert copy.flags.c_contiguous
    assert copy.flags.writeable
    assert not np.shares_memory(copy, array)
    assert copy.size == 0 or copy.ctypes.data % CACHE_LINE == 0


@struct("first", "second")
class PairType(types.StructRef):
    """Two arrays."""


@entry
def difference(pair):
    return pair.first[0] - pair.second[0]


def test_arrays_of_a_struct_go_by_the_names_of_its_fields():
    arrays = {"second": np.array([1.0]), "first": np.array([3.0])}
    assert difference(make_struct(PairType, arrays)) == 2.0


def test_a_field_without_an_array_is_named():
    with pytest.raises(KeyError, match="second"):
        make_struct(PairType, {"first": np.array([3.0])})
