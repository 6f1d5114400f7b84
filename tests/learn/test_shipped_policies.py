"""Shipped policies keep their weights byte by byte and their rewards to the digit; their cards hold valid settings."""

from __future__ import annotations

import hashlib
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

import slipstream
from slipstream.families.contract import FAMILIES
from slipstream.learn.settings import TrainSettings
from slipstream.policies.learned import load_policy, shipped
from slipstream.suite.catalogue import folder_hash, load_suite

SCENARIOS = {
    "edge": "edge/heavy",
    "dag": "dag/small",
    "taskgraph": "taskgraph/cholesky-4-2g2c",
    "serving": "serving/route",
    "cluster": "cluster/light",
    "llm": "llm/code",
}
"""Scenario of the two short episodes of each family, with seeds 0 and 1 of the test split."""

FROZEN: dict[str, tuple[str, list[float]]] = {
    "edge/learned-drone": (
        "f0dd90ac7229648bd9f1bcfc6904c22a1bbebc142d63001352b5ad36d3a38847",
        [380.361252339388, 388.8637108435179],
    ),
    "edge/learned-heavy": (
        "387e7b75fb1ed8cb997e01351a6c75e56bbe453b09a981145b641e1c156b411a",
        [1565.7011119375002, 1572.86134959375],
    ),
    "edge/learned-medium": (
        "8bf38e76c047ed99c842cb37467a7d2b205a30ae570f3f45ae7446c96583d62f",
        [1472.6542713000003, 1486.3592578437504],
    ),
    "edge/learned-overload": (
        "f39dc43e4939a8f831a5e0f508edd78fa40504099059bb67c219709fa9fa9460",
        [1357.06306, 1366.79926],
    ),
    "edge/learned-robust": (
        "29f7f446de19fc69dab0048035270dedd05f5bf30d4abd1e710ec043d9eedb18",
        [1547.8403104583335, 1565.0178053125],
    ),
    "dag/learned-batch-50x20": (
        "0c35ccd52bf7e35a4c26e3770c4df3e92888f13e0658de394c75707ff296ecd4",
        [-2048.404223121, -6785.581373747],
    ),
    "dag/learned-batch-50x20-compat": (
        "7553614420b597dcccce3b59cd9d1c6e746a2ff699327b4cce7e30c4953f0eb0",
        [-2166.358223121, -8174.338373747],
    ),
    "dag/learned-batch-50x20-tpch": (
        "37257157d442ade2ad0432e32f5eca8e6ce7f19d6b26078e69ea91cc1225b148",
        [-2086.325223121, -8141.717373747],
    ),
    "dag/learned-general": (
        "9257123f2f856233b40b55462a81b948883163ad6e3412aadfaa2deb9c72065b",
        [-2052.739223121, -6866.586373747],
    ),
    "dag/learned-graph": (
        "b7c246581fc5d1c7200bc99ea61d9ce629cea5546a445eabb00872afe6f7723d",
        [-2112.559223121, -7976.524373747],
    ),
    "dag/learned-ml-workflow": (
        "e88e0028a2622716efc172e38160b8265daf34d37031af0187e695192395ab8b",
        [-3752.233027807, -16958.669373747],
    ),
    "dag/learned-stream-10x50": (
        "f8b7964103a3b27cbb142c2fbde304f606450ec9f18bfab4a11994cb2af91ff8",
        [-2030.738223121, -9380.395373747],
    ),
    "dag/learned-stream-50x200": (
        "7ec3366abb433484cff9b20ab2ca4dc68deb41e9d7f233f6d236ec674b5d9871",
        [-2016.888223121, -6824.325373747],
    ),
    "dag/learned-stream-50x200-tpch": (
        "268c088e5eef758f9f84842056fc17b671235044069d759f0a7d1d8bed9a44ed",
        [-2002.267223121, -6820.205373747],
    ),
    "taskgraph/learned-exact": (
        "716d18d0b9be482e8080f957b5ba355175f1352d880d447715d41034593ae0f0",
        [-74.0, -74.0],
    ),
    "taskgraph/learned-general": (
        "5f2a5844a5d01e7ff85978aff028581a94602ab95d53cb0d1e6b40a44d88f0bf",
        [-74.0, -74.0],
    ),
    "taskgraph/learned-graph": (
        "7e8348851389ba91b6685328c957a2763047eb1b7734a0e2ae489bdd3419899b",
        [-82.0, -82.0],
    ),
    "taskgraph/learned-memory": (
        "15a66c01c0ef61fa3ac32724517f40e92f64fd03b184c315b95878c586bd4996",
        [-74.0, -74.0],
    ),
    "taskgraph/learned-noisy": (
        "601eb1d7fd7d3f7c392371f1ef51d4385ca985b78c86a27ed8b7f51e887b243d",
        [-77.0, -77.0],
    ),
    "taskgraph/learned-plain": (
        "8fd129adba9534f03c5f229eebbe52fa1258dea1168bec434ff05d6c488b00ca",
        [-74.0, -74.0],
    ),
    "taskgraph/learned-unrolled": (
        "8bc9e544d7315ba2a0f1fad56055dde17c7f51f63fcc0472dd1a77d82d75a11a",
        [-77.0, -77.0],
    ),
    "taskgraph/learned-wait": (
        "f8c940ba44b43af903c4e0b758a4bb922afddeefc0ac17f6692bc060b6750469",
        [-867.0, -867.0],
    ),
    "serving/learned-bursty": (
        "c4e9237fb3268ffd656cdea0272c76b96e806fcb269e6494601d076513f23e14",
        [4326.64, 4369.74],
    ),
    "cluster/learned-general": (
        "bffde4384ec8d811e8c9224be85087bae0c3aaf9e7add9102d223596b73b6a82",
        [-447.1560900578354, -291.7114542675106],
    ),
    "cluster/learned-mix-all": (
        "0ef52731a748a02bd3b1ede5832e280fada697dde0d71953fd3ce79eed8abe14",
        [-451.9027110962263, -291.7114542675106],
    ),
    "cluster/learned-mix-energy": (
        "be13cd13386cb83dc2b1ac32cb635d08f26ba4154aa7179604c5af5d32735d68",
        [-451.8908468325081, -291.7114542675106],
    ),
    "cluster/learned-mix-slowdown": (
        "562282e6384f20a1cfd1a75cb0ddcbc70f08d442214372a6c440f178dbee6a68",
        [-451.9027110962263, -291.7114542675106],
    ),
    "cluster/learned-philly": (
        "a2517aabe0cf23767881db85926582b61bbaa9e5e458541ed1c258ff0c50b943",
        [-422.7063246679027, -291.7114542675106],
    ),
    "llm/learned-azure-code": (
        "b35a85c50e87807aedebf0498c708fffe55a3e275fea63c86b6568db5d8d16be",
        [-80.575959444, -85.2022011011],
    ),
}
"""SHA-256 of the weights file, and the rewards of the two episodes."""


def folder_of(name: str) -> Path:
    family, _, policy = name.partition("/")
    return shipped(family)[policy]


def card_of(name: str) -> dict[str, Any]:
    card: dict[str, Any] = json.loads((folder_of(name) / "policy.json").read_text())
    return card


def test_every_shipped_policy_is_frozen() -> None:
    assert set(FROZEN) == {f"{family}/{name}" for family in FAMILIES for name in shipped(family)}


@pytest.mark.parametrize("name", FROZEN)
def test_the_weights_file_has_not_changed(name: str) -> None:
    (weights,) = folder_of(name).glob("*.safetensors")
    assert hashlib.sha256(weights.read_bytes()).hexdigest() == FROZEN[name][0]
    assert card_of(name)["weights"] == {"file": weights.name, "sha256": FROZEN[name][0]}


@pytest.mark.parametrize("name", FROZEN)
def test_the_rewards_have_not_changed(name: str) -> None:
    family, _, policy = name.partition("/")
    assert slipstream.evaluate(SCENARIOS[family], policy, episodes=2, seed=0).of("reward").tolist() == FROZEN[name][1]


@pytest.mark.parametrize("name", [name for name in FROZEN if card_of(name)["algorithm"] in ("ppo", "reinforce")])
def test_the_card_has_settings_and_a_command_that_training_accepts(name: str) -> None:
    card = card_of(name)
    settings = TrainSettings.from_dict(card["settings"])
    words = card["command"].split()
    given = dict(word.split("=", 1) for before, word in pairwise(words) if before == "--set")
    if "start_from" in given:
        given["start_from"] = settings.start_from or ""
    assert settings.with_changes(given) == settings


@pytest.mark.parametrize("name", FROZEN)
def test_the_card_loads(name: str) -> None:
    assert load_policy(folder_of(name)).family == name.partition("/")[0]


# The suite has no scenarios of LLM engines.
@pytest.mark.parametrize("name", [name for name in FROZEN if not name.startswith("llm/")])
def test_the_suite_stores_scores_of_this_version_of_the_policy(name: str) -> None:
    family, _, policy = name.partition("/")
    stored = {entry.reference.learned[policy][0] for entry in load_suite().of(family)}
    assert stored == {folder_hash(folder_of(name))}
