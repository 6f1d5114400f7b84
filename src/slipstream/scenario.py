"""Loading and validation of scenarios: built-in names, JSON files and dictionaries, with one-line errors."""

from __future__ import annotations

import difflib
import json
import os
import re
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.json_schema import models_json_schema

from slipstream.errors import InputError, ScenarioError, one_line
from slipstream.families.contract import FAMILIES, Scenario, ScenarioLike
from slipstream.families.shared.digest import digest as digest  # read from here by those above
from slipstream.files.inputs import (
    LARGEST_JSON_BYTES,
    check_values,
    error_at,
    parse_json,
    read_bytes,
    show,
)
from slipstream.files.validation import check, describe_error, validated

_CONTROL_CHARACTERS = re.compile("[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")


def load(source: ScenarioLike, folder: Path | None = None) -> Scenario:
    """Return the scenario of `source`: a built-in name, a JSON file, a dictionary, or a scenario object itself.

    A string that is the name of a built-in, such as 'edge/heavy', is that built-in; any other string is a path.
    Relative paths inside a scenario start at the folder of its file; for a dictionary at `folder`, or at the working
    directory.

    Raises:
        ScenarioError: One line: the file or name, the path of the value, what is wrong and what was expected.
    """
    if isinstance(source, dict):
        return _check(source, "scenario", folder or Path.cwd())
    if isinstance(source, str) and source in builtin_names():
        return _load_builtin(source)
    if isinstance(source, str | Path):
        return _load_file(Path(source), str(source) or "''")
    if isinstance(source, tuple(family.scenario_type for family in FAMILIES.values())):
        return source
    kind = type(source).__name__
    raise ScenarioError(
        f"scenario: expected a built-in name, a path, a dictionary or a scenario, got an object of type {kind}"
    )


def builtin_names() -> list[str]:
    """Return the names of all built-in scenarios, such as 'edge/heavy', in alphabetical order."""
    names: list[str] = []
    for family in FAMILIES.values():
        names += [f"{family.name}/{path.stem}" for path in (family.folder / "scenarios").glob("*.json")]
    return sorted(names)


def dump(scenario: Scenario) -> str:
    """Return `scenario` as JSON text that loads to an equal scenario; fields that were not set are left out."""
    data = scenario.model_dump(mode="json", exclude_unset=True)
    text = json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    # Characters that control a terminal or reorder text are legal in names but must not be printed.
    return _CONTROL_CHARACTERS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def schema(family: str | None = None) -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario of `family`, or of any, for editors and other tools."""
    if family is not None and family not in FAMILIES:
        raise InputError(f"unknown family '{family}': expected one of {', '.join(FAMILIES)}")
    types = {name: one.scenario_type for name, one in FAMILIES.items() if family in (None, name)}
    refs, body = models_json_schema([(one, "validation") for one in types.values()])
    members = {name: refs[one, "validation"]["$ref"] for name, one in types.items()}
    definitions = body["$defs"]
    for definition in definitions.values():
        for key, field in definition.get("properties", {}).items():
            field.setdefault("description", _describe(key, field, definitions))
    dialect = "https://json-schema.org/draft/2020-12/schema"
    if family is not None:
        title = f"Slipstream scenario of the family {family}"
        return {"$schema": dialect, "title": title, "$ref": members[family], "$defs": definitions}
    return {
        "$schema": dialect,
        "title": "Slipstream scenario",
        "description": "The work that arrives, the machine it runs on, and what counts as good.",
        "oneOf": [{"$ref": ref} for ref in members.values()],
        "discriminator": {"propertyName": "family", "mapping": members},
        "$defs": definitions,
    }


def _describe(key: str, field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return a description for a field without one: that of its type, or that of `key` in every family."""
    target = field.get("$ref") or field.get("items", {}).get("$ref")
    if target:
        return str(definitions[target.removeprefix("#/$defs/")].get("description", ""))
    if key in _COMMON_KEYS:
        return _COMMON_KEYS[key]
    return f"Always '{field['const']}' here." if "const" in field else ""


_COMMON_KEYS = {
    "family": "The family of the scenario, which decides all other keys.",
    "name": "What tables and figures call it.",
    "description": "One or two sentences for people.",
}


# Reading ---------------------------------------------------------------------------------------------------------


def _load_builtin(name: str) -> Scenario:
    family, _, stem = name.partition("/")
    path = FAMILIES[family].folder / "scenarios" / f"{stem}.json"
    return _check(parse_json(path.read_bytes(), name, ScenarioError), name, path.parent)


def _load_file(path: Path, label: str) -> Scenario:
    try:
        path.stat()
    except FileNotFoundError:
        raise _error(label, "", _unknown_source(label)) from None
    except (OSError, ValueError):
        pass  # reading it raises the error
    raw = read_bytes(path, "a JSON file", ScenarioError, LARGEST_JSON_BYTES, label)
    return _check(parse_json(raw, label, ScenarioError), label, path.resolve().parent)


def parse(text: str) -> Any:
    """Return the parsed JSON of `text`, with the checks that files get.

    Raises:
        ScenarioError: One line: where the text is not JSON.
    """
    return parse_json(text.encode("utf-8", "surrogatepass"), "scenario", ScenarioError)


def problems(data: Any) -> list[tuple[str, str]]:
    """Return all errors of a scenario given as `data`: pairs of a path and a message; none if it is valid."""
    try:
        _check(data, "scenario", Path.cwd())
    except ScenarioError as error:
        if isinstance(error.__context__, ValidationError):
            found = [describe_error(one, data) for one in error.__context__.errors(include_url=False)]
            return [(one_line(path), one_line(text)) for path, text in found]
        line = str(error).removeprefix("scenario: ")
        path, separator, text = line.partition(": ")
        return [(path, text)] if separator and " " not in path else [("", line)]
    return []


def _unknown_source(label: str) -> str:
    names = builtin_names()
    near = difflib.get_close_matches(label, names, n=1)
    if near:
        return f"no such file or built-in scenario: did you mean '{near[0]}'?"
    if Path(label).suffix:
        return "no such file: expected a JSON file or the name of a built-in scenario"
    return "no such file or built-in scenario: expected a JSON file or a name that `slipstream scenarios` lists"


# Checking --------------------------------------------------------------------------------------------------------


def _check(data: Any, label: str, folder: Path) -> Scenario:
    if not isinstance(data, dict):
        raise _error(label, "", f"expected a JSON object, got {show(data)}")
    check_values(data, label, ScenarioError)
    known = ", ".join(f"'{name}'" for name in FAMILIES)
    if "family" not in data:
        raise _error(label, "family", f"this key is required: expected {known}")
    name = data["family"]
    if not isinstance(name, str) or name not in FAMILIES:
        near = difflib.get_close_matches(name, FAMILIES, n=1) if isinstance(name, str) else []
        hint = f"did you mean '{near[0]}'?" if near else f"expected one of {known}"
        raise _error(label, "family", f"unknown family {show(name)}: {hint}")
    scenario = validated(data, FAMILIES[name].scenario_type, label)
    scenario._folder = folder
    return FAMILIES[name].complete(scenario)


def changed(scenario: Scenario, change: str) -> Scenario:
    """Return `scenario` with values changed: paths of keys and indices with JSON values, separated by commas.

    Examples are 'nodes.0.count=16' and 'nodes.0.count=16,power.budget_w=9000'. A value that is not JSON is taken as
    text; one with commas goes in quotes. All changes are made before the scenario is checked.

    Raises:
        ScenarioError: One line: the changes, what is wrong and what was expected.
    """
    data = scenario.model_dump(mode="json", exclude_unset=True)
    for one in _split_changes(change):
        path, found, text = one.partition("=")
        if not found or not path.strip():
            hint = "expected a key and its value, such as nodes.0.count=16; a value with commas goes in quotes"
            raise ScenarioError(f"'{change}': {hint}")
        _set_value(data, path.strip(), _json_or_text(text), change)
    made = check(data, FAMILIES[scenario.family].scenario_type, f"'{change}'")
    made._folder = scenario._folder
    return FAMILIES[scenario.family].complete(made)


def _split_changes(text: str) -> list[str]:
    """Return the parts of `text` between commas, except those inside of quotes, lists and objects."""
    parts, depth, quote = [""], 0, ""
    for previous, character in zip(" " + text, text, strict=False):
        if quote:
            quote = "" if character == quote and previous != "\\" else quote
        elif character in "\"'" and previous in "=[{:, ":  # not an apostrophe inside of a word
            quote = character
        else:
            depth += (character in "[{") - (character in "]}")
        if character == "," and not quote and depth <= 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts


def _json_or_text(text: str) -> Any:
    """Return `text` as JSON, or as a string if it is none; single quotes around it are removed."""
    try:
        return json.loads(text)
    except ValueError:
        quoted = len(text) > 1 and text[0] == text[-1] == "'"
        return text[1:-1] if quoted else text


def _set_value(data: dict[str, Any], path: str, value: Any, change: str) -> None:
    """Set the value at `path` of `data`; a ScenarioError quotes `change`."""
    *parents, last = path.split(".")
    container: Any = data
    for step in parents:
        container = container.setdefault(step, {}) if isinstance(container, dict) else _item(container, step, change)
    if isinstance(container, dict):
        container[last] = value
    else:
        _item(container, last, change)
        container[int(last)] = value


def moved(scenario: Scenario, folder: Path) -> Scenario:
    """Return `scenario` with the relative paths of its files starting at `folder`, to be written there."""

    def with_paths(data: Any) -> Any:
        if isinstance(data, list):
            return [with_paths(one) for one in data]
        if not isinstance(data, dict):
            return data
        found = {key: with_paths(value) for key, value in data.items()}
        path = found.get("path")
        if isinstance(path, str) and not Path(path).is_absolute():
            found["path"] = os.path.relpath(scenario._folder / path, folder)
        return found

    data = with_paths(scenario.model_dump(mode="json", exclude_unset=True))
    made = validated(data, FAMILIES[scenario.family].scenario_type, "scenario")
    made._folder = folder
    return made


def _item(items: Any, index: str, change: str) -> Any:
    """Return the item of a list at `index`; raise a ScenarioError that quotes `change` if there is none."""
    if not isinstance(items, list) or not index.isdigit() or int(index) >= len(items):
        expected = f"an index from 0 to {len(items) - 1}" if isinstance(items, list) else "a key of an object"
        raise ScenarioError(f"'{change}': no '{index}' there: expected {expected}")
    return items[int(index)]


def _error(label: str, path: str, text: str, more: str = "") -> InputError:
    return error_at(ScenarioError, label, path, text, more)
