"""Notes that users write on runs, kept in one file of the dashboard's own in the folder of runs."""

from __future__ import annotations

import json
import threading
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from slipstream.errors import InputError
from slipstream.files.atomic import cannot_write, replace_file
from slipstream.files.confined import ConfinementError, read_inside
from slipstream.files.inputs import json_object

FILE = "dashboard-notes.json"
LONGEST_NOTE = 2000
MOST_NOTES = 5000
LARGEST_BYTES = 32 * 2**20


class Note(BaseModel):
    """A note as the page sends it; an empty text removes it."""

    model_config = ConfigDict(extra="forbid")

    run: Annotated[str, Field(max_length=1000)]
    text: Annotated[str, Field(max_length=LONGEST_NOTE)]


class Notes:
    """Notes by name of the run; files of runs are never changed."""

    def __init__(self, root: Path) -> None:
        self._root, self._lock = root, threading.Lock()

    def all(self) -> dict[str, str]:
        """Return the notes by name of the run.

        Raises:
            InputError: One line: the file is something else, or leads out of the folder.
        """
        try:
            raw = read_inside(self._root, FILE, LARGEST_BYTES)
        except FileNotFoundError:
            return {}
        except ConfinementError as error:
            raise self._inside_words(error) from None
        except OSError as error:
            raise InputError(f"{FILE}: cannot be read ({(error.strerror or 'unknown reason').lower()})") from None
        notes = json_object(raw, FILE).get("notes")
        if not isinstance(notes, dict) or not all(isinstance(text, str) for text in notes.values()):
            raise InputError(f"{FILE}: notes: expected an object of texts by name of a run")
        return notes

    def write(self, note: Note) -> str:
        """Keep the text of `note`, replacing the one before; return it as kept.

        Raises:
            InputError: One line: too many notes, or the file cannot be read or written.
        """
        text = note.text.strip()
        if not text.isascii() and text != text.encode("utf-8", "replace").decode():
            raise InputError("text: expected valid Unicode")
        with self._lock:
            notes = self.all()
            notes.pop(note.run, None)
            if text:
                notes[note.run] = text
            if len(notes) > MOST_NOTES:
                raise InputError(f"{len(notes):,} notes: expected at most {MOST_NOTES:,}: remove some first")
            content = json.dumps({"notes": notes}, indent=2, sort_keys=True) + "\n"
            try:
                replace_file(self._root / FILE, content.encode(), inside=self._root)
            except OSError as error:
                raise cannot_write(Path(FILE), error) from None
            except InputError as error:
                raise self._inside_words(error) from None
        return text

    def _inside_words(self, error: InputError) -> InputError:
        """Return `error` without the path of the folder, which pages do not show."""
        return InputError(str(error).replace(f"{self._root}/", "").replace(str(self._root), "the folder of runs"))
