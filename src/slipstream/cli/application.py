"""The commands of `slipstream`, and the exit code of each."""

from __future__ import annotations

import errno
import os
import sys
from contextlib import suppress
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
    validate,
)
from slipstream.cli.common import BAD_INPUT, errors
from slipstream.cli.compiling import compiler_progress
from slipstream.errors import InputError, unwritable

app = typer.Typer(
    name="slipstream",
    help="Decide what deep-learning work runs next on which accelerator: simulate and compare schedulers.",
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
    version: Annotated[bool, typer.Option("--version", callback=_version, is_eager=True, help="Print it.")] = False,
) -> None:
    """Decide what deep-learning work runs next on which accelerator: simulate and compare schedulers."""


_SIMULATED = (demo, run, compare, train, sweep, oracle)
_REAL = (profile, execute, validate)
for _module in (*_SIMULATED, *_REAL, report, dashboard, scenarios, policies, schema, doctor):
    app.command()(getattr(_module, _module.__name__.rsplit(".", 1)[1]))
app.add_typer(bench.app, name="bench")
app.add_typer(generate.app, name="generate")
app.add_typer(importing.app, name="import")
app.add_typer(library.app, name="library")


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
    try:
        with compiler_progress(errors):
            return int(app(standalone_mode=False) or 0)
    except (Misuse, InputError, OSError) as error:
        if interrupts.received() is not None:
            raise  # the signal ended the command; the error is its consequence
        return _report(error)


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
