"""Inputs of requests: JSON, or the bytes of a tensor."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from slipstream.device.models.datasets import DatasetType, checked
from slipstream.errors import InputError

JSON, RAW = "application/json", "application/octet-stream"
MOST_JSON_BYTES = 4 * 2**20
"""Limit of JSON bodies, whose parsing blocks the whole process: larger inputs must be sent as bytes."""
BYTES_PER_NUMBER = 32
"""Upper limit of a number with its comma in JSON."""


def largest_body(kind: DatasetType) -> int:
    """Return the largest body of a request for inputs of `kind`, in bytes."""
    numbers = int(np.prod(kind.shape))
    return max(8 * numbers, min(MOST_JSON_BYTES, 1024 + BYTES_PER_NUMBER * numbers))


def input_of(kind: DatasetType, content_type: str, body: bytes, samples: np.ndarray) -> np.ndarray:
    """Return the input of a request, validated and normalised for models of `kind`.

    Raises:
        InputError: One line: what is wrong with it.
    """
    if content_type == RAW:
        values = _tensor(kind, body)
    else:
        if len(body) > MOST_JSON_BYTES:
            raise InputError(f"{len(body):,} bytes of JSON: expected at most {MOST_JSON_BYTES:,}, or {RAW}")
        found = _json(body)
        if "sample" in found:
            number = found["sample"]
            if type(number) is not int or not 0 <= number < len(samples):
                raise InputError(f"sample: expected a whole number from 0 to {len(samples) - 1}")
            chosen: np.ndarray = samples[number]
            return chosen
        values = _numbers(kind, found["input"])
    checked_input: np.ndarray = checked(kind, "input", values[None])[0]
    return checked_input


def _tensor(kind: DatasetType, body: bytes) -> np.ndarray:
    """Return a tensor from its bytes; their number determines the element type."""
    numbers = int(np.prod(kind.shape))
    types = {8 * numbers: "<i8", 4 * numbers: "<i4"} if kind.is_text else {4 * numbers: "<f4", numbers: "u1"}
    if len(body) not in types:
        shape = " x ".join(str(side) for side in kind.shape)
        lengths = " or ".join(f"{length:,} ({np.dtype(dtype).name})" for length, dtype in types.items())
        raise InputError(f"input: {len(body):,} bytes: expected {lengths} for {shape} numbers")
    return np.frombuffer(body, types[len(body)]).reshape(kind.shape)


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or set(found) not in ({"input"}, {"sample"}):
        raise InputError('expected JSON with one key: {"input": [...]}, or {"sample": 0} for one of the task\'s own')
    return found


def _numbers(kind: DatasetType, found: Any) -> np.ndarray:
    try:
        values = np.array(found)
        if values.dtype.kind not in "iuf" or values.ndim > len(kind.shape):
            raise ValueError
        return values if kind.is_text else values.astype(np.float32)
    except (ValueError, OverflowError, TypeError):
        raise InputError("input: expected lists of numbers, one inside the other, all of one length") from None
