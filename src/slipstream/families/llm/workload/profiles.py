"""Step time as arrays of the kernel: from a closed form, from kernel tables, or from recorded steps."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from slipstream.families.llm.scenario import ClosedForm, KernelTables, LlmScenario
from slipstream.files.inputs import reading_key
from slipstream.files.tables import Table, read_table, table_error

PER_LAYER = ("layernorm", "layernorm", "qkv_proj", "rotary_emb", "o_proj", "gate_up_proj", "act_fn", "down_proj")
"""Linear parts of a layer, by their names in the tables; it has two norms."""
ONCE = ("embedding", "final_layernorm")
FOR_EXPERTS = ("gate_up_proj", "act_fn", "down_proj")
"""Parts that a layer with experts does not have."""
WHERE_THERE = ("qk_norm",)
"""Parts of a layer that only some models have."""
HEAD = ("lm_head", "sampler")
ATTENTION = ("prefill_chunk", "kv_prefill", "n_decode", "kv_decode")
STEP_COLUMNS = ("tokens", "sequences", "context", "prefill", "us")


@dataclass(frozen=True)
class StepArrays:
    """Tables of the spec, fields of the machine, and the time of a token of a request alone; all in ns."""

    tables: dict[str, np.ndarray]
    constants: dict[str, float]
    decode_token: float


def step_arrays(scenario: LlmScenario) -> StepArrays:
    """Return the step time of a scenario; an error about a file names the key."""
    form = scenario.step_time
    if isinstance(form, ClosedForm):
        return _closed(form)
    with reading_key("step_time.path"):
        path = scenario._folder / form.path
        return _tables(form, path) if isinstance(form, KernelTables) else _closed(_fitted(path))


def _closed(form: ClosedForm) -> StepArrays:
    dense, head = (sorted((point.at, point.us) for point in points) for points in (form.dense, form.head))
    tables = {
        "dense_at": np.array([at for at, _ in dense], np.float64),
        "dense": np.array([us * 1e3 for _, us in dense]),
        "head_at": np.array([at for at, _ in head], np.float64),
        "head": np.array([us * 1e3 for _, us in head]),
        **{name: np.zeros(1) for name in ("chunk_at", "context_at", "decode_at", "decode_context_at", "attention")},
    }
    constants = {
        "tables": 0.0,
        "attention": form.attention_us * 1e3,
        "per_sequence": form.sequence_us * 1e3,
        "per_context": form.context_us * 1e3,
        "per_mixed_context": form.mixed_context_us * 1e3,
        "per_pair": form.prefill_us * 1e3,
        "step": form.step_us * 1e3,
    }
    alone = constants["step"] + constants["attention"] + constants["per_sequence"]
    alone += _height(tables["dense_at"], tables["dense"], 1.0) + _height(tables["head_at"], tables["head"], 1.0)
    return StepArrays(tables, constants, alone)


def _height(points: np.ndarray, values: np.ndarray, at: float) -> float:
    return float(np.interp(at, points, values))


# Kernel tables


def _tables(form: KernelTables, folder: Path) -> StepArrays:
    dense_at, dense = _summed(folder / "dense.csv", "layer", "tokens", form)
    head_at, head = _summed(folder / "per_sequence.csv", "layer", "sequences", form)
    if form.experts:
        dense = dense + 1e3 * form.layers * _experts(folder / "moe.csv", form.experts, dense_at)
    if form.tensor_parallel > 1:
        dense = dense + 2e3 * form.layers * (form.link_us + form.link_token_us * dense_at)
    axes, grid = _attention(folder / "attention.csv")
    names = ("chunk_at", "context_at", "decode_at", "decode_context_at")
    tables = {
        "dense_at": dense_at,
        "dense": dense,
        "head_at": head_at,
        "head": head,
        **dict(zip(names, axes, strict=True)),
        "attention": np.ascontiguousarray(1e3 * form.layers * grid).reshape(-1),
    }
    constants = {"tables": 1.0, "skew": form.skew, "step": form.step_us * 1e3}
    alone = constants["step"] + _height(dense_at, dense, 1.0) + _height(head_at, head, 1.0)
    return StepArrays(tables, constants, alone + 1e3 * form.layers * float(grid[0, 0, min(1, len(axes[2]) - 1), 0]))


def _summed(path: Path, name: str, axis: str, form: KernelTables) -> tuple[np.ndarray, np.ndarray]:
    """Return the points of a table of layers, and the time of the whole model at each in ns."""
    table = read_table(path, [name, axis, "time_us"])
    layers, at, time = np.array(table.texts(name)), table.numbers(axis), table.numbers("time_us")
    _check_times(table, time)
    per_layer = [part for part in PER_LAYER if not (form.experts and part in FOR_EXPERTS)]
    per_layer += [part for part in WHERE_THERE if (layers == part).any()]
    parts = [(part, form.layers) for part in per_layer] + [(part, 1) for part in ONCE]
    if axis == "sequences":
        parts = [(part, 1) for part in HEAD]
    points: np.ndarray | None = None
    total = np.zeros(0)
    for part, times in parts:
        own = layers == part
        if not own.any():
            raise table_error(path, f"has no rows of '{part}': expected some")
        order = np.argsort(at[own], kind="stable")
        here, values = at[own][order], time[own][order]
        if points is None:
            points, total = here, np.zeros(len(here))
        total = total + 1e3 * times * np.interp(points, here, values)
    assert points is not None
    return points, total


def _check_times(table: Table, time: np.ndarray) -> None:
    wrong = ~((time >= 0.0) & (time <= 1e9))
    if wrong.any():
        index = int(wrong.argmax())
        raise table.error(index, f"time_us: expected a time from 0 to 1e9, got {time[index]:g}")


def _experts(path: Path, experts: int, tokens: np.ndarray) -> np.ndarray:
    """Return the time in microseconds of the experts of a layer, at the greatest number of them up to `experts`."""
    table = read_table(path, ["tokens", "activated_experts", "time_us"])
    at, active, time = (table.numbers(name) for name in ("tokens", "activated_experts", "time_us"))
    points = np.unique(at)
    values = []
    for point in points:
        own = at == point
        allowed = active[own] <= experts
        values.append(float(time[own][allowed].max()) if allowed.any() else float(time[own].min()))
    return np.asarray(np.interp(tokens, points, values))


def _attention(path: Path) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the axes of the table of attention, powers of two, and its times in microseconds.

    Cells that were not measured, since the memory did not hold them, continue the line along the context of decoding
    sequences, or take the nearest cell with fewer sequences or tokens.
    """
    table = read_table(path, [*ATTENTION, "time_us"])
    columns = [table.numbers(name) for name in ATTENTION]
    time = table.numbers("time_us")
    _check_times(table, time)
    kept = np.ones(len(time), bool)
    for column in columns:
        kept &= (column == 0.0) | (np.exp2(np.rint(np.log2(np.maximum(column, 1.0)))) == column)
    axes = [np.unique(column[kept]) for column in columns]
    grid = np.full([len(axis) for axis in axes], np.nan)
    places = [np.searchsorted(axis, column[kept]) for axis, column in zip(axes, columns, strict=True)]
    grid[tuple(places)] = time[kept]
    return axes, _completed(grid, axes[3])


def _completed(grid: np.ndarray, lengths: np.ndarray) -> np.ndarray:
    """Return the grid with its empty cells filled."""
    grid = grid.copy()
    for last in range(2, grid.shape[3]):
        before, here = grid[..., last - 1], grid[..., last]
        share = (lengths[last] - lengths[last - 1]) / max(1.0, lengths[last - 1] - lengths[last - 2])
        line = before + share * np.maximum(0.0, before - grid[..., last - 2])
        grid[..., last] = np.where(np.isnan(here), line, here)
    for axis in (3, 2, 1, 0):
        for forward in (True, False):
            moved = np.moveaxis(grid, axis, 0)
            order = range(1, len(moved)) if forward else range(len(moved) - 2, -1, -1)
            for index in order:
                near = moved[index - 1 if forward else index + 1]
                moved[index] = np.where(np.isnan(moved[index]), near, moved[index])
    return grid


# Recorded steps


def _fitted(path: Path) -> ClosedForm:
    """Return the closed form that fits recorded steps best, by least squares with no negative term.

    Columns of the file: tokens, sequences, context (of decoding sequences), prefill (pairs of tokens) and us.
    """
    from scipy.optimize import nnls

    table = read_table(path, STEP_COLUMNS)
    tokens, sequences, context, prefill, time = (table.numbers(name) for name in STEP_COLUMNS)
    _check_times(table, time)
    if len(table) < len(STEP_COLUMNS):
        raise table_error(path, f"has {len(table)} rows: expected at least {len(STEP_COLUMNS)} steps")
    terms = np.stack((np.ones(len(time)), tokens, sequences, context, prefill), axis=1)
    # Relative errors count, as steps differ in length by orders of magnitude.
    weight = 1.0 / np.maximum(time, 1.0)
    constant, per_token, per_sequence, per_context, per_pair = nnls(terms * weight[:, None], time * weight)[0].tolist()
    return ClosedForm.model_validate(
        {
            "kind": "closed",
            "dense": [{"at": 0, "us": 0.0}, {"at": 1000, "us": 1000.0 * per_token}],
            "head": [{"at": 0, "us": 0.0}, {"at": 1000, "us": 1000.0 * per_sequence}],
            "context_us": per_context,
            "mixed_context_us": per_context,
            "prefill_us": per_pair,
            "step_us": constant,
        }
    )
