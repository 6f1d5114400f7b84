"""Options that the commands share that read or drive a Slurm cluster."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

SLURM = "Slurm"

SlurmConfigOption = Annotated[
    Path | None,
    typer.Option(
        "--slurm-conf",
        help="Configuration of the Slurm cluster; default: what Slurm's own commands use.",
        rich_help_panel=SLURM,
    ),
]
PartitionOption = Annotated[
    list[str] | None,
    typer.Option(help="Only this partition of the Slurm cluster; may be repeated.", rich_help_panel=SLURM),
]
