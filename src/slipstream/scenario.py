"""Reads and checks scenarios: built-in names, JSON files and dictionaries, with one-line errors that name the place."""

from __future__ import annotations

import difflib
import hashlib
import json
import math
from collections.abc import Callable, Iterable
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeVar, cast

from pydantic import BaseModel, ValidationError
from pydantic.json_schema import models_json_schema

from slipstream.errors import ScenarioError

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

    from slipstream.core.family import Family

Model = TypeVar("Model", bound=BaseModel)

LARGEST_FILE_BYTES = 64 * 2**20
DEEPEST_NESTING = 64
"""Levels of lists and objects inside each other; real scenarios need about six."""
LONGEST_LINE = 600
"""Characters of an error line; what exceeds it is cut, so that a hostile key cannot fill a screen."""


class Scenario(Protocol):
    """What the scenarios of all families have in common; each family's own class is in its `scenario.py`."""

    _folder: Path
    """Where relative paths inside the scenario start."""

    @property
    def family(self) -> str:
        """Name of the family, which decides all other keys."""

    @property
    def name(self) -> str:
        """What tables and figures call the scenario."""

    @property
    def description(self) -> str:
        """One or two sentences for people."""


def load(source: str | Path | dict[str, Any] | Scenario, folder: Path | None = None) -> Scenario:
    """Return the scenario a built-in name, a JSON file or a dictionary stands for; a scenario object is returned as is.

    A string that is the name of a built-in, such as 'edge/heavy', is that built-in; any other string is a path.
    Relative paths inside a scenario start at the folder of its file; for a dictionary at `folder`, or at the working
    directory.

    Raises:
        ScenarioError: One line: the file or name, the place in it, what is wrong and what was expected.
    """
    if isinstance(source, dict):
        return _check(source, "scenario", folder or Path.cwd())
    if isinstance(source, str) and source in builtin_names():
        return _load_builtin(source)
    if isinstance(source, str | Path):
        return _load_file(Path(source), str(source) or "''")
    if isinstance(source, tuple(family.scenario_type for family in _families().values())):
        return source
    kind = type(source).__name__
    raise ScenarioError(
        f"scenario: expected a built-in name, a path, a dictionary or a scenario, got an object of type {kind}"
    )


def builtin_names() -> list[str]:
    """Return the names of all built-in scenarios, such as 'edge/heavy', in alphabetical order."""
    names = []
    for family in _families().values():
        for entry in resources.files(family.scenario_package).iterdir():
            if entry.name.endswith(".json"):
                names.append(f"{family.name}/{entry.name.removesuffix('.json')}")
    return sorted(names)


def dump(scenario: Scenario) -> str:
    """Return the scenario as JSON text that loads back to the same fields; defaults that were not set are left out."""
    data = _model(scenario).model_dump(mode="json", exclude_unset=True)
    return json.dumps(data, indent=2, ensure_ascii=False, allow_nan=False) + "\n"


def digest(scenario: Scenario) -> str:
    """Return a SHA-256 in hex of everything that can change results: two spellings of the same work share it.

    Defaults are filled in, names of built-in data are replaced by the data where the family's `resolved()` does so,
    and the scenario's own name and description are left out.
    """
    resolve = getattr(scenario, "resolved", None)
    data = dict(resolve() if resolve is not None else _model(scenario).model_dump(mode="json"))
    data.pop("name", None)
    data.pop("description", None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12) of a scenario of any family, for editors and other tools."""
    families = _families()
    refs, body = models_json_schema([(family.scenario_type, "validation") for family in families.values()])
    members = {name: refs[family.scenario_type, "validation"]["$ref"] for name, family in families.items()}
    definitions = body["$defs"]
    for definition in definitions.values():
        for key, field in definition.get("properties", {}).items():
            field.setdefault("description", _describe(key, field, definitions))
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Slipstream scenario",
        "description": "The work that arrives, the machine it runs on, and what counts as good.",
        "oneOf": [{"$ref": ref} for ref in members.values()],
        "discriminator": {"propertyName": "family", "mapping": members},
        "$defs": definitions,
    }


def _describe(key: str, field: dict[str, Any], definitions: dict[str, Any]) -> str:
    """Return a sentence for a field without one of its own: what it holds, or what the key means in every family."""
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


def _families() -> dict[str, Family]:
    from slipstream.core.family import FAMILIES  # here, because the families import this package's lower layers

    return FAMILIES


def _model(scenario: Scenario) -> BaseModel:
    return cast(BaseModel, scenario)


# Reading ---------------------------------------------------------------------------------------------------------


def _load_builtin(name: str) -> Scenario:
    family, _, stem = name.partition("/")
    entry = resources.files(_families()[family].scenario_package).joinpath(f"{stem}.json")
    folder = entry.parent if isinstance(entry, Path) else Path.cwd()  # a zipped package has no folder
    return _check(_parse(entry.read_bytes(), name), name, folder)


def _load_file(path: Path, label: str) -> Scenario:
    return _check(_parse(_read(path, label, _unknown_source), label), label, path.resolve().parent)


def parse(text: str) -> Any:
    """Return what JSON text stands for, read with the care that files get.

    Raises:
        ScenarioError: One line: where the text stops being JSON.
    """
    return _parse(text.encode("utf-8", "surrogatepass"), "scenario")


def problems(data: Any) -> list[tuple[str, str]]:
    """Return all that is wrong with a scenario given as data, as places in it and sentences; none where it is right."""
    try:
        _check(data, "scenario", Path.cwd())
    except ScenarioError as error:
        if isinstance(error.__context__, ValidationError):
            return [_word(one, data) for one in error.__context__.errors(include_url=False)]
        line = str(error).removeprefix("scenario: ")
        place, separator, text = line.partition(": ")
        return [(place, text)] if separator and " " not in place else [("", line)]
    return []


def read_json(path: Path, model: type[Model]) -> Model:
    """Return a JSON file that is not a scenario, checked by its model; errors are worded like those of scenarios.

    Raises:
        ScenarioError: One line: the file, the place in it, what is wrong and what was expected.
    """
    label = str(path)
    data = _parse(_read(path, label, lambda _: "no such file: expected a JSON file"), label)
    if not isinstance(data, dict):
        raise _error(label, "", f"expected a JSON object, got {_show(data)}")
    return check(data, model, label)


def _read(path: Path, label: str, say_absent: Callable[[str], str]) -> bytes:
    try:
        with path.open("rb") as file:
            raw = file.read(LARGEST_FILE_BYTES + 1)
    except FileNotFoundError:
        raise _error(label, "", say_absent(label)) from None
    except IsADirectoryError:
        raise _error(label, "", "is a folder: expected a JSON file") from None
    except (OSError, ValueError) as problem:  # ValueError: a null character in the path
        reason = problem.strerror if isinstance(problem, OSError) else str(problem)
        raise _error(label, "", f"cannot be read ({str(reason).lower()}): expected a JSON file") from None
    if len(raw) > LARGEST_FILE_BYTES:
        limit = f"{LARGEST_FILE_BYTES >> 20} MB"
        raise _error(label, "", f"is larger than {limit}: expected a scenario, with long traces in files of their own")
    return raw


def _unknown_source(label: str) -> str:
    names = builtin_names()
    near = difflib.get_close_matches(label, names, n=1)
    if near:
        return f"no such file or built-in scenario: did you mean '{near[0]}'?"
    if Path(label).suffix:
        return "no such file: expected a JSON file or the name of a built-in scenario"
    return "no such file or built-in scenario: expected a JSON file or a name that `slipstream scenarios` lists"


def _parse(raw: bytes, label: str) -> Any:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError as problem:
        raise _error(label, "", f"is not UTF-8 text (byte {problem.start}): expected a JSON file") from None
    if not text.strip():
        raise _error(label, "", "is empty: expected a JSON object")
    try:
        return json.loads(text, object_pairs_hook=_object, parse_int=_whole_number)
    except json.JSONDecodeError as problem:
        reason = problem.msg[:1].lower() + problem.msg[1:]
        raise _error(label, "", f"is not JSON at line {problem.lineno}, column {problem.colno}: {reason}") from None
    except RecursionError:
        raise _error(label, "", f"is nested too deeply: expected at most {DEEPEST_NESTING} levels") from None


class _RepeatedKey(dict[str, Any]):
    """An object that named a key twice; found again, with its path, when the whole file is known."""

    key: str


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    data = dict(pairs)
    if len(data) == len(pairs):
        return data
    seen: set[str] = set()
    repeated = _RepeatedKey(data)
    for key, _ in pairs:
        if key in seen:
            repeated.key = key
            break
        seen.add(key)
    return repeated


def _whole_number(text: str) -> int | float:
    # Beyond the range of float64, where Python also refuses to convert very long texts.
    return int(text) if len(text) <= 300 else float(text)


# Checking --------------------------------------------------------------------------------------------------------


def _check(data: Any, label: str, folder: Path) -> Scenario:
    if not isinstance(data, dict):
        raise _error(label, "", f"expected a JSON object, got {_show(data)}")
    _check_values(data, label, "", 1)
    families = _families()
    known = ", ".join(f"'{name}'" for name in families)
    if "family" not in data:
        raise _error(label, "family", f"this key is required: expected {known}")
    name = data["family"]
    if not isinstance(name, str) or name not in families:
        near = difflib.get_close_matches(name, families, n=1) if isinstance(name, str) else []
        hint = f"did you mean '{near[0]}'?" if near else f"expected one of {known}"
        raise _error(label, "family", f"unknown family {_show(name)}: {hint}")
    scenario = cast(Scenario, _validated(data, families[name].scenario_type, label))
    scenario._folder = folder
    completed: Scenario = families[name].complete(scenario)
    return completed


def check(data: dict[str, Any], model: type[Model], label: str) -> Model:
    """Return the model of some data; where they do not fit, raise a ScenarioError that begins with the label."""
    _check_values(data, label, "", 1)
    return _validated(data, model, label)


def changed(scenario: Scenario, change: str) -> Scenario:
    """Return a scenario with one key set, such as 'nodes.0.count=16': a path of keys and places, and a JSON value.

    A value that is not JSON is text.

    Raises:
        ScenarioError: One line: the change, what is wrong and what was expected.
    """
    path, found, text = change.partition("=")
    if not found or not path:
        raise ScenarioError(f"'{change}': expected a key and its value, such as nodes.0.count=16")
    data = _model(scenario).model_dump(mode="json", exclude_unset=True)
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    *way, last = path.split(".")
    place: Any = data
    for step in way:
        place = place.setdefault(step, {}) if isinstance(place, dict) else _item(place, step, change)
    if isinstance(place, dict):
        place[last] = value
    else:
        _item(place, last, change)
        place[int(last)] = value
    made = check(data, type(_model(scenario)), f"'{change}'")
    made._folder = scenario._folder  # type: ignore[attr-defined]
    return cast("Scenario", made)


def _item(items: Any, place: str, change: str) -> Any:
    """Return an item of a list by its place."""
    if not isinstance(items, list) or not place.isdigit() or int(place) >= len(items):
        length = f"a place from 0 to {len(items) - 1}" if isinstance(items, list) else "a key of an object"
        raise ScenarioError(f"'{change}': no '{place}' there: expected {length}")
    return items[int(place)]


def _validated(data: dict[str, Any], model: type[Model], label: str) -> Model:
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        errors = problem.errors(include_url=False)
        path, text = _word(errors[0], data)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise _error(label, path, text, more) from None


def _check_values(data: Any, label: str, path: str, depth: int) -> None:
    """Refuse what no family can take, before the family's model sees it."""
    if depth > DEEPEST_NESTING:
        raise _error(label, "", f"is nested too deeply: expected at most {DEEPEST_NESTING} levels")
    if isinstance(data, _RepeatedKey):
        raise _error(label, path, f"the key '{data.key}' appears twice: expected it once")
    if isinstance(data, dict):
        for key, value in data.items():
            if not isinstance(key, str):
                raise _error(label, path, f"expected keys that are strings, got {_show(key)}")
            _check_values(key, label, path, depth)
            _check_values(value, label, _join(path, key), depth + 1)
    elif isinstance(data, list):
        for index, value in enumerate(data):
            _check_values(value, label, f"{path}[{index}]", depth + 1)
    elif isinstance(data, str):
        if any("\ud800" <= character <= "\udfff" for character in data):
            raise _error(label, path, f"expected valid Unicode, got {_show(data)}")
    elif isinstance(data, float | int) and not _is_finite(data):
        raise _error(label, path, f"expected a finite number (below 1.8e308 in size), got {_show(data)}")


def _is_finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # a whole number beyond float64
        return False


# Wording ---------------------------------------------------------------------------------------------------------

_WORDS = {
    "missing": "this key is required",
    "float_type": "expected a number, got {got}",
    "int_type": "expected a whole number, got {got}",
    "int_from_float": "expected a whole number, got {got}",
    "bool_type": "expected true or false, got {got}",
    "string_type": "expected a string, got {got}",
    "list_type": "expected a list, got {got}",
    "dict_type": "expected an object, got {got}",
    "model_type": "expected an object, got {got}",
    "model_attributes_type": "expected an object, got {got}",
    "literal_error": "expected {expected}, got {got}",
    "greater_than": "must be more than {gt}, got {got}",
    "greater_than_equal": "must be at least {ge}, got {got}",
    "less_than": "must be less than {lt}, got {got}",
    "less_than_equal": "must be at most {le}, got {got}",
    "string_too_short": "must have at least {min_length} characters, got {got}",
    "string_too_long": "must have at most {max_length} characters, got {got}",
    "too_short": "must have at least {min_length} items, got {actual_length}",
    "too_long": "must have at most {max_length} items, got {actual_length}",
    "union_tag_not_found": "this key is required",
}
"""Our words for the kinds of error pydantic reports; any other keeps pydantic's sentence."""


def _word(error: ErrorDetails, data: Any) -> tuple[str, str]:
    """Return the path of an error and a sentence about it."""
    kind, context = error["type"], error.get("ctx", {})
    path = _path(error["loc"], data, kind == "missing")
    if kind.startswith("union_tag"):
        discriminator = str(context["discriminator"]).strip("'")
        path = _join(path, discriminator)
        if kind == "union_tag_invalid":
            tags = str(context["expected_tags"])
            near = difflib.get_close_matches(str(context["tag"]), tags.replace("'", "").split(", "), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"expected one of {tags}"
            return path, f"unknown {discriminator} {_show(error['input'][discriminator])}: {hint}"
    if kind not in _WORDS:
        return path, error["msg"]
    values = {key: _show(value) if isinstance(value, int | float) else value for key, value in context.items()}
    text = _WORDS[kind].format(got=_show(error["input"]), **values)
    return path, text.replace("at least 1 items", "at least 1 item").replace(
        "at least 1 characters", "at least 1 character"
    )


def _path(loc: Iterable[str | int], data: Any, missing: bool) -> str:
    """Turn pydantic's location into a path of the file: its tags of union members name nothing there."""
    steps = list(loc)
    path = ""
    for position, step in enumerate(steps):
        if isinstance(step, int) and isinstance(data, list) and step < len(data):
            path, data = f"{path}[{step}]", data[step]
        elif isinstance(data, dict) and step in data:
            path, data = _join(path, str(step)), data[step]
        elif missing and position == len(steps) - 1:
            path = _join(path, str(step))
    return path


def _join(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key


def _show(value: Any) -> str:
    """Return the value as its file would spell it, shortened."""
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if isinstance(value, str):
        return f"'{value[:60]}…'" if len(value) > 60 else f"'{value}'"
    if isinstance(value, int):
        return str(value) if abs(value) < 10**30 else "a whole number of over 30 digits"
    if isinstance(value, float):
        if not math.isfinite(value):
            return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(float(value))
    return f"an object of type {type(value).__name__}"


def _error(label: str, path: str, text: str, more: str = "") -> ScenarioError:
    line = f"{label}: {path}: {text}" if path else f"{label}: {text}"
    line = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in line)
    if len(line) > LONGEST_LINE:
        line = line[: LONGEST_LINE - 1] + "…"
    return ScenarioError(line + more)
