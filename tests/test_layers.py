"""The package keeps its shape: imports point downward, public names are honest, importing compiles nothing."""

from __future__ import annotations

import ast
import re
import subprocess
import sys
from collections import Counter
from functools import cache
from pathlib import Path

import slipstream
from slipstream.families.contract import FAMILIES

PACKAGE = Path(slipstream.__file__).parent
LAYERS = [
    ("errors", "interrupts"),
    ("files",),
    ("display",),
    ("jit",),
    ("families.shared", "sim.eventlog", "sim.compiled_scenario"),
    ("sim.kernel",),
    ("families.contract", "families.installed"),
    ("networks", "policies", "sim.simulator", "families.shared.search", "families.shared.regret"),
    tuple(f"families.{name}" for name in FAMILIES),
    ("scenario",),
    ("render",),
    ("envs",),
    ("scale",),
    ("results",),
    ("evaluation",),
    ("device", "engines"),
    ("learn",),
    ("library",),
    ("suite",),
    ("reports",),
    ("runs", "importers", "environments"),
    ("dashboard",),
    ("service",),
    ("cli", "__main__"),
    ("interop",),
]
"""From the bottom up; a module may import from its own layer and from those below it."""

SHAPE = {
    "__init__.py",
    "family.py",
    "members.py",
    "scenario.py",
    "features.py",
    "policies.py",
    "metrics.py",
    "invariants.py",
    "labels.py",
    "kernel",
    "oracle",
    "workload",
    "scenarios",
}
"""What every family's folder holds."""


def layer_of(module):
    """Return the layer of a module: that of the longest name that it begins with."""
    found = [
        (len(name), depth)
        for depth, names in enumerate(LAYERS)
        for name in names
        if module == name or module.startswith(name + ".")
    ]
    assert found, f"{module} is in no layer"
    return max(found)[1]


@cache
def tree_of(path):
    """Return the parsed module at `path`."""
    return ast.parse(path.read_text())


def imports_of(path):
    """Yield the modules of this package that a file imports when it is loaded or when a function of it runs.

    What only a type checker reads is left out.
    """

    def nodes(node):
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
                continue
            yield child
            yield from nodes(child)

    for node in nodes(tree_of(path)):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slipstream"):
            inner = node.module.removeprefix("slipstream").removeprefix(".")
            for name in node.names:
                full = f"{inner}.{name.name}".removeprefix(".")
                if full == "__version__":
                    continue
                deeper = PACKAGE / full.replace(".", "/")
                yield full if deeper.with_suffix(".py").exists() or deeper.is_dir() else inner


def compiles(path):
    """Return whether a module holds compiled code: it imports what compiles."""
    return "slipstream.jit.decorators" in path.read_text()


def test_imports_point_downward_only():
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module == "__init__" or module.endswith("scenarios"):
            continue
        for target in imports_of(path):
            assert layer_of(target) <= layer_of(module), f"{module} imports {target}"


def test_every_family_has_the_same_shape():
    for name in FAMILIES:
        assert {entry.name for entry in (PACKAGE / "families" / name).iterdir()} >= SHAPE


def annotations_of(path):
    """Yield the name and annotation of every parameter, and of every annotated variable or field, of a module."""
    for node in ast.walk(tree_of(path)):
        if isinstance(node, ast.arg) and node.annotation is not None:
            yield node.arg, ast.unparse(node.annotation)
        elif isinstance(node, ast.AnnAssign):
            yield ast.unparse(node.target).removeprefix("self."), ast.unparse(node.annotation)
        elif isinstance(node, ast.FunctionDef) and node.returns is not None:
            yield node.name, ast.unparse(node.returns)


def test_no_scenario_is_annotated_as_any():
    named = re.compile(r"_?(scenarios?|loaded|profiled)|\w+_scenario")
    found = 0
    for path in PACKAGE.rglob("*.py"):
        for name, annotation in annotations_of(path):
            if named.fullmatch(name) and not compiles(path):
                found += 1
                # The data of a scenario that has not been loaded has keys, and values of any type.
                assert not re.search(r"\bAny\b", annotation.replace("dict[str, Any]", "")), (path, name, annotation)
    assert found > 250


def test_rules_of_published_simulators_have_a_module_of_their_own():
    keeps = {name for name, family in FAMILIES.items() if "compat" in family.scenario_type.model_fields}
    assert keeps == {name for name in FAMILIES if (PACKAGE / f"families/{name}/kernel/compat.py").is_file()}
    assert {"dag", "serving", "cluster"} <= keeps


def test_no_folder_of_modules_is_large():
    sizes = Counter(path.parent for path in PACKAGE.rglob("*.py") if path.parent.name != "cli")
    assert max(sizes.values()) <= 15


def test_a_kernel_knows_nothing_of_gymnasium_and_a_report_nothing_of_kernels():
    kernels = [path for path in PACKAGE.rglob("*.py") if compiles(path)]
    assert len(kernels) > 50
    for path in kernels:
        assert "gymnasium" not in path.read_text()
    for path in (PACKAGE / "reports").rglob("*.py"):
        assert not [name for name in imports_of(path) if name.startswith("families.") and ".kernel" in name], path


def test_public_names_are_honest():
    for name in slipstream.__all__:
        assert getattr(slipstream, name) is not None
    assert set(dir(slipstream)) == set(slipstream.__all__)


def test_every_public_name_is_in_the_documentation_of_the_api():
    pages = (PACKAGE.parents[1] / "docs").glob("api*.md")
    documented = set(
        re.findall(r"^::: slipstream\.(?:\S+\.)?(\w+)$", "".join(map(Path.read_text, pages)), re.MULTILINE)
    )
    assert set(slipstream.__all__) - {"__version__"} <= documented


def test_importing_compiles_nothing_and_stays_light():
    heavy = ("numba", "pyarrow", "pydantic", "plotly", "torch")
    code = f"import sys, slipstream; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_are_read_in_one_sitting():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 600, path
