"""Executors of independent tasks: in this process, or on a cluster.

The function is sent once; items are small and many. Results come in the order of the items, so they depend neither on
the number of workers nor on which of them died.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from slipstream.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

CONNECT_TIMEOUT_S = 10.0
"""Timeout of the first connection to a cluster; Ray itself would retry for minutes."""


class Executor(Protocol):
    """Maps a function over items."""

    @property
    def workers(self) -> int:
        """Number of items that are processed at a time."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of `work` for every item, in the order of `items`."""


class InProcess:
    """Processes items one after the other in this process."""

    workers = 1

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield the result of `work` for every item, computed lazily."""
        return map(work, items)


@contextmanager
def executor_at(address: str | None) -> Iterator[Executor]:
    """Yield an executor: in this process if `address` is None, else on Ray at 'local', 'auto' or 'HOST:PORT'."""
    if address is None:
        yield InProcess()
        return
    from slipstream.scale.ray_executor import RayExecutor

    _check_reachable(address)
    executor: Any = RayExecutor(address)
    try:
        yield executor
    finally:
        executor.close()


def _check_reachable(address: str) -> None:
    """Raise an InputError if `address` is a host and port that accepts no connection."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), CONNECT_TIMEOUT_S).close()
    except (OSError, OverflowError) as error:
        message = f"--ray {address}: no cluster answers ({error}): expected 'local', 'auto' or HOST:PORT"
        raise InputError(message) from None


def chunk_ranges(count: int, executor: Executor, each: int = 4) -> list[range]:
    """Return the indices below `count` in chunks: of one index in this process, else about `each` chunks per worker.

    Several per worker balance the load between fast and slow workers; few keep the number of messages small.
    """
    size = 1 if isinstance(executor, InProcess) else -(-count // (each * executor.workers))
    return [range(first, min(first + size, count)) for first in range(0, count, size)]
