"""LLM engines in plain Python, from docs/llm-machine.md: what happens, with no regard to speed.

Blocks, queues and steps are lists and dictionaries. Every count is made anew where it is needed.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from slipstream.families.llm.build import compiled_scenario
from slipstream.families.llm.scenario import LlmScenario
from tests.reference.numbers import episode_key, normal, stream_key, uniform

A, S, F, REJECT, END, PREEMPT, READY, EVICT, DONE = 0, 1, 2, 4, 6, 7, 8, 9, 12
GAPS, CLASSES, PROMPTS, OUTPUTS, GROUPS, PREDICTIONS, WINDOW = range(1, 8)
LogRow = tuple[int, int, int, int, int, int]


@dataclass(eq=False)
class Block:
    """A block of KV memory."""

    content: Any = None
    """What the cache finds it by; None if it is not in the cache."""
    users: int = 0
    before: Block | None = None
    """The block before it in the sequence that it was given to last."""


@dataclass(eq=False)
class Request:
    """A request, and what has become of it."""

    place: int
    number: int
    group: int
    prompt: int
    output: int
    predicted: int
    pieces: list[Any]
    """What stands for the tokens of each block that others may have too."""
    arrival: int
    known: int = 0
    under_way: int = 0
    computed: int = 0
    scheduled: int = 0
    blocks: list[Block] = field(default_factory=list)
    entered: int = 0
    hits: int = 0
    seat: int = -1
    first: int = -1
    last: int = -1
    shown: bool = False
    started: bool = False
    done: bool = False
    preemptions: int = 0

    @property
    def generated(self) -> int:
        return self.known - self.prompt

    @property
    def left(self) -> int:
        """Tokens that it is predicted to generate still."""
        return max(1, self.predicted - self.generated)


@dataclass(eq=False)
class Engine:
    """An engine with its queue, its batch and its blocks; free blocks in the order in which they became free."""

    place: int
    free: list[Block]
    budget: int
    kept_free: int
    waiting: list[Request] = field(default_factory=list)
    running: list[Request] = field(default_factory=list)
    seats: dict[int, Request] = field(default_factory=dict)
    steps: list[tuple[int, int, int, int, list[Request]]] = field(default_factory=list)
    """Steps begun and not ended: end, tokens, sequences, blocks in use, requests that get a token."""
    ended: int = 0
    duration: int = 0
    due: bool = False
    parked: int = -1
    phase: str = "idle"
    index: int = 0
    left: int = 0
    preempted: bool = False
    cache: dict[Any, list[Block]] = field(default_factory=dict)
    """Blocks by content, in the order in which they were entered."""
    cut: int = 0
    """Most tokens of a request in the step that is scheduled, 0 for no limit."""

    @property
    def sequences(self) -> int:
        return sum(one.scheduled > 0 for one in self.running)

    @property
    def load(self) -> int:
        return 4 * len(self.waiting) + len(self.running)


class ReferenceMachine:
    """One episode, stopped at each decision."""

    def __init__(self, scenario: LlmScenario, seed: int, split: int = 2) -> None:
        self.scenario, self.rules = scenario, scenario.engine
        self.tables = compiled_scenario(scenario).spec
        self.key = episode_key(split, seed)
        self.keys = {stream: stream_key(self.key, stream) for stream in range(1, 8)}
        self.usable = self.rules.blocks - 1
        self.eos = int(self.rules.stop == "eos")
        self.longest = min(self.rules.longest_tokens, self.usable * self.rules.block_tokens)
        self.total = compiled_scenario(scenario).requests
        self.prefix_tokens = int(self.tables["machine"]["prefix_tokens"][0])
        self.first = 0
        if len(self.tables["listed"]):
            low, high = (int(self.tables["splits"][min(split, 1)][name]) for name in ("low", "high"))
            self.first = low + int(uniform(self.keys[WINDOW], 0) * (high - low + 1))
        self.limits = [
            (one.priority, round((one.ttft_s or 0.0) * 1e9), round((one.tpot_ms or 0.0) * 1e6))
            for one in scenario.classes
        ]
        kept = math.floor(self.rules.watermark * self.rules.blocks)
        self.modern = self.rules.version == "0.32"
        self.engines = [
            Engine(place, [Block() for _ in range(self.usable)], self.rules.token_budget, kept)
            for place in range(scenario.engines)
        ]
        self.now = self.choices = self.events = self.arrived = 0
        self.asked = -1
        self.kind = ""
        self.engine = self.engines[0]
        self.pending: Request | None = None
        self.requests: list[Request] = []
        self.counts = [0] * len(scenario.classes)
        self.service = [0] * len(scenario.classes)
        self.unfinished: list[Request] = []
        self.log: list[LogRow] = []
        self.terminated = self.truncated = self.illegal = False
        self.spent = self.failed = 0
        self.step_began = 0
        self.reward, self.elapsed = 0.0, 0
        self.terms = {"time": 0.0, "violations": 0.0}
        self.next_arrival = self.arrival_after()
        self.run()

    def write(self, kind: int, task: int, job: int, variant: int, resource: int) -> None:
        self.log.append((self.now, kind, task, job, variant, resource))

    @property
    def over(self) -> bool:
        return self.terminated

    # Requests

    def arrival_after(self) -> float:
        """Return the time of the next request."""
        if self.arrived >= self.total:
            return math.inf
        listed = self.tables["listed"]["time"]
        if len(listed):
            window = self.total < len(listed) or self.first > 0
            return int(listed[self.first + self.arrived]) - (int(listed[self.first]) if window else 0)
        table = self.tables["gaps"]
        where = uniform(self.keys[GAPS], self.arrived) * (len(table) - 1)
        low = int(where)
        gap = float(table[low]) + (where - low) * (float(table[low + 1]) - float(table[low]))
        return self.now + max(1, math.ceil(gap * float(self.tables["machine"]["mean_gap"][0])))

    def pick(self, stream: int, count: int) -> int:
        return int(uniform(self.keys[stream], self.arrived) * count)

    def prediction(self, output: int) -> int:
        about = self.scenario.prediction
        if about is None:
            return int(self.tables["machine"]["mean_output"][0])
        spread = math.sqrt(math.log1p(about.cv**2))
        if spread == 0.0:
            return output
        z = normal(self.keys[PREDICTIONS], self.arrived)
        return max(1, round(min(output * math.exp(spread * z - 0.5 * spread * spread), 1e9)))

    def next_request(self) -> Request:
        """Return the request that arrives now."""
        size, number = self.rules.block_tokens, self.arrived
        if len(self.tables["listed"]):
            row = self.tables["listed"][self.first + number]
            prompt, output, group = int(row["prompt"]), int(row["output"]), int(row["group"])
            predicted = int(row["predicted"]) or self.prediction(output)
            per_piece = int(self.tables["machine"]["hash_tokens"][0]) // size
            hashes = self.tables["hashes"][int(row["first_hash"]) : int(row["first_hash"]) + int(row["hashes"])]
            pieces: list[Any] = [(int(one), part) for one in hashes for part in range(per_piece)]
        else:
            prompts, outputs = self.tables["prompts"], self.tables["outputs"]
            first = self.pick(PROMPTS, len(prompts))
            prompt = int(prompts[first]) + self.prefix_tokens
            paired = bool(self.tables["machine"]["paired"][0])
            output = int(outputs[first if paired else self.pick(OUTPUTS, len(outputs))])
            lot = uniform(self.keys[CLASSES], number)
            group = 0
            while group < len(self.counts) - 1 and lot >= float(self.tables["classes"]["until"][group]):
                group += 1
            predicted = self.prediction(output)
            groups = self.scenario.requests.prefix.groups if self.prefix_tokens else 0  # type: ignore[union-attr]
            shared = self.pick(GROUPS, groups) if groups else 0
            pieces = [("group", shared, part) for part in range(self.prefix_tokens // size)]
        pieces = pieces[: prompt // size]
        number_in_class = self.counts[group]
        self.counts[group] += 1
        return Request(number, number_in_class, group, prompt, output, predicted, pieces, self.now, known=prompt)

    def arrive(self) -> None:
        request = self.next_request()
        self.requests.append(request)
        self.arrived += 1
        self.write(A, request.group, request.number, -1, request.prompt)
        self.next_arrival = self.arrival_after()
        if request.prompt + request.output + self.eos > self.longest:
            self.failed += 1
            self.write(REJECT, request.group, request.number, -1, -1)
            return
        groups = {one.group for one in self.unfinished}
        if groups and request.group not in groups:
            self.service[request.group] = max(self.service[request.group], min(self.service[group] for group in groups))
        self.unfinished.append(request)
        self.pending = request

    # Blocks

    def content(self, request: Request, index: int) -> Any:
        return request.pieces[index] if index < len(request.pieces) else (request, index)

    def found(self, engine: Engine, request: Request) -> list[Block]:
        """Return the blocks of a request that the cache has."""
        blocks: list[Block] = []
        if self.rules.prefix_cache:
            for index in range((request.known - 1) // self.rules.block_tokens):
                block = next(iter(engine.cache.get(self.content(request, index), [])), None)
                before = blocks[-1] if blocks else None
                if block is None or (block.users and block.before is not before):
                    break
                blocks.append(block)
        return blocks

    def blocks_for(self, tokens: int) -> int:
        return math.ceil(tokens / self.rules.block_tokens)

    def give(self, engine: Engine, request: Request, tokens: int) -> None:
        """Give a request the blocks of its first tokens."""
        while len(request.blocks) < self.blocks_for(tokens):
            block = engine.free.pop(0)
            if block.content is not None:
                engine.cache[block.content].remove(block)
            block.content, block.users = None, 1
            block.before = request.blocks[-1] if request.blocks else None
            request.blocks.append(block)
        if not self.rules.prefix_cache:
            return
        full = min(tokens, request.known) // self.rules.block_tokens
        for index in range(request.entered, full):
            content = self.content(request, index)
            engine.cache.setdefault(content, []).append(request.blocks[index])
            request.blocks[index].content = content
        request.entered = max(full, request.entered)

    def take_back(self, engine: Engine, request: Request) -> None:
        first: list[Block] = []
        for block in reversed(request.blocks):
            block.users -= 1
            if not block.users:
                (first if self.modern and block.content is None else engine.free).append(block)
        engine.free[:0] = first
        request.blocks, request.entered = [], 0

    # Schedules

    def sit(self, engine: Engine, request: Request) -> None:
        seat = min(set(range(self.rules.seats)) - set(engine.seats))
        engine.seats[seat] = request
        request.seat = engine.place * self.rules.seats + seat
        self.write(S, request.group, request.number, 0, request.seat)

    def stand_up(self, engine: Engine, request: Request) -> None:
        del engine.seats[request.seat - engine.place * self.rules.seats]

    def wanted(self, engine: Engine, request: Request) -> int:
        if not self.eos and request.under_way and request.generated + request.under_way >= request.output:
            return 0
        tokens = request.known + request.under_way - request.computed
        if engine.cut:
            tokens = min(tokens, engine.cut)
        return min(tokens, engine.left)

    def victim(self, engine: Engine) -> Request:
        if self.rules.preempt == "last-admitted":
            return engine.running[-1]
        return max(
            engine.running,
            key=lambda one: (self.limits[one.group][0], one.place),
        )

    def preempt(self, engine: Engine, request: Request) -> None:
        place = engine.running.index(request)
        self.write(PREEMPT, request.group, request.number, 0, request.seat)
        self.stand_up(engine, request)
        self.take_back(engine, request)
        engine.running.remove(request)
        if place < engine.index:
            engine.index -= 1
        elif place == engine.index:
            engine.index = len(engine.running)
        engine.left += request.scheduled
        request.scheduled = request.computed = 0
        request.preemptions += 1
        engine.preempted = True
        engine.waiting.insert(0, request)

    def schedule_running(self, engine: Engine) -> bool:
        """Schedule the batch; return whether a victim must be chosen."""
        while engine.index < len(engine.running) and engine.left > 0:
            request = engine.running[engine.index]
            tokens = self.wanted(engine, request)
            if tokens > 0:
                if self.blocks_for(request.computed + tokens) - len(request.blocks) > len(engine.free):
                    if "evict" in self.scenario.decide and len(engine.running) > 1:
                        return True
                    self.preempt(engine, self.victim(engine))
                    continue
                self.give(engine, request, request.computed + tokens)
                request.scheduled = tokens
                engine.left -= tokens
            engine.index += 1
        return False

    def needs(self, engine: Engine, request: Request) -> tuple[int, list[Block]]:
        """Return the free blocks that a waiting request takes, and its blocks in the cache."""
        hits = self.found(engine, request)
        return self.blocks_for(request.known) - sum(one.users > 0 for one in hits), hits

    def available(self, engine: Engine) -> int:
        return len(engine.free) - (engine.kept_free if engine.running else 0)

    def admit(self, engine: Engine, request: Request) -> bool:
        needed, hits = self.needs(engine, request)
        if needed > self.available(engine):
            return False
        for block in hits:
            if not block.users:
                engine.free.remove(block)
                block.before = request.blocks[-1] if request.blocks else None
            block.users += 1
            request.blocks.append(block)
        request.entered = request.hits = len(hits)
        request.computed = len(hits) * self.rules.block_tokens
        tokens = request.known - request.computed
        if engine.cut:
            tokens = min(tokens, engine.cut)
        tokens = min(tokens, engine.left)
        self.give(engine, request, request.computed + tokens)
        request.scheduled = tokens
        engine.left -= tokens
        engine.waiting.remove(request)
        engine.running.append(request)
        request.shown = False
        self.sit(engine, request)
        if not request.started:
            request.started = True
            self.service[request.group] += request.prompt
        return True

    def launch(self, engine: Engine) -> None:
        scheduled = [one for one in engine.running if one.scheduled]
        prefill = [(one.scheduled, one.computed) for one in scheduled if one.scheduled > 1]
        lengths = [one.computed + 1 for one in scheduled if one.scheduled == 1]
        tokens = sum(one.scheduled for one in scheduled)
        engine.duration = self.step_time(tokens, len(scheduled), prefill, lengths)
        engine.ended = max(self.now, engine.ended) + engine.duration
        used = self.usable - len(engine.free)
        members = []
        for one in scheduled:
            one.computed += one.scheduled
            one.scheduled = 0
            if one.computed == one.known + one.under_way:
                one.under_way += 1
                members.append(one)
        engine.steps.append((engine.ended, tokens, len(scheduled), used, members))

    def step_time(self, tokens: int, sequences: int, prefill: list[tuple[int, int]], lengths: list[int]) -> int:
        form = self.tables["machine"][0]
        time = float(form["step"]) + self.height("dense", tokens)
        time += self.height("head", sequences)
        total = sum(lengths)
        if form["tables"]:
            mean = total / len(lengths) if lengths else 0.0
            mean += float(form["skew"]) * (max(lengths, default=0) - mean)
            where = (sum(q for q, _ in prefill), sum(k for _, k in prefill), len(lengths), mean)
            time += self.attention(where)
        else:
            pairs = sum(q * (2 * k + q) for q, k in prefill)
            # Terms are summed in this order, so that the last bit agrees.
            rest = float(form["attention"]) + float(form["per_sequence"]) * len(lengths)
            time += rest + float(form["per_pair"]) * (0.5 * pairs)
            time += float(form["per_mixed_context" if prefill else "per_context"]) * total
        return max(1, math.ceil(time))

    def height(self, name: str, at: float) -> float:
        points, values = self.tables[f"{name}_at"].tolist(), self.tables[name].tolist()
        low, share = self.between(points, at)
        return float(values[low] + share * (values[low + 1] - values[low]) if share else values[low])

    @staticmethod
    def between(points: list[float], at: float) -> tuple[int, float]:
        """Return the point before a value and how far the value is on the way to the next one."""
        if len(points) == 1 or at <= points[0]:
            return 0, 0.0
        low = max(index for index in range(len(points) - 1) if index == 0 or points[index] <= at)
        return low, (at - points[low]) / (points[low + 1] - points[low])

    def attention(self, where: tuple[float, ...]) -> float:
        axes = [self.tables[name].tolist() for name in ("chunk_at", "context_at", "decode_at", "decode_context_at")]
        found = [self.between(axis, at) for axis, at in zip(axes, where, strict=True)]
        grid = self.tables["attention"].reshape([len(axis) for axis in axes])
        total = 0.0
        for corner in range(16):
            weight, place = 1.0, []
            for number, (low, share) in enumerate(found):
                bit = corner >> number & 1
                weight *= share if bit else 1.0 - share
                place.append(low + bit)
            if weight:
                total += weight * float(grid[tuple(place)])
        return total

    def end_step(self, engine: Engine) -> None:
        _, tokens, sequences, used, members = engine.steps.pop(0)
        engine.due = True
        for request in members:
            if request.done:
                continue
            request.under_way -= 1
            request.known += 1
            request.last = self.now
            self.service[request.group] += 2
            if request.first < 0:
                request.first = self.now
            if not request.shown:
                request.shown = True
                self.write(READY, request.group, request.number, min(request.hits, 32767), request.seat)
            if request.generated >= request.output:
                self.finish(engine, request)
        self.write(DONE, used, tokens, sequences, engine.place)

    def finish(self, engine: Engine, request: Request) -> None:
        if request in engine.waiting:
            engine.waiting.remove(request)
            self.sit(engine, request)
        else:
            engine.running.remove(request)
            self.give(engine, request, request.computed - request.under_way)
        self.write(F, request.group, request.number, 0, request.seat)
        self.stand_up(engine, request)
        self.take_back(engine, request)
        self.write(EVICT, request.group, request.number, -1, request.output)
        request.done = True
        self.unfinished.remove(request)
        _, ttft, tpot = self.limits[request.group]
        late = ttft and request.first - request.arrival > ttft
        slow = tpot and request.last - request.first > tpot * (request.output - 1)
        self.failed += bool(late or slow)

    # Decisions

    def usual_engine(self, request: Request) -> Engine:
        if self.scenario.router == "round-robin":
            return self.engines[request.place % len(self.engines)]
        if self.scenario.router == "least-load":
            return min(self.engines, key=lambda one: (one.load, one.place))
        return min(self.engines, key=lambda one: (-len(self.found(one, request)), one.load, one.place))

    def is_due(self, engine: Engine) -> bool:
        if len(engine.steps) >= self.rules.steps_in_flight:
            return False
        has = bool(engine.waiting or engine.running)
        return engine.due or (not engine.steps and has and engine.parked != self.events)

    def asks_level(self, engine: Engine) -> bool:
        if "budget" not in self.scenario.decide:
            return False
        return bool(engine.waiting) or any(one.known + one.under_way - one.computed > 1 for one in engine.running)

    def go_on(self, engine: Engine) -> str:
        """Continue the schedule of an engine; return what must be decided, nothing if its step has begun."""
        if engine.phase == "idle":
            engine.left, engine.index, engine.preempted = engine.budget, 0, False
            alone = self.modern and len(engine.running) + len(engine.waiting) <= 1
            engine.cut = 0 if alone else self.rules.long_prefill_tokens
            engine.phase = "running"
            if self.asks_level(engine):
                return "level"
        if engine.phase == "running":
            if self.schedule_running(engine):
                return "evict"
            engine.phase = "admitting"
        free = len(engine.running) < self.rules.seats
        if engine.phase == "admitting" and engine.waiting and engine.left > 0 and free and not engine.preempted:
            return "admit"
        engine.phase = "idle"
        if engine.sequences:
            self.launch(engine)
            engine.due = len(engine.steps) < self.rules.steps_in_flight
        else:
            engine.due = engine.preempted and not engine.steps
            engine.parked = self.events
        return ""

    @property
    def next_time(self) -> float:
        return min([self.next_arrival, *(one.steps[0][0] for one in self.engines if one.steps)])

    def may_wait(self) -> bool:
        if self.kind != "admit" or self.engine.sequences or self.next_time < math.inf:
            return True
        others = [one for one in self.engines if one is not self.engine]
        return any((one.waiting or one.running) and self.is_due(one) for one in others)

    def run(self) -> None:
        """Go on to the next decision or the end."""
        self.asked, self.kind = -1, ""
        while True:
            if self.pending is not None:
                if "route" in self.scenario.decide and len(self.engines) > 1:
                    self.ask("send", self.engines[0])
                    break
                self.usual_engine(self.pending).waiting.append(self.pending)
                self.pending = None
                continue
            time = self.next_time
            engines = [one for one in self.engines if one.phase != "idle"]
            engines += [one for one in self.engines if self.is_due(one)]
            if time > self.now and engines:
                kind = self.go_on(engines[0])
                if kind:
                    self.ask(kind, engines[0])
                    break
            elif time == math.inf:
                self.write(END, -1, -1, -1, -1)
                self.terminated = True
                break
            else:
                self.apply(int(time))
        self.terms = {"time": self.spent / 1e9, "violations": float(self.failed)}
        weights = self.scenario.reward
        self.reward = -(weights.time * self.terms["time"] + weights.violations * self.failed)
        self.elapsed = self.now - self.step_began

    def ask(self, kind: str, engine: Engine) -> None:
        self.kind, self.engine, self.asked = kind, engine, engine.place
        self.choices += 1

    def apply(self, time: int) -> None:
        self.spent += len(self.unfinished) * (time - self.now)
        self.now = time
        self.events += 1
        for engine in self.engines:
            if engine.steps and engine.steps[0][0] == time:
                self.end_step(engine)
                return
        self.arrive()

    def candidates(self) -> list[Any]:
        if self.kind == "admit":
            return list(self.engine.waiting)
        if self.kind == "evict":
            return self.engine.running[::-1]
        if self.kind == "level":
            return [(int(one["budget"]), int(one["headroom"])) for one in self.tables["levels"]]
        return list(self.engines) if self.kind == "send" else []

    def indices(self) -> list[int]:
        """Return the row of each candidate: those behind the window follow its last row."""
        width = int(self.tables["machine"]["rows"][0])
        count = len(self.candidates())
        return [index if index < width else index + 1 for index in range(count)]

    def mask(self) -> list[int]:
        parts = compiled_scenario(self.scenario)
        legal = [0] * parts.all_rows
        for row in self.indices():
            legal[row] = 1
        legal[-1] = int(self.kind != "" and self.may_wait())
        return legal

    def step(self, action: int) -> None:
        """Take the action and go on to the next decision or the end."""
        self.step_began = self.now
        if self.choices > 1:
            self.spent = self.failed = 0
        rows, found = self.indices(), self.candidates()
        chosen = found[rows.index(action)] if action in rows else None
        waits = chosen is None and self.may_wait()
        legal_wait = action in (
            compiled_scenario(self.scenario).rows - 1,
            compiled_scenario(self.scenario).all_rows - 1,
        )
        self.illegal = chosen is None and not (waits and legal_wait)
        if chosen is None and not waits:
            chosen = found[0]
        engine, kind = self.engine, self.kind
        if kind == "send":
            assert self.pending is not None
            (self.usual_engine(self.pending) if chosen is None else chosen).waiting.append(self.pending)
            self.pending = None
        elif kind == "level":
            if chosen is not None:
                engine.budget, engine.kept_free = chosen
                engine.left = engine.budget
        elif kind == "evict":
            self.preempt(engine, self.victim(engine) if chosen is None else chosen)
        elif chosen is None or not self.admit(engine, chosen):
            engine.phase = "launching"
        self.run()
