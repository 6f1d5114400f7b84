"""Compiled functions on disk, as Numba's own cache stores them, in files that may be stale, damaged or planted.

Numba unpickles any file that it finds. Here a file is read only if no other user can have written it, and used only if
its checksum is right; anything else counts as absent, so the function is compiled again. A disk that cannot be written
is reported once, and the program continues.

folder/<module's folder>/<function>.nbi             the index: signatures, and the file of each
folder/<module's folder>/<function>.<digest>.nbc    code for one signature

Both are compressed: the names of a struct's types, repeated throughout, are most of a file.
"""

from __future__ import annotations

import hashlib
import os
import pickle
import re
import stat
import uuid
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any

from numba.core.caching import _Cache
from numba.core.ccallback import CFunc
from numba.core.compiler import CompileResult
from numba.core.dispatcher import Dispatcher
from numba.core.serialize import dumps

from slipstream.errors import unwritable
from slipstream.jit.cache_folder import OTHERS_WRITE, cache_folder, has_warned, make_folder, trusted_owner, warn_once

MAGIC = b"slipstream-2\n"
DIGEST_BYTES = 32
COMPRESSION = 1
"""Of zlib, the fastest: it makes files a tenth as large, in a hundredth of the time that compiling takes."""
LONGEST_NAME = 120
KNOWN = ("slipstream", "numpy", "numba", "math")
"""Packages whose content or version is part of the folder's name."""
UNWRITABLE = "unwritable"

_implementations: dict[type, list[Callable[..., Any]]] = {}
"""Functions of other packages that code for a struct contains, by the type of the struct."""


def note_implementation(struct_type: type, source: Any) -> None:
    """Make `source`, a function, part of the key of all code that is compiled for a struct of `struct_type`.

    A driver of this package, compiled for the state of a family of another package, contains that family's functions:
    when these are edited, the driver is compiled again.
    """
    if not _is_known(source):
        _implementations.setdefault(struct_type, []).append(source)


class CompileCache(_Cache):
    """The overloads of one function, as Numba's dispatchers and callbacks load and save them."""

    def __init__(self, function: Any, source: Path) -> None:
        self._function, self._source = function, source
        location = hashlib.sha256(str(source.parent).encode()).hexdigest()[:16]
        self._folder = cache_folder() / f"{source.parent.name}-{location}"
        name = re.sub(r"[^\w.-]", "", f"{source.stem}.{function.__qualname__}")[:LONGEST_NAME]
        self._name = f"{name}-{function.__code__.co_firstlineno}"

    @property
    def cache_path(self) -> str:
        """Folder of the function's files."""
        return str(self._folder)

    def enable(self) -> None:
        """Do nothing: the cache is never disabled."""

    def disable(self) -> None:
        """Do nothing: a function that is not to be stored has no such cache."""

    def flush(self) -> None:
        """Remove the index, so that all is compiled again."""
        _discard(self._index_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, None if none is stored."""
        target_context.refresh()
        name = self._index().get(self._key(sig, target_context.codegen()))
        content = None if name is None else _read(self._folder / name)
        if name is None or content is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:
            # Intact code may still refer to what no longer exists; compiling it again is always right.
            _discard(self._folder / name)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled function; warn once if nothing can be written."""
        if has_warned(UNWRITABLE) or data.library.has_dynamic_globals or not all(one.can_cache for one in data.lifted):
            return
        key = self._key(sig, data.codegen)
        if key is None:
            return
        # The types of all variables, as text, serve `inspect_types` only, and are half of a file.
        content = dumps(data._replace(type_annotation="")._reduce())
        name = f"{self._name}.{hashlib.sha256(content).hexdigest()[:16]}.nbc"
        try:
            make_folder(self._folder)
            _write(self._folder / name, content)
            before, known = set(self._index(stale=True).values()), self._index()
            known[key] = name
            keys = {key if isinstance(key, bytes) else dumps(key): name for key, name in known.items()}
            # Written last: an index names only complete files.
            _write(self._index_path, dumps((self._stamp(), keys)))
        except OSError as error:
            reason = f"compiled code cannot be kept ({unwritable(error)}): it is compiled every time"
            warn_once(UNWRITABLE, f"{cache_folder()}: {reason}")
            return
        for replaced in before - set(known.values()):
            _discard(self._folder / replaced)

    @property
    def _index_path(self) -> Path:
        return self._folder / f"{self._name}.nbi"

    def _index(self, stale: bool = False) -> dict[Any, str]:
        """Return the file of every key; none if the source was edited since, unless `stale` is true.

        A key with a type of a package that is not installed here stays as it was stored, as bytes.
        """
        content = _read(self._index_path)
        if content is None:
            return {}
        try:
            stamp, keys = pickle.loads(content)
            known = {_key_from(stored): name for stored, name in keys.items()}
        except Exception:
            _discard(self._index_path)
            return {}
        return known if stale or stamp == self._stamp() else {}

    def _stamp(self) -> bytes:
        """Return a hash of the function's file; empty for the package, whose content is part of the folder's name."""
        return b"" if _is_known(self._function) else hashlib.sha256(self._source.read_bytes()).digest()

    def _key(self, sig: Any, codegen: Any) -> Any:
        """Return all that determines the code: types, processor and content of the function; None if unknown."""
        content = hashlib.sha256()
        try:
            implementations = [
                one for kind in getattr(sig, "args", sig) for one in _implementations.get(type(kind), ())
            ]
            for part in _parts([self._function, *implementations], set()):
                content.update(len(part).to_bytes(8, "little") + part)
        except Exception:
            return None  # it uses a value that cannot be pickled, and so not be compared
        return sig, codegen.magic_tuple(), content.digest()


def _key_from(stored: bytes) -> Any:
    try:
        return pickle.loads(stored)
    except (ImportError, AttributeError):
        return stored


def _is_known(function: Any) -> bool:
    return str(function.__module__).partition(".")[0] in KNOWN


def _parts(value: Any, seen: set[int], names: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """Yield the content of a value that compiled code depends on: present values of globals, code of functions.

    The compiler treats globals as constants, and inlines functions of other files. Of a module only the members `names`
    are used.
    """
    if isinstance(value, Dispatcher):
        value = value.py_func
    elif isinstance(value, CFunc):
        value = value.__wrapped__
    if isinstance(value, tuple | list):
        for one in value:
            yield from _parts(one, seen, names)
    elif isinstance(value, FunctionType):
        if id(value) not in seen:
            seen.add(id(value))
            yield from _function_parts(value, seen)
    elif isinstance(value, ModuleType):
        yield value.__name__.encode()
        if id(value) not in seen and value.__name__.partition(".")[0] not in KNOWN:
            seen.add(id(value))
            for name in sorted(names & vars(value).keys()):
                yield name.encode()
                yield from _parts(getattr(value, name), seen, names)
    else:
        yield dumps(value)


def _function_parts(function: FunctionType, seen: set[int]) -> Iterator[bytes]:
    codes = list(_codes(function.__code__))
    for code in codes:
        constants = [one for one in code.co_consts if not isinstance(one, CodeType)]
        values = [sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one) for one in constants]
        yield repr((code.co_code, values, code.co_names, code.co_varnames, code.co_freevars)).encode()
    names = frozenset(name for code in codes for name in code.co_names)
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen, names)
    if not _is_known(function):
        for name in sorted(names & function.__globals__.keys()):
            yield name.encode()
            yield from _parts(function.__globals__[name], seen, names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of the functions defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _read(path: Path) -> bytes | None:
    """Return the content of a file, None unless its checksum is right and no other user can have written it."""
    try:
        # Without following a link, or waiting for a writer of a pipe of that name.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            content = file.read() if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return None
    others_write = hasattr(os, "geteuid") and found.st_mode & OTHERS_WRITE
    if not trusted_owner(found) or others_write:
        warn_once("file", f"{path}: other users can have written it: it is not used, and compiled again")
        return None
    body = content[len(MAGIC) + DIGEST_BYTES :]
    if content[: len(MAGIC) + DIGEST_BYTES] == MAGIC + hashlib.sha256(body).digest():
        with suppress(zlib.error):
            return zlib.decompress(body)
    _discard(path)
    return None


def _write(path: Path, content: bytes) -> None:
    """Write a file atomically, compressed, with a checksum; other users cannot write to it."""
    body = zlib.compress(content, COMPRESSION)
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(MAGIC + hashlib.sha256(body).digest() + body)
        new.replace(path)
    except BaseException:
        _discard(new)
        raise


def _discard(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
