"""Ways to damage what is whole: bytes, JSON data, names and the files of a folder; all decided by one generator."""

from __future__ import annotations

import copy
import json
import os
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any

WORDS = [b"-1", b"0", b"0.5", b"1e309", b"1e-320", b"NaN", b"-Infinity", b"null", b"true", b'""', b"[]", b"{}"]
WORDS += [b"9" * 25, b"-9223372036854775809", b"2020-02-30", b"0001-01-01", b"[" * 3000, b"\x1b[2J", b"\xe2\x80\xae"]
WORDS += [b"\xff", b"\x00", b"\n", b",", b'"', b";", b" ", b"\xed\xa0\x80"]
"""Pieces that readers of text trip over."""

STRINGS = ["", " ", "\0", "a\0b", "\x1b[31mred\x1b[0m", "\x1b]0;title\x07", "\x9b2J", "\u202eevil", "\u2066x", "\u2028"]
STRINGS += ["\ud800", "\udcff", "../../secret", "/etc/passwd", "..", ".", "a" * 5000, "<script>alert(1)</script>"]
STRINGS += [
    "[red]x[/red]",
    "[/]",
    "a\nb",
    "a\r\nb",
    "\t",
    "\x7f",
    "{}",
    "%s%n",
    "'; DROP TABLE model; --",
    "NaN",
    "1e5",
]
STRINGS += [
    "\ufeff",
    "é\u0301",
    "🙂",
    "\u200f",
    "-x",
    "--help",
    "a:b",
    "a=b",
    "a,b",
    "weighted-fair(1)",
    "weighted-fair(1.2.3)",
    "x@v1",
    "power-aware(1e999)",
    "C:\\x",
]
"""Texts that are hard to show, to name a file with, or to tell from something else."""

NUMBERS: list[Any] = [
    0,
    -1,
    1,
    2,
    0.5,
    -0.0,
    1e-320,
    1e308,
    -1e308,
    2**31,
    2**53 + 1,
    2**63,
    -(2**63) - 1,
    10**30,
    10**400,
]
NUMBERS += [float("inf"), float("-inf"), float("nan"), True, False]
CONTAINERS: list[Any] = [None, [], {}, [None], [[]], {"a": 1}, [1, "a"], {"": None}]

LARGEST_SPARSE = 1 << 33


def damaged_bytes(rng: Random, content: bytes, most: int = 4) -> bytes:
    """Return content after up to `most` edits: pieces cut out, doubled, moved, replaced, or single bits flipped."""
    for _ in range(rng.randint(1, most)):
        begin = rng.randint(0, len(content))
        length = rng.choice((0, 1, 1, 2, 8, 24, 200))
        piece, rest = content[begin : begin + length], content[begin + length :]
        way = rng.randrange(6)
        if way == 0:
            new = rng.choice(WORDS)
        elif way == 1:
            new = b""
        elif way == 2:
            new = piece + piece
        elif way == 3:
            new = rng.randbytes(rng.randint(1, 8))
        elif way == 4:
            new = bytes([piece[0] ^ 1 << rng.randrange(8)]) + piece[1:] if piece else b"\xff"
        else:
            new, rest = piece, b"" if rng.random() < 0.3 else rest
        content = content[:begin] + new + rest
    return content


def nasty(rng: Random) -> Any:
    """Return a value that a reader may not expect."""
    pick = rng.random()
    if pick < 0.4:
        return rng.choice(NUMBERS)
    if pick < 0.8:
        return rng.choice(STRINGS)
    if pick < 0.98:
        return copy.deepcopy(rng.choice(CONTAINERS))
    deep: Any = 1
    for _ in range(rng.choice((66, 120))):
        deep = [deep]
    return deep


def mutated(rng: Random, data: Any, most: int = 3) -> Any:
    """Return a copy of JSON data after up to `most` edits: values and types swapped, keys dropped, added or renamed."""
    data = copy.deepcopy(data)
    for _ in range(rng.randint(1, most)):
        places = list(_places(data))
        if not places:
            return nasty(rng)
        holder, key = rng.choice(places)
        way = rng.random()
        if way < 0.45:
            holder[key] = nasty(rng)
        elif way < 0.6:
            del holder[key]
        elif way < 0.7:
            other, its = rng.choice(places)
            holder[key] = copy.deepcopy(other[its])
        elif way < 0.8 and isinstance(holder, dict):
            holder[rng.choice(STRINGS)] = holder.pop(key)
        elif way < 0.9 and isinstance(holder, dict):
            holder[rng.choice(STRINGS)] = nasty(rng)
        elif isinstance(holder, list):
            holder.extend([copy.deepcopy(holder[key])] * rng.choice((1, 3, 200)))
        elif isinstance(holder[key], int | float) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * rng.choice((-1, 10, 10**6, 0))
        else:
            holder[key] = [holder[key]]
    return data


def _places(data: Any) -> Any:
    """Yield every place in JSON data: what holds it, and its key or index there."""
    pairs = data.items() if isinstance(data, dict) else enumerate(data) if isinstance(data, list) else ()
    for key, value in list(pairs):
        yield data, key
        yield from _places(value)


def json_bytes(rng: Random, data: Any) -> bytes:
    """Return mutated JSON data as a file, now and then one that is damaged as text too."""
    text = json.dumps(mutated(rng, data)).encode("utf-8", "surrogatepass")
    return damaged_bytes(rng, text, 1) if rng.random() < 0.05 else text


def any_json(rng: Random, content: bytes) -> bytes:
    """Return a JSON file damaged as data, or as bytes; one that is no JSON any more, as bytes."""
    if rng.random() < 0.7:
        with suppress(ValueError):
            return json_bytes(rng, json.loads(content))
    return damaged_bytes(rng, content)


def nasty_name(rng: Random) -> str:
    """Return a name made of hard pieces."""
    return "".join(rng.choice([*STRINGS, "camera", "edge/tiny", "v1"]) for _ in range(rng.randint(1, 3)))[:6000]


def file_name(rng: Random) -> str:
    """Return a hard name that a file can have."""
    name = nasty_name(rng).replace("/", "_").replace("\0", "0")
    raw = name.encode(
        "utf-8", "surrogateescape" if all(one < "\ud800" or one > "\udfff" for one in name) else "replace"
    )
    return os.fsdecode(raw[:120]) if raw.strip(b". ") else "x"


def odd_entry(rng: Random, path: Path, outside: Path) -> None:
    """Put something else in the place of a file: nothing, a link that leads out, a pipe, a folder, an empty one.

    `outside` holds whole files of the same names.
    """
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)
    ways: list[Callable[[], object]] = [
        lambda: None,
        lambda: path.symlink_to(outside / path.name),
        lambda: path.symlink_to(outside),
        lambda: path.symlink_to(path.name),
        lambda: path.symlink_to("/dev/zero"),
        lambda: os.mkfifo(path),
        path.mkdir,
        lambda: path.write_bytes(b""),
        lambda: _sparse(path),
    ]
    rng.choice(ways)()


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(LARGEST_SPARSE)
