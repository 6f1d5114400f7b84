"""Policies made of a network: evaluated in compiled code, whole episodes at a time, without torch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

import numpy as np

from slipstream.errors import PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.jit.decorators import algebra, code_of, entry
from slipstream.policies.compiled.graphs import graph_fits, is_graph_network, load_graph
from slipstream.policies.compiled.inference import best_candidate, infer, load_candidates
from slipstream.policies.compiled.networks import compiled_heuristics, graph_function, guided_function, make_network
from slipstream.policies.compiled.vectors import ONE, ZERO
from slipstream.policies.operations import NO_GRAPH, GraphCapacity, Layout, Operation, lay_out, reads_graph
from slipstream.sim.kernel.lanes import (
    ASKING,
    LOG_FULL,
    RULE_ON_ALL,
    act,
    choose,
    list_legal,
    observe,
    resume,
    summarise,
)

if TYPE_CHECKING:
    from slipstream.sim.simulator import Simulator


@graph_function
def observe_with_graph(network, spec, state, lane, buffer, slot):
    """Write the observation of a lane's decision, with its graph, into `slot` of the buffer."""
    observe(spec, state, lane, buffer, slot, True)


@guided_function
def load_heuristics(network, spec, state, lane, raw, buffer, slot, choice, count):
    """Write 1 into the column of each heuristic in the row that it would choose, 0 into the others."""
    registers, ports = network.registers, network.ports
    first, columns = ports[0] + network.starts[choice] * ports[4], buffer.rows.shape[2]
    for number in range(network.forms.shape[0]):
        row = choose(spec, state, lane, raw, network.forms[number], network.addresses[number])
        if row == raw.mask.shape[1] - 1:
            # The last row means the same in both buffers, at different indices.
            row = buffer.mask.shape[1] - 1
        for position in range(count):
            taken = buffer.legal[slot, position] == row
            registers[first + position * ports[4] + columns + number] = ONE if taken else ZERO


@algebra
def load_choice(spec, state, lane, buffer, slot, network, choice, raw):
    """Observe the decision of a lane and append its legal candidates to the network's inputs; return their number.

    Returns 0 if the candidates or the graph exceed the capacity left by the choices loaded before. `raw` is a buffer
    for the heuristics whose choices the network reads.
    """
    graph = is_graph_network(network)
    if graph:
        observe_with_graph(network, spec, state, lane, buffer, slot)
    else:
        summarise(spec, state, lane, buffer, slot)
        list_legal(spec, state, lane, buffer, slot, RULE_ON_ALL)
    count = np.int64(buffer.counts[slot, 1])
    if network.starts[choice] + count > network.ports[6] or (graph and not graph_fits(network, choice, buffer, slot)):
        return 0
    load_graph(network, choice, buffer, slot, count)
    load_candidates(network, choice, buffer.rows[slot], buffer.legal[slot], count, buffer.globals[slot])
    load_heuristics(network, spec, state, lane, raw, buffer, slot, choice, count)
    return count


@entry
def run_network(spec, state, lane, buffer, network, raw, choices):
    """Play the candidates with the highest logit until the episode ends, the log is full, or `choices` were made."""
    header = state.lanes[lane]
    midway = header.status == LOG_FULL
    while midway or (header.status == ASKING and choices > 0):
        if not midway:
            load_choice(spec, state, lane, buffer, 0, network, 0, raw)
            infer(network, 1)
            act(spec, state, lane, np.int64(buffer.legal[0, best_candidate(network, 0)]))
            choices -= 1
        midway = False
        resume(spec, state, lane)
    return header.status


@entry
def network_action(spec, state, lane, buffer, network, raw):
    """Return the row of the decision in `lane` that the network gives the highest logit."""
    load_choice(spec, state, lane, buffer, 0, network, 0, raw)
    infer(network, 1)
    return np.int64(buffer.legal[0, best_candidate(network, 0)])


@entry
def decide(network, rows, legal, count, global_row):
    """Return the legal row with the highest logit."""
    load_candidates(network, 0, rows, legal, count, global_row)
    infer(network, 1)
    return legal[best_candidate(network, 0)]


@cache
def _images(family: str) -> tuple[np.ndarray, np.ndarray]:
    """Return scale, low and high of the observed columns of rows and globals."""
    return FAMILIES[family].candidate_features.observed.image(), FAMILIES[family].global_features.observed.image()


def observed_image(
    family: str, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return raw rows and globals scaled and clipped as networks see them, and the indices of the legal rows."""
    (scale, low, high), (global_scale, global_low, global_high) = _images(family)
    shown = np.clip(rows[:, : len(scale)] * scale, low, high).astype(np.float32)
    summary = np.clip(global_row[: len(global_scale)] * global_scale, global_low, global_high).astype(np.float32)
    return shown, summary, np.flatnonzero(mask).astype(np.int32)


class CompiledPolicy:
    """Policy that picks the legal candidate with the highest logit of a network."""

    def __init__(
        self,
        name: str,
        family: str,
        operations: Sequence[Operation],
        tensors: Mapping[str, np.ndarray],
        heuristics: Sequence[str] = (),
    ) -> None:
        """`heuristics` are those whose choices the network reads, a column of the rows for each."""
        self.name = name
        self.family = family
        self.heuristics = tuple(heuristics)
        compiled_heuristics(family, self.heuristics)
        self.operations = tuple(operations)
        self.tensors = {key: np.asarray(value, np.float32) for key, value in tensors.items()}
        self.reads_graph = reads_graph(self.operations)
        self._networks: dict[tuple[int, int, int], Any] = {}
        self.layout(1, 1, 1)

    def __getstate__(self) -> dict[str, Any]:
        # Another process builds its own structs.
        return {**vars(self), "_networks": {}}

    def layout(self, capacity: int, nodes: int = 0, edges: int = 0) -> Layout:
        """Return the layout of the network for up to `capacity` candidates, `nodes` and `edges`."""
        shapes = {name: tensor.shape for name, tensor in self.tensors.items()}
        columns = len(FAMILIES[self.family].node_features.observed)
        graph = GraphCapacity(columns, nodes, edges) if self.reads_graph and columns else NO_GRAPH
        guides = (self.family, self.heuristics) if self.heuristics else ()
        return lay_out(self.operations, shapes, self._widths, capacity, graph=graph, heuristics=guides)

    def _arguments(self, simulator: Simulator) -> tuple[Any, ...]:
        """Return the arguments of the compiled loop."""
        capacity = len(simulator.raw["mask"][0])
        shape = simulator.family.graph(simulator.scenario) if self.reads_graph else None
        if shape is None:
            network, buffer = self.network(capacity), simulator.observed
        else:
            network, buffer = self.network(capacity, shape.nodes, shape.edges), simulator.observed_graph
        return simulator.spec, simulator.state, 0, buffer, network, simulator.buffer

    def entry_point(self, simulator: Simulator) -> tuple[Any, tuple[Any, ...]]:
        """Return the compiled loop and its arguments for the simulator's lane."""
        return run_network, self._arguments(simulator)

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status."""
        arguments = self._arguments(simulator)
        return partial(code_of(run_network, *arguments, 0), *arguments)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        return int(run_network(*self._arguments(simulator), choices))

    def action(self, simulator: Simulator) -> int:
        """Return the row that it takes at the decision that is due in the simulator's lane."""
        return int(network_action(*self._arguments(simulator)))

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row to take; raw values, times in ns."""
        if self.reads_graph:
            raise PolicyError(f"policy '{self.name}' reads the graph of a choice: expected whole episodes to play")
        shown, summary, legal = self.shown(global_row, rows, mask)
        return int(decide(self.network(len(mask)), shown, legal, len(legal), summary))

    def shown(
        self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return rows and globals scaled and clipped as the network sees them, and the indices of the legal rows.

        The choices of the heuristics that it reads are columns of the rows.
        """
        shown, summary, legal = observed_image(self.family, global_row, rows, mask)
        if self.heuristics:
            chosen = np.zeros((len(shown), len(self.heuristics)), np.float32)
            for column, heuristic in enumerate(compiled_heuristics(self.family, self.heuristics)):
                chosen[heuristic.choose(global_row, rows, mask), column] = 1.0
            shown = np.hstack([shown, chosen])
        return shown, summary, legal

    @property
    def _widths(self) -> tuple[int, int]:
        family = FAMILIES[self.family]
        return len(family.candidate_features.observed) + len(self.heuristics), len(family.global_features.observed)

    def network(self, capacity: int, nodes: int = 0, edges: int = 0) -> Any:
        """Return the compiled network for choices of up to `capacity` candidates, `nodes` and `edges`."""
        capacities = (capacity, nodes, edges)
        if capacities not in self._networks:
            layout = self.layout(*capacities)
            self._networks[capacities] = make_network(layout, layout.flat(self.tensors))
        return self._networks[capacities]
