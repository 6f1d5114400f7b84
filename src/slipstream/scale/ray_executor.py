"""A farm on a Ray cluster: Ray places the pieces, moves the data, and repeats what a dead worker had in hand."""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slipstream import __version__
from slipstream.errors import InputError
from slipstream.jit.cache_folder import cache_key
from slipstream.scale.executor import Item, Result

try:
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise InputError("--ray needs ray: run `pip install 'slipstream[ray]'`") from None

RETRIES = 20
"""How often a piece is begun anew when the worker or node that had it died; one that kills so many is at fault."""
AHEAD = 2
"""Pieces per worker that are under way or wait for one, so that none runs dry."""
KEPT_WORKS = 4

_works: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()
"""What this worker was sent: the work stays, so what it prepared for itself serves the next piece too."""


def _same_code() -> tuple[str, str]:
    """Return what has to agree between the machines: the version, and the hash of all kernels."""
    return __version__, cache_key()


def _do(name: str, sent: list[Any], item: Any) -> Any:
    """Do one piece in a worker."""
    if name not in _works:
        # Unpacked here, its arrays can be written to: those that Ray itself hands over cannot.
        _works[name] = cloudpickle.loads(ray.get(sent[0]))
        while len(_works) > KEPT_WORKS:
            _works.popitem(last=False)
    return _works[name](item)


class RayFarm:
    """Workers of a Ray cluster, one for each of its CPUs."""

    def __init__(self, address: str, cpus: int | None = None) -> None:
        """Join the cluster at an address: 'local' starts one on this machine, 'auto' finds the one that runs here.

        One that is started has so many CPUs, by default all of the machine.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent anywhere
        try:
            own = {"include_dashboard": False, "num_cpus": cpus} if address == "local" else {}
            ray.init(address=address, log_to_driver=False, logging_level="error", **own)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise InputError(
                f"--ray {address}: no cluster answers ({reason}): expected 'local', 'auto' or HOST:PORT"
            ) from None
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(_do)
        there = ray.get(ray.remote(_same_code).remote())
        if there != _same_code():
            self.close()
            raise InputError(
                f"--ray {address}: slipstream {there[0]} with kernels {there[1]} runs there: expected the same code "
                f"as here, {__version__} with kernels {_same_code()[1]}"
            )

    @property
    def workers(self) -> int:
        """How many CPUs the cluster has now."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `work` gives for every item, in their order; an error of a piece is raised here."""
        name, sent = uuid.uuid4().hex, [ray.put(cloudpickle.dumps(work))]
        under_way: deque[Any] = deque()
        ahead = AHEAD * self.workers
        for item in items:
            under_way.append(self._task.remote(name, sent, item))
            if len(under_way) >= ahead:
                yield self._result(under_way.popleft())
        while under_way:
            yield self._result(under_way.popleft())

    def _result(self, reference: Any) -> Any:
        try:
            return ray.get(reference)
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"--ray: a piece of work failed on {RETRIES + 1} workers ({reason})") from None

    def close(self) -> None:
        """Leave the cluster; one that was started here ends."""
        ray.shutdown()
