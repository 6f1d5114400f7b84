"""Settings from files: dataclasses from JSON data, with a one-line error for the first wrong value."""

from __future__ import annotations

import types
import typing
from collections.abc import Mapping
from dataclasses import is_dataclass
from typing import Any, Literal

from slipstream.errors import InputError
from slipstream.files.inputs import show


def parse_settings(kind: Any, data: Any, label: str) -> Any:
    """Return an object of the dataclass `kind` from JSON-ready data; errors begin with `label`."""
    if not is_dataclass(kind):
        return _value(kind, data, label)
    if not isinstance(data, Mapping):
        raise InputError(f"{label}: expected an object")
    hints = typing.get_type_hints(kind)
    unknown = sorted(set(data) - set(hints))
    if unknown:
        raise InputError(f"{label}: unknown keys {', '.join(unknown)}: expected {', '.join(hints)}")
    parsed = {}
    for key, value in data.items():
        absent = value is None and type(None) in typing.get_args(hints[key])
        parsed[key] = None if absent else parse_settings(bare_type(hints[key]), value, f"{label}.{key}")
    assert isinstance(kind, type)
    try:
        return kind(**parsed)
    except InputError as error:
        raise InputError(f"{label}: {error}") from None


def _value(kind: Any, data: Any, label: str) -> Any:
    """Return a JSON value as the type `kind` of a setting."""
    if typing.get_origin(kind) is tuple:
        if isinstance(data, list) and all(isinstance(one, str) for one in data):
            return tuple(data)
        raise InputError(f"{label}: expected a list of texts, got {show(data)}")
    if typing.get_origin(kind) is Literal:
        choices = typing.get_args(kind)
        if not isinstance(data, str) or data not in choices:
            raise InputError(f"{label}: expected {' or '.join(map(repr, choices))}, got {show(data)}")
        return data
    kinds, expected = _EXPECTED_TYPES[kind]
    if type(data) not in kinds:
        raise InputError(f"{label}: expected {expected}, got {show(data)}")
    return data


_EXPECTED_TYPES: dict[Any, tuple[tuple[type, ...], str]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
}


def bare_type(hint: Any) -> Any:
    """Return a type without `| None`."""
    if typing.get_origin(hint) in (typing.Union, types.UnionType):
        return next(one for one in typing.get_args(hint) if one is not type(None))
    return hint
