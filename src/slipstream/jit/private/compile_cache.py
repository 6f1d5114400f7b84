"""Compiled functions on disk: what Numba's own cache does, for files that may be stale, damaged or somebody else's.

Numba unpickles whatever it finds. Here a file is read only if it belongs to the user, and used only if its checksum is
right; anything else counts as absent, so the function is compiled again. A disk that takes nothing more is said once,
and the program goes on.

folder/<module's folder>/<function>.nbi             the index: signatures, and the file of each
folder/<module's folder>/<function>.<digest>.nbc    code for one signature

This module and `inner` know Numba's insides; nothing else does.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import pickle
import re
import stat
import uuid
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
from slipstream.jit.cache_folder import OTHERS_WRITE, cache_folder, has_told, make_folder, tell_once, trusted_owner

MAGIC = b"slipstream-1\n"
DIGEST_BYTES = 32
LONGEST_NAME = 120
KNOWN = ("slipstream", "numpy", "numba", "math")
"""Packages whose content or version is part of the folder's name."""
UNWRITABLE = "unwritable"


def keep_compiled(compiled: Any, function: Callable[..., Any]) -> None:
    """Let a dispatcher or callback of Numba, not compiled yet, keep its code on disk, if its function is in a file."""
    source = Path(inspect.getfile(function))
    if source.is_file():  # one that was typed at a prompt is not
        compiled._cache = CompileCache(function, source.absolute())


class CompileCache(_Cache):
    """The overloads of one function, as Numba's dispatchers and callbacks load and save them."""

    def __init__(self, function: Any, source: Path) -> None:
        self._function, self._source = function, source
        place = hashlib.sha256(str(source.parent).encode()).hexdigest()[:16]
        self._folder = cache_folder() / f"{source.parent.name}-{place}"
        name = re.sub(r"[^\w.-]", "", f"{source.stem}.{function.__qualname__}")[:LONGEST_NAME]
        self._name = f"{name}-{function.__code__.co_firstlineno}"

    @property
    def cache_path(self) -> str:
        """The folder of its files."""
        return str(self._folder)

    def enable(self) -> None:
        """Do nothing: it is never off."""

    def disable(self) -> None:
        """Do nothing: a function that is not to be kept has no such cache."""

    def flush(self) -> None:
        """Forget everything."""
        _discard(self._index_path)

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the compiled function for a signature, None if it must be compiled."""
        target_context.refresh()
        name = self._index().get(self._key(sig, target_context.codegen()))
        content = None if name is None else _read(self._folder / name)
        if name is None or content is None:
            return None
        try:
            return CompileResult._rebuild(target_context, *pickle.loads(content))
        except Exception:
            # Code that is whole may still name what is no longer there; to compile it again is always right.
            _discard(self._folder / name)
            return None

    def save_overload(self, sig: Any, data: Any) -> None:
        """Write a compiled function; where nothing can be written, say so once and go on."""
        if has_told(UNWRITABLE) or data.library.has_dynamic_globals or not all(one.can_cache for one in data.lifted):
            return
        key = self._key(sig, data.codegen)
        if key is None:
            return
        content = dumps(data._reduce())
        name = f"{self._name}.{hashlib.sha256(content).hexdigest()[:16]}.nbc"
        try:
            make_folder(self._folder)
            _write(self._folder / name, content)
            before, known = set(self._index(stale=True).values()), self._index()
            known[key] = name
            # Written last: an index names only files that are whole.
            _write(self._index_path, dumps((self._stamp(), known)))
        except OSError as error:
            told = f"{cache_folder()}: compiled code cannot be kept ({unwritable(error)}): it is compiled every time"
            tell_once(UNWRITABLE, told)
            return
        for replaced in before - set(known.values()):
            _discard(self._folder / replaced)

    @property
    def _index_path(self) -> Path:
        return self._folder / f"{self._name}.nbi"

    def _index(self, stale: bool = False) -> dict[Any, str]:
        """Return the file of every key; none if the source was edited since, unless `stale` ones are asked for too."""
        content = _read(self._index_path)
        if content is None:
            return {}
        try:
            stamp, known = pickle.loads(content)
        except Exception:
            _discard(self._index_path)
            return {}
        return dict(known) if stale or stamp == self._stamp() else {}

    def _stamp(self) -> bytes:
        """Return a hash of the function's file; those of the package are part of the folder's name."""
        return b"" if _is_known(self._function) else hashlib.sha256(self._source.read_bytes()).digest()

    def _key(self, sig: Any, codegen: Any) -> Any:
        """Return what decides the code: types, processor, and all that the function is made of; None if unknown."""
        content = hashlib.sha256()
        try:
            for part in _parts(self._function, set()):
                content.update(len(part).to_bytes(8, "little") + part)
        except Exception:
            return None  # it uses something that cannot be pickled, and so not be compared
        return sig, codegen.magic_tuple(), content.digest()


def _is_known(function: Any) -> bool:
    return str(function.__module__).partition(".")[0] in KNOWN


def _parts(value: Any, seen: set[int], names: frozenset[str] = frozenset()) -> Iterator[bytes]:
    """Yield all that compiled code takes in of a value: numbers as they are now, functions by their content.

    The compiler freezes globals, and what functions in other files say. Of a module only `names` can be meant.
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
        told = [sorted(map(repr, one)) if isinstance(one, frozenset) else repr(one) for one in constants]
        yield repr((code.co_code, told, code.co_names, code.co_varnames, code.co_freevars)).encode()
    names = frozenset(name for code in codes for name in code.co_names)
    for cell in function.__closure__ or ():
        yield from _parts(cell.cell_contents, seen, names)
    if not _is_known(function):
        for name in sorted(names & function.__globals__.keys()):
            yield name.encode()
            yield from _parts(function.__globals__[name], seen, names)


def _codes(code: CodeType) -> Iterator[CodeType]:
    """Yield the code of a function and of those defined inside it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _read(path: Path) -> bytes | None:
    """Return what was written to a file, if it is whole and nobody else can have written it."""
    try:
        # Neither follows a link nor waits for whoever would write to a pipe of that name.
        handle = os.open(path, os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0))
        with os.fdopen(handle, "rb") as file:
            found = os.fstat(handle)
            content = file.read() if stat.S_ISREG(found.st_mode) else b""
    except OSError:
        return None
    others_write = hasattr(os, "geteuid") and found.st_mode & OTHERS_WRITE
    if not trusted_owner(found) or others_write:
        tell_once("file", f"{path}: other users can have written it: it is not used, and compiled again")
        return None
    body = content[len(MAGIC) + DIGEST_BYTES :]
    if content[: len(MAGIC) + DIGEST_BYTES] != MAGIC + hashlib.sha256(body).digest():
        _discard(path)
        return None
    return body


def _write(path: Path, content: bytes) -> None:
    """Write a file that appears whole or not at all, and that other users cannot write to."""
    new = path.with_name(f"{path.name}.{uuid.uuid4().hex[:16]}.tmp")
    try:
        with os.fdopen(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o644), "wb") as file:
            file.write(MAGIC + hashlib.sha256(content).digest() + content)
        new.replace(path)
    except BaseException:
        _discard(new)
        raise


def _discard(path: Path) -> None:
    with suppress(OSError):
        path.unlink()
