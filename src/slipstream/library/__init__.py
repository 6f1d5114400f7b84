"""A library of trained models: selection for a workload, and updates without regressions on other workloads.

Its storage needs neither numba nor torch; `Library` is imported on first use.
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
