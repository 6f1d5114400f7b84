"""Networks as lists of operations that compiled code can run.

A network reads `rows` (a vector per candidate), `globals` (a vector per choice) and, where work is a graph, `nodes` (a
vector per node), and writes registers. A register holds a vector for each element of its domain (candidates, choices,
nodes or jobs), which follows from its source. The list of operations is closed: loading a network never executes code.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.errors import PolicyError

LINEAR, ADD, RELU, TANH, NORMALISE, MEAN, MAX, ATTEND, SCALE, LOG, SWITCH, MESSAGE_PASSING, SUM_JOBS, SUM, TAKE = range(
    15
)
KINDS = {
    "linear": LINEAR,  # target = source @ weight.T + bias
    "add": ADD,  # target += source, for every candidate if the source is a single vector
    "relu": RELU,  # in place
    "tanh": TANH,  # in place
    "scale": SCALE,  # target = source * weight + bias, column by column, by measured constants that are not learned
    "log": LOG,  # target = sign(source) log(1 + |source| * weight), column by column, by measured constants
    "normalise": NORMALISE,  # target = layer norm of the source, times weight, plus bias
    "mean": MEAN,  # target = mean of the source over the candidates
    "max": MAX,  # target = maximum of each column over the candidates
    "attend": ATTEND,  # target = mean of the source over the candidates, weighted by the softmax of `scores` per head
    "switch": SWITCH,  # target = source, for the candidates of choices where globals @ weight > 1/2: a second head
    "message_passing": MESSAGE_PASSING,  # target = source + update(merge(sum of the children's messages)), leaves first
    "sum_jobs": SUM_JOBS,  # target = sum of the source over the nodes of each job
    "sum": SUM,  # target = sum of the source over the jobs of each choice
    "take": TAKE,  # target = the source's vector of each candidate's node, or of its job; zeros where it has none
}
"""The closed list, by the names that files use."""

MOST_OPERATIONS = 1000
"""Limit for networks in files; trained networks have about thirty."""

IN_PLACE = (ADD, RELU, TANH, SWITCH)
"""Operations that change a register which is there already; the others write a new one."""

CHOICE, ROW, NODE, JOB = range(4)
DOMAINS = ("choice", "candidate", "node", "job")
"""Domains of registers: what a register holds a vector for."""

MESSAGE_PASSING_LAYERS = ("message", "merge", "update")
"""Square layers of message passing, in the order of their weights; `weight` is the common prefix of their names."""
MESSAGE_PASSING_VECTORS = 3
"""Vectors per node that message passing keeps for the backward pass."""

OP, SOURCE, TARGET, DOMAIN, N_IN, N_OUT, WEIGHT, BIAS, EXTRA, TARGET_DOMAIN, ADDED, ACTIVATION, LAST_READ, CLEAR = (
    range(14)
)
COLUMNS = 14
"""Columns of an encoded operation. Offsets point into the registers and the weights, -1 where there is none.

A linear layer is fused with the addition and the activation after it: ADDED is the offset of a vector per choice that
is added to every candidate's, ACTIVATION the kind of activation (-1: none). In the backward pass, LAST_READ says that
no later operation reads the source, so its gradient is written instead of accumulated; CLEAR that the gradient of the
target is only accumulated, and has to be zeroed first.
"""

NODES_OFFSET, NODE_WIDTH, MOST_NODES, MOST_EDGES, SORTED_NODES_OFFSET = range(8, 13)
"""Ports of a layout for graphs: nodes are written in input order and read sorted by level."""

ROWS, GLOBALS, NODES = "rows", "globals", "nodes"
LOGITS, VALUE = "logits", "value"
"""The registers that every network must read from and write to."""


READS = {
    MEAN: (ROW,),
    MAX: (ROW,),
    ATTEND: (ROW,),
    SWITCH: (ROW,),
    MESSAGE_PASSING: (NODE,),
    SUM_JOBS: (NODE,),
    SUM: (JOB,),
    TAKE: (NODE, JOB),
}
WRITES = {MEAN: CHOICE, MAX: CHOICE, ATTEND: CHOICE, SUM_JOBS: JOB, SUM: CHOICE, TAKE: ROW}
"""Domains that operations read and write; operations not listed read any domain and write that of their source."""


@dataclass(frozen=True)
class Operation:
    """One operation of a network, by the names of its registers and parameters."""

    kind: str
    source: str
    target: str
    weight: str | None = None
    bias: str | None = None
    scores: str | None = None

    def to_dict(self) -> dict[str, str]:
        """Return the operation as JSON-ready data."""
        return {key: value for key, value in vars(self).items() if value is not None}


@dataclass(frozen=True)
class Register:
    """Vectors of one domain: `offset` of the first among the registers, their `width`, and the `domain`."""

    offset: int
    width: int
    domain: int


@dataclass(frozen=True)
class GraphCapacity:
    """Capacity for the graphs of all choices of one forward pass."""

    columns: int
    """Width of a node."""
    nodes: int
    edges: int


NO_GRAPH = GraphCapacity(0, 0, 0)


@dataclass(frozen=True)
class Layout:
    """Network as compiled code reads it: encoded operations, offsets of registers and weights, and capacities."""

    candidates: int
    choices: int
    code: np.ndarray
    """(operations, COLUMNS) int64."""
    ports: np.ndarray
    """Offsets of rows, globals, logits and value, widths of rows and globals, capacities for candidates and choices;
    offset and width of nodes, capacities for nodes and edges, offset of the nodes sorted by level (-1: no graph)."""
    size: int
    """Numbers in all registers."""
    parameters: tuple[tuple[str, int, tuple[int, ...]], ...]
    """Name, offset in the flat weights and shape of every parameter; matrices are stored transposed, inputs first."""
    weights: int
    """Numbers in the flat weights."""
    heuristics: tuple[str, tuple[str, ...]] | tuple[()] = ()
    """Family and names of the heuristics whose choices the last columns of a row show; nothing without any."""

    @property
    def capacities(self) -> tuple[int, int, int]:
        """Capacities for candidates, choices and nodes."""
        return self.candidates, self.choices, int(self.ports[MOST_NODES])

    @property
    def widths(self) -> tuple[int, int, int]:
        """Columns of rows, globals and nodes."""
        return int(self.ports[4]), int(self.ports[5]), int(self.ports[NODE_WIDTH])

    def flat(self, tensors: Mapping[str, np.ndarray]) -> np.ndarray:
        """Return the parameters as one vector."""
        flat = np.zeros(self.weights, np.float32)
        for name, offset, shape in self.parameters:
            flat[offset : offset + int(np.prod(shape))] = np.ascontiguousarray(tensors[name].T).reshape(-1)
        return flat


def parse_operations(data: Any, label: str) -> tuple[Operation, ...]:
    """Return the operations of a file; errors begin with `label`."""
    if not isinstance(data, list):
        raise PolicyError(f"{label}: expected a list of operations, got {type(data).__name__}")
    if len(data) > MOST_OPERATIONS:
        raise PolicyError(f"{label}: {len(data):,} operations: expected at most {MOST_OPERATIONS:,}")
    operations = []
    for index, item in enumerate(data):
        if not isinstance(item, dict) or not all(isinstance(value, str) for value in item.values()):
            raise PolicyError(f"{label}[{index}]: expected an object of texts")
        unknown = sorted(set(item) - set(Operation.__dataclass_fields__))
        missing = [key for key in ("kind", "source", "target") if key not in item]
        if unknown or missing:
            raise PolicyError(f"{label}[{index}]: unknown keys {unknown}, missing keys {missing}")
        operations.append(Operation(**item))
    return tuple(operations)


def reads_graph(operations: Sequence[Operation]) -> bool:
    """Return whether the network reads the graph of a choice."""
    return any(operation.source == NODES for operation in operations)


def lay_out(
    operations: Sequence[Operation],
    shapes: Mapping[str, tuple[int, ...]],
    columns: tuple[int, int],
    candidates: int,
    choices: int = 1,
    graph: GraphCapacity = NO_GRAPH,
    heuristics: tuple[str, tuple[str, ...]] | tuple[()] = (),
) -> Layout:
    """Assign offsets to all registers and parameters; refuse unknown operations and shapes that do not match.

    `shapes` are those of the parameters, `columns` the widths of a row and of the globals. `candidates`, `choices` and
    `graph` are the capacities of one forward pass. `heuristics` are family and names of those that the rows show.
    """
    plan = _Plan(shapes, (choices, candidates, graph.nodes, graph.nodes))
    plan.reserve(ROWS, columns[0], ROW)
    plan.reserve(GLOBALS, columns[1], CHOICE)
    unsorted = plan.reserve(f"{NODES}, in input order", graph.columns, NODE) if graph.nodes else None
    if unsorted is not None:
        plan.reserve(NODES, graph.columns, NODE)
    steps = [
        plan.encode(operation, f"operation {index} ({operation.kind})") for index, operation in enumerate(operations)
    ]
    for name, expected in ((LOGITS, ROW), (VALUE, CHOICE)):
        found = plan.registers.get(name)
        if found is None or found.width != 1 or found.domain != expected:
            kind_of = "one number per candidate" if expected == ROW else "a single number"
            raise PolicyError(f"the network does not write '{name}': expected {kind_of}")
    ports = [plan.registers[name].offset for name in (ROWS, GLOBALS, LOGITS, VALUE)]
    offsets = (unsorted.offset, plan.registers[NODES].offset) if unsorted is not None else (-1, -1)
    nodes = [offsets[0], graph.columns, graph.nodes, graph.edges, offsets[1]]
    return Layout(
        candidates,
        choices,
        _mark_gradient_writes(_fuse(steps)),
        np.array([*ports, *columns, candidates, choices, *nodes], np.int64),
        plan.size,
        tuple((name, offset, shape) for name, (offset, shape) in plan.parameters.items()),
        plan.weights,
        heuristics,
    )


class _Plan:
    """Registers and parameters that have an offset already."""

    def __init__(self, shapes: Mapping[str, tuple[int, ...]], vectors: tuple[int, int, int, int]) -> None:
        """`vectors` is the capacity of a register of each domain."""
        self.shapes, self.vectors = shapes, vectors
        self.registers: dict[str, Register] = {}
        self.parameters: dict[str, tuple[int, tuple[int, ...]]] = {}
        self.size = self.weights = 0

    def reserve(self, name: str, width: int, domain: int) -> Register:
        """Assign an offset to a new register."""
        self.registers[name] = Register(self.size, width, domain)
        self.size += width * self.vectors[domain]
        return self.registers[name]

    def encode(self, operation: Operation, where: str) -> tuple[int, ...]:
        """Return `operation` as a row of COLUMNS integers; errors begin with `where`."""
        if operation.kind not in KINDS:
            raise PolicyError(f"{where}: not among those that can be compiled: expected one of {', '.join(KINDS)}")
        for name in (operation.source, operation.scores):
            if name is not None and name not in self.registers:
                raise PolicyError(f"{where}: register '{name}' is read before it is written")
        kind, source = KINDS[operation.kind], self.registers[operation.source]
        read = READS.get(kind, tuple(range(len(DOMAINS))))
        if source.domain not in read:
            found, expected = DOMAINS[source.domain], " or ".join(DOMAINS[domain] for domain in read)
            raise PolicyError(f"{where}: '{operation.source}' is one vector per {found}: expected one per {expected}")
        target = self._target(operation, kind, source, where)
        weight, bias = self._weights(operation, kind, source, target, where)
        extra = -1
        if kind == NORMALISE:
            extra = self.reserve(f"{operation.target}, 1 / deviation", 1, source.domain).offset
        if kind == MESSAGE_PASSING:
            extra = self.reserve(
                f"{operation.target}, intermediate", MESSAGE_PASSING_VECTORS * source.width, NODE
            ).offset
        if kind == ATTEND:
            scores = self.registers.get(operation.scores or "")
            if scores is None or scores.domain != ROW or source.width % scores.width:
                raise PolicyError(f"{where}: expected scores per candidate, one per head, heads dividing the width")
            extra, weight = scores.offset, scores.width
        offsets = (kind, source.offset, target.offset, source.domain, source.width, target.width)
        return (*offsets, weight, bias, extra, target.domain, -1, -1, 0, 0)

    def _target(self, operation: Operation, kind: int, source: Register, where: str) -> Register:
        """Return the register that is written: a new one, except for operations that work in place."""
        target = self.registers.get(operation.target)
        if kind in IN_PLACE:
            fits = operation.target == operation.source
            if target is not None and kind in (ADD, SWITCH):
                # A vector per choice is broadcast to candidates only; no network needs other broadcasts.
                spread = (source.domain, target.domain) == (CHOICE, ROW)
                fits = target.width == source.width and (target.domain == source.domain or spread)
            if target is None or not fits:
                raise PolicyError(f"{where}: '{operation.source}' does not fit into '{operation.target}'")
            return target
        if target is not None:
            raise PolicyError(f"{where}: register '{operation.target}' is written twice")
        width = source.width
        if kind == LINEAR:
            width = (self.shapes.get(operation.weight or "") or (0,))[0]
        return self.reserve(operation.target, width, WRITES.get(kind, source.domain))

    def _weights(
        self, operation: Operation, kind: int, source: Register, target: Register, where: str
    ) -> tuple[int, int]:
        """Return the offsets of weight and bias, -1 where there is none; layers of message passing share one offset."""
        if kind == MESSAGE_PASSING:
            return self._message_passing_layers(operation, source.width, where), -1
        if kind == SWITCH:
            return self._parameter(operation.weight or "", (self.registers[GLOBALS].width,), where), -1
        if kind == LOG:
            return self._parameter(operation.weight or "", (source.width,), where), -1
        if kind not in (LINEAR, NORMALISE, SCALE):
            return -1, -1
        if operation.weight is None or operation.bias is None:
            raise PolicyError(f"{where}: expected a weight and a bias")
        shape = (target.width, source.width) if kind == LINEAR else (target.width,)
        return self._parameter(operation.weight, shape, where), self._parameter(operation.bias, (target.width,), where)

    def _message_passing_layers(self, operation: Operation, width: int, where: str) -> int:
        """Reserve the layers of a message passing operation; return the offset of the first."""
        names = [f"{operation.weight}.{layer}" for layer in MESSAGE_PASSING_LAYERS]
        if any(f"{name}.{part}" in self.parameters for name in names for part in ("weight", "bias")):
            raise PolicyError(f"{where}: the layers of '{operation.weight}' are used twice")
        first = self.weights
        for name in names:
            self._parameter(f"{name}.weight", (width, width), where)
            self._parameter(f"{name}.bias", (width,), where)
        return first

    def _parameter(self, name: str, shape: tuple[int, ...], where: str) -> int:
        if self.shapes.get(name) != shape:
            raise PolicyError(f"{where}: parameter '{name}' has shape {self.shapes.get(name)}: expected {shape}")
        if name not in self.parameters:
            self.parameters[name] = (self.weights, shape)
            self.weights += int(np.prod(shape))
        return self.parameters[name][0]


def _fuse(steps: Sequence[tuple[int, ...]]) -> np.ndarray:
    """Fuse every linear layer with the addition and the activation that follow it."""
    fused: list[np.ndarray] = []
    for step in (np.array(step, np.int64) for step in steps):
        if not fused or not _follows(step, fused[-1]):
            fused.append(step)
        elif step[OP] == ADD:
            fused[-1][ADDED] = step[SOURCE]
        else:
            fused[-1][ACTIVATION] = step[OP]
    return np.array(fused).reshape(-1, COLUMNS)


def _follows(step: np.ndarray, layer: np.ndarray) -> bool:
    """Return whether `step` adds to, or activates, the output of the linear layer just before it."""
    is_open = layer[OP] == LINEAR and layer[N_OUT] > 1 and layer[ACTIVATION] < 0 and layer[TARGET] == step[TARGET]
    if step[OP] == ADD:
        return bool(is_open and layer[ADDED] < 0 and layer[DOMAIN] == ROW and step[DOMAIN] == CHOICE)
    return bool(is_open and step[OP] in (RELU, TANH))


def _mark_gradient_writes(code: np.ndarray) -> np.ndarray:
    """Mark registers whose gradient the last linear layer that reads them writes, so that it need not be zeroed."""
    in_place = np.isin(code[:, OP], IN_PLACE)
    written = set()
    for index, step in enumerate(code):
        later = code[index + 1 :]
        used = {*later[:, [SOURCE, EXTRA, ADDED]].flat, *later[in_place[index + 1 :], TARGET]}
        step[LAST_READ] = step[OP] == LINEAR and step[SOURCE] not in used
        if step[LAST_READ]:
            written.add(int(step[SOURCE]))
    code[:, CLEAR] = ~in_place & ~np.isin(code[:, TARGET], list(written))
    return code
