"""Groups of commands whose help names values instead of Python types, and the panels that options are listed in."""

from __future__ import annotations

from typing import Any

from typer.core import TyperArgument, TyperGroup, TyperOption

SIMULATION, OUTPUT, TRAINING, DEVICE, REQUESTS = "Simulation", "Output", "Training", "Device", "Requests"
"""Panels of options."""

HELP_NAMES = {"help_option_names": ["-h", "--help"]}
"""Settings of the application that add the short form of --help."""


class Group(TyperGroup):
    """Group of commands; flags show no type, other options what is to be given, such as PATH or N."""

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Return a command; in the context of a call, with its help tidied up."""
        command = super().get_command(ctx, cmd_name)
        return command if command is None or ctx is None else self.tidied(command, ctx)

    def tidied(self, command: Any, ctx: Any) -> Any:
        """Return `command`, whose help names the values of its options and has a line per paragraph."""
        help_option = command.get_help_option(ctx)
        options = [one for one in command.params if isinstance(one, TyperOption)]
        if options and all(one.rich_help_panel for one in options):
            help_option.rich_help_panel = OUTPUT  # else it would have a panel of its own
        for parameter in (*command.params, help_option):
            _name_value(parameter, ctx)
        paragraphs = (command.help or "").split("\n\n")
        command.help = "\n\n".join(" ".join(one.split()) for one in paragraphs)
        return command

    def get_help_option(self, ctx: Any) -> Any:
        """Return the option --help of the group itself, which is asked for before its help is printed."""
        option = super().get_help_option(ctx)
        for parameter in (*self.params, option):
            _name_value(parameter, ctx)
        return option


def _name_value(parameter: Any, ctx: Any) -> None:
    """Set the word by which the help shows the value of `parameter`, unless it has one."""
    if isinstance(parameter, TyperOption) and parameter.metavar is None:
        parameter.metavar = _value(parameter, ctx)
    elif isinstance(parameter, TyperArgument):
        # The name of an argument is its value already; its type would stand beside it.
        vars(parameter)["display_type_rich"] = lambda ctx: None
        vars(parameter)["_usage_display_name"] = lambda: _usage(parameter)


def _usage(argument: TyperArgument) -> str:
    """Return an argument as the usage line has it: as man pages write it, in brackets if it may be left out."""
    name = argument.metavar or str(argument.name).upper()
    repeated = "..." if argument.nargs != 1 else ""
    return f"{name}{repeated}" if argument.required else f"[{name}]{repeated}"


def _value(option: TyperOption, ctx: Any) -> str:
    """Return the word for the value of `option`: none for a flag, its choices, N for a number, else its name."""
    if option.is_flag:
        return ""
    kind = option.display_type(ctx).strip("<>")
    if "|" in kind:
        return kind
    if kind.startswith(("int", "float")):
        return "N"
    name = str(option.name).upper()
    return "PATH" if kind == "path" else "COLUMN" if name.endswith("_COLUMN") else name
