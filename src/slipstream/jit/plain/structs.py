"""Types of structs of other packages, in the signatures that Numba's own cache stores.

Numba notices neither edits of another package's functions that a driver of this package contains, nor that the package
is gone. So such a type is stored together with a hash of the package, and equals the type of a later process only if
the hash is the same there.
"""

from __future__ import annotations

import hashlib
import pickle
import sys
import uuid
from functools import cache
from pathlib import Path
from typing import Any

from numba import types

_packages: dict[type, set[str]] = {}
"""Packages other than this one whose functions code for a struct contains, by the type of the struct."""


def note_implementation(struct_type: type, source: Any) -> None:
    """Make the package of `source`, a function or class, part of `struct_type` in the signatures of stored code."""
    package = str(source.__module__).partition(".")[0]
    if package != "slipstream":
        _packages.setdefault(struct_type, set()).add(package)
        content_of(package)  # now, before a file that was imported can be edited
        struct_type.__reduce__ = _reduce  # type: ignore[assignment]


@cache
def content_of(package: str) -> str:
    """Return a hash of the Python files of `package`; another one in every process if it has none."""
    module = sys.modules[package]
    folders = [Path(folder) for folder in getattr(module, "__path__", ())]
    files = [path for folder in folders for path in sorted(folder.rglob("*.py"))]
    if not folders and getattr(module, "__file__", None):
        files = [Path(str(module.__file__))]
    if not files:
        return uuid.uuid4().hex
    content = hashlib.sha256()
    for path in files:
        content.update(hashlib.sha256(path.read_bytes()).digest())
    return content.hexdigest()


def _contents(struct_type: type) -> tuple[str, ...]:
    return tuple(content_of(package) for package in sorted(_packages.get(struct_type, ())))


def _reduce(struct: Any) -> tuple[Any, ...]:
    kind = type(struct)
    state = pickle.dumps(types.StructRef.__reduce__(struct))
    return _restore, (kind.__module__, kind.__qualname__, _contents(kind), state)


def _restore(module: str, name: str, contents: tuple[str, ...], state: bytes) -> Any:
    """Return the stored type; an `_Unavailable` if its module is not imported here, or its packages have changed."""
    if contents != _contents(getattr(sys.modules.get(module), name, object)):
        return _Unavailable(module, name, contents, state)
    restore, arguments = pickle.loads(state)
    return restore(*arguments)


class _Unavailable(types.Opaque):
    """A stored type that no value has here; it is stored again as it was, for processes that know it."""

    def __init__(self, *stored: Any) -> None:
        self.stored = stored
        super().__init__(f"unavailable {stored}")

    def __reduce__(self) -> tuple[Any, ...]:
        return _restore, self.stored
