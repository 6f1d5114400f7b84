"""Distributions of gaps and lengths as tables of quantiles, from which the kernel draws."""

from __future__ import annotations

import math
from statistics import NormalDist

import numpy as np

from slipstream.families.llm.scenario import DrawnRequests, LengthPairs, LlmScenario, LognormalLengths, UniformLengths
from slipstream.files.inputs import reading_key
from slipstream.files.tables import read_table, table_error

QUANTILES = 4096
"""Entries of a table."""
PAIR_COLUMNS = ("num_prefill_tokens", "num_decode_tokens")


def gap_quantiles(burstiness: float) -> np.ndarray:
    """Return quantiles of a gamma distribution with mean 1 and coefficient of variation `burstiness`."""
    from scipy.special import gammaincinv

    shape = 1.0 / burstiness**2
    # The last quantile stands for a tail of one draw in 8,192, so that it is finite.
    shares = (np.arange(QUANTILES + 1)).clip(0, QUANTILES - 0.5) / QUANTILES
    quantiles = gammaincinv(shape, shares) / shape
    middle = (quantiles[1:] + quantiles[:-1]) / 2.0
    return np.asarray(quantiles / middle.mean())


def lengths_of(law: LognormalLengths | UniformLengths) -> np.ndarray:
    """Return the quantiles of a distribution of lengths, whole tokens from 1 on."""
    if isinstance(law, UniformLengths):
        count = law.most - law.least + 1
        if count <= QUANTILES:
            return np.arange(law.least, law.most + 1)
        shares = (np.arange(QUANTILES) + 0.5) / QUANTILES
        return np.asarray(np.floor(law.least + shares * count), np.int64)
    normal = NormalDist()
    values = [
        law.median * math.exp(law.sigma * normal.inv_cdf((index + 0.5) / QUANTILES)) for index in range(QUANTILES)
    ]
    return np.clip(np.rint(values), 1, law.most).astype(np.int64)


def drawn_lengths(scenario: LlmScenario, requests: DrawnRequests) -> tuple[np.ndarray, np.ndarray, bool]:
    """Return prompts, outputs, and whether they are pairs."""
    lengths = requests.lengths
    if not isinstance(lengths, LengthPairs):
        return lengths_of(lengths.prompt), lengths_of(lengths.output), False
    if lengths.pairs is not None:
        pairs = np.array(lengths.pairs, np.int64)
        return pairs[:, 0].copy(), pairs[:, 1].copy(), True
    with reading_key("requests.lengths.path"):
        path = scenario._folder / (lengths.path or "")
        table = read_table(path, PAIR_COLUMNS)
        columns = [table.numbers(name) for name in PAIR_COLUMNS]
        if not len(table):
            raise table_error(path, "has no rows: expected a pair of lengths in each")
        for name, column in zip(PAIR_COLUMNS, columns, strict=True):
            wrong = ~((column >= 1.0) & (column <= 1e7))
            if wrong.any():
                index = int(wrong.argmax())
                raise table.error(index, f"{name}: expected a length from 1 to 10000000, got {column[index]:g}")
        return columns[0].astype(np.int64), columns[1].astype(np.int64), True
