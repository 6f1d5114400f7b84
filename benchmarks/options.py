"""Command-line options and output that the benchmarks share."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any


def speed_options(about: str | None, seconds: float, lanes: int) -> argparse.ArgumentParser:
    """Return the options that every measurement of speed has; `about` is the docstring of its script."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=seconds, help="seconds per measurement")
    parser.add_argument("--lanes", type=int, default=lanes, help="lanes of the vector environments")
    return parser


def print_figures(figures: Mapping[str, Any], as_json: bool) -> None:
    """Print the measured `figures` as JSON, or one per line."""
    if as_json:
        print(json.dumps(figures, indent=2))
        return
    width = max(len(name) for name in figures)
    for name, figure in figures.items():
        print(f"{name:{width}}  {f'{figure:,.4g}' if isinstance(figure, float) else figure}")
