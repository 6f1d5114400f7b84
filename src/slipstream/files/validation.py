"""Pydantic models from JSON; the first error becomes one line with the file, the path and what was expected."""

from __future__ import annotations

import difflib
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from pydantic import BaseModel, ValidationError

from slipstream.errors import ScenarioError
from slipstream.files.inputs import check_values, error_at, join, read_object, show

if TYPE_CHECKING:
    from pydantic_core import ErrorDetails

Model = TypeVar("Model", bound=BaseModel)


def read_model(path: Path, model: type[Model]) -> Model:
    """Return the JSON file `path` as a `model`.

    Raises:
        ScenarioError: One line: the file, the path of the value, what is wrong and what was expected.
    """
    return validated(read_object(path, error=ScenarioError), model, str(path))


def check(data: dict[str, Any], model: type[Model], label: str) -> Model:
    """Return `data` as a `model` after `check_values`; error messages begin with `label`."""
    check_values(data, label, ScenarioError)
    return validated(data, model, label)


def validated(data: dict[str, Any], model: type[Model], label: str) -> Model:
    """Return `data` as a `model`; the first of pydantic's errors becomes a ScenarioError that begins with `label`."""
    try:
        return model.model_validate(data)
    except ValidationError as problem:
        errors = problem.errors(include_url=False)
        path, text = describe_error(errors[0], data)
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        raise error_at(ScenarioError, label, path, text, more) from None


SENTENCES = {
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
"""Messages by type of pydantic error; any other type keeps pydantic's message."""


def describe_error(error: ErrorDetails, data: Any) -> tuple[str, str]:
    """Return the path of a pydantic error in `data`, and its message."""
    kind, context = error["type"], error.get("ctx", {})
    path = _path(error["loc"], data, kind == "missing")
    if kind.startswith("union_tag"):
        discriminator = str(context["discriminator"]).strip("'")
        path = join(path, discriminator)
        if kind == "union_tag_invalid":
            tags = str(context["expected_tags"])
            near = difflib.get_close_matches(str(context["tag"]), tags.replace("'", "").split(", "), n=1)
            hint = f"did you mean '{near[0]}'?" if near else f"expected one of {tags}"
            return path, f"unknown {discriminator} {show(error['input'][discriminator])}: {hint}"
    if kind not in SENTENCES:
        return path, error["msg"]
    values = {key: show(value) if isinstance(value, int | float) else value for key, value in context.items()}
    text = SENTENCES[kind].format(got=show(error["input"]), **values)
    return path, text.replace("at least 1 items", "at least 1 item").replace(
        "at least 1 characters", "at least 1 character"
    )


def _path(loc: Iterable[str | int], data: Any, missing: bool) -> str:
    """Return pydantic's location `loc` as a path of the file, without the tags of union members."""
    steps = list(loc)
    path = ""
    for position, step in enumerate(steps):
        if isinstance(step, int) and isinstance(data, list) and step < len(data):
            path, data = f"{path}[{step}]", data[step]
        elif isinstance(data, dict) and step in data:
            path, data = join(path, str(step)), data[step]
        elif missing and position == len(steps) - 1:
            path = join(path, str(step))
    return path
