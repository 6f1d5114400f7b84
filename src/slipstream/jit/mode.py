"""The choice between compiled code and plain Python, and between private and documented means of compilation."""

from __future__ import annotations

import os
import re

import numba

from slipstream.errors import InputError
from slipstream.jit.cache_folder import warn_once

SUPPORTED = ("0.65.0", "0.69")
"""The oldest supported version of Numba, and the first that is not; the same range is in pyproject.toml."""
VARIABLE = "SLIPSTREAM_PLAIN_JIT"


def release(version: str) -> tuple[int, ...]:
    """Return the leading numbers of a version, without trailing zeros: `0.65.0rc1` gives (0, 65)."""
    found = re.match(r"\d+(\.\d+)*", version)
    numbers = [int(number) for number in found[0].split(".")] if found else []
    while numbers and numbers[-1] == 0:
        numbers.pop()
    return tuple(numbers)


def is_supported(version: str) -> bool:
    """Return whether the private members that `jit.private` relies on are known to exist in a version of Numba."""
    oldest, above = map(release, SUPPORTED)
    return oldest <= release(version) < above


def _uses_private() -> bool:
    chosen = os.environ.get(VARIABLE, "")
    if chosen not in ("", "0", "1"):
        raise InputError(f"{VARIABLE}: is {chosen!r}, expected 0 or 1")
    if not COMPILED or chosen == "1":
        return False
    if is_supported(numba.__version__):
        return True
    oldest, above = SUPPORTED
    warn_once(
        "numba",
        f"Numba {numba.__version__} is outside the supported range (from {oldest}, below {above}): "
        "compiled code is slower than it could be",
    )
    return False


COMPILED = not numba.config.DISABLE_JIT
"""False under NUMBA_DISABLE_JIT=1: the same functions run as plain Python, for debuggers and mutation tests."""

PRIVATE = _uses_private()
"""Whether private members of Numba are used: not under SLIPSTREAM_PLAIN_JIT=1 or with an unsupported Numba."""
