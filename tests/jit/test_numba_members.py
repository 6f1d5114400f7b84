"""docs/numba.md lists all that relies on Numba's and llvmlite's insides, and only `jit/private` does."""

from __future__ import annotations

import ast
import functools
import hashlib
import inspect
import os
import pickle
import re
import stat
import types
import uuid
import zlib
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import numba
import pytest
from llvmlite import binding, ir

from slipstream.jit import mode
from slipstream.jit.cache_folder import PACKAGE
from slipstream.jit.private import decorators

PAGE = PACKAGE.parents[1] / "docs" / "numba.md"
PROJECT = PACKAGE.parents[1] / "pyproject.toml"
PRIVATE = PACKAGE / "jit" / "private"

DOCUMENTED = {
    "numba": {"carray", "cfunc", "config", "njit", "typeof", "types", "__version__"},
    "numba.core": {"event"},  # the developer manual has a page on it
    "numba.experimental": {"structref"},
    "numba.extending": {"intrinsic", "overload"},
    "llvmlite": {"binding", "ir", "__version__"},
}
"""Members of Numba and llvmlite that their manuals describe, of those that are used."""

DOCUMENTED_OPTIONS = {"cache", "error_model", "fastmath", "nogil", "pipeline_class"}

PUBLIC = (
    *(functools, hashlib, inspect, os, pickle, stat, uuid, zlib),
    *(Path, bytes, dict, int, list, set, str, tuple, os.stat_result, uuid.UUID, hashlib.sha256()),
    *(types.CellType, types.CodeType, types.FunctionType, types.ModuleType),
    *(
        binding,
        binding.ModuleRef,
        ir,
        ir.Constant,
        ir.FunctionType,
        ir.IntType,
        ir.IRBuilder,
        ir.LoadInstr,
        ir.Module(),
    ),
    numba.types,
)
"""Modules and classes whose members are public; uses of these names need not be listed."""

DOCUMENTED_ATTRIBUTES = {"address", "py_func", "__qualname__", "__wrapped__", "_replace", "args", "type"} | DOCUMENTED[
    "numba"
]
"""Members of dispatchers, callbacks, signatures, named tuples and values that the manuals describe."""


def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text())


def undocumented_imports(path: Path) -> Iterator[str]:
    """Yield what a module imports of Numba and llvmlite that their manuals do not describe, as `module.member`."""
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.ImportFrom) and node.level == 0:
            found = [(node.module or "", alias.name) for alias in node.names]
        elif isinstance(node, ast.Import):
            found = [tuple(alias.name.rpartition(".")[::2]) for alias in node.names]
        else:
            continue
        for module, member in found:
            outside = (module or member).partition(".")[0] not in ("numba", "llvmlite")
            if not outside and module and member not in DOCUMENTED.get(module, ()):
                yield f"{module}.{member}"


def own_names(path: Path) -> set[str]:
    """Return the names that a module defines for itself: functions, classes, and attributes set in constructors.

    A method that overrides one of Numba's is not among them, since Numba calls it.
    """
    names = set()
    for node in ast.walk(tree(path)):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            names |= {
                child.attr
                for child in ast.walk(node)
                if isinstance(child, ast.Attribute) and isinstance(child.ctx, ast.Store)
            }
    return names - overridden(path)


def overridden(path: Path) -> set[str]:
    """Return the methods of a module's classes that exist in a base class of Numba."""
    module = import_module(f"slipstream.jit.private.{path.stem}")
    own = [value for value in vars(module).values() if isinstance(value, type) and value.__module__ == module.__name__]
    return {
        name
        for one in own
        for name, value in vars(one).items()
        if isinstance(value, types.FunctionType | property)
        for base in one.__mro__[1:]
        if base.__module__.startswith("numba") and hasattr(base, name) and not name.startswith("__")
    }


def undocumented_attributes(path: Path) -> set[str]:
    """Return the attributes that a module of `jit/private` uses and that no known class or module has."""
    used = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)} | overridden(path)
    public = {name for known in PUBLIC for name in dir(known) if not name.startswith("_") or name.startswith("__")}
    return used - public - own_names(path) - DOCUMENTED_ATTRIBUTES


def undocumented_options() -> set[str]:
    options = {**decorators.INNER, **decorators.ALGEBRA, **decorators.INLINED, **decorators.LINKED}
    return set(options) - DOCUMENTED_OPTIONS


def rows() -> Iterator[tuple[str, list[str], list[str]]]:
    """Yield module, members, and all cells of each row of the page's tables."""
    for line in PAGE.read_text().splitlines():
        if re.match(r"\| `(numba|llvmlite)", line):
            cells = [cell.strip() for cell in line.strip("|").split("|")]
            yield cells[0].strip("`"), re.findall(r"`([^`]+)`", cells[1]), cells


def listed() -> set[str]:
    return {member for _, members, _ in rows() for member in members}


def test_the_page_lists_every_undocumented_import() -> None:
    found = {name for path in PRIVATE.glob("*.py") for name in undocumented_imports(path)}
    assert found
    assert found - {f"{module}.{member}" for module, members, _ in rows() for member in members} == set()


def test_the_page_lists_every_undocumented_attribute_and_option() -> None:
    found = {name for path in PRIVATE.glob("*.py") for name in undocumented_attributes(path)}
    assert {"_insert", "_final_module", "get_call_template", "make_array"} <= found
    assert (found | undocumented_options()) - listed() == set()


def test_the_page_lists_nothing_that_is_not_used() -> None:
    imports = {name.rpartition(".")[2] for path in PRIVATE.glob("*.py") for name in undocumented_imports(path)}
    attributes = {name for path in PRIVATE.glob("*.py") for name in undocumented_attributes(path)}
    assert listed() - imports - attributes - undocumented_options() == set()


def test_every_row_gives_the_use_and_the_replacement() -> None:
    for _, members, cells in rows():
        assert members
        assert len(cells) == 4
        assert all(cells)


def test_every_listed_module_exists() -> None:
    for module, _, _ in rows():
        assert import_module(module)


def test_only_the_private_modules_know_the_insides_of_numba() -> None:
    others = [path for path in PACKAGE.rglob("*.py") if PRIVATE not in path.parents]
    assert [(path, list(undocumented_imports(path))) for path in others if any(undocumented_imports(path))] == []
    hidden = {name for name in listed() if name.startswith("_")} - {"_cache"}
    for path in others:
        used = {node.attr for node in ast.walk(tree(path)) if isinstance(node, ast.Attribute)}
        assert used & hidden == set(), path


def test_the_supported_range_is_that_of_the_package_and_contains_the_pinned_version() -> None:
    (needed,) = re.findall(r'"(numba>=[^"]*)"', PROJECT.read_text())
    oldest, above = mode.SUPPORTED
    assert needed == f"numba>={oldest},<{above}"
    (pinned,) = re.findall(r"^numba==(.*)$", (PROJECT.parent / "constraints.txt").read_text(), re.MULTILINE)
    assert mode.is_supported(pinned)
    assert f"from {oldest} up to, but not including, {above}" in PAGE.read_text()


@pytest.mark.parametrize(
    ("version", "supported"),
    [
        ("0.64.9", False),
        ("0.65.0", True),
        ("0.65", True),
        ("0.65.0rc1", True),
        ("0.68.1", True),
        ("0.69.0", False),
        ("0.69.0dev0+12.gabc", False),
        ("1.0", False),
        ("0+unknown", False),
    ],
)
def test_versions_outside_the_range_are_not_supported(version: str, supported: bool) -> None:
    assert mode.is_supported(version) is supported
