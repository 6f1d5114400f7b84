"""The settings that a sweep turns: which there are, which values they take, and what is refused."""

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
    "ppo.clip": (0.05, 0.1, 0.2, 0.3, 0.5),
    "ppo.value_weight": (0.1, 0.25, 0.5, 1.0, 2.0),
    "ppo.entropy_weight": (0.0, 0.001, 0.003, 0.01, 0.03),
    "ppo.learning_rate": (1e-4, 3e-4, 1e-3, 3e-3, 1e-2),
    "rollout": (32, 64, 128, 256, 512),
}
"""The knobs that are swept unless told otherwise, and the values that each is tried at, beside its default."""

FIXED = ("seed", "steps")
"""What every training of a sweep shares, or counts through."""


@dataclass(frozen=True)
class Knob:
    """A setting and the values it is tried at; the default is one of them."""

    name: str
    default: Any
    values: tuple[Any, ...]


def choose_knobs(base: TrainSettings, names: Iterable[str] | None, grids: Mapping[str, Sequence[Any]]) -> list[Knob]:
    """Return the knobs to turn around some settings.

    `names` are those to turn over their usual values (`GRIDS`), `grids` those to turn over values of one's own, as
    text or as they are. With neither, all of `GRIDS` are turned.
    """
    chosen: dict[str, Sequence[Any]] = {}
    for name in names if names is not None else () if grids else GRIDS:
        if name not in GRIDS and name not in grids:
            setting(base, name)
            raise InputError(f"sweep: no usual values for '{name}': expected them, as in --knob {name}=VALUE,VALUE")
        chosen[name] = GRIDS.get(name, ())
    chosen.update(grids)
    if not chosen:
        raise InputError(f"sweep: no knobs: expected some of {', '.join(GRIDS)}")
    return [_knob(base, name, values) for name, values in chosen.items()]


def setting(settings: TrainSettings, name: str) -> Any:
    """Return the value of a setting; 'ppo.clip' names one within a part."""
    known = dict(_settings(settings))
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"did you mean '{near[0]}'?" if near else f"expected one of {', '.join(known)}"
        raise InputError(f"sweep: unknown knob '{name}': {hint}")
    return known[name]


def told(value: Any) -> str:
    """Return a value as people write it; tables, pictures and names of folders have it so."""
    return "none" if value is None else f"{value:g}" if isinstance(value, float) else str(value).lower()


def _settings(part: Any, before: str = "") -> typing.Iterator[tuple[str, Any]]:
    """Yield the name and the value of everything that can be turned."""
    for field in fields(part):
        value = getattr(part, field.name)
        if is_dataclass(value):
            yield from _settings(value, f"{before}{field.name}.")
        elif not isinstance(value, tuple) and before + field.name not in FIXED:
            yield before + field.name, value


def _knob(base: TrainSettings, name: str, texts: Sequence[Any]) -> Knob:
    default = setting(base, name)
    part = name.partition(".")[0]
    if part in ("ppo", "reinforce") and part != base.algo:
        raise InputError(f"sweep: {name} means nothing to {base.algo}: expected a knob of {base.algo}")
    values = list(dict.fromkeys([default, *(_value(base, name, text) for text in texts)]))
    if len(values) == 1:
        raise InputError(f"sweep: {name} has no value beside its default, {told(default)}: expected some")
    if all(isinstance(value, int | float) for value in values):
        values.sort()
    return Knob(name, default, tuple(values))


def _value(base: TrainSettings, name: str, text: Any) -> Any:
    """Return a value as the setting has it, or say why it cannot."""
    options = _options(base, name)
    if options and told(text) not in options:
        raise InputError(f"sweep: {name} is '{text}': expected one of {', '.join(options)}")
    value = setting(base.with_changes({name: None if text == "none" else text}), name)
    if isinstance(value, float) and not math.isfinite(value):
        raise InputError(f"sweep: {name} is '{text}': expected a finite number")
    if isinstance(value, int | float) and value < 0:
        raise InputError(f"sweep: {name} is '{text}': expected at least 0")
    return value


def _options(base: TrainSettings, name: str) -> tuple[str, ...]:
    """Return the texts that a setting may have, where they are few; truth is a text here."""
    part: Any = base
    *parts, last = name.split(".")
    for one in parts:
        part = getattr(part, one)
    hint = typing.get_type_hints(type(part))[last]
    if hint is bool:
        return ("true", "false")
    return typing.get_args(hint) if typing.get_origin(hint) is typing.Literal else ()
