"""Search space of a sweep: settings, their values, and checks."""

from __future__ import annotations

import difflib
import math
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

from slipstream.errors import InputError
from slipstream.learn.settings import TrainSettings

GRIDS: Mapping[str, tuple[float, ...]] = {
    "ppo.clip_range": (0.05, 0.1, 0.2, 0.3, 0.5),
    "ppo.vf_coef": (0.1, 0.25, 0.5, 1.0, 2.0),
    "ppo.ent_coef": (0.0, 0.001, 0.003, 0.01, 0.03),
    "ppo.learning_rate": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "n_steps": (32, 64, 128, 256, 512),
}
"""Default search space: settings, and the values of each beside its default."""

FIXED = ("seed", "steps")
"""Settings that every training of a sweep shares, or that it enumerates."""


@dataclass(frozen=True)
class Parameter:
    """Parameter of the search space: a setting and its values, which include the default."""

    name: str
    default: Any
    values: tuple[Any, ...]


def make_search_space(
    base: TrainSettings, names: Iterable[str] | None, grids: Mapping[str, Sequence[Any]]
) -> list[Parameter]:
    """Return the parameters of a search around the settings `base`.

    `names` are settings with their usual values (`GRIDS`), `grids` settings with values of their own, as text or as
    they are. With neither, the search space is all of `GRIDS`.
    """
    chosen: dict[str, Sequence[Any]] = {}
    for name in names if names is not None else () if grids else GRIDS:
        if name not in GRIDS and name not in grids:
            setting_value(base, name)
            raise InputError(f"sweep: no usual values for '{name}': expected them, as in --knob {name}=VALUE,VALUE")
        chosen[name] = GRIDS.get(name, ())
    chosen.update(grids)
    if not chosen:
        raise InputError(f"sweep: no settings: expected some of {', '.join(GRIDS)}")
    return [_parameter(base, name, values) for name, values in chosen.items()]


def setting_value(settings: TrainSettings, name: str) -> Any:
    """Return the value of the setting `name`; 'ppo.clip_range' names one within a part."""
    known = dict(_settings(settings))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
        raise InputError(f"sweep: unknown setting '{name}': {hint}")
    return known[name]


def format_value(value: Any) -> str:
    """Return a value as written in tables, figures and folder names."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


def _settings(part: Any, before: str = "") -> typing.Iterator[tuple[str, Any]]:
    """Yield name and value of every setting that can be searched."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from _settings(value, f"{before}{field.name}.")
        elif not isinstance(value, tuple) and before + field.name not in FIXED:
            yield before + field.name, value


def _parameter(base: TrainSettings, name: str, texts: Sequence[Any]) -> Parameter:
    default = setting_value(base, name)
    part = name.partition(".")[0]
    if part in ("ppo", "reinforce") and part != base.algo:
        raise InputError(f"sweep: {name} means nothing to {base.algo}: expected a setting of {base.algo}")
    values = list(dict.fromkeys([default, *(_value(base, name, text) for text in texts)]))
    if len(values) == 1:
        raise InputError(f"sweep: {name} has no value beside its default, {format_value(default)}: expected some")
    if all(isinstance(value, int | float) for value in values):
        values.sort()
    return Parameter(name, default, tuple(values))


def _value(base: TrainSettings, name: str, text: Any) -> Any:
    """Return `text` as a value of the setting `name`, or raise an InputError."""
    options = _options(base, name)
    if options and format_value(text) not in options:
        raise InputError(f"sweep: {name} is '{text}': expected one of {', '.join(options)}")
    value = setting_value(base.with_changes({name: None if text == "none" else text}), name)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"sweep: {name} is '{text}': expected a finite number")
    if isinstance(value, int | float) and value < 0:
        raise InputError(f"sweep: {name} is '{text}': expected at least 0")
    return value


def _options(base: TrainSettings, name: str) -> tuple[str, ...]:
    """Return the texts that a setting of few values accepts, else nothing."""
    part: Any = base
    *parts, last = name.split(".")
    for one in parts:
        part = getattr(part, one)
    hint = typing.get_type_hints(type(part))[last]
    if hint is bool:
        return ("true", "false")
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
