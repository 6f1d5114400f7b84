"""Rules of the published simulators of Decima, apart from ours, compiled: what differs under `compat: "decima"`.

Of measured levels of parallelism, those below five are ignored too: `workload/sources/tpch.py` leaves them out.
"""

from __future__ import annotations

from slipstream.jit.decorators import inlined


@inlined
def takes_higher_level(spec, lower_is_drawn):
    """Return whether a duration is of the higher level of parallelism; the published rules exchange the two levels.

    So there the nearer level has the smaller probability.
    """
    return lower_is_drawn == (spec.machine[0].compat != 0)


@inlined
def share_of_higher_level(spec, share):
    """Return the weight of the higher level in an expected duration; `share` is that of an interpolation."""
    return 1.0 - share if spec.machine[0].compat else share


@inlined
def asks_other_pools(spec):
    """Return whether pools other than the source are asked after it: the common one, or one that can go on.

    By the published rules they are not: idle executors of the common pool are asked only when a job arrives.
    """
    return not spec.machine[0].compat
