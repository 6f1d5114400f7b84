"""Many trained models side by side: which to use for a workload, and how to improve one without spoiling others.

The parts that only keep files and records need neither numba nor torch; `Library` is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from slipstream.library.library import Library

__all__ = ["Library"]


def __getattr__(name: str) -> Any:
    if name == "Library":
        from slipstream.library.library import Library

        return Library
    raise AttributeError(f"module 'slipstream.library' has no attribute '{name}'")
