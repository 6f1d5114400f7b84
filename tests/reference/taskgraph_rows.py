"""What a policy may know of the taskgraph machine, in plain Python, from docs/taskgraph-machine.md."""

from __future__ import annotations

import math

from slipstream.families.taskgraph.plans import plan
from tests.reference.numbers import stream_key, uniform
from tests.reference.taskgraph import ABSENT, ReferenceMachine, Task, Tile, Worker

Row = dict[str, float]
COLUMNS = [
    *["duration", "least", "mean", "missing", "resident", "transfer", "work_ahead", "expected_end", "best_end"],
    *["rank", "successors", "opens", "freed", "age", "place", "device", "idle", "dispatch", "wait"],
    *["path_after", "load_ahead", "overflow", "reuse"],
    *["heft", "peft", "cpop"],
]


class ReferenceTaskgraph(ReferenceMachine):
    """One episode, stopped at each choice, with all that is shown there."""

    planned: tuple[str, ...] = ()
    """Plans that were made."""
    parameter = 0.0

    # Rows

    @property
    def width(self) -> int:
        most = min(self.scenario.window.candidates, self.total * self.largest)
        return max(most, len(self.workers))

    def rows_of_choice(self) -> tuple[list[tuple[Task, Worker]], list[tuple[Task, Worker]]]:
        """Return what is shown, and what is listed behind."""
        pairs = self.pairs()
        if len(pairs) <= self.width or self.phase != 0:
            return pairs[: self.width], pairs[self.width :]
        places = list(range(len(pairs)))
        by_rank = sorted(places, key=lambda place: -self.rank(pairs[place][0]))
        first = set(by_rank[: math.ceil(self.width / 2)])
        others = [place for place in places if place not in first]
        by_bytes = sorted(others, key=lambda place: self.missing(*pairs[place]))
        shown = first | set(by_bytes[: self.width - len(first)])
        return [pairs[k] for k in places if k in shown], [pairs[k] for k in places if k not in shown]

    def chosen_pair(self, action: int) -> tuple[Task, Worker] | None:
        shown, behind = self.rows_of_choice()
        if 0 <= action < len(shown):
            return shown[action]
        place = action - self.width - 1
        return behind[place] if 0 <= place < len(behind) else None

    def is_wait(self, action: int) -> bool:
        return action in (self.width, self.all_rows - 1)

    @property
    def all_rows(self) -> int:
        return self.width + 1 + self.total * self.largest + 1

    def mask(self) -> list[int]:
        mask = [0] * self.all_rows
        if not self.over:
            shown, behind = self.rows_of_choice()
            mask[: len(shown)] = [1] * len(shown)
            mask[self.width + 1 : self.width + 1 + len(behind)] = [1] * len(behind)
            mask[-1] = int(self.may_wait())
        return mask

    def rows(self) -> list[Row]:
        empty = dict.fromkeys(COLUMNS, 0.0)
        rows = [empty] * self.all_rows
        if not self.over:
            shown, behind = self.rows_of_choice()
            for place, pair in enumerate(shown):
                rows[place] = self.row(*pair)
            for place, pair in enumerate(behind):
                rows[self.width + 1 + place] = self.row(*pair)
        rows[-1] = {**empty, "wait": 1.0}
        return rows

    def row(self, task: Task, worker: Worker) -> Row:
        children = self.visible_children(task)
        waiting = self.ready if self.phase < 2 else worker.queue
        values: dict[str, float] = {
            "duration": task.durations[worker.kind],
            "least": self.least(task),
            "mean": self.mean(task),
            "missing": self.missing(task, worker),
            "resident": sum(
                tile.size for tile in task.tiles() if not self.has_links or tile.where[worker.node] != ABSENT
            ),
            "transfer": self.transfer(task, worker),
            "work_ahead": self.work_ahead(worker, task),
            "expected_end": self.expected_end(task, worker),
            "best_end": min(self.expected_end(task, one) for one in ([worker] if self.phase == 2 else self.workers)),
            "rank": self.rank(task),
            "successors": len(children),
            "opens": sum(child.waits_for == 1 for child in children),
            "freed": self.freed(task, worker),
            "age": self.now - task.ready_at,
            "place": waiting.index(task),
            "device": worker.node > 0,
            "idle": not worker.held,
            "dispatch": 1,
            "wait": 0,
            "path_after": self.path_after(task),
            "load_ahead": self.load_ahead(worker),
            "overflow": self.overflow(task, worker),
            "reuse": sum(self.other_users(tile, task) for tile in self.absent_tiles(task, worker)),
        }
        for planner in ("heft", "peft", "cpop"):
            values[planner] = self.turns(planner, task, worker)
        return {name: float(value) for name, value in values.items()}

    # Estimates

    def least(self, task: Task) -> int:
        return min(task.durations[one.kind] for one in self.workers)

    def mean(self, task: Task) -> int:
        count = len(self.workers)
        return (sum(task.durations[worker.kind] for worker in self.workers) + count // 2) // count

    def absent_tiles(self, task: Task, worker: Worker) -> list:  # type: ignore[type-arg]
        if not self.has_links:
            return []
        return [tile for tile, reads, _ in task.accesses if reads and tile.where[worker.node] == ABSENT]

    def missing(self, task: Task, worker: Worker) -> int:
        return sum(tile.size for tile in self.absent_tiles(task, worker))

    def transfer(self, task: Task, worker: Worker) -> int:
        total = 0
        for tile in self.absent_tiles(task, worker):
            if worker.node == 0:
                total += self.link_time(1, tile)
            elif tile.where[0] != ABSENT:
                total += self.link_time(0, tile)
            elif self.has_peer:
                total += self.link_time(2, tile)
            else:
                total += self.link_time(1, tile) + self.link_time(0, tile)
        return total

    def running_left(self, worker: Worker) -> int:
        return max(0, worker.started + worker.held[0].durations[worker.kind] - self.now)

    def work_ahead(self, worker: Worker, task: Task | None = None) -> int:
        total = 0
        for place, one in enumerate(worker.held + worker.queue):
            if one is not task:
                total += self.running_left(worker) if place == 0 and worker.runs else one.durations[worker.kind]
        return total

    def expected_end(self, task: Task, worker: Worker) -> int:
        return max(self.work_ahead(worker, task), self.transfer(task, worker)) + task.durations[worker.kind]

    def visible_children(self, task: Task) -> list[Task]:
        return [child for child in task.children if child.is_visible]

    def rank(self, task: Task) -> int:
        ranks: dict[int, int] = {}
        for one in reversed(task.job.tasks[task.number :]):
            longest = max((ranks[child.number] for child in self.visible_children(one)), default=0)
            ranks[one.number] = self.mean(one) + longest
        return ranks[task.number]

    def path_after(self, task: Task) -> int:
        after: dict[int, int] = {}
        for one in reversed(task.job.tasks[task.number :]):
            children = self.visible_children(one)
            after[one.number] = max((self.least(child) + after[child.number] for child in children), default=0)
        return after[task.number]

    def load_ahead(self, worker: Worker) -> int:
        time = 0
        carried = self.devices[worker.node - 1].carries[0] if worker.node else None
        if carried is not None:
            time += int(carried[1]) - self.now
        return time + sum(self.transfer(task, worker) for task in worker.held[int(worker.runs) :])

    def overflow(self, task: Task, worker: Worker) -> int:
        if not worker.node or not self.has_links:
            return 0
        device = self.devices[worker.node - 1]
        new = sum(tile.size for tile in task.tiles() if tile.where[worker.node] == ABSENT)
        return int(max(0, device.used + new - device.capacity))

    def other_users(self, tile: Tile, task: Task) -> int:
        tasks = [one for one in tile.job.tasks if one is not task and one.is_visible and one.status != "finished"]
        return sum(tile in one.tiles() for one in tasks)

    def path_left(self) -> int:
        left = [0]
        for worker in self.workers:
            for place, task in enumerate(worker.held):
                own = self.running_left(worker) if worker.runs and place == 0 else self.least(task)
                left.append(own + self.path_after(task))
        left += [self.least(task) + self.path_after(task) for task, _ in self.pairs()]
        return max(left)

    def freed(self, task: Task, worker: Worker) -> int:
        absent = self.absent_tiles(task, worker)
        if self.phase != 0 or len(absent) != 1:
            return 0
        return sum(one.durations[worker.kind] for one in self.ready if self.absent_tiles(one, worker) == absent)

    def turns(self, planner: str, task: Task, worker: Worker) -> int:
        if planner not in self.planned:
            return -1
        template = self.library.templates.index(task.job.template)
        placed = plan(self.scenario, planner)[template]
        where, turn = placed[task.number]
        if where != worker.number:
            return -1
        if self.scenario.visibility.kind == "all":
            return max(0, turn - task.job.taken[worker.number])
        before = [one for one in task.job.tasks if placed[one.number][0] == where and placed[one.number][1] < turn]
        return sum(one.status in ("waiting", "ready", "queued") for one in before)

    # The whole

    def globals(self) -> Row:
        asked = self.asked_worker
        device = self.devices[asked.node - 1] if asked is not None and asked.node else None
        running = [worker for worker in self.workers if worker.runs]
        tasks = [task for job in self.jobs for task in job.tasks]
        visible = sum(task.is_visible and task.status != "finished" for task in tasks)
        shown, behind = self.rows_of_choice()
        values: dict[str, float] = {
            "time": self.now,
            "phase": self.phase,
            "asked": asked.number if asked is not None else self.asked_task.number if self.asked_task else 0,
            "asked_device": device is not None,
            "processors": len(self.workers),
            "devices": len(self.devices),
            "free": sum(len(worker.held) < self.scenario.pipeline for worker in self.workers),
            "running": len(running),
            "ready": len(self.ready),
            "placed": sum(len(worker.queue) for worker in self.workers),
            "active_jobs": sum(not job.is_done for job in self.jobs),
            "visible": visible,
            "hidden": visible - len(self.nodes()),
            "finished": sum(task.status == "finished" for task in tasks),
            "moving": sum(carried is not None for one in self.devices for carried in one.carries),
            "soonest": min((self.running_left(worker) for worker in running), default=0),
            "least_ahead": min(self.work_ahead(worker) for worker in self.workers),
            "memory_used": device.used / device.capacity if device is not None and device.capacity < math.inf else 0,
            "path_left": self.path_left(),
            "work_left": sum(self.least(task) for task in tasks if task.is_visible and task.status != "finished"),
            "rows": self.width + 1 + len(behind) if behind else len(shown),
            "parameter": self.parameter,
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }
        return {name: float(value) for name, value in values.items()}

    # The graph

    def nodes(self) -> list[Task]:
        room = min(self.scenario.window.nodes, self.total * self.largest)
        listed = [task for worker in self.workers for task in worker.held]
        listed += [task for worker in self.workers for task in worker.queue]
        listed += self.ready
        last = listed
        for _ in range(self.scenario.window.depth):
            found: list[Task] = []
            for task in last:
                found += [one for one in self.visible_children(task) if one not in listed and one not in found]
            listed = listed + found
            last = found
        return listed[:room]

    def graph(self) -> tuple[list[Row], list[int], list[tuple[int, int]], list[int]]:
        """Return nodes, their jobs, edges, and the node of each candidate row."""
        nodes = self.nodes()
        asked = {id(task) for task, _ in self.pairs()}
        rows = []
        for task in nodes:
            runner = next((one for one in self.workers if one.runs and one.held[0] is task), None)
            values: dict[str, float] = {
                "mean": self.mean(task),
                "least": self.least(task),
                "rank": self.rank(task),
                "successors": len(self.visible_children(task)),
                "waits_for": task.waits_for,
                "remaining": self.running_left(runner) if runner is not None else self.mean(task),
                "running": runner is not None,
                "held": task.status == "held",
                "queued": task.status == "queued",
                "ready": task.status == "ready",
                "asked": id(task) in asked,
                "bytes": sum(tile.size for tile in task.tiles()),
            }
            rows.append({name: float(value) for name, value in values.items()})
        active = [job for job in self.jobs if not job.is_done]
        most = min(self.scenario.window.edges, self.total * max(len(one.edges) for one in self.library.templates))
        edges = [(k, nodes.index(child)) for k, task in enumerate(nodes) for child in task.children if child in nodes]
        shown, _ = self.rows_of_choice()
        places = [nodes.index(task) if task in nodes else -1 for task, _ in shown]
        places += [-1] * (self.width + 1 - len(places))
        return rows, [active.index(task.job) for task in nodes], edges[: max(1, most)], places
