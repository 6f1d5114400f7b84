"""Folder of a training: description, history, best and last policy, and the state to resume from.

run.json            settings, scenario, version, command
history.jsonl       one line per evaluation
history.csv         the same as a table
best/, last/        policies (`policies.learned`)
state/              what `--resume` starts from
tensorboard/        scalars
.lock               held by the process that trains
"""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from typing import Any

from slipstream.errors import InputError
from slipstream.files.atomic import cannot_write, open_growing, remove_unfinished_in, replace_file
from slipstream.files.confined import refuse_links_out
from slipstream.files.inputs import as_object, read_object, show
from slipstream.files.lock import LOCK, FolderLock
from slipstream.learn.files import EXPECTED, HISTORY, HISTORY_CSV, RUN, read_about, read_history
from slipstream.learn.networks.own import OwnNetwork
from slipstream.learn.trainer import Trainer
from slipstream.policies.learned import load_tensors, save_module_policy, save_policy, save_tensors, write_card

STATE = "state.json"
NOTES: dict[str, tuple[type, ...]] = {
    "best": (int, float, type(None)),
    "seconds": (int, float),
    "planned": (bool,),
    "hindsight_planned": (bool,),
    "episodes": (int, type(None)),
    "excess": (int, float),
}
"""Types of the notes saved with a state."""
ENTRIES = (RUN, HISTORY, HISTORY_CSV, "best", "last", "state", "tensorboard")


class RunFolder:
    """Files of one training; each is written atomically."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def exists(self) -> bool:
        """Whether the folder holds a training."""
        return (self.folder / RUN).exists()

    def lock(self, resume: bool) -> FolderLock:
        """Lock the folder for a new training, or for one that goes on.

        Raises:
            InputError: One line: another process trains there; the folder holds a training, or none with `resume`.
        """
        if self.exists == resume or (self.folder / LOCK).exists():  # else no process can be at work there
            held = FolderLock(self.folder, "training")
            try:
                refuse_links_out(self.folder, ENTRIES)
            except InputError:
                held.release()
                raise
            if self.exists == resume:
                return held
            held.release()
        if not resume:
            raise self._exists_error()
        raise self._missing_error()

    def create(self, about: dict[str, Any]) -> None:
        """Write the description of a new training."""
        if self.exists:
            raise self._exists_error()
        try:
            refuse_links_out(self.folder, ENTRIES)
            self._write_about(about, new=True)
        except FileExistsError:
            raise self._exists_error() from None
        except OSError as error:
            raise cannot_write(self.folder, error) from None

    def _exists_error(self) -> InputError:
        return InputError(f"{self.folder}: holds a training already: expected a new folder, or --resume")

    def _missing_error(self) -> InputError:
        return InputError(f"{self.folder}: holds no training: expected a folder made by `slipstream train --out`")

    def rewrite(self, about: dict[str, Any]) -> None:
        """Replace the description of the training."""
        self._write_about(about)

    def _write_about(self, about: dict[str, Any], new: bool = False) -> None:
        replace_file(self.folder / RUN, (json.dumps(about, indent=2) + "\n").encode(), new, inside=self.folder)

    def about(self) -> dict[str, Any]:
        """Return the description of the training."""
        if not self.exists:
            raise self._missing_error()
        return read_about(
            self.folder, ("scenario", "scenario_digest", "command", "version"), ("settings", "scenario_file")
        )

    def save_policy(self, which: str, trainer: Trainer, about: dict[str, Any]) -> None:
        """Write the current network as policy `which`: `best` or `last`."""
        network = {"network": trainer.network.settings.to_card()}
        folder, family, tensors = self.folder / which, trainer.family.name, trainer.network.arrays()
        own = trainer.network
        if isinstance(own, OwnNetwork) and own.not_compilable:
            save_module_policy(folder, family, own.path, own.reads_graph, tensors, {**about, **network})
        else:
            save_policy(folder, family, own.operations(), tensors, {**about, **network}, own.guides)

    def save_state(self, trainer: Trainer, notes: dict[str, Any]) -> None:
        """Write the state that `--resume` starts from."""
        folder = self.folder / "state"
        arrays, numbers = trainer.state()
        entry = save_tensors(folder, "state", arrays)
        write_card(folder, STATE, "state", {"numbers": numbers, "notes": notes, "arrays": entry}, "arrays")

    def restore(self, trainer: Trainer) -> dict[str, Any]:
        """Restore a trainer from the last state, if there is one; return the notes saved with it."""
        refuse_links_out(self.folder, ENTRIES)
        remove_unfinished_in(self.folder)
        folder = self.folder / "state"
        if not (folder / STATE).exists():
            self._truncate_history(0)
            return {}
        card = read_object(folder / STATE, EXPECTED, folder=self.folder)
        notes = _checked_notes(card.get("notes"), f"{folder / STATE}: notes")
        arrays = load_tensors(folder, card.get("arrays"), f"{folder / STATE}: arrays")
        try:
            trainer.restore(arrays, as_object(card.get("numbers"), f"{folder / STATE}: numbers"))
        except (LookupError, ValueError, TypeError, OverflowError, RuntimeError, AttributeError) as error:
            # Torch describes tensors of the wrong shape in many lines.
            reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
            raise InputError(f"{folder / STATE}: does not fit this training ({reason}): expected {EXPECTED}") from error
        self._truncate_history(trainer.update_number)
        return notes

    def append(self, line: dict[str, Any]) -> None:
        """Append an evaluation to the history."""
        with open_growing(self.folder / HISTORY, append=True) as file:
            file.write((json.dumps(line) + "\n").encode())
        self._write_csv()

    def history(self) -> list[dict[str, Any]]:
        """Return all evaluations; an incomplete last line is ignored."""
        return read_history(self.folder) if (self.folder / HISTORY).exists() else []

    def _truncate_history(self, update: int) -> None:
        """Remove evaluations after update `update`, the last one of the saved state."""
        lines = [json.dumps(line) + "\n" for line in self.history() if line["update"] <= update]
        replace_file(self.folder / HISTORY, "".join(lines).encode(), inside=self.folder)
        self._write_csv()

    def _write_csv(self) -> None:
        """Write the history as a table; a cell is empty where a phase has no such figure."""
        lines, text = self.history(), io.StringIO()
        table = csv.DictWriter(text, list(dict.fromkeys(key for line in lines for key in line)), lineterminator="\n")
        table.writeheader()
        table.writerows(lines)
        replace_file(self.folder / HISTORY_CSV, text.getvalue().encode(), inside=self.folder)


def _checked_notes(notes: Any, label: str) -> dict[str, Any]:
    """Return the notes saved with a state: best reward (null before the first evaluation), seconds, what is planned.

    Raises:
        InputError: One line: the first value of another type.
    """
    found = as_object(notes, label)
    for key, kinds in NOTES.items():
        if key in found and type(found[key]) not in kinds:
            expected = "true or false" if kinds == (bool,) else "a number"
            raise InputError(f"{label}.{key}: expected {expected}, got {show(found[key])}")
    return found
