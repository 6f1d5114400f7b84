"""The serving machine in plain Python, written from docs/serving-machine.md: slow, and easy to follow."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

from slipstream.families.serving.scenario import (
    BurstyRate,
    DiurnalRate,
    Ewma,
    ExponentialService,
    LognormalService,
    ModelVariant,
    RequestTrace,
    ServedModel,
    ServingScenario,
    SteadyRate,
)
from tests.reference.numbers import episode_key, normal, stream_key, uniform

ARRIVAL, START, FINISH, REJECT, DROP, END, READY, EVICT, MOVE = 0, 1, 2, 4, 5, 6, 8, 9, 10
LogRow = tuple[int, int, int, int, int, int]


@dataclass(eq=False)
class Request:
    model: Model
    number: int
    arrival: int
    deadline: int
    floor: float
    alarm: int | None = None


@dataclass(eq=False)
class Model:
    place: int
    number: int
    source: ServedModel
    slo: int
    keys: list[int]
    expected: float
    arrivals: list[tuple[int, int, float]]
    """Times, deadlines and floors of all requests."""
    arrived: int = 0
    members: list[Accelerator] = field(default_factory=list)
    routed: int = 0
    sampled: int = 0
    offered: int = 0
    violations: int = 0
    rate: float = 0.0
    forecast: float = 0.0
    numerator: float = 0.0
    denominator: float = 0.0
    level: float = 0.0
    trend: float = 0.0
    spread: float = 0.0

    @property
    def next_time(self) -> int | None:
        return self.arrivals[self.arrived][0] if self.arrived < len(self.arrivals) else None


@dataclass(eq=False)
class Column:
    number: int
    model: int
    variant: int
    kind: int
    largest: int
    peak: float


@dataclass(eq=False)
class Accelerator:
    number: int
    kind: int
    column: Column | None = None
    holds: int | None = None
    batch: list[Request] = field(default_factory=list)
    batch_variant: int = -1
    batch_end: int | None = None
    expected_end: int = 0
    load_end: int | None = None
    must_load: bool = False
    queue: list[Request] = field(default_factory=list)
    timer: int | None = None
    limit: int = 0
    noted: bool = False
    marked: bool = False
    alarms: list[tuple[int, Request | None]] = field(default_factory=list)

    @property
    def busy(self) -> bool:
        return self.batch_end is not None

    @property
    def can_start(self) -> bool:
        return self.column is not None and not self.busy and not self.must_load


class ReferenceMachine:
    """One episode, stopped at each choice."""

    def __init__(self, scenario: ServingScenario, seed: int, split: int = 2) -> None:
        self.scenario = scenario
        self.key = episode_key(split, seed)
        self.sizes = scenario.batch_sizes
        hosted = {one.variant for one in scenario.initial}
        self.models: list[Model] = []
        self.variants: list[tuple[int, ModelVariant]] = []
        for number, source in enumerate(scenario.models):
            if source.arrivals is not None or any(variant.name in hosted for variant in source.variants):
                self._add_model(number, source)
        self.kinds = scenario.accelerators
        if scenario.compat != "proteus":
            self.kinds = sorted(self.kinds, key=lambda kind: kind.name)
        self.columns = self._find_columns()
        self.accelerators: list[Accelerator] = []
        for kind, sort in enumerate(self.kinds):
            for _ in range(sort.count):
                self.accelerators.append(Accelerator(len(self.accelerators), kind))
        self.now = 0
        self.choices = 0
        self.log: list[LogRow] = []
        self.terminated = self.truncated = self.illegal = False
        self.moves = self.plans = 0
        self.planning = False
        self.pending: Request | None = None
        self.gained, self.failed, self.switched = 0.0, 0, 0
        self.terms: dict[str, float] = {}
        self.reward, self.elapsed, self.began = 0.0, 0, 0
        for one in scenario.initial:
            kind = [sort.name for sort in self.kinds].index(one.accelerator)
            variant = [variant.name for _, variant in self.variants].index(one.variant)
            column = next(c for c in self.columns if (c.kind, c.variant) == (kind, variant))
            for _ in range(one.count):
                self.host(column)
        self.next_sample = round(scenario.forecast.sample_s * 1e9)
        self.next_plan = 0
        self.run()

    # What is given

    def _add_model(self, number: int, source: ServedModel) -> None:
        keys = [stream_key(self.key, 1 + 8 * number + k) for k in range(5)]
        slo = round(source.slo_ms * 1e6)
        model = Model(len(self.models), number, source, slo, keys, 0.0, [])
        model.arrivals = list(self._requests(model))
        expected = source.expected_rate_hz
        model.expected = self._mean_rate(model) if expected is None else expected
        model.rate = model.forecast = model.level = model.expected
        self.models.append(model)
        self.variants += [(model.place, variant) for variant in source.variants]

    def _segments(self, source: ServedModel) -> list[tuple[float, float]]:
        """Return the rate per second and the end of each segment."""
        arrivals = source.arrivals
        assert arrivals is not None
        assert not isinstance(arrivals, RequestTrace)
        duration = float(round((self.scenario.duration_s or 0.0) * 1e9))
        if isinstance(arrivals, SteadyRate):
            return [(arrivals.rate_hz, duration)]
        if isinstance(arrivals, DiurnalRate):
            period = round(arrivals.period_s * 1e9)
            length = period / 96
        else:
            length = float(round((arrivals.switch_s if isinstance(arrivals, BurstyRate) else arrivals.step_s) * 1e9))
        segments = []
        for place in range(math.ceil(duration / length)):
            if isinstance(arrivals, DiurnalRate):
                middle = (place + 0.5) * length + round(arrivals.phase_s * 1e9)
                swing = (1.0 - math.cos(2.0 * math.pi * middle / period)) / 2.0
                rate = arrivals.low_hz + (arrivals.peak_hz - arrivals.low_hz) * swing
            elif isinstance(arrivals, BurstyRate):
                rate = arrivals.high_hz if place % 2 else arrivals.low_hz
            else:
                assert arrivals.rates_hz is not None
                rate = arrivals.rates_hz[place % len(arrivals.rates_hz)] * arrivals.scale
            segments.append((rate, min((place + 1) * length, duration)))
        return segments

    def _requests(self, model: Model):  # type: ignore[no-untyped-def]
        """Yield time, deadline and floor of a model's requests."""
        arrivals, floor = model.source.arrivals, model.source.accuracy_floor
        if arrivals is None:
            return
        if isinstance(arrivals, RequestTrace):
            assert arrivals.times_ms is not None
            for time_ms in arrivals.times_ms:
                time = round(time_ms * arrivals.stretch * 1e6)
                yield time, time + model.slo, floor
            return
        law = arrivals.kind if isinstance(arrivals, SteadyRate) else arrivals.gaps
        segments = self._segments(model.source)
        time, place, number = 0.0, 0, 0
        while True:
            gap = self._gap(model, law, arrivals.shape, number)
            while place < len(segments):
                rate, end = segments[place][0] / 1e9, segments[place][1]
                if gap <= rate * (end - time) and rate > 0.0:
                    break
                gap -= rate * (end - time)
                time = end
                place += 1
            else:
                return
            time += gap / rate
            yield math.ceil(time), math.ceil(time) + model.slo, floor
            number += 1

    def _gap(self, model: Model, law: str, shape: float, number: int) -> float:
        if law == "even":
            return 1.0
        if law == "poisson":
            return -math.log(uniform(model.keys[0], number))
        b = shape + 1.0 if shape < 1.0 else shape
        d = b - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        value = d
        for attempt in range(32 * number, 32 * number + 32):
            x = normal(model.keys[0], attempt)
            v = (1.0 + c * x) * (1.0 + c * x) * (1.0 + c * x)
            u = uniform(model.keys[1], attempt)
            if v > 0.0 and math.log(u) < 0.5 * x * x + d - d * v + d * math.log(v):
                value = d * v
                break
        if shape < 1.0:
            value *= math.pow(uniform(model.keys[2], number), 1.0 / shape)
        return value / shape

    def _mean_rate(self, model: Model) -> float:
        arrivals = model.source.arrivals
        if arrivals is None:
            return 0.0
        if isinstance(arrivals, RequestTrace):
            last = model.arrivals[-1][0]
            return len(model.arrivals) * 1e9 / last if last > 0 else 0.0
        total, before = 0.0, 0.0
        segments = self._segments(model.source)
        for rate, end in segments:
            total += rate * (end - before)
            before = end
        return total / before

    def service(self, kind: int, variant: int, requests: int) -> int:
        """Return the time of so many requests together, 0 if it cannot be."""
        times = self.variants[variant][1].latency_ms.get(self.kinds[kind].name, [])
        for size, latency in zip(self.sizes, times, strict=False):
            if size >= requests:
                return round(latency * 1e6)
        return 0

    def _find_columns(self) -> list[Column]:
        columns: list[Column] = []
        for number, (model, variant) in enumerate(self.variants):
            for kind, sort in enumerate(self.kinds):
                limit = self.scenario.slo_share * self.models[model].slo
                fits = sort.memory_mb is None or variant.memory_mb <= sort.memory_mb
                possible = [s for s in self.sizes if fits and 0 < self.service(kind, number, s) < limit]
                if possible:
                    peak = max(possible) * 1e9 / self.service(kind, number, max(possible))
                    columns.append(Column(len(columns), model, number, kind, max(possible), peak))
        return columns

    # Running

    @property
    def over(self) -> bool:
        return self.terminated

    @property
    def asked(self) -> int:
        if self.over:
            return -1
        return self.pending.model.place if self.pending is not None else 0

    def write(self, kind: int, task: int, job: int, variant: int, resource: int) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))

    def next_event(self) -> tuple[int, int, int] | None:
        """Return time, kind and number of the next event."""
        events: list[tuple[int, int, int]] = []
        for a in self.accelerators:
            if a.batch_end is not None:
                events.append((a.batch_end, 1, a.number))
            elif a.load_end is not None:
                events.append((a.load_end, 1, a.number))
            if a.timer is not None:
                events.append((a.timer, 2, a.number))
            if a.alarms:
                events.append((max(self.now, min(time for time, _ in a.alarms)), 2, a.number))
        to_come = [(model.next_time, 5, model.place) for model in self.models if model.next_time is not None]
        if to_come:
            events.append((self.next_sample, 3, 0))
            if self.scenario.mode == "plan":
                events.append((self.next_plan, 4, 0))
        events += to_come  # type: ignore[arg-type]
        return min(events) if events else None

    def run(self) -> None:
        """Go on to the next choice or the end."""
        while not self.planning and self.pending is None:
            event = self.next_event()
            if event is None:
                self.failed += sum(len(a.queue) for a in self.accelerators)
                self.terminated = True
                self.write(END, -1, -1, -1, -1)
                break
            self.now = event[0]
            self.happen(event[1], event[2])
        else:
            self.choices += 1
        weights = self.scenario.reward
        self.terms = {"accuracy": self.gained, "violations": float(self.failed), "switches": float(self.switched)}
        cost = weights.violations * self.failed + weights.switches * self.switched
        self.reward = weights.accuracy * self.gained - cost
        self.elapsed = self.now - self.began

    def happen(self, kind: int, number: int) -> None:
        if kind == 1:
            self.end_of(self.accelerators[number])
        elif kind == 2:
            accelerator = self.accelerators[number]
            if self.scenario.compat == "proteus":
                self.ring(accelerator)
            else:
                self.consider(accelerator)
        elif kind == 3:
            self.sample()
            self.next_sample += round(self.scenario.forecast.sample_s * 1e9)
        elif kind == 4:
            self.planning = True
            self.moves = self.scenario.planning.moves
            self.next_plan += round(self.scenario.planning.interval_s * 1e9)
        else:
            self.arrive(self.models[number])

    def step(self, action: int) -> None:
        """Take the action at the present choice and go on."""
        self.began = self.now
        if self.choices > 1:
            self.gained, self.failed, self.switched = 0.0, 0, 0
        legal = self.mask()
        allowed = 0 <= action < len(legal) - 1 and legal[action] == 1
        self.illegal = not allowed and action != len(legal) - 1
        if self.pending is not None:
            request, self.pending = self.pending, None
            if allowed:
                self.join(request.model.members[action], request)
            else:
                self.give_up(request)
        elif allowed:
            column = self.columns[action // 2]
            if action % 2 == 0:
                self.host(column)
            else:
                self.free(column)
            self.moves -= 1
            if self.moves == 0:
                self.end_plan()
        else:
            self.end_plan()
        self.run()

    def end_plan(self) -> None:
        self.planning = False
        self.plans += 1
        for model in self.models:
            model.offered = model.violations = 0

    def mask(self) -> list[int]:
        if self.scenario.mode == "route":
            rows = min(self.scenario.rows, len(self.accelerators))
            members = 0 if self.pending is None else min(rows, len(self.pending.model.members))
            return [1] * members + [0] * (rows - members) + [0 if self.over else 1]
        mask = []
        for column in self.columns:
            mask.append(
                int(self.planning and any(a.column is None and a.kind == column.kind for a in self.accelerators))
            )
            mask.append(int(self.planning and any(a.column is column for a in self.accelerators)))
        return [*mask, int(self.planning)]

    # Requests

    def arrive(self, model: Model) -> None:
        time, deadline, floor = model.arrivals[model.arrived]
        request = Request(model, model.arrived, time, deadline, floor)
        model.arrived += 1
        model.sampled += 1
        model.offered += 1
        self.write(ARRIVAL, model.place, request.number, -1, -1)
        if self.scenario.mode == "route" and model.members:
            self.pending = request
        else:
            self.send(request)

    def send(self, request: Request) -> None:
        """Route a request."""
        if request.model.members:
            self.join(self.choose(request), request)
        else:
            self.turn_away(request)

    def turn_away(self, request: Request) -> None:
        request.model.violations += 1
        self.failed += 1
        self.write(REJECT, request.model.place, request.number, -1, -1)

    def give_up(self, request: Request) -> None:
        request.model.violations += 1
        self.failed += 1
        self.write(DROP, request.model.place, request.number, -1, -1)

    def join(self, a: Accelerator, request: Request) -> None:
        if len(a.batch) + len(a.queue) >= self.scenario.queue:
            self.turn_away(request)
            return
        request.alarm = None
        a.queue.append(request)
        if self.scenario.compat == "proteus":
            self.joined(a, request)
        elif a.can_start:
            self.consider(a)

    def expected_finish(self, a: Accelerator) -> int:
        assert a.column is not None
        largest, waiting = a.column.largest, len(a.queue)
        ready = a.expected_end
        if a.must_load:
            load = round(self.variants[a.column.variant][1].load_s * 1e9)
            ready = a.load_end if a.load_end is not None else a.expected_end + load
        batches = (waiting // largest) * self.service(a.kind, a.column.variant, largest)
        return max(self.now, ready) + batches + self.service(a.kind, a.column.variant, waiting % largest + 1)

    def choose(self, request: Request) -> Accelerator:
        members, routing = request.model.members, self.scenario.routing
        request.model.routed += 1
        luck = uniform(request.model.keys[4], request.number)
        if routing == "random":
            return members[int(luck * len(members))]
        if routing == "round-robin":
            return members[(request.model.routed - 1) % len(members)]
        if routing == "infaas":
            enough = [a for a in members if self.accuracy(a) >= request.floor]
            best = max(self.accuracy(a) for a in members)
            among = enough or [a for a in members if self.accuracy(a) == best]
            return min(among, key=lambda a: (len(a.queue) + 1) / a.column.peak)  # type: ignore[union-attr]
        if routing == "weighted":
            peaks = [a.column.peak for a in members]  # type: ignore[union-attr]
            total = 0.0
            for peak in peaks:
                total += peak
            target, running = luck * total, 0.0
            for a, peak in zip(members, peaks, strict=True):
                running += peak
                if running > target:
                    return a
            return members[-1]
        if routing == "lft":
            timely = [a for a in members if self.expected_finish(a) <= request.deadline]
            if timely:
                return max(timely, key=self.expected_finish)
        return min(members, key=self.expected_finish)

    def accuracy(self, a: Accelerator) -> float:
        assert a.column is not None
        return self.variants[a.column.variant][1].accuracy

    # Batches

    def fill(self, a: Accelerator, requests: int) -> int:
        assert a.column is not None
        largest = a.column.largest
        return max(size for size in self.sizes if size == 1 or (size <= requests and size <= largest))

    def time_of(self, a: Accelerator, requests: int) -> int:
        assert a.column is not None
        return self.service(a.kind, a.column.variant, requests)

    def is_given_up(self, a: Accelerator, head: Request) -> bool:
        drop = self.scenario.drop
        if drop == "expired":
            return self.now > head.deadline
        if drop == "hopeless":
            return self.now + self.time_of(a, 1) > head.deadline
        if drop == "crowded":
            assert a.column is not None
            size = a.column.largest if len(a.queue) > a.column.largest else 1
            return self.now + self.time_of(a, size) > head.deadline
        if drop == "batch":
            return self.now + self.time_of(a, self.fill(a, len(a.queue))) > head.deadline
        if drop == "twice-deadline":
            return self.now > head.arrival + 2 * (head.deadline - head.arrival)
        return False

    def consider(self, a: Accelerator) -> None:
        assert a.column is not None
        a.timer = None
        while a.queue and self.is_given_up(a, a.queue[0]):
            self.give_up(a.queue.pop(0))
        if not a.queue:
            return
        batching, largest, waiting = self.scenario.batching, a.column.largest, len(a.queue)
        if batching == "none":
            self.start(a, 1, 1)
        elif batching == "aimd":
            size = min(waiting, self.sizes[a.limit], largest)
            self.start(a, size, size)
        elif batching == "deadline-aware":
            size = self.best_batch(a)
            self.start(a, size, size)
        elif waiting >= largest:
            self.start(a, largest, largest)
        else:
            size = self.fill(a, waiting)
            latest = a.queue[0].deadline - self.time_of(a, size if batching == "accscale" else largest)
            if self.now >= latest:
                self.start(a, size, size)
            else:
                a.timer = latest

    def best_batch(self, a: Accelerator) -> int:
        assert a.column is not None
        most = min(len(a.queue), a.column.largest)
        best = None
        for size in sorted({*(size for size in self.sizes if size <= most), most}):
            earliest = min(request.deadline for request in a.queue[:size])
            time = self.time_of(a, size)
            if self.now + time <= earliest and (best is None or size * self.time_of(a, best) >= best * time):
                best = size
        return most if best is None else best

    def start(self, a: Accelerator, requests: int, size: int) -> None:
        assert a.column is not None
        expected = self.time_of(a, size)
        a.batch, a.queue = a.queue[:requests], a.queue[requests:]
        a.batch_variant = a.column.variant
        first, service = a.batch[0], self.scenario.service
        time, key = expected, first.model.keys[3]
        if isinstance(service, ExponentialService):
            time = max(1, math.ceil(expected * -math.log(uniform(key, first.number))))
        elif isinstance(service, LognormalService):
            s = math.sqrt(math.log(1.0 + service.cv**2))
            time = max(1, math.ceil(expected * math.exp(s * normal(key, first.number) - 0.5 * s * s)))
        a.expected_end = self.now + expected
        a.batch_end = self.now + time
        for request in a.batch:
            self.write(START, request.model.place, request.number, a.batch_variant, a.number)

    def end_of(self, a: Accelerator) -> None:
        """Let a batch or a load end."""
        if a.busy:
            late = self.finish_batch(a)
            if self.scenario.batching == "aimd" and self.scenario.compat == "strict" and a.column is not None:
                self.move_limit(a, len(a.batch), late)
            a.batch, a.batch_end = [], None
            if a.must_load:
                self.begin_load(a)
                return
        else:
            self.is_ready(a)
        if a.column is None:
            return
        if self.scenario.compat == "proteus":
            self.idle_again(a)
        else:
            self.consider(a)

    def finish_batch(self, a: Accelerator) -> bool:
        late = False
        for request in a.batch:
            self.write(FINISH, request.model.place, request.number, a.batch_variant, a.number)
            if self.now <= request.deadline:
                self.gained += self.variants[a.batch_variant][1].accuracy / 100.0
            else:
                late = True
                request.model.violations += 1
                self.failed += 1
        return late

    def move_limit(self, a: Accelerator, requests: int, late: bool) -> None:
        assert a.column is not None
        if a.column.variant != a.batch_variant:
            return
        size = self.sizes[a.limit]
        if late:
            a.limit = max(0, a.limit - 1)
        elif requests == size and size < a.column.largest:
            a.limit += 1

    # The rules of Proteus

    def process(self, a: Accelerator, size: int) -> None:
        assert a.column is not None
        kept = []
        for request in a.queue:
            if self.now > request.arrival + 2 * (request.deadline - request.arrival):
                self.give_up(request)
            else:
                kept.append(request)
        a.queue = kept
        size = min(size, a.column.largest)
        if not a.queue:
            return
        self.start(a, min(size, len(a.queue)), size)
        if self.scenario.batching == "accscale":
            self.watch(a)
        elif self.scenario.batching == "aimd":
            late = any(a.expected_end > request.deadline for request in a.batch)
            a.limit = max(0, a.limit - 1) if late else min(len(self.sizes) - 1, a.limit + 1)

    def set_alarm(self, a: Accelerator, time: int, request: Request | None) -> None:
        if len(a.alarms) < 8 * self.scenario.queue:
            a.alarms.append((time, request))

    def watch(self, a: Accelerator) -> None:
        if a.queue:
            head = a.queue[0]
            time = head.deadline - self.time_of(a, self.fill(a, len(a.queue)))
            if head.alarm != time:
                head.alarm = time
                self.set_alarm(a, time, head)

    def drop_heads(self, a: Accelerator) -> None:
        while a.queue and self.now + self.time_of(a, self.fill(a, len(a.queue))) > a.queue[0].deadline:
            self.give_up(a.queue.pop(0))

    def joined(self, a: Accelerator, request: Request) -> None:
        assert a.column is not None
        batching, largest = self.scenario.batching, a.column.largest
        if not a.can_start:
            if batching == "accscale":
                self.watch(a)
            elif batching == "nexus" and not a.marked:
                a.marked = True
                room = request.deadline - request.arrival
                self.set_alarm(a, self.now + room - self.time_of(a, largest), None)
        elif batching == "accscale":
            self.drop_heads(a)
            if a.queue:
                self.watch(a)
                if self.now >= a.queue[0].deadline - self.time_of(a, self.fill(a, len(a.queue))):
                    fewer = len(a.queue) - 1
                    self.process(a, self.fill(a, fewer) if fewer else self.sizes[-1])
        elif batching == "aimd":
            if len(a.queue) >= self.sizes[a.limit]:
                self.process(a, self.sizes[a.limit])
        elif len(a.queue) >= largest:
            self.process(a, largest)

    def idle_again(self, a: Accelerator) -> None:
        assert a.column is not None
        if not a.queue:
            return
        batching, largest, waiting = self.scenario.batching, a.column.largest, len(a.queue)
        if batching == "accscale":
            if a.noted:
                a.noted = False
                self.process(a, self.fill(a, waiting))
            elif waiting > largest:
                self.process(a, largest)
        elif batching == "aimd":
            if waiting >= self.sizes[a.limit]:
                self.process(a, self.sizes[a.limit])
        elif waiting >= largest:
            a.marked = False
            self.process(a, largest)
        else:
            a.marked = True
            room = a.queue[0].deadline - a.queue[0].arrival
            self.set_alarm(a, self.now + room - self.time_of(a, largest), None)

    def ring(self, a: Accelerator) -> None:
        assert a.column is not None
        earliest = min(time for time, _ in a.alarms)
        alarm = a.alarms.pop(max(place for place, (time, _) in enumerate(a.alarms) if time == earliest))
        if self.scenario.batching == "accscale":
            if not a.can_start:
                a.noted = True
            elif a.queue and a.queue[0] is alarm[1] and a.queue[0].alarm == alarm[0]:
                self.process(a, self.fill(a, len(a.queue)))
        elif a.can_start:
            self.drop_heads(a)
            if a.queue:
                enough = len(a.queue) >= a.column.largest
                self.process(a, a.column.largest if enough else self.fill(a, len(a.queue)))

    # Hosting

    def host(self, column: Column) -> None:
        free = [a for a in self.accelerators if a.column is None and a.kind == column.kind]
        a = next((a for a in free if a.holds == column.variant), free[0])
        a.column = column
        a.limit, a.noted, a.marked = 0, False, False
        self.models[column.model].members.append(a)
        self.write(MOVE, column.model, -1, column.variant, a.number)
        load = round(self.variants[column.variant][1].load_s * 1e9)
        if a.holds == column.variant or self.now == 0:
            self.is_ready(a)
            return
        self.switched += 1
        if load == 0 and not a.busy:
            self.is_ready(a)
            return
        a.must_load, a.holds = True, None
        if not a.busy:
            self.begin_load(a)
        else:
            # What is overdue is expected now.
            a.expected_end = max(self.now, a.expected_end)

    def begin_load(self, a: Accelerator) -> None:
        assert a.column is not None
        a.load_end = self.now + round(self.variants[a.column.variant][1].load_s * 1e9)

    def is_ready(self, a: Accelerator) -> None:
        assert a.column is not None
        a.holds, a.must_load, a.load_end = a.column.variant, False, None
        self.write(READY, a.column.model, -1, a.column.variant, a.number)

    def free(self, column: Column) -> None:
        hosting = [a for a in self.accelerators if a.column is column]
        fewest = min(len(a.queue) for a in hosting)
        a = [a for a in hosting if len(a.queue) == fewest][-1]
        self.models[column.model].members.remove(a)
        self.write(EVICT, column.model, -1, column.variant, a.number)
        if a.must_load:
            a.must_load, a.load_end, a.holds = False, None, None
        a.column, a.timer, a.alarms = None, None, []
        requests, a.queue = a.queue, []
        for request in requests:
            self.send(request)

    # Forecast

    def sample(self) -> None:
        plan, forecast = self.scenario.planning, self.scenario.forecast
        for model in self.models:
            x = model.sampled / (round(forecast.sample_s * 1e9) / 1e9)
            model.rate, model.sampled = x, 0
            if isinstance(forecast, Ewma):
                a = 1.0 / (1.0 + forecast.com)
                model.numerator = x + (1.0 - a) * model.numerator
                model.denominator = 1.0 + (1.0 - a) * model.denominator
                model.forecast = model.numerator / model.denominator
            else:
                a, b, before = forecast.level, forecast.trend, model.level
                guess = model.level + model.trend
                error = abs(x - guess)
                model.level = a * x + (1.0 - a) * guess
                model.trend = b * (model.level - before) + (1.0 - b) * model.trend
                model.spread = model.spread + a * (error - model.spread)
                ahead = plan.interval_s / forecast.sample_s / 2.0
                model.forecast = max(0.0, model.level + model.trend * ahead + forecast.margin * model.spread)
