"""What every surface has to hold in every family: its words, finite numbers, no sentinel, no digit cut off."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from slipstream.families.contract import FAMILIES
from slipstream.files.wording import ACRONYMS
from slipstream.scenario import load

LARGEST = 1e9
"""Above every number of a small scenario in the unit it is shown in; a time that stands for "never" is greater."""
HEX = re.compile(r"\b(?=\w*[a-f])[0-9a-f]{12,64}\b")
"""A digest."""
LONG_NUMBER = re.compile(r"\d{10,}")
EXPONENT = re.compile(r"\d[eE]\+?(?:09|[1-9]\d)\b")


@dataclass(frozen=True)
class Words:
    """The words of one family, and those of others that it must not use."""

    own: tuple[str, ...]
    """Regular expressions, of which a page has at least one each."""
    foreign: tuple[str, ...]


WORDS = {
    "edge": Words((r"streams?", r"deadlines?", r"jobs?"), (r"executors?", r"processors?", r"GPUs?")),
    "dag": Words((r"executors?", r"jobs?"), (r"deadlines?", r"streams?", r"on time", r"GPUs?")),
    "taskgraph": Words(
        (r"gpu 0|processors?", r"tasks?|graphs?"), (r"deadlines?", r"streams?", r"on time", r"executors?")
    ),
    "serving": Words((r"gpu 0|accelerators?", r"requests?", r"models?"), (r"executors?", r"streams?", r"processors?")),
    "llm": Words((r"engine \d+ seat \d+|seats?", r"requests?"), (r"executors?", r"streams?", r"processors?")),
    "elastic": Words((r"GPUs?", r"jobs?"), (r"deadlines?", r"streams?", r"on time", r"executors?")),
    "cluster": Words((r"GPUs?", r"jobs?"), (r"deadlines?", r"streams?", r"on time", r"executors?")),
}
WRONG_GRAMMAR = (
    r"\ba executor",
    r"\ba accelerator",
    r"\bstage stage",
    r"\bon time accuracy",
    r"\b1 (?:jobs|tasks|requests|episodes|policies|graphs)\b",
)


def check_family_words(family: str, text: str) -> None:
    """Check that `text` speaks of a family in its own words and of no other."""
    for word in WORDS[family].own:
        assert re.search(rf"\b(?:{word})\b", text, re.IGNORECASE), f"{family}: {word} is not in the text"
    check_no_foreign_words(family, text)


def check_no_foreign_words(family: str, text: str) -> None:
    """Check that `text` has no word that means nothing in the family, no slip of grammar, no acronym in small letters.

    Names of metrics in small letters, as in files, are no words: those with underscores, and those before a number.
    """
    for acronym in re.findall(rf"(?<![\w.-])(?:{'|'.join(ACRONYMS)})(?![\w.-])(?! +\d)", text, re.IGNORECASE):
        assert acronym.isupper(), f"{family}: {acronym}"
    for word in (*(rf"\b(?:{one})\b" for one in WORDS[family].foreign), *WRONG_GRAMMAR):
        found = re.search(f".{{0,40}}{word}.{{0,40}}", text, re.IGNORECASE)
        assert not found, f"{family}: {found[0]!r}"


def check_no_sentinel(text: str) -> None:
    """Check that no number in `text` is a sentinel, such as 4611686018.427 or 9223372036854775807."""
    plain = HEX.sub("", text).replace(",", "")
    for pattern in (LONG_NUMBER, EXPONENT):
        found = re.search(f".{{0,30}}{pattern.pattern}.{{0,10}}", plain)
        assert not found, found[0]
    assert not re.search(r"\b(?:nan|inf|infinity)\b", plain, re.IGNORECASE)


def check_numbers(data: object, place: str = "", largest: float = LARGEST) -> None:
    """Check that every number in JSON-ready `data` is finite and at most `largest`."""
    if isinstance(data, dict):
        for key, value in data.items():
            check_numbers(value, f"{place}.{key}", largest)
    elif isinstance(data, list | tuple):
        for index, value in enumerate(data):
            check_numbers(value, f"{place}[{index}]", largest)
    elif isinstance(data, float | int):
        assert math.isfinite(data), place
        assert abs(data) <= largest, f"{place} is {data}"


def visible(page: str) -> str:
    """Return the text of an HTML page: no scripts, styles or markup, single spaces."""
    bare = re.sub(r"<(script|style|head)\b.*?</\1>", " ", page, flags=re.DOTALL)
    return re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", bare))


def without_description(family: str, text: str) -> str:
    """Return `text` without the scenario's own description, whose words are the author's."""
    return text.replace(load(f"{family}/tiny").description, "")


def resources_of(family: str) -> tuple[str, ...]:
    """Return the names of the resources of the family's smallest scenario."""
    return FAMILIES[family].run_labels(load(f"{family}/tiny")).resources
