"""The walk of docs/library.md, command by command: trainings of seconds, and every decision of the library once."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from string import Template

import pytest

from slipstream.library import Library
from tests.cli.conftest import slipstream as slipstream  # the fixture

pytestmark = pytest.mark.thorough

PAGE = Path(__file__).resolve().parents[2] / "docs" / "library.md"
STEP = re.compile(
    r"^```python\n(?P<code>.*?)^```$|^    \$ (?P<command>(?:[^\n]*\\\n)*[^\n]*)$", re.DOTALL | re.MULTILINE
)

SAID = {
    "update layered layered.json": (0, "layered@v2 accepted: regret on taskgraph/layered falls, by"),
    "update cholesky cholesky.json": (1, "cholesky@v2 rejected: regret on taskgraph/cholesky does not fall for sure"),
    "update light edge/overload": (1, "worth a model of its own"),
    "split light@v2 overload": (0, "overload@v1 accepted: split off from light"),
    "merge lu qr": (0, "dense@v1 accepted: on 2 workloads it loses at most"),
    "add qr runs/bad": (0, "qr@v2 added, in use."),
    "rollback qr --auto": (0, "qr: rolled back from qr@v2 to qr@v1: recent regret on taskgraph/qr is"),
    "rollback layered --to v1": (0, "layered: rolled back from layered@v2 to layered@v1: to compare with later"),
    "verify": (0, "library: whole."),
}
"""What the steps that decide something end with, by the words after `slipstream library`."""


def steps():
    """Yield the steps of the walk in order: code, or the words of a command."""
    walk = PAGE.read_text(encoding="utf-8").split("## A complete example\n", 1)[1].split("\n## ", 1)[0]
    known = {}
    for step in STEP.finditer(walk):
        if step["code"]:
            yield step["code"], None
            continue
        command = Template(step["command"].replace("\\\n", " ")).substitute(known)
        setting = re.fullmatch(r'(\w+)="(.*)"', command.strip())
        if setting:
            known[setting[1]] = setting[2]
        else:
            yield None, shlex.split(command)


def test_the_walk_goes_as_the_page_says(slipstream, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    said = {}
    for code, words in steps():
        if code is not None:
            exec(compile(code, PAGE.name, "exec"), {})
            continue
        assert words[0] == "slipstream"
        status, output, errors = slipstream(*words[1:])
        assert status in (0, 1), (words, errors)
        said[" ".join(words[2:])] = (status, " ".join(output.split()))
    for command, (status, text) in SAID.items():
        found = [given for given in said if given.startswith(command)]
        assert found, f"the walk has no step '{command}'"
        assert said[found[0]][0] == status, said[found[0]]
        assert text in said[found[0]][1], said[found[0]]
    chosen = [output for command, (_, output) in said.items() if command.startswith("choose")]
    assert len(chosen) >= 3
    for output in chosen:
        # The evidence: every racer with its regret, models with their distance; then what follows from it.
        assert "regret against the best of" in output
        assert re.search(r"@v\d+ \S+ \d+\.\d\d% \d\.\d\d ", output), output
        assert re.search(r" \d+\.\d\d% rule ", output), output
        assert re.search(r"earns \S+ (more than the best rule|less than the rule)", output), output
        assert "Chosen in " in output
    with_models = Library("library")
    operations = {event.operation for event in with_models.store.events()}
    assert operations >= {
        "add",
        "update accepted",
        "update rejected",
        "update split",
        "merge accepted",
        "split",
        "rollback",
    }
    rolled_back = [event for event in with_models.store.events() if event.operation == "rollback"]
    assert [event.evidence["by"] for event in rolled_back] == ["check", "hand"]
    assert len(with_models.store.models()) == 9
    with_models.store.close()
