"""Executor on a Ray cluster: Ray schedules the tasks, moves the data, and retries the tasks of dead workers."""

from __future__ import annotations

import os
import uuid
from collections import OrderedDict, deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from slipstream import __version__
from slipstream.errors import InputError
from slipstream.jit.cache_folder import code_digest
from slipstream.scale.executor import Item, Result

try:
    import ray
    from ray import cloudpickle
    from ray.exceptions import RayError, RayTaskError
except ImportError:
    raise InputError("--ray needs ray: run `pip install 'slipstream[ray]'`") from None

RETRIES = 20
"""Retries of a task whose worker or node died; a task that fails more often is itself at fault."""
IN_FLIGHT_PER_WORKER = 2
"""Tasks per worker that run or are queued, so that no worker idles."""
CACHED_FUNCTIONS = 4

_functions: OrderedDict[str, Callable[[Any], Any]] = OrderedDict()
"""Functions that this worker has unpickled, with what they cache for their next item."""


def _same_code() -> tuple[str, str]:
    """Return version and kernel hash, which must be equal on all machines."""
    return __version__, code_digest()


def _apply(name: str, sent: list[Any], item: Any) -> Any:
    """Apply the function `name`, pickled in `sent`, to `item` in a worker."""
    if name not in _functions:
        # Unpickled here, its arrays are writable; those that Ray unpickles are not.
        _functions[name] = cloudpickle.loads(ray.get(sent[0]))
        while len(_functions) > CACHED_FUNCTIONS:
            _functions.popitem(last=False)
    return _functions[name](item)


class RayExecutor:
    """Workers of a Ray cluster, one for each of its CPUs."""

    def __init__(self, address: str, cpus: int | None = None) -> None:
        """Connect to the cluster at `address`: 'local' starts one on this machine, 'auto' finds the one that runs here.

        A started cluster has `cpus` CPUs, by default all of the machine.
        """
        os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no telemetry
        try:
            own = {"include_dashboard": False, "num_cpus": cpus} if address == "local" else {}
            ray.init(address=address, log_to_driver=False, logging_level="error", **own)
        except (ConnectionError, RuntimeError, ValueError, OSError) as error:
            reason = str(error).split("\n")[0].rstrip(".")
            raise InputError(
                f"--ray {address}: no cluster answers ({reason}): expected 'local', 'auto' or HOST:PORT"
            ) from None
        self._task = ray.remote(num_cpus=1, max_retries=RETRIES)(_apply)
        there = ray.get(ray.remote(_same_code).remote())
        if there != _same_code():
            self.close()
            raise InputError(
                f"--ray {address}: slipstream {there[0]} with kernels {there[1]} runs there: expected the same code "
                f"as here, {__version__} with kernels {_same_code()[1]}"
            )

    @property
    def workers(self) -> int:
        """Present number of CPUs of the cluster."""
        return max(1, int(ray.cluster_resources().get("CPU", 1)))

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of `work` for every item, in their order; an error of a task is raised here."""
        name, sent = uuid.uuid4().hex, [ray.put(cloudpickle.dumps(work))]
        pending: deque[Any] = deque()
        in_flight = IN_FLIGHT_PER_WORKER * self.workers
        for item in items:
            pending.append(self._task.remote(name, sent, item))
            if len(pending) >= in_flight:
                yield self._result(pending.popleft())
        while pending:
            yield self._result(pending.popleft())

    def _result(self, reference: Any) -> Any:
        try:
            return ray.get(reference)
        except RayTaskError as error:
            raise error.cause from None
        except RayError as error:
            reason = str(error).split("\n")[0]
            raise InputError(f"--ray: a task failed on {RETRIES + 1} workers ({reason})") from None

    def close(self) -> None:
        """Disconnect from the cluster; stop it if it was started here."""
        ray.shutdown()
