"""Prefetch hints request the memory that a step will touch, and change nothing."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
from numba import njit

from slipstream.envs.vector import SchedulingVectorEnv
from slipstream.families.contract import FAMILIES
from slipstream.families.edge.kernel import prefetch as edge_prefetch
from slipstream.families.edge.kernel.state import EdgeStateType
from slipstream.jit import prefetch
from slipstream.jit.structs import CACHE_LINE
from slipstream.sim.kernel import lanes


@njit
def request(array, index):
    prefetch.prefetch(array, index, 1)


def test_a_hint_reaches_the_processor_and_changes_nothing():
    array = np.arange(64.0).reshape(4, 16)
    before = array.copy()
    request(array, 2)
    assert np.array_equal(array, before)
    assert any("llvm.prefetch" in code for code in request.inspect_llvm().values())


@pytest.fixture
def requested(monkeypatch):
    """Requests of plain Python: array, index and line."""
    requests = []
    for module in (prefetch, edge_prefetch):
        monkeypatch.setattr(module, "prefetch", lambda array, index, line: requests.append((array, int(index), line)))
    monkeypatch.setattr(edge_prefetch, "prefetch_record", prefetch.prefetch_record.py_func)
    return requests


@pytest.mark.parametrize(("size", "lines"), [(0, 0), (1, 1), (CACHE_LINE, 1), (CACHE_LINE + 1, 2), (10**6, 16)])
def test_a_record_is_requested_line_by_line_up_to_a_limit(requested, size, lines):
    prefetch.prefetch_record.py_func(np.zeros(3), 2, size)
    assert [(index, line) for _, index, line in requested] == [(2, line) for line in range(lines)]


def plain(arrays):
    return SimpleNamespace(**{name: a.view(np.recarray) if a.dtype.names else a for name, a in arrays.items()})


@pytest.fixture
def machine():
    """A vector after some steps, its spec, state and buffer as plain Python sees them."""
    vector = SchedulingVectorEnv(9, "edge", "edge/heavy")
    info = vector.reset(seed=0)[1]
    for _ in range(40):
        info = vector.step(info["action_mask"].argmax(axis=1))[4]
    return plain(FAMILIES["edge"].spec_arrays(vector.scenario)), plain(vector._arrays), plain(vector._shown)


def test_the_rows_requested_are_those_that_an_observation_writes(machine, requested):
    spec, state, buffer = machine
    tasks, variants = spec.variants.shape
    for lane in range(9):
        for stale in range(tasks):
            state.tasks[lane, stale].stale = 1
            requested.clear()
            edge_prefetch.prefetch_rows.py_func(spec, state, lane, buffer, lane)
            state.tasks[lane, stale].stale = 0
            rows = {index for array, index, _ in requested if array.ndim == 2 and array.shape == buffer.rows.shape[1:]}
            of_stale = {*range(stale * variants, (stale + 1) * variants), tasks * variants + stale}
            # All else that is written is what may be chosen, since nothing else is stale.
            assert rows == of_stale | set(np.flatnonzero(buffer.mask[lane]))


def test_the_state_requested_is_that_of_the_lane(machine, requested):
    spec, state, _ = machine
    edge_prefetch.prefetch_state.py_func(spec, state, 7)
    assert {index for _, index, _ in requested} == {7}
    assert {id(array) for array, _, _ in requested} == {
        id(array) for array in (state.lanes, state.tasks, state.streams, state.heap, state.queue, state.terms)
    }


def test_a_family_without_hints_steps_lane_by_lane():
    assert lanes.lanes_at_once.implementations[EdgeStateType] is edge_prefetch.lanes_at_once
    others = [chosen for state, chosen in lanes.lanes_at_once.implementations.items() if state is not EdgeStateType]
    assert all(chosen is lanes.one_lane_at_once for chosen in others)
    assert lanes.one_lane_at_once.py_func(None, None) == 1
