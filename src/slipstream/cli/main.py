"""The command line: `slipstream <command>`."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

import slipstream
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
from slipstream.errors import InputError

app = typer.Typer(
    name="slipstream",
    help="Decide what deep-learning work runs next on which accelerator: simulate and compare schedulers.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)


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


def main() -> None:
    """Run the command line; bad input ends with one line on standard error and exit code 2."""
    try:
        app()
    except InputError as error:
        errors.print(f"error: {error}", soft_wrap=True, markup=False)
        sys.exit(BAD_INPUT)
    except BrokenPipeError:
        # The reader of our output has gone (`slipstream ... | head`): nothing is left to say.
        sys.stderr.close()
        sys.exit(0)
    except KeyboardInterrupt:
        errors.print("interrupted")
        sys.exit(130)
