"""NumPy files, read only if they are as large as their headers declare: a header alone can claim any memory."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import IO

import numpy as np

from slipstream.errors import InputError
from slipstream.files.inputs import open_regular, read_bytes, unpacked_limit


def read_array(path: Path, expected: str, error: type[InputError]) -> np.ndarray:
    """Return the array of an .npy file that holds no pickles.

    Raises:
        InputError: Of the type `error`, one line: the file, what is wrong, and what was `expected`.
    """
    content = read_bytes(path, expected, error)
    try:
        return _array(io.BytesIO(content), len(content))
    except Exception as problem:  # damaged headers raise errors of many types
        raise error(f"{path}: cannot be read ({_reason(problem)}): expected {expected}") from None


def read_arrays(path: Path, names: Sequence[str], expected: str, error: type[InputError]) -> dict[str, np.ndarray]:
    """Return the arrays `names` of an .npz file; see `read_array`."""
    with open_regular(path, expected, error) as raw:
        limit = unpacked_limit(raw.seek(0, 2))
        try:
            with zipfile.ZipFile(raw) as archive:
                entries = {name: archive.NameToInfo.get(f"{name}.npy") for name in names}
                missing = [name for name, entry in entries.items() if entry is None]
                if missing:
                    raise error(f"{path}: array '{missing[0]}' is missing: expected {', '.join(names)}")
                found = {name: entry for name, entry in entries.items() if entry is not None}
                if sum(entry.file_size for entry in found.values()) > limit:
                    raise error(f"{path}: unpacks to over {limit >> 20} MB: expected {expected}")
                return {name: _member(archive, entry) for name, entry in found.items()}
        except InputError:
            raise
        except Exception as problem:  # damaged archives raise errors of many types
            raise error(f"{path}: cannot be read ({_reason(problem)}): expected {expected}") from None


def _member(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> np.ndarray:
    with archive.open(entry) as file:
        return _array(file, entry.file_size)


def _array(file: IO[bytes], size: int) -> np.ndarray:
    """Return the array in a stream of `size` bytes; raise a ValueError if its header declares more."""
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"version {version[0]}.{version[1]} of the format")
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, by_columns, dtype = read(file)
    if dtype.hasobject:
        raise ValueError("holds pickles")
    if min(shape, default=0) < 0 or math.prod(shape) * dtype.itemsize > size:
        raise ValueError("is shorter than its header says")
    content = file.read(math.prod(shape) * dtype.itemsize)
    return np.frombuffer(content, dtype, math.prod(shape)).reshape(shape, order="F" if by_columns else "C")


def _reason(problem: BaseException) -> str:
    return (str(problem).strip().splitlines() or [type(problem).__name__])[0][:120].lower()
