"""Power caps measured on four GPUs: slow-down and power of each.

Means over the models and batch sizes of the Zeus traces (You et al., NSDI 2023; ml-energy/zeus, Apache-2.0), relative
to the highest power limit of each GPU. The trade-off differs much from model to model: for the V100 at 150 W, times
range from 0.89 to 1.32. `tests/cluster/test_sources.py` computes them again where the traces are at hand.
"""

from __future__ import annotations

from slipstream.families.cluster.scenario import Cap, NodeKind

MEASURED: dict[str, tuple[tuple[float, float, float], ...]] = {
    "v100": ((200, 1.031, 0.902), (175, 1.047, 0.841), (150, 1.095, 0.778), (125, 1.198, 0.710), (100, 1.405, 0.636)),
    "a40": ((225, 1.014, 0.911), (200, 1.040, 0.856), (175, 1.095, 0.813), (150, 1.313, 0.748), (125, 1.756, 0.710)),
    "rtx6000": ((200, 1.031, 0.883), (175, 1.063, 0.824), (150, 1.112, 0.762), (125, 1.220, 0.698)),
    "p100": ((200, 1.004, 0.981), (175, 1.021, 0.951), (150, 1.028, 0.905), (125, 1.058, 0.850)),
}
"""(watts, time, power), in multiples of those without a cap."""


def caps_of(kind: NodeKind) -> list[Cap]:
    """Return the power caps of a kind of node; the name of a GPU stands for its measured caps."""
    if isinstance(kind.caps, str):
        return [Cap(watts=watts, time=time, power=power) for watts, time, power in MEASURED[kind.caps]]
    return kind.caps
