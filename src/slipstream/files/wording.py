"""English wording: plurals and articles of nouns, order of names, names and units of metrics."""

from __future__ import annotations

import re

UNITS = ("ms", "s", "hz", "kwh", "mb", "kg", "w", "j")
"""Last words of a metric's name that are its unit."""
WRITTEN = {"hz": "/s", "kwh": "kWh", "mb": "MB", "w": "W", "j": "J"}
"""Units that are written otherwise than in a name."""
RATES = {"per_s": "/s", "per_h": "/h"}
"""Last two words of a metric's name that are its unit."""
ACRONYMS = ("jct", "antt", "stp", "co2", "ttft", "tpot", "itl", "e2e", "slo", "kv")
"""Words of metrics that are written in capitals."""
SILENT = ("hour", "honest")
"""Words that begin with a consonant that is not spoken."""
SPOKEN_WITH_CONSONANT = ("uni", "use", "one", "eu")
"""Beginnings with a vowel that is spoken as a consonant."""


def plural(noun: str) -> str:
    """Return the plural of a regular `noun`: "jobs", "batches", "policies"."""
    if noun.endswith(("s", "x", "ch", "sh")):
        return f"{noun}es"
    if noun.endswith("y") and noun[-2:-1] not in ("a", "e", "o", "u"):
        return f"{noun[:-1]}ies"
    return f"{noun}s"


def natural_key(name: str) -> list[tuple[int, str]]:
    """Return a key that sorts names with their numbers in order: "user 2" before "user 10"."""
    parts = re.split(r"([0-9]+)", name)  # text and digits in turn
    digits = [part.lstrip("0") for part in parts[1::2]]
    key = [(0, part) for part in parts]
    key[1::2] = [(len(part), part) for part in digits]
    return key


def counted(count: int, noun: str) -> str:
    """Return `count` and the noun in the number that goes with it: "1 job", "2,000 jobs"."""
    return f"{count:,} {noun if count == 1 else plural(noun)}"


def with_article(noun: str) -> str:
    """Return `noun` after its indefinite article: "a stream", "an executor", "a GPU"."""
    word = noun.lower()
    vowel = word.startswith(("a", "e", "i", "o", "u")) and not word.startswith(SPOKEN_WITH_CONSONANT)
    return f"{'an' if vowel or word.startswith(SILENT) else 'a'} {noun}"


def metric_words(metric: str) -> tuple[str, str]:
    """Return the name of a metric in words and its unit, empty if it has none: "makespan" and "ms"."""
    name, slash, part = metric.partition("/")
    name = name.replace("on_time", "on-time")
    name = "_".join(word.upper() if word in ACRONYMS else word for word in name.split("_"))
    for end, unit in RATES.items():
        if name.endswith(f"_{end}"):
            return name.removesuffix(f"_{end}").replace("_", " ") + slash + part, unit
    words, _, last = name.rpartition("_")
    if words and last in UNITS:
        return words.replace("_", " ") + slash + part, WRITTEN.get(last, last)
    return name.replace("_", " ") + slash + part, ""


def metric_title(metric: str) -> str:
    """Return the title of a metric's column or axis, name and unit: "makespan (ms)", "throughput (per s)"."""
    name, unit = metric_words(metric)
    return f"{name} ({unit.replace('/', 'per ')})" if unit else name
