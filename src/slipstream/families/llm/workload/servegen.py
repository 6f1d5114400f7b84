"""Requests of a client of ServeGen, drawn once from its rates and histograms of lengths."""

from __future__ import annotations

import ast
import math
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import TraceError
from slipstream.files.inputs import LONGEST_LINE, read_bytes, read_object

SEED = 0
"""Seed of the requests: a client is one trace."""
MOST_DRAWN = 1_000_000
"""Most requests of a client."""


def client_requests(stem: Path) -> list[tuple[float, int, int]]:
    """Return arrival in seconds, prompt and output of the requests of the client `<stem>-trace.csv`.

    The file has, of each interval, its begin in seconds, the rate, the coefficient of variation of the gaps, their
    distribution, and its shape and scale; `<stem>-dataset.json` has histograms of lengths by time. Time 0 is the first
    request.
    """
    rng = np.random.default_rng(SEED)
    windows = _windows(stem.with_name(f"{stem.name}-trace.csv"))
    histograms = _histograms(stem.with_name(f"{stem.name}-dataset.json"))
    found: list[tuple[float, int, int]] = []
    for index, (begin, rate, law, shape, scale) in enumerate(windows):
        if rate <= 0.0:
            continue
        end = windows[index + 1][0] if index + 1 < len(windows) else begin + 600.0
        known = [lengths for start, lengths in histograms if start <= begin and lengths is not None]
        if not known:
            continue
        time = begin + _gap(rng, law, shape, scale)
        while time < end and len(found) < MOST_DRAWN:
            prompt, output = (int(rng.choice(values, p=weights)) for values, weights in known[-1])
            found.append((time, prompt, output))
            time += _gap(rng, law, shape, scale)
    origin = found[0][0] if found else 0.0
    return [(time - origin, prompt, output) for time, prompt, output in found]


def _gap(rng: np.random.Generator, law: str, shape: float, scale: float) -> float:
    return max(1e-6, float(scale * (rng.gamma(shape) if law == "Gamma" else rng.weibull(shape))))


def _windows(path: Path) -> list[tuple[float, float, str, float, float]]:
    """Return begin, rate, distribution of gaps, shape and scale of each interval."""
    text = read_bytes(path, "the rates of a client of ServeGen", TraceError).decode("utf-8", "replace")
    found = []
    for row, line in enumerate(text.splitlines(), 1):
        cells = line.split(",")
        try:
            begin, rate, _, law, shape, scale = cells
            numbers = [float(one) for one in (begin, rate, shape, scale)]
        except ValueError:
            raise TraceError(f"{path}: row {row}: expected six columns, got '{line[:LONGEST_LINE]}'") from None
        if not all(map(math.isfinite, numbers)) or (numbers[1] > 0.0 and law not in ("Gamma", "Weibull")):
            raise TraceError(f"{path}: row {row}: expected finite numbers and Gamma or Weibull, got '{line[:60]}'")
        if numbers[1] > 0.0 and (numbers[2] <= 0.0 or numbers[3] <= 0.0):
            raise TraceError(f"{path}: row {row}: expected shape and scale above 0, got '{line[:60]}'")
        found.append((numbers[0], numbers[1], law, numbers[2], numbers[3]))
    return found


Lengths = list[tuple[np.ndarray, np.ndarray]]


def _histograms(path: Path) -> list[tuple[float, Lengths | None]]:
    """Return begin and histograms of prompts and outputs of each period, None where it has none."""
    found: list[tuple[float, Lengths | None]] = []
    for key, part in read_object(path, "the lengths of a client of ServeGen", TraceError).items():
        label = f"{path}: {key}"
        try:
            histograms = [ast.literal_eval(part[name]) for name in ("input_tokens", "output_tokens")]
            lengths = [_histogram(one) for one in histograms]
            found.append((float(key), lengths if all(len(values) for values, _ in lengths) else None))
        except (
            ValueError,
            TypeError,
            LookupError,
            AttributeError,
            ArithmeticError,
            SyntaxError,
            RecursionError,
            MemoryError,
        ):
            raise TraceError(f"{label}: expected input_tokens and output_tokens, each shares by length") from None
    return sorted(found, key=lambda one: one[0])


def _histogram(shares: Any) -> tuple[np.ndarray, np.ndarray]:
    """Return lengths and their shares, which add up to 1."""
    pairs = [(int(length), float(share)) for length, share in shares.items() if int(length) >= 1 and share > 0.0]
    values = np.array([length for length, _ in pairs], np.int64)
    weights = np.array([share for _, share in pairs])
    return values, weights / weights.sum() if len(weights) else weights
