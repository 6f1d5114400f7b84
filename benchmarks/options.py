"""What the benchmarks of simulators can be told."""

from __future__ import annotations

import argparse


def speed_options(about: str | None, seconds: float, lanes: int) -> argparse.ArgumentParser:
    """Return the options that every measurement of speed has; `about` is the docstring of its script."""
    parser = argparse.ArgumentParser(description=about, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--seconds", type=float, default=seconds, help="seconds per measurement")
    parser.add_argument("--lanes", type=int, default=lanes, help="lanes of the vector environments")
    return parser
