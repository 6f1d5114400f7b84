"""Generality of a model: its regret on workloads of other models."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from slipstream.library.choosing import models_in_use
from slipstream.library.judging import Episodes, Judge
from slipstream.library.storage.records import Version


@dataclass(frozen=True)
class Generality:
    """Excess regret of a model over the owners of other workloads: 0 is as good as every owner."""

    gap: float | None
    """Mean over the workloads of other models; None if there are none."""
    worst: float | None
    gaps: dict[str, float]
    """By workload."""

    def to_dict(self) -> dict[str, Any]:
        """Return the generality as JSON-ready data."""
        return {"gap": self.gap, "worst": self.worst, "gaps": self.gaps}


def generality(judge: Judge, version: Version, episodes: Episodes) -> Generality:
    """Return the excess regret of `version` over the owners of the workloads that its model does not own."""
    owned = judge.store.owned()
    used = models_in_use(judge, judge.store.models()[version.model])
    own = set(owned.get(version.model, ()))
    gaps = {}
    for signature in dict.fromkeys(one for name in used for one in owned.get(name, ()) if one not in own):
        owners = [used[name] for name in used if signature in owned.get(name, ())]
        (mine, *theirs), _ = judge.regrets([version, *owners], signature, episodes)
        gaps[judge.name(signature)] = float(mine.mean()) - min(float(one.mean()) for one in theirs)
    if not gaps:
        return Generality(None, None, {})
    return Generality(float(np.mean(list(gaps.values()))), max(gaps.values()), gaps)
