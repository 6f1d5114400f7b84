"""Requests of traces and lists: JSON lines, Azure's CSV, Mooncake's JSON lines, clients of ServeGen."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import ScenarioError, TraceError
from slipstream.families.llm.kernel import state as k
from slipstream.families.llm.scenario import MOST_TOKENS, ListedRequests, LlmScenario, RequestFile
from slipstream.families.llm.workload.servegen import client_requests
from slipstream.families.shared.schema import LONGEST_S
from slipstream.files.inputs import read_lines, reading_key
from slipstream.files.tables import read_table

MOONCAKE_PIECE = 512
"""Tokens of a piece of a prompt whose number Mooncake's traces state."""


@dataclass(frozen=True)
class TracedRequest:
    """A request of a trace."""

    time_s: float
    prompt: int
    output: int
    group: str | None = None
    predicted: int = 0
    hashes: tuple[int, ...] = ()


@dataclass(frozen=True)
class TracedRequests:
    """Requests as rows, and the numbers of the pieces of their prompts."""

    rows: np.ndarray
    hashes: np.ndarray
    hash_tokens: int


def read_requests(scenario: LlmScenario) -> TracedRequests:
    """Return the requests of a list or a trace; an error about its file names the key."""
    source = scenario.requests
    if isinstance(source, ListedRequests):
        listed = (
            TracedRequest(one.arrival_s, one.prompt, one.output, one.client, one.predicted or 0, tuple(one.hashes))
            for one in source.requests
        )
        return _rows(scenario, listed, source.hash_tokens, 1.0)
    assert isinstance(source, RequestFile)
    with reading_key("requests.path"):
        path = scenario._folder / source.path
        piece = scenario.engine.block_tokens
        if source.format == "azure":
            return _rows(scenario, _azure(path), piece, source.stretch)
        if source.format == "servegen":
            found = [TracedRequest(*one) for one in client_requests(path)]
            return _rows(scenario, found, piece, source.stretch)
        mooncake = source.format == "mooncake"
        piece = MOONCAKE_PIECE if mooncake else piece
        return _rows(scenario, _mooncake(path) if mooncake else _jsonl(path, piece), piece, source.stretch)


def _rows(scenario: LlmScenario, requests: Iterable[TracedRequest], hash_tokens: int, stretch: float) -> TracedRequests:
    if hash_tokens % scenario.engine.block_tokens:
        text = f"engine.block_tokens is {scenario.engine.block_tokens}: expected a divisor of {hash_tokens}"
        raise ScenarioError(f"{text}, the length of a piece of the trace")
    groups = {one.name: index for index, one in enumerate(scenario.classes)}
    found = list(requests)
    rows = np.zeros(len(found), k.LISTED)
    hashes: list[int] = []
    for row, one in zip(rows, found, strict=True):
        row["time"] = round(one.time_s * stretch * 1e9)
        row["prompt"], row["output"], row["predicted"] = one.prompt, one.output, one.predicted
        if one.group is not None and one.group not in groups:
            raise ScenarioError(f"client '{one.group}': expected one of {', '.join(groups)}")
        row["group"] = 0 if one.group is None else groups[one.group]
        row["first_hash"], row["hashes"] = len(hashes), len(one.hashes)
        hashes += one.hashes
    if not len(rows):
        raise TraceError("has no requests: expected at least one")
    return TracedRequests(rows, np.array(hashes, np.uint64), hash_tokens)


def _checked(label: str, time_s: Any, prompt: Any, output: Any, before_s: float) -> tuple[float, int, int]:
    """Return time and lengths of a request; a TraceError names what is out of range."""
    for name, value, least, most in (
        ("arrival", time_s, 0.0, LONGEST_S),
        ("prompt", prompt, 1, MOST_TOKENS),
        ("output", output, 1, MOST_TOKENS),
    ):
        number = float(value) if isinstance(value, int | float) and not isinstance(value, bool) else math.nan
        if not least <= number <= most:
            raise TraceError(f"{label}: {name}: expected a number from {least:g} to {most:g}, got {str(value)[:40]}")
    if time_s < before_s:
        raise TraceError(f"{label}: arrives before the request above it: expected ascending times")
    return float(time_s), int(prompt), int(output)


def _azure(path: Path) -> Iterator[TracedRequest]:
    """Yield the requests of a trace of Azure's services of 2023; time 0 is the first. Outputs of 0 count as 1."""
    table = read_table(path, ["TIMESTAMP", "ContextTokens", "GeneratedTokens"])
    prompts, outputs = table.numbers("ContextTokens"), table.numbers("GeneratedTokens")
    origin, before = None, 0.0
    for index, cell in enumerate(table.texts("TIMESTAMP")):
        try:
            time = datetime.fromisoformat(cell[:26])
        except ValueError:
            raise table.error(index, f"TIMESTAMP: expected a date and time, got '{cell[:40]}'") from None
        origin = origin or time
        seconds = (time - origin).total_seconds()
        label = f"{path}: row {table.rows[index]}"
        yield TracedRequest(*_checked(label, seconds, float(prompts[index]), max(1.0, float(outputs[index])), before))
        before = seconds


def _mooncake(path: Path) -> Iterator[TracedRequest]:
    """Yield the requests of a trace of Mooncake: timestamp in ms, lengths, and numbers of pieces of 512 tokens."""
    before = 0.0
    for number, line in enumerate(read_lines(path, "a trace of Mooncake", TraceError), 1):
        label = f"{path}: line {number}"
        stamp = line.get("timestamp")
        seconds = stamp / 1e3 if isinstance(stamp, int | float) else stamp
        time, prompt, output = _checked(label, seconds, line.get("input_length"), line.get("output_length"), before)
        before = time
        yield TracedRequest(time, prompt, output, hashes=_numbers(label, line.get("hash_ids", [])))


def _numbers(label: str, found: Any) -> tuple[int, ...]:
    if not isinstance(found, list) or not all(type(one) is int and 0 <= one < 2**62 for one in found):
        raise TraceError(f"{label}: hash_ids: expected a list of whole numbers")
    return tuple(found)


def _jsonl(path: Path, piece: int) -> Iterator[TracedRequest]:
    """Yield requests of JSON lines.

    Keys: arrival_s (or arrival_time_ns), prompt (or input_toks), output (or output_toks); optionally client, predicted,
    and hashes of pieces of a block, or the tokens themselves as input_tok_ids.
    """
    before = 0.0
    for number, line in enumerate(read_lines(path, "requests as JSON lines", TraceError), 1):
        label = f"{path}: line {number}"
        stamp = line.get("arrival_time_ns")
        seconds = stamp / 1e9 if isinstance(stamp, int | float) else line.get("arrival_s")
        lengths = (line.get("prompt", line.get("input_toks")), line.get("output", line.get("output_toks")))
        time, prompt, output = _checked(label, seconds, *lengths, before)
        before = time
        group, predicted = line.get("client"), line.get("predicted", 0)
        if not (group is None or isinstance(group, str)) or type(predicted) is not int or predicted < 0:
            raise TraceError(f"{label}: expected a text as client and a whole number as predicted")
        tokens = line.get("input_tok_ids")
        hashes = _chained(label, tokens, piece) if tokens is not None else _numbers(label, line.get("hashes", []))
        yield TracedRequest(time, prompt, output, group, predicted, hashes)


def _chained(label: str, tokens: Any, piece: int) -> tuple[int, ...]:
    """Return a number for each whole piece of a prompt that stands for its tokens and all before it."""
    import hashlib

    if not isinstance(tokens, list) or not all(type(one) is int and 0 <= one < 2**31 for one in tokens):
        raise TraceError(f"{label}: input_tok_ids: expected a list of whole numbers")
    content, found = hashlib.sha256(), []
    for first in range(0, len(tokens) - piece + 1, piece):
        content.update(np.array(tokens[first : first + piece], "<i4").tobytes())
        found.append(int.from_bytes(content.copy().digest()[:8], "little") >> 2)
    return tuple(found)
