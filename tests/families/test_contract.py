"""The contract of families: what every family provides, and what registration refuses, in a sentence."""

from __future__ import annotations

import ast
import subprocess
import sys
from dataclasses import MISSING, fields, replace
from pathlib import Path

import gymnasium
import pytest

import slipstream
from slipstream.errors import FamilyError
from slipstream.families.contract import FAMILIES, REQUIRED, Family, Members, family_of, register_family
from slipstream.families.edge.members import KERNEL, MEMBERS
from slipstream.scenario import load
from slipstream.sim.kernel import lanes

PACKAGE = Path(slipstream.__file__).parent


def family_with(load_members, without=()):
    """Return a family that is like edge but for its name, its members and the attributes left out."""
    edge = type(FAMILIES["edge"])
    attributes = {name: getattr(edge, name) for name in REQUIRED if name not in without}
    body = attributes | {"scenario_type": edge.scenario_type, "load_members": lambda self: load_members()}
    if "name" not in without:
        body["name"] = "other"
    return type("OtherFamily", (Family,), body)()


def refused(load_members, **options):
    with pytest.raises(FamilyError) as caught:
        register_family(family_with(load_members, **options))
    assert "other" not in FAMILIES
    return str(caught.value)


def given(**changes):
    """Return the members of edge as keyword arguments, changed; a change to None leaves the member out."""
    members = {field.name: vars(MEMBERS)[field.name] for field in fields(MEMBERS)} | changes
    return {name: value for name, value in members.items() if value is not None}


@pytest.fixture
def other():
    yield
    FAMILIES.pop("other", None)
    gymnasium.registry.pop("slipstream/Other-v0", None)


def test_every_family_provides_what_the_contract_asks_for():
    for family in FAMILIES.values():
        assert family.members is family.members
        for field in fields(Members):
            assert field.default is not MISSING or vars(family.members)[field.name] is not None


def test_a_member_that_is_missing_is_named():
    line = refused(lambda: Members(**given(metrics=None)))
    assert line == "family 'other': missing 1 required keyword-only argument: 'metrics'"


def test_a_member_that_is_misspelt_is_named():
    line = refused(lambda: Members(**given(metrics=None), mertics=MEMBERS.metrics))
    assert line.startswith("family 'other': got an unexpected keyword argument 'mertics'")


@pytest.mark.parametrize(
    ("member", "value", "expected"),
    [
        ("metrics", {"reward": 1.0}, "expected a function, got dict"),
        ("vary", 3, "expected a function, got int"),
        ("candidate_features", ["one"], "expected a FeatureTable, got list"),
    ],
)
def test_a_member_of_another_kind_is_named(member, value, expected):
    line = refused(lambda: replace(MEMBERS, **{member: value}))
    assert line == f"family 'other': member '{member}': {expected}"


def test_an_attribute_that_is_missing_is_named():
    assert refused(lambda: MEMBERS, without=("headline",)) == "family OtherFamily: 'headline' is missing"


@pytest.mark.parametrize(
    ("left_out", "expected"),
    [
        ("begin", "missing 1 required keyword-only argument: 'begin'"),
        ("act", "compiled function 'dispatch' is missing: expected it, or 'act'"),
        ("resume", "compiled function 'apply' is missing: expected it, or 'resume'"),
    ],
)
def test_a_compiled_function_that_is_missing_is_named(left_out, expected):
    def without_one():
        functions = {field.name: vars(KERNEL)[field.name] for field in fields(KERNEL) if field.name != left_out}
        return replace(MEMBERS, kernel=lanes.KernelFunctions(**functions))

    assert refused(without_one).endswith(expected)


def test_a_module_that_cannot_be_imported_is_named():
    def load_members():
        import slipstream_has_no_such_module

        return slipstream_has_no_such_module

    assert refused(load_members) == "family 'other': No module named 'slipstream_has_no_such_module'"


def test_a_name_that_is_taken_is_refused():
    edge = FAMILIES["edge"]
    impostor = type("Impostor", (type(edge),), {"name": "edge"})()
    with pytest.raises(FamilyError, match="slipstream/Edge-v0: the name or the id is taken by 'edge'"):
        register_family(impostor)
    assert FAMILIES["edge"] is edge


def test_a_family_that_keeps_to_the_contract_is_registered(other):
    register_family(family_with(lambda: MEMBERS))
    assert FAMILIES["other"].members is MEMBERS
    assert gymnasium.spec("slipstream/Other-v0").kwargs == {"family": "other"}
    assert FAMILIES["edge"].folder == PACKAGE / "families" / "edge"


def test_members_are_imported_when_first_needed():
    code = (
        "import sys, slipstream; from slipstream.families.contract import FAMILIES;"
        "before = [name for name in sys.modules if name.endswith('.members')]; FAMILIES['dag'].members;"
        "print(before, [name for name in sys.modules if name.endswith('.members')])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[] ['slipstream.families.dag.members']"


def test_compiled_functions_are_those_that_the_members_list():
    for family in FAMILIES.values():
        kernel = family.members.kernel
        for declared in (lanes.begin, lanes.act, lanes.resume, lanes.observe, lanes.list_legal, lanes.summarise):
            assert declared.implementations[kernel.state_type] is vars(kernel)[declared.__name__]


def test_no_member_is_looked_up_by_a_name_made_of_strings():
    """Neither `getattr` with a made-up name nor an import by a made-up module name is used in the contract."""
    for path in [PACKAGE / "families" / "contract.py", *(PACKAGE / "families").glob("*/family.py")]:
        called = [node.func for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Call)]
        assert not {"getattr", "import_module", "__import__"} & {ast.unparse(one) for one in called}, path


def test_a_scenario_leads_to_its_family():
    assert family_of(load("cluster/tiny")) is FAMILIES["cluster"]
