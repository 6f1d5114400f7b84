"""Event log and report of a run on a device, written also when the run fails."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from slipstream.cli.common import errors, write_text
from slipstream.errors import InputError
from slipstream.families.contract import Scenario
from slipstream.reports.html.page import page
from slipstream.reports.runs import run_of
from slipstream.sim.eventlog import LogWriter


@dataclass(frozen=True)
class RunFiles:
    """Paths of the files of a run; None for a file that is not wanted."""

    scenario: Scenario
    about: dict[str, Any]
    """Metadata of the run."""
    log: Path | None
    report: Path | None

    def write(self, pieces: Sequence[np.ndarray]) -> list[InputError]:
        """Write both files from the `pieces` of an event log; return the errors, at most one per file."""
        failed = []
        for path, write in ((self.log, self._write_log), (self.report, self._write_report)):
            if path is not None:
                try:
                    write(path, pieces)
                except InputError as error:
                    failed.append(error)
        return failed

    def save(self, pieces: Sequence[np.ndarray]) -> None:
        """Write what was recorded before an error that the caller reports; print one line about the files."""
        if not any(len(piece) for piece in pieces):
            return
        failed: list[Exception] = []
        try:
            failed += self.write(pieces)
        except Exception as error:  # the error that ended the run is still to be reported
            failed.append(error)
        for problem in failed:
            errors.print(f"what was recorded: {problem}", soft_wrap=True, markup=False)
        written = [str(path) for path in (self.log, self.report) if path is not None]
        if written and not failed:
            errors.print(f"written up to the error: {', '.join(written)}", soft_wrap=True, markup=False)

    def _write_log(self, path: Path, pieces: Sequence[np.ndarray]) -> None:
        writer = LogWriter(path, self.about)
        for piece in pieces:
            writer.write(piece)
        writer.close()

    def _write_report(self, path: Path, pieces: Sequence[np.ndarray]) -> None:
        events = pieces[0] if len(pieces) == 1 else np.concatenate(pieces)
        write_text(path, page([run_of(events, self.about, self.scenario)], self.about["command"]))
