"""The package keeps its shape: imports point downward, public names are honest, importing compiles nothing."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import slipstream
from slipstream.core.family import FAMILIES
from slipstream.core.jit import kernel_sources

PACKAGE = Path(slipstream.__file__).parent
LAYERS = [
    ("errors", "core.interrupts"),
    ("core.atomic", "core.confined"),
    (
        "core.parts",
        "core.arrays",
        "core.bracket",
        "core.cast",
        "core.charts",
        "core.features",
        "core.inputs",
        "core.markup",
        "core.built",
        "core.timeline",
        "core.variation",
        "core.family",
    ),
    ("core.inner", "core.jit", "core.structs", "core.prefetch"),
    ("core.generator", "core.parquet", "core.tables", "core.thrift"),
    ("core.calling", "core.rng", "core.heap", "core.eventlog", "core.sheets", "core.lanes", "core.copies", "core.laws"),
    ("core.job_stream", "core.window"),
    ("policies", "core.simulator", "core.search", "core.regret"),
    tuple(FAMILIES),
    ("scenario",),
    ("render",),
    ("core.spaces", "core.env", "core.vector", "core.speed"),
    ("scale",),
    ("evaluation",),
    ("device",),
    ("learn",),
    ("library",),
    ("suite",),
    ("report",),
    ("dashboard",),
    ("service",),
    ("cli",),
    ("interop",),
]
"""From the bottom up; a module may import from its own layer and from those below it."""

ROOMS = {
    "__init__.py",
    "scenario.py",
    "arrivals.py",
    "features.py",
    "kernel.py",
    "policies.py",
    "metrics.py",
    "oracle.py",
    "scenarios",
}


def layer_of(module):
    for depth, names in enumerate(LAYERS):
        if any(module == name or module.startswith(name + ".") for name in names):
            return depth
    raise AssertionError(f"{module} is in no layer")


def imports_of(path):
    """Yield the modules of this package that a file imports when it is loaded."""
    tree = ast.parse(path.read_text())
    for node in tree.body:
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("slipstream."):
            inner = node.module.removeprefix("slipstream.")
            for name in node.names:
                deeper = PACKAGE / inner.replace(".", "/") / f"{name.name}.py"
                yield f"{inner}.{name.name}" if deeper.exists() else inner


def test_imports_point_downward_only():
    for path in PACKAGE.rglob("*.py"):
        module = ".".join(path.relative_to(PACKAGE).with_suffix("").parts).removesuffix(".__init__")
        if module == "__init__" or module.endswith("scenarios"):
            continue
        for target in imports_of(path):
            if target.split(".")[0] != "core" or target.count("."):
                assert layer_of(target) <= layer_of(module), f"{module} imports {target}"


def test_every_family_has_the_same_rooms():
    for name in FAMILIES:
        assert {entry.name for entry in (PACKAGE / name).iterdir()} >= ROOMS


def test_a_kernel_knows_nothing_of_gymnasium_and_a_report_nothing_of_kernels():
    for path in kernel_sources():
        assert "gymnasium" not in path.read_text()
    for path in (PACKAGE / "report").glob("*.py"):
        assert "kernel" not in path.read_text()


def test_public_names_are_honest():
    for name in slipstream.__all__:
        assert getattr(slipstream, name) is not None
    assert set(dir(slipstream)) == set(slipstream.__all__)


def test_importing_compiles_nothing_and_stays_light():
    heavy = ("numba", "pyarrow", "pydantic", "plotly", "torch")
    code = f"import sys, slipstream; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_modules_are_read_in_one_sitting():
    for path in PACKAGE.rglob("*.py"):
        assert len(path.read_text().splitlines()) <= 600, path
