"""Planners: shares of time for all jobs, and the rounds that bring every job its share, as in Gavel.

A planner computes shares when jobs have come or gone, at most every 32 minutes. In each round a job's claim to GPUs is
its share divided by the time it has had them since: kinds are filled one after another, greatest claims first.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import numpy as np

from slipstream.families.elastic import features as f
from slipstream.families.elastic.programs import Columns

LEAST_TIME_S = 1920.0
"""Least time between two computations of shares; 32 minutes, as in Gavel's simulator."""
UNSEEN = 1e9
"""Claim of a job that has a share and no time yet, in multiples of the share."""
NANOSECONDS = 1e9

Program = Callable[[Columns], np.ndarray]
Key = tuple[int, int]
"""Job and configuration."""


class Board:
    """The rows of a round's first decision: all unfinished jobs with all their configurations."""

    def __init__(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> None:
        found = rows[:-1][mask[:-1] == 1]
        self.may_wait = mask[-1] == 1
        self.now = float(global_row[f.TIME]) / NANOSECONDS
        self.length = float(global_row[f.ROUND]) / NANOSECONDS
        self.numbers, job = np.unique(found[:, f.NUMBER].astype(np.int64), return_inverse=True)
        self.keys: list[Key] = list(
            zip(found[:, f.NUMBER].astype(int).tolist(), found[:, f.CONFIGURATION].astype(int).tolist(), strict=True)
        )
        first = np.unique(job, return_index=True)[1]
        kind = found[:, f.KIND].astype(np.int64)
        capacity = np.zeros(int(kind.max()) + 1)
        capacity[kind] = found[:, f.FREE]
        self.ran = dict(zip(self.numbers.tolist(), (found[first, f.RAN] / NANOSECONDS).tolist(), strict=True))
        self.columns = Columns(
            job=job,
            kind=kind,
            gpus=found[:, f.GPUS].astype(np.int64),
            rate=found[:, f.RATE].copy(),
            capacity=capacity,
            weight=found[first, f.WEIGHT].copy(),
            left=found[first, f.LEFT].copy(),
            age=found[first, f.AGE] / NANOSECONDS,
            alone=np.zeros(len(self.numbers)),
        )


class TimeSlicing:
    """A policy that computes shares of time by a program, and allocates GPUs so that every job gets its own."""

    def __init__(self, name: str, description: str, program: Program) -> None:
        self.name = name
        self.family = "elastic"
        self.description = description
        self._program = program
        self._restart()

    def _restart(self) -> None:
        """Forget the last episode."""
        self._round = -1.0
        self._plan: dict[int, int] = {}
        """Configuration of each job in the round that begins."""
        self._shares: dict[Key, float] = {}
        self._computed = 0.0
        self._known: set[int] = set()
        """Jobs that were there in the last round."""
        self._stale = False
        self._time: dict[Key, float] = {}
        """Time that each job had each configuration since shares were computed, and half a round."""
        self._deficit: dict[Key, float] = {}
        self._ran: dict[int, float] = {}
        """Time that each job had run by the last round."""
        self._alone: dict[int, float] = {}
        self._before: dict[int, tuple[float, float]] = {}
        """Work left and isolated throughput of each job when shares were computed."""

    def choose(self, global_row: np.ndarray, rows: np.ndarray, mask: np.ndarray) -> int:
        """Return the next row of the allocation; at its first decision the allocation is computed."""
        began = float(global_row[f.BEGAN])
        placed = global_row[f.PLACED] != 0.0
        # Another episode, or one that other decisions brought into the middle of a round.
        if began < self._round or (began == 0.0 and not placed) or (began > self._round and placed):
            self._restart()
        if began != self._round:
            self._round = began
            self._plan = self._allocate(Board(global_row, rows, mask))
        for row in np.flatnonzero(mask[:-1]).tolist():
            if self._plan.get(int(rows[row, f.NUMBER])) == int(rows[row, f.CONFIGURATION]):
                return int(row)
        last = len(mask) - 1
        return last if mask[last] else int(np.flatnonzero(mask)[0])

    # A round

    def _allocate(self, board: Board) -> dict[int, int]:
        self._account(board)
        since = board.now - self._computed
        if self._stale and (since >= LEAST_TIME_S or self._computed == 0.0):
            self._renew(board, since)
        plan = self._fill(board)
        if not plan and not board.may_wait:
            self._renew(board, since)
            plan = self._fill(board)
        return plan

    def _renew(self, board: Board, since: float) -> None:
        """Compute all shares, and begin to count what jobs have had."""
        self._settle(board, since)
        self._shares = dict(zip(board.keys, self._compute(board).tolist(), strict=True))
        self._computed, self._stale = board.now, False

    def _account(self, board: Board) -> None:
        """Add the time of the last round to what jobs have had; note who has come and gone."""
        present = set(board.numbers.tolist())
        for number in present & self._known:
            if number in self._plan:
                self._time[number, self._plan[number]] += board.ran[number] - self._ran[number]
        for number in self._known - present:
            self._forget(number)
        for key in board.keys:
            # Those of a job that has come; after a first round that had begun, also those that it could not have.
            if key not in self._time:
                self._time[key], self._deficit[key] = board.length / 2.0, 0.0
        self._stale = self._stale or present != self._known
        self._known, self._ran = present, board.ran

    def _forget(self, number: int) -> None:
        """Remove a job that has ended."""
        for kept in (self._time, self._deficit, self._shares):
            for key in [key for key in kept if key[0] == number]:
                del kept[key]

    def _settle(self, board: Board, since: float) -> None:
        """Note what each job had too little of, and begin to count anew."""
        for key in board.keys:
            due = self._shares.get(key, 0.0) * since
            self._deficit[key] += due - (self._time[key] - board.length / 2.0)
            self._time[key] = board.length / 2.0

    def _compute(self, board: Board) -> np.ndarray:
        """Return the shares of all columns."""
        columns, isolated = board.columns, board.columns.isolated()
        for index, number in enumerate(board.numbers.tolist()):
            if number in self._before:
                left, rate = self._before[number]
                done = left - float(columns.left[index])
                self._alone[number] = self._alone.get(number, 0.0) + done / rate
            self._before[number] = float(columns.left[index]), float(isolated[index])
            columns.alone[index] = self._alone.get(number, 0.0)
        return self._program(columns)

    def _claim(self, key: Key) -> tuple[float, float, float]:
        """Return the claim of a job to a configuration, and what decides among equal ones."""
        share = self._shares.get(key, 0.0)
        time = self._time[key]
        return (share / time if time > 0.0 else share * UNSEEN), self._deficit[key], share

    def _admits(self, key: Key) -> bool:
        """Return whether a job may have a configuration; also without a claim, so that no GPU is idle."""
        return True

    def _fill(self, board: Board) -> dict[int, int]:
        """Return the configuration of each job: kinds one after another, greatest claims first, whatever fits."""
        columns, plan = board.columns, dict[int, int]()
        seen = {number for number, _ in self._shares}
        taken: set[int] = set()
        for kind, gpus in enumerate(columns.capacity.tolist()):
            own = np.flatnonzero(columns.kind == kind).tolist()
            own.sort(key=lambda column: self._claim(board.keys[column]), reverse=True)
            free = gpus
            for column in own:
                number, configuration = board.keys[column]
                if number in taken or columns.gpus[column] > free or not self._admits((number, configuration)):
                    continue
                free -= columns.gpus[column]
                taken.add(number)
                # A job that came after shares were computed has a place in the order, and waits.
                if number in seen:
                    plan[number] = configuration
        return plan


def no_shares(columns: Columns) -> np.ndarray:
    """Return shares of 0."""
    return np.zeros(len(columns.job))


class GavelFifo(TimeSlicing):
    """First come, first served, where a job stays on the kind that it was given; as published, slips included.

    A generator with a fixed seed draws which of the kinds that fit leaves the list when it is full; the job is given
    the last kind of the list. The list has the kinds of the scenario from the last to the first: by name in Gavel,
    where k80, p100 and v100 are slower and faster ones.
    """

    def __init__(self, name: str, description: str) -> None:
        super().__init__(name, description, no_shares)

    def _restart(self) -> None:
        super()._restart()
        self._random = random.Random(0)
        self._kind: dict[int, int] = {}

    def _admits(self, key: Key) -> bool:
        return self._shares.get(key, 0.0) > 0.0

    def _compute(self, board: Board) -> np.ndarray:
        columns = board.columns
        where = {
            (number, int(kind)): column
            for column, (number, kind) in enumerate(
                zip(board.numbers[columns.job].tolist(), columns.kind.tolist(), strict=True)
            )
        }
        size = dict(zip(board.numbers.tolist(), columns.size.tolist(), strict=True))
        free = columns.capacity.tolist()
        queue = [number for number in board.numbers.tolist() if number not in self._kind]
        for number in sorted(self._kind):
            kind = self._kind[number]
            if number in size:
                free[kind] -= size[number]
                continue
            if queue and size[queue[0]] <= free[kind] and (queue[0], kind) in where:
                successor = queue.pop(0)
                self._kind[successor] = kind
                free[kind] -= size[successor]
            del self._kind[number]
        self._admit(queue, size, free, where)
        x = np.zeros(len(columns.job))
        for number, kind in self._kind.items():
            x[where[number, kind]] = 1.0
        return x

    def _admit(self, queue: list[int], size: dict[int, float], free: list[float], where: dict[Key, int]) -> None:
        """Give kinds to the jobs of the queue, until the first fits nowhere."""
        listed = [kind for kind in reversed(range(len(free))) if free[kind] > 0]
        while queue and listed:
            number = queue.pop(0)
            fits = [place for place, kind in enumerate(listed) if free[kind] >= size[number]]
            if not fits:
                return
            drawn = self._random.randrange(len(fits))
            kind = listed[-1]
            if (number, kind) in where:
                self._kind[number] = kind
                free[kind] -= size[number]
                if free[kind] == 0:
                    listed.pop(fits[drawn])
