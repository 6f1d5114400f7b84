"""Transparent huge pages of this process and its children."""

from __future__ import annotations

import ctypes
import sys

PR_SET_THP_DISABLE = 41


def use_huge_pages(wanted: bool) -> None:
    """Enable or disable transparent huge pages, also where a library requests them by `madvise`.

    A virtual machine may have to fetch every huge page from its host: ten milliseconds for each two megabytes, most of
    the time until the first chart of a long run. Code that reads such arrays once does not benefit from them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, int(not wanted), 0, 0, 0)
