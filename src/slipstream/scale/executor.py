"""Where independent pieces of work run: in this process, or on the machines of a cluster.

Work is a callable object that is sent out once; items are small and many. What comes back comes in the order of the
items, so nothing that is computed depends on how many workers there are, or on which of them died.
"""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from slipstream.errors import InputError

Item = TypeVar("Item")
Result = TypeVar("Result")

KNOCK_S = 10.0
"""How long an address has to take a connection; Ray itself would go on asking for minutes."""


class Farm(Protocol):
    """Whoever does the work."""

    @property
    def workers(self) -> int:
        """How many pieces are worked on at a time."""

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `work` gives for every item, in their order."""


class InProcess:
    """Does one piece after the other, here."""

    workers = 1

    def map(self, work: Callable[[Item], Result], items: Sequence[Item]) -> Iterator[Result]:
        """Yield what `work` gives for every item, as soon as it is asked for."""
        return map(work, items)


@contextmanager
def farm_at(address: str | None) -> Iterator[Farm]:
    """Give this process without an address, else the Ray cluster there: 'local', 'auto' or 'HOST:PORT'."""
    if address is None:
        yield InProcess()
        return
    from slipstream.scale.ray_executor import RayFarm

    _knock(address)
    farm: Any = RayFarm(address)
    try:
        yield farm
    finally:
        farm.close()


def _knock(address: str) -> None:
    """Refuse an address of a host and a port where nobody listens."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or "/" in host:
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), KNOCK_S).close()
    except (OSError, OverflowError) as error:
        told = f"--ray {address}: no cluster answers ({error}): expected 'local', 'auto' or HOST:PORT"
        raise InputError(told) from None


def in_pieces(count: int, farm: Farm, each: int = 4) -> list[range]:
    """Return 0, 1, ... `count` - 1 in stretches: single ones in this process, else about `each` for every worker.

    Several for each, so that quick workers take over from slow ones; few, so that messages stay rare.
    """
    size = 1 if isinstance(farm, InProcess) else -(-count // (each * farm.workers))
    return [range(first, min(first + size, count)) for first in range(0, count, size)]
