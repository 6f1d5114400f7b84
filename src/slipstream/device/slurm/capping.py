"""Power caps of real nodes, set by a command that the site gives."""

from __future__ import annotations

import re
import shlex
import shutil

from slipstream.errors import InputError
from slipstream.families.cluster.scenario import ClusterScenario
from slipstream.families.cluster.slurm.commands import output_of

OPTION = "--cap-command"
WANTED = ("{node}", "{watts}")
KNOWN = (*WANTED, "{job}", "{gpus}")
"""What a command may have in its words: a node, the watts of each GPU, the job that starts there, its GPUs there."""
TIMEOUT_S = 20.0
"""Longest time that the command may take."""


class CapCommand:
    """A command that sets the power cap of the GPUs of a node; its words are never read by a shell."""

    def __init__(self, text: str) -> None:
        try:
            self._template = shlex.split(text)
        except ValueError as error:
            raise InputError(f"{OPTION}: {error}: expected a command with quotes in pairs") from None
        found = set(re.findall(r"\{[^{}]*\}", text))
        for name in WANTED:
            if name not in found:
                raise InputError(f"{OPTION}: without {name}: expected a command such as 'cap {' '.join(WANTED)}'")
        if unknown := sorted(found.difference(KNOWN)):
            raise InputError(f"{OPTION}: {unknown[0]}: expected only {', '.join(KNOWN)}")
        if shutil.which(self._template[0]) is None:
            raise InputError(f"{OPTION}: {self._template[0]}: no such program: expected one in the search path")

    def words(self, job: str, node: str, gpus: int, watts: float) -> list[str]:
        """Return the command for a job that starts on `gpus` GPUs of `node`, capped at `watts` each."""
        values = dict(zip(KNOWN, (node, f"{watts:g}", job, str(gpus)), strict=True))
        return [
            re.sub("|".join(map(re.escape, KNOWN)), lambda found: values[found[0]], word) for word in self._template
        ]

    def run(self, words: list[str]) -> None:
        """Run the command `words`.

        Raises:
            DeviceError: One line: it failed.
        """
        output_of(words, TIMEOUT_S)


def check_caps(base: ClusterScenario) -> None:
    """Raise an error unless the scenario `base` says which caps there are, and on which nodes jobs start."""
    if not any(kind.caps for kind in base.nodes):
        raise InputError(f"{OPTION}: no kind of node in the scenario has caps: expected 'caps' in 'nodes'")
    if base.placement == "flat":
        raise InputError(f"{OPTION}: placement 'flat' knows no nodes: expected another one")
