"""Families of other installed packages, found by their entry points.

A package announces a family in its `pyproject.toml`:

    [project.entry-points."slipstream.families"]
    mm1 = "mm1.family:FAMILY"
"""

from __future__ import annotations

import logging
from importlib.metadata import entry_points

from slipstream.errors import FamilyError, one_line
from slipstream.families.contract import Family, register_family

LOG = logging.getLogger(__name__)
GROUP = "slipstream.families"
"""The group of entry points."""


def register_installed_families() -> None:
    """Register the family that each entry point names; its members are imported when one of them is first needed.

    An entry point that cannot be used is reported in one line, by a warning of the log: the others do not need it.
    """
    for found in sorted(entry_points(group=GROUP)):
        try:
            family = found.load()
            if not isinstance(family, Family):
                raise FamilyError(f"expected a Family, got {type(family).__name__}")
            register_family(family, lazy=True)
        except Exception as error:  # whatever another package raises while it is imported
            LOG.warning("family '%s' of %s is left out: %s", found.name, found.value, one_line(str(error)))
