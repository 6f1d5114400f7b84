"""The worded errors of the project.

SlipstreamError
├── InputError          something the user gave us is wrong; the command line exits with 2
│   ├── ScenarioError   a scenario file or dictionary
│   ├── TraceError      an arrival trace or a recorded event log
│   ├── PolicyError     a policy name, file or object
│   ├── ModelError      a model that a device is to run, or its inputs
│   ├── DeviceError     a device that is not there, or cannot run what it is given
│   ├── LibraryError    a model library, a version in it, or a name that it does not know
│   ├── FamilyError     a family whose members are not what the contract asks for
│   └── SuiteError      the benchmark suite, or results that were handed in for it
└── LawError            an event log breaks a conservation law: a bug of ours, or a damaged log
"""

from __future__ import annotations

import os


def unwritable(error: OSError) -> str:
    """Return why a file could not be written, in the system's own words."""
    told = os.strerror(error.errno) if error.errno else str(error) or "unknown reason"
    return told.lower()


LONGEST_LINE = 1000
"""Characters of an error; what exceeds them is cut, so that a hostile name cannot fill a screen."""


def printable(text: str) -> str:
    """Return `text` with every character escaped that ends a line or is not printable.

    Controls, bidirectional marks and lone surrogates would otherwise reach terminals, pages and logs.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return `text` with all that is not printable escaped, cut to `longest` characters."""
    line = printable(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


class SlipstreamError(Exception):
    """Base of every error this package raises on purpose; its message is one printable line, whatever it quotes."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(SlipstreamError):
    """Something the user gave us is wrong: one line says what, where, and what would be right."""


class ScenarioError(InputError):
    """A scenario cannot be read."""


class TraceError(InputError):
    """A trace or an event log cannot be read."""


class PolicyError(InputError):
    """A policy is unknown or does not fit the scenario."""


class ModelError(InputError):
    """A model or its inputs cannot be read."""


class DeviceError(InputError):
    """A device is not there, or cannot run what it is given."""


class FamilyError(InputError):
    """A family does not provide what the contract of families asks for."""


class LibraryError(InputError):
    """A model library is not there or damaged, or does not hold what is asked for."""


class SuiteError(InputError):
    """The benchmark suite, or what was handed in for it, is not what it should be."""


class LawError(SlipstreamError):
    """An event log breaks a conservation law."""
