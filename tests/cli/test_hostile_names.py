"""Names with control codes, marks of writing direction and markup: printed as visible escapes, by every command."""

from __future__ import annotations

import io
import json
import re
import shutil
import sys
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from rich.markup import MarkupError
from rich.text import Text

from slipstream.cli.console import PlainConsole
from slipstream.cli.main import main
from slipstream.families.contract import FAMILIES
from slipstream.policies.learned import shipped
from slipstream.reports.terminal.plain_table import PlainTable
from slipstream.scenario import dump, load

pytestmark = pytest.mark.thorough

EVIL = "".join(
    [
        "\x1b[2J\x1b]0;owned\x07",  # clears a terminal, renames its window
        "\r\n\x08\x00\x7f\x85\x9b31m",
        "\u202e\u2066\u2069\u200e\u200f\u061c",
        "\u200b\ufeff\u2028\u2029\U000e0041",
        "[/x][bold red]:smile:[link=http://evil.example]",
    ]
)
hostile = st.text(st.characters(codec=None), min_size=1, max_size=20) | st.text(
    st.sampled_from("\x1b[]/\\ab\r\n\t\x7f\x85\x9b\u202e\u2066\u200f\u061c\u2028\ud800\udc80:"), min_size=1, max_size=12
)
brief = settings(
    max_examples=8,
    deadline=None,
    database=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


def check_printable(text):
    bad = {one for one in text if not one.isprintable() and one != "\n"}
    assert not bad, (bad, text[:2000])


def check_page(path):
    """Check a page but for its scripts' source, in which the drawing library has some codes of its own."""
    text = re.sub(r"<script>.*?</script>", "", path.read_text(), flags=re.DOTALL)
    assert len(text) > 1000
    check_printable(text.replace("\t", " "))


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Return a function that runs a command, checks all that it prints, and returns exit code and output."""
    monkeypatch.chdir(tmp_path)

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["slipstream", *map(str, words)])
        with pytest.raises(SystemExit) as ending:
            main()
        printed = capsys.readouterr()
        check_printable(printed.out)
        check_printable(printed.err)
        if ending.value.code == 2:
            (_,) = printed.err.strip("\n").split("\n")
        else:
            assert not ending.value.code, printed.err
        return ending.value.code or 0, printed.out

    return run


def renamed(data: Any, names: dict[str, str]) -> Any:
    """Return a scenario in which all that has a name has another one, whoever refers to it too."""
    if isinstance(data, dict):
        return {names.get(key, key): renamed(value, names) for key, value in data.items()}
    if isinstance(data, list):
        return [renamed(value, names) for value in data]
    return names.get(data, data) if isinstance(data, str) else data


def names_in(data: Any) -> list[str]:
    if isinstance(data, dict):
        own = [data["name"]] if isinstance(data.get("name"), str) else []
        return own + [name for value in data.values() for name in names_in(value)]
    return [name for value in data for name in names_in(value)] if isinstance(data, list) else []


def evil_scenario(family: str, evil: str) -> Any:
    data = json.loads(dump(load(f"{family}/tiny")))
    fixed = {"family", "kind", "version", *data}
    names = {name: f"{number}{evil}" for number, name in enumerate(dict.fromkeys(names_in(data))) if name not in fixed}
    return {**renamed(data, names), "name": evil, "description": evil}


@pytest.mark.parametrize("family", FAMILIES)
@brief
@given(evil=hostile)
@example(evil=EVIL)
def test_names_of_scenarios_are_printed_as_escapes(command, tmp_path, family, evil):
    (tmp_path / "evil.json").write_text(json.dumps(evil_scenario(family, evil)))
    code, _ = command("run", "evil.json", "--log", "run.parquet")
    command("run", "evil.json", "--render")
    command("compare", "evil.json", "--episodes", "1", "--policies", FAMILIES[family].default_policy)
    _, shown = command("scenarios", "evil.json")
    if code == 0:
        assert load(json.loads(shown)).name == evil
        command("report", "run.parquet", "--out", "page.html", "--perfetto", "trace.json")
        check_page(tmp_path / "page.html")
        _, told = command("run", "evil.json", "--json")
        json.loads(told)


def test_an_evil_scenario_is_one_that_runs(command, tmp_path):
    ran = []
    for family in FAMILIES:
        (tmp_path / "evil.json").write_text(json.dumps(evil_scenario(family, EVIL)))
        code, output = command("run", "evil.json")
        ran.append(code == 0 and "evil.json" in output)
    assert all(ran)


@brief
@given(evil=hostile)
@example(evil=EVIL)
def test_what_is_wrong_with_arguments_is_told_in_one_printable_line(command, evil):
    evil = evil.replace("\0", "")
    assert command("run", f"no{evil}.json")[0] == 2
    assert command("run", "edge/tiny", "--policy", f"no{evil}")[0] == 2
    assert command("compare", "edge/tiny", "--policies", f"edf,no{evil}")[0] == 2
    assert command("run", "edge/tiny", f"--no{evil}")[0] == 2
    assert command(f"no{evil}")[0] == 2
    assert command("report", f"no{evil}.parquet")[0] == 2
    assert command("train", "edge/tiny", "--out", "x", "--set", f"no{evil}=1")[0] == 2
    assert command("library", "list", "--library", f"no{evil}")[0] == 2


@brief
@given(evil=hostile)
@example(evil=EVIL)
def test_names_of_files_are_printed_as_escapes(command, tmp_path, evil):
    name = evil.replace("\0", "").replace("/", "")
    try:
        name.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        return  # no file can have such a name
    command("run", "edge/tiny", "--policy", "edf", "--log", f"a{name}.parquet")
    command("report", f"a{name}.parquet", "--out", f"a{name}.html")
    command("generate", "edge", "--force", "--out", f"a{name}.json")
    command("run", f"a{name}.json")
    command("compare", f"a{name}.json", "--policies", "edf", "--episodes", "1")
    command("import", "log", f"a{name}.parquet", "--force", "--out", f"b{name}.json")
    assert len(list(tmp_path.glob("a*"))) >= 3


def test_what_a_policy_says_of_itself_is_printed_as_escapes(command, tmp_path):
    name = "evil" + EVIL.replace("/", "").replace("\0", "")
    folder = shutil.copytree(shipped("edge")["learned-heavy"], tmp_path / name)
    card = json.loads((folder / "policy.json").read_text())
    card |= {"scenario": EVIL, "algorithm": EVIL, "command": EVIL}
    (folder / "policy.json").write_text(json.dumps(card))
    assert command("run", "edge/tiny", "--policy", name, "--log", "run.parquet")[0] == 0
    assert command("compare", "edge/tiny", "--policies", f"edf,{name}", "--episodes", "1")[0] == 0
    assert command("report", "run.parquet", "--out", "page.html")[0] == 0
    check_page(tmp_path / "page.html")


@given(evil=hostile)
@settings(deadline=None, database=None, derandomize=True)
@example(evil=EVIL)
def test_a_console_prints_printable_text_only(evil):
    for terminal in (False, True):
        written = io.StringIO()
        console = PlainConsole(file=written, force_terminal=terminal, color_system=None, width=200)
        table = PlainTable("name", title=evil)
        table.add_row(evil)
        for shown in (evil, table, Text(evil), f"{evil}: {evil}"):
            console.print(shown)
        with console.status(evil):
            console.print("working")
        text = written.getvalue()
        for code in ("\x1b[?25l", "\x1b[?25h", "\x1b[2K", "\r", "\x1b[1A", "\x1b[1B"):  # those of the status itself
            text = text.replace(code, "") if terminal else text
        check_printable(text)


def test_square_brackets_are_no_markup():
    written = io.StringIO()
    console = PlainConsole(file=written, width=100)
    with pytest.raises(MarkupError):
        console.print("a [/x] b", markup=True)
    console.print("a [/x] [bold]b[/bold] :smile:")
    assert written.getvalue() == "a [/x] [bold]b[/bold] :smile:\n"
