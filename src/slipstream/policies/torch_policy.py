"""Policies whose network torch plays, because it is no list of operations of compiled code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np
import torch
from torch import Tensor, nn

from slipstream.errors import InputError, PolicyError
from slipstream.families.contract import FAMILIES
from slipstream.networks.import_path import make_network, path_of
from slipstream.networks.inputs import Columns, GraphInputs, reads_graph, run_scaled
from slipstream.policies.compiled.network_policy import observed_image
from slipstream.policies.learned import CARD, describe_card, load_tensors, read_policy_card
from slipstream.sim.kernel import lanes
from slipstream.sim.kernel.observation import buffer_arrays, make_buffer
from slipstream.sim.simulator import Simulator

PREFIX = "module."
"""Prefix of the tensors of the module; the other tensors scale its inputs and values."""


class TorchPolicy:
    """Policy that picks the legal candidate with the highest logit of a module of `slipstream.networks`."""

    def __init__(
        self,
        name: str,
        family: str,
        module: nn.Module,
        scales: Mapping[str, Tensor],
        card: Mapping[str, Any] | None = None,
    ) -> None:
        """`scales` are those of inputs and values, `card` the description of a policy that was saved."""
        self.name, self.family, self.card = name, family, dict(card or {})
        self.module, self.scales = module.eval(), dict(scales)
        self.reads_graph = reads_graph(module)
        self._buffers: WeakKeyDictionary[Simulator, tuple[dict[str, np.ndarray], Any]] = WeakKeyDictionary()

    def __getstate__(self) -> dict[str, Any]:
        # Another process observes lanes of its own.
        return {name: value for name, value in vars(self).items() if name != "_buffers"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _buffers=WeakKeyDictionary())

    @property
    def description(self) -> str:
        """One sentence for tables."""
        return describe_card(self.card)

    @property
    def tensors(self) -> dict[str, np.ndarray]:
        """Copies of the weights and scales, by name."""
        own = {f"{PREFIX}{name}": tensor for name, tensor in self.module.state_dict().items()}
        return {name: tensor.detach().numpy().copy() for name, tensor in {**own, **self.scales}.items()}

    def player(self, simulator: Simulator) -> Callable[[int], int]:
        """Return a function that plays a number of decisions in the simulator's lane and returns its status."""
        return partial(self.run, simulator)

    def run(self, simulator: Simulator, choices: int) -> int:
        """Play at most `choices` decisions in the simulator's lane; return its status."""
        header, lane = simulator.header, (simulator.spec, simulator.state, 0)
        midway = header["status"] == lanes.LOG_FULL
        while midway or (header["status"] == lanes.ASKING and choices > 0):
            if midway:
                lanes.resume_lane(*lane)
            else:
                lanes.step_lane(*lane, self.action(simulator))
                choices -= 1
            midway = False
        return int(header["status"])

    def action(self, simulator: Simulator) -> int:
        """Return the row that it takes at the decision that is due in the simulator's lane."""
        seen, buffer = self._buffer(simulator)
        lanes.observe_lane(simulator.spec, simulator.state, 0, buffer, 0)
        legal = np.flatnonzero(seen["mask"][0])
        graph = _graph_of(seen, legal) if self.reads_graph else None
        return self._best(seen["rows"][0], seen["globals"][0], legal, graph)

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the index of the row to take; raw values, times in ns."""
        if self.reads_graph:
            raise PolicyError(f"policy '{self.name}' reads the graph of a choice: expected whole episodes to play")
        shown, summary, legal = observed_image(self.family, global_row, rows, mask)
        return self._best(shown, summary, legal, None)

    def _best(self, rows: np.ndarray, global_row: np.ndarray, legal: np.ndarray, graph: GraphInputs | None) -> int:
        packed = torch.from_numpy(rows[legal])
        offsets = torch.tensor([0, len(legal)])
        with torch.no_grad():
            logits, _ = run_scaled(
                self.module, self.scales, packed, offsets, torch.from_numpy(global_row[None].copy()), graph
            )
        return int(legal[int(logits.numpy().argmax())])

    def _buffer(self, simulator: Simulator) -> tuple[dict[str, np.ndarray], Any]:
        """Return the arrays of an observation buffer for a simulator's lane, and the buffer."""
        if simulator not in self._buffers:
            family, scenario = simulator.family, simulator.scenario
            shape = family.graph(scenario) if self.reads_graph else None
            features = (family.global_features, family.candidate_features)
            arrays = buffer_arrays(1, family.candidate_rows(scenario), *features, raw=False, graph=shape)
            buffer = make_buffer(arrays)
            lanes.prepare_buffer(simulator.spec, simulator.state, buffer)
            self._buffers[simulator] = arrays, buffer
        return self._buffers[simulator]


def _graph_of(seen: dict[str, np.ndarray], legal: np.ndarray) -> GraphInputs:
    """Return the graph of the choice in a buffer; unused entries of its arrays are -1."""
    job_of = seen["node_job"][0]
    job_of = job_of[job_of >= 0].astype(np.int64)
    edges = seen["edges"][0]
    edges = edges[:, edges[0] >= 0].astype(np.int64)
    nodes = seen["nodes"][0, : len(job_of)].copy()
    jobs = int(job_of.max()) + 1 if len(job_of) else 0
    node_of = seen["candidate_node"][0][legal].astype(np.int64)
    arrays = (nodes, edges, job_of, np.zeros(jobs, np.int64), node_of)
    return GraphInputs(*(torch.from_numpy(array) for array in arrays))


def load_torch_policy(folder: str | Path, network: str | type[nn.Module], name: str | None = None) -> TorchPolicy:
    """Return the trained policy of `folder` whose network is the class `network`, or at that import path.

    The folder holds weights only. What code runs is said by `network`, whatever the folder says.

    Raises:
        PolicyError: One line: the folder holds no such policy, or its weights are those of another network.
    """
    folder = Path(folder)
    path, card = folder / CARD, read_policy_card(folder)
    if "module" not in card:
        raise PolicyError(f"{path}: its network needs no code: expected {folder}, without '@'")
    tensors = load_tensors(folder, card.get("weights"), f"{path}: weights")
    code = path_of(network)
    try:
        module = make_network(code, Columns.of(FAMILIES[card["family"]]))
    except InputError as error:
        raise PolicyError(str(error)) from error
    own, scales = {}, {}
    for key, array in tensors.items():
        tensor = torch.from_numpy(array.copy())
        if key.startswith(PREFIX):
            own[key.removeprefix(PREFIX)] = tensor
        else:
            scales[key] = tensor
    expected = {key: tuple(tensor.shape) for key, tensor in module.state_dict().items()}
    if {key: tuple(tensor.shape) for key, tensor in own.items()} != expected or "row_scale" not in scales:
        raise PolicyError(f"{path}: weights: are not those of '{code}': expected those of '{card['module']}'")
    module.load_state_dict(own)
    return TorchPolicy(name or folder.resolve().name, card["family"], module, scales, card)
