"""The part of the engine that is written in C: compiled on the spot against StarPU, loaded, and its structs.

The machine code is kept in the folder of compiled code (`jit.cache_folder`), under a hash of all that it depends on. It
is loaded only if it belongs to this user or the superuser, and no other user can write to it.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import os
import shutil
import stat
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from slipstream.errors import DeviceError
from slipstream.jit.cache_folder import OTHERS_WRITE, cache_folder, make_folder, trusted_owner

SOURCES = ("policy.c", "kernels.c")
HEADER = "engine.h"
COMPILERS = ("cc", "gcc", "clang")
FLAGS = ("-O2", "-std=gnu11", "-shared", "-fPIC", "-pthread")
LIBRARIES = ("-lstarpu-1.3", "-lopenblas")
PACKAGE = "libstarpu-dev"
VERSION = (1, 3)

KERNELS = {
    ("cholesky", "POTRF"): 0,
    ("cholesky", "TRSM"): 1,
    ("cholesky", "GEMM"): 2,
    ("cholesky", "SYRK"): 3,
    ("lu", "LU"): 4,
    ("lu", "FWD"): 5,
    ("lu", "BDIV"): 6,
    ("lu", "BMOD"): 7,
    ("qr", "GEQRT"): 8,
    ("qr", "ORMQR"): 9,
    ("qr", "TSQRT"): 10,
    ("qr", "TSMQR"): 11,
    ("gemm", "GEMM"): 12,
}
"""Number of a kernel in `engine.h`, by kind of graph and name."""


class LaneFunctions(ctypes.Structure):
    """`struct slipstream_lane` of `engine.h`: addresses of functions, and those of their first arguments."""

    names = ("report", "set_clock", "decide", "running", "next_timer", "flush")
    _fields_ = [(name, ctypes.c_void_p * 2) for name in names]


class Run(ctypes.Structure):
    """`struct slipstream_run` of `engine.h`; pointers are addresses of NumPy arrays."""

    pointers = (
        "numbers",
        "kernels",
        "accesses",
        "tile",
        "mode",
        "expected_us",
        "began",
        "ended",
        "dispatch_ns",
        "ran_on",
    )
    _fields_ = [
        *((name, ctypes.c_int32) for name in ("workers", "tasks", "tiles", "side")),
        *((name, ctypes.c_void_p) for name in pointers),
        ("lane", ctypes.POINTER(LaneFunctions)),
        ("scheduler", ctypes.c_char_p),
    ]


@functools.cache
def library() -> tuple[ctypes.CDLL, str]:
    """Return the engine, compiled and loaded, and the version of StarPU.

    Raises:
        DeviceError: One line: StarPU or a compiler is absent, or StarPU is of another version.
    """
    version = _starpu_version()
    compiler = _compiler()
    sources = [(name, _source(name)) for name in (*SOURCES, HEADER)]
    content = hashlib.sha256(repr((sources, FLAGS, LIBRARIES, version, compiler)).encode())
    engine = ctypes.CDLL(str(_compiled(compiler, content.hexdigest()[:24])))
    engine.slipstream_open.argtypes = [ctypes.POINTER(Run)]
    engine.slipstream_begin.restype = ctypes.c_int64
    engine.slipstream_wait.argtypes = [ctypes.c_int64]
    engine.slipstream_cancel.restype = None
    return engine, ".".join(map(str, version))


def _source(name: str) -> str:
    return (Path(__file__).parent / name).read_text()


def _starpu_version() -> tuple[int, ...]:
    """Return the version of the installed StarPU."""
    numbers = (ctypes.c_int * 3)()
    for name in ("libstarpu-1.3.so", "libstarpu-1.4.so", "libstarpu-1.2.so"):
        with suppress(OSError, AttributeError):
            found = ctypes.CDLL(name)
            found.starpu_get_version(numbers, ctypes.byref(numbers, 4), ctypes.byref(numbers, 8))
            break
    else:
        raise DeviceError(f"--engine starpu: StarPU is not installed: expected version 1.3 (Debian: {PACKAGE})")
    version = tuple(numbers)
    if version[:2] != VERSION:
        text = ".".join(map(str, version))
        raise DeviceError(f"--engine starpu: StarPU {text} is installed: expected 1.3 (Debian: {PACKAGE})")
    return version


def _compiler() -> str:
    """Return the path of the system's C compiler."""
    for name in (os.environ.get("CC", ""), *COMPILERS):
        if name and (found := shutil.which(name)):
            return found
    raise DeviceError(f"--engine starpu: no C compiler is installed: expected one of {', '.join(COMPILERS)}")


def _compiled(compiler: str, key: str) -> Path:
    """Return the machine code of a hash, compiled unless it is stored."""
    folder = starpu_folder()
    path = folder / f"engine-{key}.so"
    if not _is_trusted(path):
        beside = Path(tempfile.mkdtemp(prefix="engine-", dir=folder))
        try:
            _compile(compiler, beside / path.name)
            (beside / path.name).chmod(0o700)
            (beside / path.name).replace(path)
        finally:
            shutil.rmtree(beside, ignore_errors=True)
    return path


@functools.cache
def starpu_folder() -> Path:
    """Return a folder that no other user can write to, in which code and StarPU's measurements of buses are kept."""
    folder = cache_folder() / "starpu"
    with suppress(OSError):
        make_folder(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)
        if _is_trusted(folder) and os.access(folder, os.W_OK):
            return folder
    # Neither is worth an error: they are made again in each process.
    kept = tempfile.TemporaryDirectory(prefix="slipstream-starpu-")
    _TEMPORARY.append(kept)
    return Path(kept.name)


_TEMPORARY: list[tempfile.TemporaryDirectory[str]] = []
"""What lives as long as this process."""


def _is_trusted(path: Path) -> bool:
    """Return whether a file or folder exists that no other user than the superuser can have changed."""
    try:
        found = path.lstat()
    except OSError:
        return False
    is_plain = stat.S_ISDIR(found.st_mode) or stat.S_ISREG(found.st_mode)
    return is_plain and trusted_owner(found) and not found.st_mode & OTHERS_WRITE


def _compile(compiler: str, target: Path) -> None:
    """Compile the engine into `target`."""
    headers = f"-I/usr/include/starpu/{VERSION[0]}.{VERSION[1]}"
    found = [headers] if (config := shutil.which("pkg-config")) is None else _flags_of(config) or [headers]
    sources = [str(Path(__file__).parent / name) for name in SOURCES]
    words = [compiler, *FLAGS, *found, "-o", str(target), *sources, *LIBRARIES]
    run = subprocess.run(words, capture_output=True, text=True, check=False)
    if run.returncode:
        lines = [line for line in run.stderr.splitlines() if "error" in line or "cannot find" in line]
        reason = (lines or run.stderr.splitlines() or [f"{compiler} ended with {run.returncode}"])[0].strip()
        needed = f"{PACKAGE} and libopenblas-dev"
        raise DeviceError(f"--engine starpu: the policy cannot be compiled: {reason}: expected {needed}, as in Debian")


def _flags_of(config: str) -> list[str]:
    """Return where `pkg-config` says that StarPU's headers and libraries are."""
    run = subprocess.run(
        [config, "--cflags", "--libs-only-L", "starpu-1.3"], capture_output=True, text=True, check=False
    )
    return run.stdout.split() if run.returncode == 0 else []


@contextmanager
def starpu_environment() -> Iterator[None]:
    """Have StarPU keep its files in a folder of ours, and print nothing."""
    wanted = {"STARPU_HOME": str(starpu_folder()), "STARPU_SILENT": "1", "STARPU_FXT_TRACE": "0"}
    before = {name: os.environ.get(name) for name in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
