"""Trained policies as folders: `policy.json` describes the policy and names the safetensors file with its weights.

Loading one never executes code: a policy whose network is a class of a user's own is played only where the class is
named too, as FOLDER@FILE.py:CLASS (`policies.torch_policy`). Writing one is atomic: the weights get a name made from
their content and are written before `policy.json`, which is replaced in one step, names them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.errors import PolicyError, one_line
from slipstream.families.contract import FAMILIES, Family
from slipstream.files.atomic import replace_file
from slipstream.files.inputs import read_bytes, read_object, show
from slipstream.policies.compiled.network_policy import CompiledPolicy
from slipstream.policies.operations import NODES, Operation, parse_operations, reads_graph

CARD = "policy.json"
FORMAT = 1
ALGORITHMS = {"ppo": "PPO", "reinforce": "REINFORCE"}
"""Algorithms as papers write them."""
VARIED = {
    "latency": "latencies",
    "profile_error": "profile errors",
    "interference": "interference",
    "rate": "rates",
    "length": "lengths of episodes",
}
"""Settings `variation.*` of a training, as a description lists them."""
MOST_REGISTERS = 1 << 18
"""Most values that the registers of a network hold for each candidate; trained networks hold a few thousand."""


def save_tensors(folder: Path, stem: str, tensors: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write `tensors` to a file named by `stem` and the hash of their content; return its name and SHA-256."""
    from safetensors.numpy import save

    content = save({name: np.asarray(array, order="C") for name, array in tensors.items()})
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{stem}-{sha256[:12]}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / name, content, inside=folder)
    return {"file": name, "sha256": sha256}


def load_tensors(folder: Path, entry: Any, label: str) -> dict[str, np.ndarray]:
    """Return the tensors of the file that `entry` names, after checking its SHA-256; errors begin with `label`."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not isinstance(entry, dict) or not all(isinstance(entry.get(key), str) for key in ("file", "sha256")):
        raise PolicyError(f"{label}: expected an object with 'file' and 'sha256'")
    name = entry["file"]
    if Path(name).name != name or name == "..":
        raise PolicyError(f"{label}.file: '{name}' lies elsewhere: expected the name of a file in the same folder")
    content = read_bytes(folder / name, "the weights of the policy", PolicyError, folder=folder)
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise PolicyError(f"{folder / name}: is not the file that {label} describes: expected sha256 {entry['sha256']}")
    try:
        tensors: dict[str, np.ndarray] = load(content)
    except KeyError as error:  # a dtype that NumPy does not have
        raise PolicyError(f"{folder / name}: holds numbers of type {error}: expected one that NumPy has") from None
    except (SafetensorError, ValueError, TypeError, OverflowError) as error:
        raise PolicyError(f"{folder / name}: expected a safetensors file: {error}") from None
    return tensors


def remove_others(folder: Path, stem: str, keep: str) -> None:
    """Remove the tensor files of `stem` other than `keep`."""
    for path in folder.glob(f"{stem}-*.safetensors*"):
        if path.name != keep:
            path.unlink(missing_ok=True)


def write_card(folder: Path, card_name: str, stem: str, card: Mapping[str, Any], key: str) -> None:
    """Write a card that names tensors already on disk, then remove the tensors of the card before it."""
    replace_file(folder / card_name, (json.dumps(card, indent=2) + "\n").encode(), inside=folder)
    remove_others(folder, stem, card[key]["file"])


def read_card(path: Path) -> dict[str, Any]:
    """Return the content of a card, or raise a one-line PolicyError."""
    return read_object(path, "the folder of a trained policy", PolicyError, path.parent)


def feature_names(family: Family, graph: bool) -> dict[str, list[str]]:
    """Return the observed columns of the family, with those of nodes if `graph`."""
    tables = {"candidates": family.candidate_features, "globals": family.global_features}
    if graph:
        tables["nodes"] = family.node_features
    return {name: table.observed.names for name, table in tables.items()}


def save_policy(
    folder: Path,
    family: str,
    operations: tuple[Operation, ...],
    tensors: Mapping[str, np.ndarray],
    about: dict[str, Any],
    heuristics: Sequence[str] = (),
) -> None:
    """Write the folder of a policy that reads the choices of `heuristics`; `about` is its provenance."""
    network: dict[str, Any] = {"operations": [operation.to_dict() for operation in operations]}
    if heuristics:
        network["heuristics"] = list(heuristics)
    _save(folder, family, reads_graph(operations), network, tensors, about)


def save_module_policy(
    folder: Path, family: str, module: str, graph: bool, tensors: Mapping[str, np.ndarray], about: dict[str, Any]
) -> None:
    """Write the folder of a policy whose network is the class at the import path `module`, which may read graphs."""
    _save(folder, family, graph, {"module": module, "reads_graph": graph}, tensors, about)


def _save(
    folder: Path,
    family: str,
    graph: bool,
    network: dict[str, Any],
    tensors: Mapping[str, np.ndarray],
    about: dict[str, Any],
) -> None:
    card = {
        "format": FORMAT,
        "family": family,
        **about,
        "features": feature_names(FAMILIES[family], graph),
        **network,
        "weights": save_tensors(folder, "weights", tensors),
    }
    write_card(folder, CARD, "weights", card, "weights")


class LearnedPolicy(CompiledPolicy):
    """Trained policy with the card that documents it."""

    def __init__(self, name: str, card: dict[str, Any], tensors: dict[str, np.ndarray], label: str) -> None:
        self.card = card
        operations = parse_operations(card.get("operations"), f"{label}: operations")
        super().__init__(name, card["family"], operations, tensors, card.get("heuristics", ()))

    @property
    def description(self) -> str:
        """One sentence for tables."""
        return describe_card(self.card)


def describe_card(card: Mapping[str, Any]) -> str:
    """Return one sentence on the policy of a card: scenario, algorithm, warm start, and what was varied in training."""
    scenario = str(card.get("scenario", "an unnamed scenario"))
    if scenario.endswith("/generated"):
        scenario = "generated scenarios of the family"
    algorithm = str(card.get("algorithm", "an unnamed algorithm"))
    text = f"Trained on {scenario} by {ALGORITHMS.get(algorithm, algorithm)}"
    settings = card.get("settings")
    settings = settings if isinstance(settings, dict) else {}
    warm_start, variation = settings.get("warm_start"), settings.get("variation")
    if isinstance(warm_start, str) and warm_start not in ("", "none"):
        text += f" from {warm_start.replace(',', ', ')}"
    variation = variation if isinstance(variation, dict) else {}
    varied = [word for key, word in VARIED.items() if variation.get(key)]
    if varied:
        text += f", with varied {' and '.join(filter(None, (', '.join(varied[:-1]), varied[-1])))}"
    return one_line(f"{text}.")


def is_policy_folder(text: str) -> bool:
    """Return whether `text` is the path of a policy folder."""
    try:
        return (Path(text) / CARD).is_file()
    except OSError:  # the text is longer than a path can be
        return False


def folder_and_code(text: str) -> tuple[str, str] | None:
    """Return folder and import path of a policy FOLDER@FILE.py:CLASS; None for another text."""
    folder, found, code = text.rpartition("@")
    return (folder, code) if found and is_policy_folder(folder) else None


def read_policy_card(folder: Path) -> dict[str, Any]:
    """Return the card of a policy after checking format, family, texts and columns."""
    path = folder / CARD
    card = read_card(path)
    if card.get("format") != FORMAT:
        raise PolicyError(f"{path}: format is {show(card.get('format'))}: expected {FORMAT}")
    family = card.get("family")
    if not isinstance(family, str) or family not in FAMILIES:
        raise PolicyError(f"{path}: family is {show(family)}: expected one of {', '.join(FAMILIES)}")
    for key in ("scenario", "algorithm", "command", "module"):
        if not isinstance(card.get(key, ""), str):
            raise PolicyError(f"{path}: {key}: expected a text, got {show(card[key])}")
    known = card.get("heuristics", [])
    if not isinstance(known, list) or not all(isinstance(one, str) for one in known):
        raise PolicyError(f"{path}: heuristics: expected a list of texts")
    _check_features(path, card)
    return card


def load_policy(folder: str | Path, name: str | None = None) -> LearnedPolicy:
    """Return the trained policy of `folder`, called `name`, or like the folder without one."""
    folder = Path(folder)
    path, card = folder / CARD, read_policy_card(folder)
    if "module" in card:
        raise PolicyError(
            f"{path}: its network is code, {show(card['module'])}: expected {folder}@FILE.py:CLASS, the code to run"
        )
    tensors = load_tensors(folder, card.get("weights"), f"{path}: weights")
    _check_numbers(path, tensors)
    try:
        policy = LearnedPolicy(name or folder.resolve().name, card, tensors, str(path))
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None
    if (size := policy.layout(1, 1, 1).size) > MOST_REGISTERS:
        raise PolicyError(
            f"{path}: operations: keep {size:,} numbers for each candidate: expected at most {MOST_REGISTERS:,}"
        )
    return policy


def _check_numbers(path: Path, tensors: Mapping[str, np.ndarray]) -> None:
    """Refuse weights that are not finite float32 numbers."""
    for name, tensor in tensors.items():
        if tensor.dtype.kind not in "fiub" or not (np.abs(tensor) <= np.finfo(np.float32).max).all():
            raise PolicyError(f"{path}: weights: '{name}' holds {tensor.dtype}: expected finite numbers of 32 bits")


def _check_features(path: Path, card: dict[str, Any]) -> None:
    """Refuse a policy trained on other columns than those of the family, and name the difference."""
    found = card.get("features")
    operations = card.get("operations")
    listed = operations if isinstance(operations, list) else []
    graph = any(isinstance(one, dict) and one.get("source") == NODES for one in listed)
    known = feature_names(FAMILIES[card["family"]], graph or card.get("reads_graph") is True)
    if not isinstance(found, dict) or set(found) != set(known):
        raise PolicyError(f"{path}: features: expected an object with {' and '.join(known)}")
    for kind, names in known.items():
        if not isinstance(found[kind], list) or not all(isinstance(one, str) for one in found[kind]):
            raise PolicyError(f"{path}: features.{kind}: expected a list of texts")
        if found[kind] == names:
            continue
        lost = [name for name in found[kind] if name not in names]
        new = [name for name in names if name not in found[kind]]
        what = [f"it saw {', '.join(lost)}, which {card['family']} has not"] if lost else []
        what += [f"{card['family']} shows {', '.join(new)}, which it never saw"] if new else []
        raise PolicyError(f"{path}: features.{kind}: {'; '.join(what) or 'the order of the columns differs'}")


def describe_shipped(family: str) -> dict[str, str]:
    """Return a one-sentence description of each trained policy that comes with the package, by name."""
    return {name: load_policy(folder, name).description for name, folder in shipped(family).items()}


def shipped(family: str) -> dict[str, Path]:
    """Return the folders of the trained policies that come with the package, by name."""
    root = FAMILIES[family].folder / "learned"
    if not root.is_dir():
        return {}
    return {folder.name: folder for folder in sorted(root.iterdir()) if (folder / CARD).is_file()}
