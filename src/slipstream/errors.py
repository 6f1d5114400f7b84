"""The error classes of the project.

SlipstreamError
├── InputError          invalid input; the command line exits with 2
│   ├── ScenarioError   a scenario file or dictionary
│   ├── TraceError      an arrival trace or a recorded event log
│   ├── PolicyError     a policy name, file or object
│   ├── ModelError      a model that a device is to run, or its inputs
│   ├── DeviceError     a device that is missing, or cannot run a model
│   ├── LibraryError    a model library, a version in it, or an unknown name
│   ├── FamilyError     a family whose members are not what the contract asks for
│   └── SuiteError      the benchmark suite, or submitted results
└── InvariantError      an event log violates an invariant: a bug of the simulator, or a damaged log
"""

from __future__ import annotations

import os


def unwritable(error: OSError) -> str:
    """Return the operating system's message for `error`, in lower case."""
    message = os.strerror(error.errno) if error.errno else str(error) or "unknown reason"
    return message.lower()


LONGEST_LINE = 1000
"""Greatest length of an error message; longer ones are cut, so that a hostile name cannot flood a terminal."""


def printable(text: str) -> str:
    """Return `text` with line ends and unprintable characters escaped.

    Controls, bidirectional marks and lone surrogates would otherwise reach terminals, pages and logs.
    """
    if text.isprintable():
        return text
    return "".join(one if one.isprintable() else one.encode("unicode_escape").decode() for one in text)


def one_line(text: str, longest: int = LONGEST_LINE) -> str:
    """Return `text` with unprintable characters escaped, cut to `longest` characters."""
    line = printable(text)
    return line if len(line) <= longest else line[: longest - 1] + "…"


class SlipstreamError(Exception):
    """Base of all errors of this package; the message is always one printable line."""

    def __init__(self, message: str = "") -> None:
        super().__init__(one_line(message))


class InputError(SlipstreamError):
    """Invalid input: one line with the place, the problem and what was expected."""


class ScenarioError(InputError):
    """A scenario cannot be read."""


class TraceError(InputError):
    """A trace or an event log cannot be read."""


class PolicyError(InputError):
    """A policy is unknown or does not fit the scenario."""


class ModelError(InputError):
    """A model or its inputs cannot be read."""


class DeviceError(InputError):
    """A device is missing, or cannot run a model."""


class FamilyError(InputError):
    """A family does not provide what the contract of families asks for."""


class LibraryError(InputError):
    """A model library is missing or damaged, or lacks a model or version."""


class SuiteError(InputError):
    """The benchmark suite or a submission is invalid."""


class InvariantError(SlipstreamError):
    """An event log violates an invariant."""
