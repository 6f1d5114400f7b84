"""`slipstream generate`: seeded random scenarios, a command for each family, its options taken from its settings."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from slipstream.cli.common import JsonOption, check_seed, console, print_json, print_json_text, progress_bar
from slipstream.cli.help_text import OUTPUT, Group
from slipstream.cli.outputs import ForceOption, writable
from slipstream.files.atomic import folder_of, refuse_existing, write_files

SeedOption = Annotated[
    int,
    typer.Option(
        "--seed", "-s", help="Seed of the first scenario; scenario k uses seed + k.", min=0, callback=check_seed
    ),
]
CountOption = Annotated[int, typer.Option("--count", "-n", help="Number of scenarios.", min=1, max=1_000_000)]
OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out",
        "-o",
        help="A .json file for one scenario, a folder for several; default: standard output.",
        rich_help_panel=OUTPUT,
    ),
]
TraceOption = Annotated[
    Literal["csv", "parquet"] | None,
    typer.Option(
        help="Write the arrivals of the scenario's seed to files of this format, which the scenario refers to.",
        rich_help_panel=OUTPUT,
    ),
]


class FamilyCommands(Group):
    """Command group that builds a family's command on demand, so that other commands do not import the families."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Return the families that have a generator."""
        from slipstream.families.contract import FAMILIES

        return [name for name, family in FAMILIES.items() if family.generator is not None]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return the command of a family."""
        if cmd_name not in self.list_commands(ctx):
            return None
        single = typer.Typer(add_completion=False, pretty_exceptions_enable=False)
        single.command(cmd_name)(_command(cmd_name))
        command = typer.main.get_command(single)
        return command if ctx is None else self.tidied(command, ctx)


app = typer.Typer(cls=FamilyCommands, no_args_is_help=True)


@app.callback()
def _about() -> None:
    """Write random scenarios of a family from a seed; the same seed and options give the same files.

    Example: slipstream generate edge --seed 7 --count 5 --utilisation 1.5 --out sets
    """


def _command(family: str) -> Callable[..., None]:
    """Return a function with an option for each setting of the family's generator."""
    from slipstream.families.contract import FAMILIES
    from slipstream.families.shared.generator import option

    generator: Any = FAMILIES[family].generator

    def command(
        seed: SeedOption = 0,
        count: CountOption = 1,
        out: OutOption = None,
        trace: TraceOption = None,
        force: ForceOption = False,
        as_json: JsonOption = False,
        **settings: Any,
    ) -> None:
        _generate(family, settings, seed, count, out, trace, force, as_json)

    example = f"slipstream generate {family} --seed 7 --count 5 --out {family}-sets"
    command.__doc__ = f"Write random {family} scenarios.\n\nExample: {example}"
    own = inspect.signature(command, eval_str=True).parameters
    fixed = [parameter for parameter in own.values() if parameter.kind is not parameter.VAR_KEYWORD]
    derived = [
        inspect.Parameter(
            name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[field.annotation, typer.Option(option(name), help=_help(field))],
        )
        for name, field in generator.settings.model_fields.items()
    ]
    command.__signature__ = inspect.Signature([*fixed, *derived])  # type: ignore[attr-defined]
    command.__annotations__ = {parameter.name: parameter.annotation for parameter in [*fixed, *derived]}
    return command


def _help(field: Any) -> str:
    """Return the description and range of a setting; the pydantic model checks the range, with a one-line error."""
    limits = {key: getattr(part, key) for part in field.metadata for key in ("ge", "le") if hasattr(part, key)}
    if len(limits) != 2:
        return str(field.description)
    low, high = (f"{limits[end]:,.0f}" if limits[end] >= 1000 else f"{limits[end]:g}" for end in ("ge", "le"))
    return f"{field.description} From {low} to {high}."


def _generate(
    family: str,
    options: dict[str, Any],
    seed: int,
    count: int,
    out: Path | None,
    trace: Any,
    force: bool,
    as_json: bool,
) -> None:
    from slipstream.families.contract import FAMILIES
    from slipstream.files.validation import check
    from slipstream.scenario import dump
    from slipstream.sim.simulator import check_seed

    generator: Any = FAMILIES[family].generator
    settings = check(options, generator.settings, f"generate {family}")
    check_seed(seed + count - 1)
    targets = _targets(family, seed, count, out, trace)
    refuse_existing([path for path in targets.values() if path is not None], overwrite=force)
    files: dict[Path, bytes] = {}
    with progress_bar("generating") as progress:
        for done, (number, target) in enumerate(targets.items()):
            progress(done, count)
            scenario = generator.generate(settings, number)
            if trace is not None and target is not None:
                scenario, traces = generator.traced(scenario, number, f"{target.stem}-arrivals", trace)
                files |= {folder_of(target) / path: content for path, content in traces.items()}
            if target is None:
                print_json_text(dump(scenario))
                return
            files[target] = dump(scenario).encode()
    write_files(files, overwrite=force)
    _print_written(family, settings, targets, as_json)


def _targets(family: str, seed: int, count: int, out: Path | None, trace: Any) -> dict[int, Path | None]:
    """Return the file of each seed; None stands for standard output."""
    from slipstream.errors import InputError

    if out is None:
        if count > 1 or trace is not None:
            raise InputError("--out is missing: several scenarios, or one with traces, need files")
        return {seed: None}
    if out.suffix != ".json":
        if out.exists() and not out.is_dir():
            raise InputError(f"{out}: is a file: expected a folder, or a name that ends in .json")
        return {number: out / f"{family}-{number}.json" for number in range(seed, seed + count)}
    if count > 1:
        raise InputError(f"{out}: is one file for {count} scenarios: expected a folder")
    return {seed: writable(out)}


def _print_written(family: str, settings: Any, targets: dict[int, Path | None], as_json: bool) -> None:
    if as_json:
        from slipstream.scenario import digest, load

        files = [
            {"path": str(path), "seed": seed, "digest": digest(load(path))}
            for seed, path in targets.items()
            if path is not None
        ]
        print_json({"family": family, "settings": settings.model_dump(mode="json"), "files": files})
        return
    paths = [str(path) for path in targets.values()]
    text = paths[0] if len(paths) == 1 else f"{len(paths)} scenarios, {paths[0]} to {paths[-1]}"
    console.print(f"Written: {text}", soft_wrap=True)
