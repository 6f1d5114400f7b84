"""Bounded reading of input files: regular files of a limited size, and validated JSON.

Reading never blocks on a pipe and never reads a device. JSON is refused if it is nested too deeply, repeats a key, or
holds values that other readers refuse: NaN, infinities, lone surrogates.
"""

from __future__ import annotations

import json
import math
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO

from slipstream.errors import InputError, one_line
from slipstream.files.confined import ConfinementError, open_inside, resolve_inside

LARGEST_JSON_BYTES = 64 * 2**20
LARGEST_FILE_BYTES = 2**31
"""Limit of traces and weights, which are read into memory."""
DEEPEST_NESTING = 64
"""Greatest nesting of lists and objects; real files need about six levels."""
LONGEST_LINE = 600
"""Characters of an error message about a file."""

UNPACKED_BYTES = 256 * 2**20
"""Size to which any compressed file may decompress."""
UNPACKED_RATIO = 64
"""Greatest compression ratio of larger files: event logs and traces reach about ten."""


def unpacked_limit(packed: int) -> int:
    """Return the decompressed size in bytes that a file of `packed` bytes may have, a guard against zip bombs."""
    return max(UNPACKED_BYTES, UNPACKED_RATIO * packed)


def read_bytes(
    path: Path,
    expected: str,
    error: type[InputError] = InputError,
    limit: int = LARGEST_FILE_BYTES,
    label: str | None = None,
    folder: Path | None = None,
) -> bytes:
    """Return the content of a regular file of at most `limit` bytes; with `folder`, of one inside of that folder.

    Raises:
        InputError: Of the type `error`, one line: the file, or its `label`; why it cannot be read; what was `expected`.
    """
    label = str(path) if label is None else label
    with open_regular(path, expected, error, label, folder) as file:
        size = os.fstat(file.fileno()).st_size
        large = size > limit
        content = b"" if large else file.read(size + 1)
        if len(content) > size:  # it grows, or does not state its size; a buffer of `limit` is too large for the others
            content += file.read(limit + 1 - len(content))
    if large or len(content) > limit:
        raise error(f"{label}: is larger than {limit >> 20} MB: expected {expected}")
    return content


@contextmanager
def open_regular(
    path: Path,
    expected: str,
    error: type[InputError] = InputError,
    label: str | None = None,
    folder: Path | None = None,
) -> Iterator[BinaryIO]:
    """Open a regular file for reading; see `read_bytes`. Pipes and devices are not opened."""
    label = str(path) if label is None else label
    try:
        found = path.resolve(strict=True) if folder is None else resolve_inside(folder, path.relative_to(folder))
        mode = found.stat().st_mode
        if stat.S_ISDIR(mode):
            raise error(f"{label}: is a folder: expected {expected}")
        if not stat.S_ISREG(mode):
            raise error(f"{label}: is not a regular file: expected {expected}")
        with open_inside(found.parent, found.name) as file:
            yield file
    except ConfinementError as problem:
        raise error(str(problem)) from None
    except (OSError, ValueError, RuntimeError) as problem:  # a null character in the path; a cycle of links
        raise error(f"{label}: {unreadable(problem)}: expected {expected}") from None


def read_text(path: Path, expected: str, error: type[InputError] = InputError, limit: int = LARGEST_FILE_BYTES) -> str:
    """Return the content of a regular UTF-8 file; see `read_bytes`."""
    return decoded(read_bytes(path, expected, error, limit), str(path), expected, error)


def decoded(raw: bytes, label: str, expected: str, error: type[InputError] = InputError) -> str:
    """Return `raw` decoded from UTF-8 without a byte order mark; an error message begins with `label`."""
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise error(f"{label}: is not UTF-8 text (byte {problem.start}): expected {expected}") from None


@contextmanager
def reading_key(key: str) -> Iterator[None]:
    """Begin the message of an InputError raised inside with `key`, the scenario key that names the file."""
    try:
        yield
    except InputError as error:
        raise type(error)(f"{key}: {error}") from error


def unreadable(problem: Exception) -> str:
    """Return the reason of `problem` in a few words."""
    if isinstance(problem, FileNotFoundError):
        return "no such file"
    reason = problem.strerror if isinstance(problem, OSError) else str(problem)
    return f"cannot be read ({str(reason or type(problem).__name__).lower()})"


# JSON ------------------------------------------------------------------------------------------------------------


def read_json(
    path: Path, expected: str = "a JSON file", error: type[InputError] = InputError, folder: Path | None = None
) -> Any:
    """Return the content of a JSON file; with `folder`, of a file inside of that folder.

    Raises:
        InputError: Of the type `error`, one line: the file, the path of the value, what is wrong and what was expected.
    """
    return checked_json(read_bytes(path, expected, error, LARGEST_JSON_BYTES, folder=folder), str(path), error)


def read_object(
    path: Path, expected: str = "a JSON file", error: type[InputError] = InputError, folder: Path | None = None
) -> dict[str, Any]:
    """Return the JSON object in a file; see `read_json`."""
    return as_object(read_json(path, expected, error, folder), str(path), error)


def read_lines(
    path: Path, expected: str, error: type[InputError] = InputError, folder: Path | None = None
) -> list[dict[str, Any]]:
    """Return the objects of a JSON Lines file; an incomplete last line is ignored."""
    *lines, _ = read_bytes(path, expected, error, LARGEST_JSON_BYTES, folder=folder).split(b"\n")
    labels = (f"{path}: line {number}" for number in range(1, len(lines) + 1))
    return [json_object(line, label, error) for line, label in zip(lines, labels, strict=True)]


def json_object(raw: bytes | str, label: str, error: type[InputError] = InputError) -> dict[str, Any]:
    """Return the JSON object in `raw`; error messages begin with `label`."""
    content = raw if isinstance(raw, bytes) else raw.encode("utf-8", "surrogatepass")
    return as_object(checked_json(content, label, error), label, error)


def as_object(data: Any, label: str, error: type[InputError] = InputError) -> dict[str, Any]:
    """Return `data` if it is a JSON object; else raise an error that begins with `label`."""
    if not isinstance(data, dict):
        raise error(f"{label}: expected a JSON object, got {show(data)}")
    return data


def checked_json(raw: bytes, label: str, error: type[InputError] = InputError) -> Any:
    """Return the parsed JSON of `raw`, with its values checked by `check_values`."""
    data = parse_json(raw, label, error)
    check_values(data, label, error)
    return data


def parse_json(raw: bytes, label: str, error: type[InputError] = InputError) -> Any:
    """Return the parsed JSON of `raw`; `check_values` checks its values."""
    text = decoded(raw, label, "a JSON file", error)
    if not text.strip():
        raise error(f"{label}: is empty: expected a JSON object")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_whole_number)
    except json.JSONDecodeError as problem:
        reason = problem.msg[:1].lower() + problem.msg[1:]
        raise error(f"{label}: is not JSON at line {problem.lineno}, column {problem.colno}: {reason}") from None
    except RecursionError:
        raise error(f"{label}: is nested too deeply: expected at most {DEEPEST_NESTING} levels") from None


class _RepeatedKey(dict[str, Any]):
    """A JSON object with a repeated key; `check_values` reports it with its path."""

    key: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) == len(pairs):
        return data
    seen: set[str] = set()
    repeated = _RepeatedKey(data)
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _whole_number(text: str) -> int | float:
    # Longer ones exceed float64, and Python refuses to convert very long digit strings.
    return int(text) if len(text) <= 300 else float(text)


def check_values(data: Any, label: str, error: type[InputError] = InputError, path: str = "", depth: int = 1) -> None:
    """Raise an error for values that other JSON readers refuse; it names their `path` after `label`."""
    if depth > DEEPEST_NESTING:
        raise error_at(error, label, "", f"is nested too deeply: expected at most {DEEPEST_NESTING} levels")
    if isinstance(data, _RepeatedKey):
        raise error_at(error, label, path, f"the key '{data.key}' appears twice: expected it once")
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise error_at(error, label, path, f"expected keys that are strings, got {show(key)}")
            check_values(key, label, error, path, depth)
            check_values(value, label, error, join(path, key), depth + 1)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            check_values(value, label, error, f"{path}[{index}]", depth + 1)
    elif isinstance(data, str):
        if any("\ud800" <= character <= "\udfff" for character in data):
            raise error_at(error, label, path, f"expected valid Unicode, got {show(data)}")
    elif isinstance(data, float | int) and not _is_finite(data):
        raise error_at(error, label, path, f"expected a finite number (below 1.8e308 in size), got {show(data)}")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond float64
        return False


def join(path: str, key: str) -> str:
    """Return the path of `key` in the object at `path`."""
    return f"{path}.{key}" if path else key


def show(value: Any) -> str:
    """Return `value` as JSON spells it, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"'{value[:60]}…'" if len(value) > 60 else f"'{value}'"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a whole number of over 30 digits"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return f"an object of type {type(value).__name__}"


def error_at(error: type[InputError], label: str, path: str, text: str, more: str = "") -> InputError:
    """Return an error about the value at `path` of the file `label`; a long text is cut, but not `more`."""
    return error(one_line(f"{label}: {path}: {text}" if path else f"{label}: {text}", LONGEST_LINE) + more)
