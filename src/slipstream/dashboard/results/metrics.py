"""Metrics of recorded runs, computed from their logs once for each version of a file."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from pathlib import Path

from slipstream.errors import InvariantError, TraceError
from slipstream.families.contract import family_of
from slipstream.files.inputs import unreadable
from slipstream.reports.runs import episode_of, read_recording

MOST_KNOWN = 20_000
"""Runs whose metrics are kept: a few kilobytes each."""

Figures = dict[str, float | None]
"""Values by metric; None where the value is not finite."""


class MetricsCache:
    """Metrics of runs by file; the logs are not kept."""

    def __init__(self) -> None:
        self._known: OrderedDict[tuple[Path, int, int], Figures] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, path: Path) -> Figures:
        """Return the metrics of the run at `path`; a file that changed is read again.

        Raises:
            TraceError: One line: not a log, or a damaged one.
        """
        try:
            status = path.stat()
        except OSError as error:
            raise TraceError(f"{path.name}: {unreadable(error)}: expected an event log") from None
        key = (path, status.st_mtime_ns, status.st_size)
        with self._lock:
            if key in self._known:
                return self._known[key]
        found = _metrics(path)
        with self._lock:
            self._known[key] = found
            while len(self._known) > MOST_KNOWN:
                self._known.popitem(last=False)
        return found


def finite(figures: dict[str, float]) -> Figures:
    """Return `figures` with None for values that JSON cannot hold."""
    return {name: value if math.isfinite(value) else None for name, value in figures.items()}


def _metrics(path: Path) -> Figures:
    events, about, scenario = read_recording(path)
    family = family_of(scenario)
    try:
        family.check(scenario, events)
    except InvariantError as error:
        raise TraceError(f"{path.name}: damaged ({error}): expected an event log written by slipstream") from None
    return finite(family.metrics(scenario, events, *episode_of(about)))
