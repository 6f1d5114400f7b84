"""What a policy may know of the plain-Python dag machine: rows, globals, mask, window and graph."""

from __future__ import annotations

from slipstream.families.dag.scenario import JobTrace, PoissonStream
from slipstream.families.shared.schema import nanoseconds_of
from tests.reference.dag import Job, Machine, Stage
from tests.reference.numbers import stream_key, uniform

Row = dict[str, float]
COLUMNS = (
    *("tasks_left", "tasks_running", "assigned", "demand", "duration", "recent", "work", "path", "below"),
    *("can_begin", "duration_here", "stage_time", "job_work", "job_tasks", "job_stages", "job_path", "job_supply"),
    *(
        "job_local",
        "job_time",
        "jobs_before",
        "work_before",
        "job_age",
        "job_rank",
        "source",
        "count",
        "dispatch",
        "wait",
    ),
)
NOTHING: Row = dict.fromkeys(COLUMNS, 0.0)


def waiting_for(stage: Stage) -> list[Stage]:
    """Return all stages that wait for one, directly or not."""
    found: list[Stage] = []
    for child in stage.children:
        found += [one for one in (child, *waiting_for(child)) if not any(one is other for other in found)]
    return found


class ReferenceDag(Machine):
    """The machine with its raw observation; after the end `rows` and `globals` have no meaning."""

    @property
    def window(self) -> tuple[int, int, int]:
        """Room for candidates, nodes and edges."""
        templates = self.library.templates
        stages = max(len(template.stages) for template in templates)
        edges = max(len(set(template.edges)) for template in templates)
        jobs, asked = len(self.arrivals), self.scenario.window
        return (
            max(stages, min(asked.candidates, jobs * stages)),
            max(stages, min(asked.nodes, jobs * stages)),
            max(edges, min(asked.edges, jobs * edges), 1),
        )

    @property
    def width(self) -> int:
        """The W of the page."""
        return max(self.window[0], len(self.executors))

    @property
    def all_rows(self) -> int:
        """Rows that heuristics see."""
        stages = max(len(template.stages) for template in self.library.templates)
        return self.width + 1 + len(self.arrivals) * stages + 1

    def stop_rows(self) -> tuple[int, int]:
        return self.width, self.all_rows - 1

    # The window

    def edges_of(self, job: Job) -> list[tuple[Stage, Stage]]:
        return [(stage, child) for stage in job.open_stages for child in stage.children]

    def shown(self) -> list[Job]:
        """Return the jobs in the window, by arrival."""
        listed = self.stages_to_choose()
        sizes = {
            job.number: (sum(owner is job for owner, _ in listed), len(job.open_stages), len(self.edges_of(job)))
            for job in self.active
        }
        room = list(self.window)
        if all(sum(size[kind] for size in sizes.values()) <= room[kind] for kind in range(3)):
            return self.active
        assert self.source is not None
        waiting, taken = list(self.active), []
        for turn in range(len(waiting)):
            own = [job for job in waiting if job is self.source[0]]
            if turn == 0 and own:
                job = own[0]
            elif turn < 2:
                job = waiting[0]
            else:
                job = min(waiting, key=lambda job: (job.work, job.number))
            waiting.remove(job)
            size = sizes[job.number]
            if all(size[kind] <= room[kind] for kind in range(3)):
                taken.append(job)
                room = [left - used for left, used in zip(room, size, strict=True)]
        return sorted(taken, key=lambda job: job.number)

    def stages_to_choose(self) -> list[tuple[Job, Stage]]:
        """Return the candidates of phase 0, also in phase 1."""
        if self.phase == 0:
            self._listed = self.candidates()
        return self._listed

    def in_two_parts(self) -> tuple[list[tuple[Job, Stage]], list[tuple[Job, Stage]]]:
        """Return the candidates in the window, and the others."""
        shown = {job.number for job in self.shown()}
        listed = self.stages_to_choose()
        inside = [pair for pair in listed if pair[0].number in shown]
        return inside, [pair for pair in listed if pair[0].number not in shown]

    def rows_of_stages(self) -> list[tuple[int, Job, Stage]]:
        inside, outside = self.in_two_parts()
        rows = [(row, *pair) for row, pair in enumerate(inside)]
        return rows + [(self.width + 1 + place, *pair) for place, pair in enumerate(outside)]

    # Rows

    def _row(self, job: Job, stage: Stage, count: int) -> Row:
        assert self.source is not None
        new = 0 if job is self.source[0] else count
        serving = max(1, stage.unfinished - stage.remaining + self.assigned(stage) + count)
        shorter = [other for other in self.active if (other.work, other.number) < (job.work, job.number)]
        longest = max(one.path for one in job.open_stages)
        return NOTHING | {
            "tasks_left": float(stage.remaining),
            "tasks_running": float(stage.unfinished - stage.remaining),
            "assigned": float(self.assigned(stage)),
            "demand": float(self.demand(stage)),
            "duration": float(stage.expected),
            "recent": float(stage.recent),
            "work": float(stage.remaining * stage.expected),
            "path": float(stage.path),
            "below": float(sum(one.tasks * one.expected for one in waiting_for(stage))),
            "can_begin": float(stage.can_begin),
            "duration_here": self._usual_time(job, stage, len(self.local(job)) + new),
            "stage_time": stage.remaining * stage.expected / serving,
            "job_work": float(job.work),
            "job_tasks": float(sum(stage.remaining for stage in job.stages)),
            "job_stages": float(len(job.open_stages)),
            "job_path": float(longest),
            "job_supply": float(self.supply(job)),
            "job_local": float(len(self.local(job))),
            "job_time": max(float(longest), job.work / max(1, self.supply(job) + new)),
            "jobs_before": float(len(shorter)),
            "work_before": float(sum(other.work for other in shorter)),
            "job_age": float(self.now - job.arrival),
            "job_rank": float(sum(other.number < job.number for other in self.active)),
            "source": float(job is self.source[0]),
            "count": float(count),
            "dispatch": 1.0,
        }

    def _usual_time(self, job: Job, stage: Stage, executors: int) -> float:
        """Return the mean time of a further task of a stage with so many executors at its job."""
        template = self.library.templates[job.template].stages[stage.number]

        def mean_at(level: int) -> int:
            measured = [own for own in template.waves if own <= level]
            waves = template.waves[max(measured) if measured else min(template.waves)]
            for samples in (waves.rest, waves.first, waves.fresh):
                if len(samples):
                    return round(sum(samples.tolist()) / len(samples))
            raise AssertionError("a stage without durations")

        levels, executors = self.library.parallelism, min(executors, len(self.executors))
        inside = min(max(executors, levels[0]), levels[-1])
        low = max(level for level in levels if level <= inside)
        high = min(level for level in levels if level >= inside)
        if low == high:
            return float(mean_at(low))
        share = (inside - low) / (high - low)
        if self.compat:
            share = 1.0 - share
        return mean_at(low) + share * (mean_at(high) - mean_at(low))

    def rows(self) -> list[Row]:
        """Return the raw observation: one row per action, by column name."""
        inside, outside = self.in_two_parts()
        if self.phase == 1:
            assert self.chosen is not None
            front = [self._row(*self.chosen, count) for count in range(1, self.most + 1)]
            behind = inside + outside
        else:
            front = [self._row(*pair, 0) for pair in inside]
            behind = outside
        back = [self._row(*pair, 0) for pair in behind]
        front += [NOTHING] * (self.width + 1 - len(front))
        back += [NOTHING] * (self.all_rows - len(front) - len(back) - 1)
        return [*front, *back, NOTHING | {"wait": 1.0}]

    def mask(self) -> list[int]:
        """Return the legal rows as 0/1."""
        legal = set(range(self.most)) if self.phase == 1 else {row for row, _, _ in self.rows_of_stages()}
        if self.phase == 0 and self.may_stop():
            legal.add(self.all_rows - 1)
        return [int(row in legal) for row in range(self.all_rows)]

    def globals(self) -> Row:
        """Return the raw observation of the whole by name."""
        assert self.source is not None
        inside, outside = self.in_two_parts()
        front = self.most if self.phase == 1 else len(inside)
        behind = len(inside) + len(outside) if self.phase == 1 else len(outside)
        busy = self.busy_time + sum(self.now - executor.began for executor in self.running())
        return {
            "time": float(self.now),
            "phase": float(self.phase),
            "committable": float(self.committable),
            "most": float(self.most) if self.phase == 1 else 0.0,
            "source_common": float(self.source[0] is None),
            "executors": float(len(self.executors)),
            "idle": float(sum(executor.doing == "idle" for executor in self.executors)),
            "moving": float(len(self.moving())),
            "active_jobs": float(len(self.active)),
            "arrived_jobs": float(len(self.jobs)),
            "candidates": float(len(inside) + len(outside)),
            "hidden_jobs": float(len(self.active) - len(self.shown())),
            "total_work": float(sum(job.work for job in self.active)),
            "mean_gap": self._mean_gap() if len(self.jobs) < len(self.arrivals) else 0.0,
            "moving_delay": float(nanoseconds_of(self.scenario.moving_delay_s)),
            "utilisation": busy / (len(self.executors) * self.now) if self.now else 0.0,
            "rows": float(self.width + 1 + behind if behind else front),
            "parameter": 0.0,
            "coin": uniform(stream_key(self.key, 0), self.choices - 1),
        }

    def _mean_gap(self) -> float:
        arrivals = self.scenario.arrivals
        if isinstance(arrivals, PoissonStream):
            return float(nanoseconds_of(arrivals.mean_gap_s))
        times = [time for time, _ in self.arrivals]
        if isinstance(arrivals, JobTrace) and len(times) > 1:
            return (times[-1] - times[0]) / (len(times) - 1)
        return 0.0

    # The graph

    def graph(self) -> tuple[list[Row], list[int], list[tuple[int, int]], list[int]]:
        """Return the nodes, the job of each, the edges, and the node of each row but the last that stops."""
        shown = self.shown()
        listed = [stage for _, stage in self.stages_to_choose()]
        nodes, jobs, places = [], [], {}
        for rank, job in enumerate(shown):
            for stage in job.open_stages:
                places[id(stage)] = len(nodes)
                row = self._row(job, stage, 0)
                names = ("tasks_left", "tasks_running", "assigned", "duration", "recent", "work", "path", "can_begin")
                chosen = {"can_be_chosen": float(any(stage is one for one in listed))}
                more = ("job_supply", "job_age", "source")
                nodes.append({n: row[n] for n in names} | chosen | {n: row[n] for n in more})
                jobs.append(rank)
        edges = [(places[id(a)], places[id(b)]) for job in shown for a, b in self.edges_of(job)]
        if self.phase == 1:
            assert self.chosen is not None
            rows = [places.get(id(self.chosen[1]), -1)] * self.most
        else:
            rows = [places[id(stage)] for _, stage in self.in_two_parts()[0]]
        return nodes, jobs, edges, rows + [-1] * (self.width + 1 - len(rows))
