"""Trained policies as folders: `policy.json` says what it is, and names the safetensors file that holds its weights.

Loading one never executes code. Writing one never leaves half of it: the weights get a name made from their content
and are there before `policy.json`, replaced in one step, points to them.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.core.atomic import replace_file
from slipstream.core.confined import ConfinementError, read_inside
from slipstream.core.family import FAMILIES, Family
from slipstream.errors import PolicyError
from slipstream.policies.compiled import CompiledPolicy
from slipstream.policies.operations import NODES, Operation, parse_operations, reads_graph

CARD = "policy.json"
FORMAT = 1
LARGEST_CARD_BYTES, LARGEST_TENSORS_BYTES = 2**26, 2**31


def save_tensors(folder: Path, stem: str, tensors: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Write tensors under a name made from their content; return the name and the whole hash."""
    from safetensors.numpy import save

    content = save({name: np.ascontiguousarray(array) for name, array in tensors.items()})
    sha256 = hashlib.sha256(content).hexdigest()
    name = f"{stem}-{sha256[:12]}.safetensors"
    folder.mkdir(parents=True, exist_ok=True)
    replace_file(folder / name, content, inside=folder)
    return {"file": name, "sha256": sha256}


def load_tensors(folder: Path, entry: Any, place: str) -> dict[str, np.ndarray]:
    """Return the tensors that an entry names, once they are known to be the ones that were written."""
    from safetensors import SafetensorError
    from safetensors.numpy import load

    if not isinstance(entry, dict) or not {"file", "sha256"} <= set(entry):
        raise PolicyError(f"{place}: expected an object with 'file' and 'sha256'")
    name = str(entry["file"])
    if Path(name).name != name:
        raise PolicyError(f"{place}.file: '{name}' lies elsewhere: expected the name of a file in the same folder")
    try:
        content = read_inside(folder, name, LARGEST_TENSORS_BYTES)
    except ConfinementError as error:
        raise PolicyError(str(error)) from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise PolicyError(f"{folder / name}: cannot be read ({reason}): expected the weights of the policy") from None
    if hashlib.sha256(content).hexdigest() != entry["sha256"]:
        raise PolicyError(f"{folder / name}: is not the file that {place} describes: expected sha256 {entry['sha256']}")
    try:
        tensors: dict[str, np.ndarray] = load(content)
    except SafetensorError as error:
        raise PolicyError(f"{folder / name}: expected a safetensors file: {error}") from None
    return tensors


def remove_others(folder: Path, stem: str, keep: str) -> None:
    """Remove the files of earlier versions."""
    for path in folder.glob(f"{stem}-*.safetensors*"):
        if path.name != keep:
            path.unlink(missing_ok=True)


def write_card(folder: Path, card_name: str, stem: str, card: Mapping[str, Any], key: str) -> None:
    """Point a card to tensors that are there already, then remove those it pointed to before."""
    replace_file(folder / card_name, (json.dumps(card, indent=2) + "\n").encode(), inside=folder)
    remove_others(folder, stem, card[key]["file"])


def read_card(path: Path) -> dict[str, Any]:
    """Return the content of a card, or say in one line why it is none."""
    try:
        card = json.loads(read_inside(path.parent, path.name, LARGEST_CARD_BYTES))
    except ConfinementError as error:
        raise PolicyError(str(error)) from None
    except OSError as error:
        reason = (error.strerror or "unknown reason").lower()
        raise PolicyError(f"{path}: cannot be read ({reason}): expected the folder of a trained policy") from None
    except (ValueError, RecursionError) as error:
        raise PolicyError(f"{path}: expected JSON: {error}") from None
    if not isinstance(card, dict):
        raise PolicyError(f"{path}: expected a JSON object, got {type(card).__name__}")
    return card


def feature_names(family: Family, graph: bool) -> dict[str, list[str]]:
    """Return the columns that an agent of the family sees, those of nodes too if it looks at graphs."""
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
) -> None:
    """Write a policy; `about` says where it comes from."""
    card = {
        "format": FORMAT,
        "family": family,
        **about,
        "features": feature_names(FAMILIES[family], reads_graph(operations)),
        "operations": [operation.to_dict() for operation in operations],
        "weights": save_tensors(folder, "weights", tensors),
    }
    write_card(folder, CARD, "weights", card, "weights")


class LearnedPolicy(CompiledPolicy):
    """A policy that was trained, with the card that says how."""

    def __init__(self, name: str, card: dict[str, Any], tensors: dict[str, np.ndarray], place: str) -> None:
        self.card = card
        super().__init__(
            name, card["family"], parse_operations(card.get("operations"), f"{place}: operations"), tensors
        )

    @property
    def description(self) -> str:
        """One sentence for tables."""
        return f"Trained on {self.card.get('scenario', 'an unnamed scenario')} by {self.card.get('algorithm', '?')}."


def is_policy_folder(text: str) -> bool:
    """Return whether a text names the folder of a trained policy."""
    return (Path(text) / CARD).is_file()


def load_policy(folder: str | Path, name: str | None = None) -> LearnedPolicy:
    """Return the trained policy of a folder; without a name, it is called as the folder."""
    folder = Path(folder)
    path = folder / CARD
    card = read_card(path)
    if card.get("format") != FORMAT:
        raise PolicyError(f"{path}: format is {card.get('format')!r}: expected {FORMAT}")
    if card.get("family") not in FAMILIES:
        raise PolicyError(f"{path}: family is {card.get('family')!r}: expected one of {', '.join(FAMILIES)}")
    _check_features(path, card)
    tensors = load_tensors(folder, card.get("weights"), f"{path}: weights")
    try:
        return LearnedPolicy(name or folder.resolve().name, card, tensors, str(path))
    except PolicyError as error:
        raise PolicyError(f"{path}: {error}" if str(path) not in str(error) else str(error)) from None


def _check_features(path: Path, card: dict[str, Any]) -> None:
    """Refuse a policy that was trained on other columns than the family has now, and say which."""
    found = card.get("features")
    operations = card.get("operations")
    listed = operations if isinstance(operations, list) else []
    graph = any(isinstance(one, dict) and one.get("source") == NODES for one in listed)
    known = feature_names(FAMILIES[card["family"]], graph)
    if not isinstance(found, dict) or set(found) != set(known):
        raise PolicyError(f"{path}: features: expected an object with {' and '.join(known)}")
    for kind, names in known.items():
        if found[kind] == names:
            continue
        lost = [name for name in found[kind] if name not in names]
        new = [name for name in names if name not in found[kind]]
        what = [f"it saw {', '.join(lost)}, which {card['family']} has not"] if lost else []
        what += [f"{card['family']} shows {', '.join(new)}, which it never saw"] if new else []
        raise PolicyError(f"{path}: features.{kind}: {'; '.join(what) or 'the order of the columns differs'}")


def shipped(family: str) -> dict[str, Path]:
    """Return the folders of the trained policies that come with the package, by name."""
    home = Path(__file__).parents[1] / family / "learned"
    if not home.is_dir():
        return {}
    return {folder.name: folder for folder in sorted(home.iterdir()) if (folder / CARD).is_file()}
