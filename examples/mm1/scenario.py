"""The scenario file of the queue."""

from typing import Literal

from slipstream.families.shared.schema import NonNegative, PositiveSeconds, ScenarioModel


class QueueScenario(ScenarioModel):
    """Jobs arrive at random and are served one at a time, each slowly or fast."""

    family: Literal["mm1"]
    horizon_s: PositiveSeconds
    """Length of an episode."""
    mean_gap_s: PositiveSeconds
    """Mean of the exponential time between two arrivals."""
    slow_s: PositiveSeconds
    """Mean of the exponential service time of a job that is served slowly."""
    fast_s: PositiveSeconds
    """The same of a job that is served fast."""
    fast_energy_j: NonNegative
    """Energy that a fast service takes; a slow one takes none. A joule costs as much as a second of waiting."""
