"""Which pages of memory this process and what it starts get from the system."""

from __future__ import annotations

import ctypes
import sys

PR_SET_THP_DISABLE = 41


def use_huge_pages(wanted: bool) -> None:
    """Let the system give huge pages where a library asks for them, or small ones all the same.

    A virtual machine may have to fetch every huge page from its host: ten milliseconds for each two megabytes, most of
    the time until the first picture of a long run. What reads such arrays once has nothing from them.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_THP_DISABLE, int(not wanted), 0, 0, 0)
