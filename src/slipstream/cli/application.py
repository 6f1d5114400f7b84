"""The commands of `slipstream`, and the exit code of each."""

from __future__ import annotations

import errno
import os
import sys
import warnings
from contextlib import suppress
from types import ModuleType
from typing import Annotated, cast

import typer

import slipstream
from slipstream import interrupts
from slipstream.cli import (
    bench,
    compare,
    dashboard,
    demo,
    doctor,
    execute,
    generate,
    importing,
    library,
    oracle,
    policies,
    profile,
    report,
    run,
    scenarios,
    schema,
    sweep,
    train,
    twin,
    validate,
)
from slipstream.cli.common import BAD_INPUT, errors
from slipstream.cli.compiling import compiler_progress
from slipstream.cli.help_text import HELP_NAMES, Group
from slipstream.cli.outputs import remove_empty_folders
from slipstream.errors import InputError, unwritable

app = typer.Typer(
    name="slipstream",
    cls=Group,
    context_settings=HELP_NAMES,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


REFUSALS = {getattr(errno, name) for name in ("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EACCES", "EPERM", "EIO")}
"""Errors of a write that the user can mend: a full or read-only disk, no permission, an I/O error."""
Misuse: type[Exception] = typer.BadParameter.__bases__[0]
"""Base class of the errors of option parsing; typer exports only one of its subclasses."""


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"slipstream {slipstream.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Decide what deep-learning work runs next on which accelerator: simulate, compare and train schedulers.

    Example: slipstream compare edge/heavy
    """


PANELS: dict[str, dict[str, ModuleType]] = {
    "Simulate and compare": {"demo": demo, "run": run, "compare": compare, "oracle": oracle, "bench": bench},
    "Train": {"train": train, "sweep": sweep, "library": library},
    "Real machine": {"profile": profile, "execute": execute, "validate": validate, "twin": twin},
    "Results": {"report": report, "dashboard": dashboard},
    "Scenarios and policies": {
        **{"scenarios": scenarios, "policies": policies, "schema": schema},
        **{"generate": generate, "import": importing},
    },
    "Installation": {"doctor": doctor},
}
"""Commands and groups of commands, by the panel of the help that lists them."""

for _panel, _commands in PANELS.items():
    for _name, _module in _commands.items():
        if hasattr(_module, "app"):
            app.add_typer(_module.app, name=_name, rich_help_panel=_panel)
        else:
            app.command(rich_help_panel=_panel)(getattr(_module, _name))


def _report_unwritable(error: OSError) -> None:
    """Print which file could not be written; if it was standard output, discard the rest, also at exit."""
    target = error.filename or "standard output"
    if not error.filename:
        with suppress(OSError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    errors.print(
        f"error: {target}: cannot be written ({unwritable(error)}): expected a writable place",
        soft_wrap=True,
        markup=False,
    )


def _report_misuse(error: typer.BadParameter) -> None:
    """Print which option or argument is wrong; a command group without a command has printed its help already."""
    text, command = " ".join(error.format_message().split()), error.ctx.command_path if error.ctx else "slipstream"
    if text:
        line = f"error: {command}: {text[0].lower()}{text[1:].rstrip('.')}: see `{command} --help`"
        errors.print(line, soft_wrap=True, markup=False)


def run_command() -> int:
    """Run the command of `sys.argv`; bad input is reported in one line on standard error.

    Returns:
        The exit code.
    """
    # Hashes wrap around. Compiled code does so silently; under NUMBA_DISABLE_JIT numpy would warn.
    warnings.filterwarnings("ignore", "overflow encountered", RuntimeWarning, r"slipstream\.sim\.kernel\.rng")
    try:
        with compiler_progress(errors):
            return int(app(standalone_mode=False) or 0)
    except (Misuse, InputError, OSError) as error:
        if interrupts.received() is not None:
            raise  # the signal ended the command; the error is its consequence
        return _report(error)
    finally:
        remove_empty_folders()


def _report(error: Exception) -> int:
    """Print `error` in one line on standard error; return the exit code."""
    if isinstance(error, InputError):
        errors.print(f"error: {error}", soft_wrap=True, markup=False)
    elif isinstance(error, OSError):
        if isinstance(error, BrokenPipeError):
            # The reader of standard output has closed it (`slipstream ... | head`).
            sys.stderr.close()
            return 0
        if error.errno in (errno.EMFILE, errno.ENFILE):
            errors.print(f"error: {unwritable(error)}: expected a higher limit (`ulimit -n`)", soft_wrap=True)
            return BAD_INPUT
        if error.errno not in REFUSALS:
            raise error
        _report_unwritable(error)
    else:
        _report_misuse(cast(typer.BadParameter, error))
    return BAD_INPUT
