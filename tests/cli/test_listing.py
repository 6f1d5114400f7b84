"""Lists, filters by family, and the help of every command."""

from __future__ import annotations

import json
import re
import shlex
from collections import defaultdict

import pytest
import typer

from slipstream.cli.application import PANELS, app
from slipstream.families.contract import FAMILIES
from slipstream.policies.base import find, names
from slipstream.policies.learned import shipped
from slipstream.scenario import builtin_names


@pytest.mark.parametrize("family", FAMILIES)
def test_policies_of_a_family_are_listed_trained_ones_marked(slipstream, family):
    code, output, _ = slipstream("policies", family, "--json")
    assert code == 0
    rows = json.loads(output)
    assert {row["family"] for row in rows} == {family}
    assert {row["name"] for row in rows if row["kind"] != "trained"} == {"auto", "rollout", *names(family)}
    model_based = {row["name"] for row in rows if row["kind"] == "model-based"}
    assert model_based >= {"auto", "rollout"}
    assert (len(model_based) > 2) == (family in ("serving", "elastic"))
    assert {row["name"] for row in rows if row["kind"] == "trained"} == set(shipped(family))
    assert all(row["description"].startswith("Trained on ") for row in rows if row["kind"] == "trained")
    descriptions = {row["name"]: row["description"] for row in rows}
    if family == "edge":
        told = "Trained on edge/heavy by PPO from lookahead, with varied profile errors, interference and rates."
        assert descriptions["learned-robust"] == told
        assert descriptions["learned-heavy"] == "Trained on edge/heavy by PPO from lookahead."
    kinds = {row["kind"] for row in rows}
    assert kinds == {"heuristic", "model-based"} | ({"trained"} if shipped(family) else set())
    assert find("auto", family).name == "auto"
    assert find("rollout", family).name.startswith("rollout(")
    assert "trained" in slipstream("policies", family)[1]


def test_all_families_are_listed_without_a_filter(slipstream):
    rows = json.loads(slipstream("policies", "--json")[1])
    assert list(dict.fromkeys(row["family"] for row in rows)) == list(FAMILIES)


@pytest.mark.parametrize("family", FAMILIES)
def test_scenarios_and_schema_take_a_family(slipstream, family):
    listed = [row["name"] for row in json.loads(slipstream("scenarios", family, "--json")[1])]
    assert listed == [name for name in builtin_names() if name.startswith(f"{family}/")]
    found = json.loads(slipstream("schema", family)[1])
    model = found["$defs"][found["$ref"].removeprefix("#/$defs/")]
    assert model["properties"]["family"]["const"] == family
    whole = json.loads(slipstream("schema")[1])["$defs"]
    assert all(whole[name] == definition for name, definition in found["$defs"].items())


@pytest.mark.parametrize("command", ["policies", "schema"])
def test_an_unknown_family_is_refused_in_one_line(slipstream, command):
    code, output, error = slipstream(command, "egde")
    assert (code, output) == (2, "")
    assert error == f"error: unknown family 'egde': expected one of {', '.join(FAMILIES)}\n"


# Help


def commands():
    """Yield the words and the object of every command and group."""
    found = [((), typer.main.get_command(app))]
    while found:
        words, command = found.pop()
        yield words, command
        context = typer.Context(command, info_name=" ".join(("slipstream", *words)))
        for name in getattr(command, "list_commands", lambda _: ())(context):
            found.append(((*words, name), command.get_command(context, name)))


def test_every_help_has_an_example_and_no_names_of_types(slipstream):
    for words, _ in commands():
        code, output, _ = slipstream(*words, "--help")
        assert code == 0
        assert "Example: slipstream" in " ".join(output.split()), words
        assert not re.search(r"<(bool|str|text|int|float|path|list)", output), words


def test_arguments_are_named_as_in_man_pages(slipstream):
    for words, _ in commands():
        usage = re.search(r"Usage: (.+)", slipstream(*words, "--help")[1])[1]
        for word in usage.partition("[OPTIONS]")[2].split():
            assert re.fullmatch(r"\[?[A-Z|]+\]?(\.\.\.)?", word), usage
    assert "report [OPTIONS] RUN..." in slipstream("report", "--help")[1]
    assert "oracle [OPTIONS] [SCENARIO]" in slipstream("oracle", "--help")[1]


def parse(command, words):
    """Parse `words` as the command line of `command`, without running it."""
    with command.make_context(command.name, list(words)) as context:
        if hasattr(command, "list_commands"):
            name, subcommand, rest = command.resolve_command(context, [*context._protected_args, *context.args])
            assert subcommand is not None, name
            parse(subcommand, rest)


def test_every_example_of_a_help_is_a_command_line_of_that_command():
    parsed = 0
    for words, command in commands():
        if words:
            example = command.help.split("Example: slipstream ")[1].split("\n")[0].split(" > ")[0]
            assert tuple(example.split()[: len(words)]) == words
            parse(typer.main.get_command(app), shlex.split(example))
            parsed += 1
    assert parsed > 30


def test_an_example_with_an_unknown_option_would_be_found():
    with pytest.raises(Exception, match="No such option: --polcy"):
        parse(typer.main.get_command(app), ["run", "edge/heavy", "--polcy", "edf"])


def test_paragraphs_of_the_help_are_wrapped_by_the_terminal_only(slipstream, monkeypatch):
    monkeypatch.setattr("typer.rich_utils.MAX_WIDTH", 300)
    _, output, _ = slipstream("execute", "--help")
    assert "With --listen, requests arrive by POST /v1/tasks/NAME until Ctrl-C" in output


def test_a_short_flag_means_the_same_in_every_command():
    meaning = defaultdict(set)
    for _, command in commands():
        for parameter in command.params:
            long = [one for one in parameter.opts if one.startswith("--")]
            for short in set(parameter.opts) - set(long):
                if long:
                    meaning[short].add(long[0])
    synonyms = {"-p": {"--policy", "--policies"}, "-n": {"--episodes", "--runs", "--count"}}
    for short, longs in meaning.items():
        assert len(longs) == 1 or longs <= synonyms[short], (short, longs)
    assert {"-p", "-s", "-n", "-o", "-j", "-f"} <= meaning.keys()


def test_short_flags_work(slipstream):
    code, output, _ = slipstream("run", "edge/tiny", "-p", "fifo", "-s", "3", "-j")
    assert code == 0
    assert (json.loads(output)["policy"], json.loads(output)["seed"]) == ("fifo", 3)


def test_commands_are_grouped_and_the_version_is_shown(slipstream):
    _, output, _ = slipstream("-h")
    for panel, listed in PANELS.items():
        assert panel in output
        assert all(re.search(rf"^│ {name} ", output, re.MULTILINE) for name in listed)
    assert "Show the version and exit." in output
    assert re.fullmatch(r"slipstream \d+\.\d+\S*\n", slipstream("--version")[1])
