"""What the twin's answers are called, and times in words."""

from __future__ import annotations

KIND = "slurm-twin"
"""Value of the key `kind` of the twin's JSON."""


def in_words(seconds: float) -> str:
    """Return a time such as '40 s', '12 min' or '3 h 20 min'."""
    if seconds < 90.0:
        return f"{seconds:.0f} s"
    minutes = round(seconds / 60.0)
    if minutes < 90:
        return f"{minutes} min"
    hours, minutes = divmod(minutes, 60)
    if hours < 48:
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    days, hours = divmod(round(seconds / 3600.0), 24)
    return f"{days} d {hours} h" if hours else f"{days} d"
