"""Digest of a scenario: results of equal digests are comparable."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from slipstream.families.contract import Scenario


def digest(scenario: Scenario) -> str:
    """Return the SHA-256 in hex of everything that can change results, equal for equivalent spellings.

    Defaults are filled in, names of built-in data are replaced by the data where the family's `resolved()` does so,
    and the scenario's own name and description are left out.
    """
    resolve = getattr(scenario, "resolved", None)
    data = dict(resolve() if resolve is not None else scenario.model_dump(mode="json"))
    data.pop("name", None)
    data.pop("description", None)
    text = json.dumps(data, sort_keys=True, separators=(",", ":"), allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()
