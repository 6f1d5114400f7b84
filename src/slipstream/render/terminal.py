"""Scene as lines of text: running jobs, recent slices, queues and counts."""

from __future__ import annotations

from itertools import pairwise

from rich.style import Style
from rich.text import Text

from slipstream.files.wording import counted, plural, with_article
from slipstream.render.scene import GraphScene, Scene, Slice
from slipstream.render.style import GOOD, MISSED, TIGHT, format_duration, format_time, task_colour, text_on, unit_of

NARROWEST = 40
"""Least number of columns; a narrower terminal shows the left part."""
BAR = 12
"""Columns of a progress bar."""
IDLE, GOES_ON = "·", "─"
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
SHORT_KEY = ("a letter begins a bar; red: missed", f"{IDLE} idle")
TO_ASCII = str.maketrans({"█": "#", "░": "-", "■": "#", IDLE: ".", GOES_ON: "-", "…": "~"})

DIM = Style(dim=True)
BOLD = Style(bold=True)
ON_MISSED = Style(color="#ffffff", bgcolor=MISSED, bold=True)


def frame(scene: Scene, title: str, width: int, height: int | None = None, ascii_only: bool = False) -> Text:
    """Return the scene in at most `height` lines of at most `width` columns."""
    width = max(width, NARROWEST)
    top = [*_head(scene, title, width), Text()]
    for resource in range(len(scene.labels.resources)):
        top += [_present(scene, resource, width), _recent(scene, resource, width)]
    top += [_axis(scene, width), Text()]
    key = [] if scene.labels.graphs else [Text(), *_key(scene, width)]
    if height is not None and len(top) + 1 + len(scene.labels.tasks) + len(key) > height:
        key = []
    tasks = _tasks(scene, width, None if height is None else height - len(top))
    lines = [*top, *tasks, *key][:height]
    for line in lines:
        line.truncate(width, overflow="crop")
    text = Text("\n", no_wrap=True, overflow="crop", end="").join(lines)
    if ascii_only:
        text.plain = text.plain.translate(TO_ASCII)  # one character for one, so the styles stay in position
    return text


def letter(task: int) -> str:
    """Return the letter of a task."""
    return LETTERS[task % len(LETTERS)]


def _head(scene: Scene, title: str, width: int) -> list[Text]:
    labels = scene.labels
    clock = f"{format_time(labels, scene.now)} of {format_time(labels, labels.end, 0)} {labels.unit}"
    if scene.over:
        clock = f"ended at {format_time(labels, scene.now)} {labels.unit}"
    title_width = max(width - len(clock) - 2, 8)
    first = Text().append(_short(title, title_width).ljust(title_width) + "  ", BOLD).append(clock)
    missed = sum(scene.missed)
    parts = [f"finished {sum(scene.finished):,} of {sum(scene.released):,}"]
    if _has_deadlines(scene):
        parts.append(f"missed {missed:,}" + (f" ({missed / scene.judged:.1%})" if scene.judged else ""))
    parts.append(f"waiting {sum(scene.waiting):,}")
    endings = [""]
    if scene.accuracy is not None and scene.judged:
        endings = [f"   {name} {scene.accuracy:.3f}" for name in ("effective accuracy", "accuracy")] + endings
    texts = ["   ".join(parts) + ending for ending in endings]
    return [first, Text(next((text for text in texts if len(text) <= width), texts[-1]))]


def _present(scene: Scene, resource: int, width: int) -> Text:
    """Return the line of a resource's present job."""
    line = Text().append(_label(scene, resource), BOLD)
    current = scene.running[resource]
    labels = scene.labels
    if current is None:
        goal = scene.moving[resource] if isinstance(scene, GraphScene) else None
        return line.append("idle" if goal is None else f"moving to {labels.tasks[goal]}", DIM)
    job = current.job
    if labels.graphs:
        line.append(f"{letter(current.colour)} ", Style(color=task_colour(current.colour), bold=True))
        if resource >= len(labels.resources) - labels.links:
            return line.append(f"transfer for {labels.tasks[job.task]}")
        name = labels.tasks[job.task] if current.kernel is None else labels.kernels[current.kernel]
        return line.append(f"{name}, for {format_duration(labels, scene.now - current.start)}")
    expected = labels.expected[job.task][current.variant]
    served = job.served + scene.now - current.start
    words = (labels.tasks[job.task], labels.variants[job.task][current.variant], f"{labels.nouns.job} {job.number}")
    name = ", ".join(word for word in words if word)
    unit, scale = unit_of(labels, expected)
    work = f" {served / scale:,.1f} of {expected / scale:,.1f} {unit}"
    measured = labels.known_lengths and not labels.batches  # a batch takes as long as its size and accelerator say
    if not measured:
        expected, work = served, f" for {format_duration(labels, served)}"
    due, colour = _due(scene, current, expected - served)
    name_width = width - len(line.plain) - len(work) - len(due) - 5
    if name_width < len(name):  # a narrow terminal: the name matters more than the times
        work, name_width = "", name_width + len(work)
    bar = BAR if name_width >= BAR + len(name) and measured else 0
    name_width = max(name_width - bar, 8)
    line.append(f"{letter(job.task)} ", Style(color=task_colour(job.task), bold=True))
    line.append(_short(name, name_width).ljust(name_width) + " ")
    if bar:
        done = round(bar * min(served / max(expected, 1), 1.0))
        line.append("█" * done, Style(color=task_colour(job.task))).append("░" * (bar - done), DIM)
    return line.append(f"{work}  ").append(due, Style(color=colour))


def _due(scene: Scene, current: Slice, left: int) -> tuple[str, str]:
    """Return the time to the deadline as text, and the colour for whether it can be met."""
    if current.job.deadline is None:
        return "", GOOD
    slack = current.job.deadline - scene.now
    if slack < 0:
        return f"late by {format_duration(scene.labels, -slack)}", MISSED
    return f"due in {format_duration(scene.labels, slack)}", GOOD if slack >= left else TIGHT


def _recent(scene: Scene, resource: int, width: int) -> Text:
    """Return the window as one column per interval, showing the job with most of it; its letter marks its start."""
    label = len(_label(scene, resource))
    columns = width - label
    step = scene.window / columns
    begin = scene.now - scene.window
    most: list[tuple[float, Slice | None]] = [(0.0, None)] * columns
    idle = [step] * columns
    for piece in scene.slices(resource):
        start, end = piece.start - begin, (scene.now if piece.end is None else piece.end) - begin
        for column in range(max(int(start / step), 0), min(int(end / step) + 1, columns)):
            used = min(end, (column + 1) * step) - max(start, column * step)
            idle[column] -= used
            if used > most[column][0]:
                most[column] = (used, piece)
    line = Text(" " * label)
    before = None
    for (_, shown), unused in zip(most, idle, strict=True):
        if shown is None or unused > step / 2:
            before = None
            line.append(IDLE, DIM)
            continue
        missed = shown.job.missed(scene.now)
        colour = task_colour(shown.colour)
        style = ON_MISSED if missed else Style(color=text_on(colour), bgcolor=colour)
        sign = letter(shown.colour)
        line.append(GOES_ON if shown is before else sign.lower() if missed else sign, style)
        before = shown
    return line


def _axis(scene: Scene, width: int) -> Text:
    label = max(len(_label(scene, resource)) for resource in range(len(scene.labels.resources)))
    columns = width - label
    marks = {
        0: f"{_span(scene, scene.window)} ago",
        columns // 2: f"{_span(scene, scene.window / 2)} ago",
        columns - 3: "now",
    }
    line = ""
    for (position, mark), (following, _) in pairwise([*marks.items(), (columns + 1, "")]):
        line = line.ljust(position) + mark if len(line) + len(mark) < following else line
    return Text(" " * label + line, DIM)


def _span(scene: Scene, time: float) -> str:
    unit, scale = unit_of(scene.labels, time)
    return f"{time / scale:,.15g} {unit}"


def _tasks(scene: Scene, width: int, height: int | None) -> list[Text]:
    """Return a line per task; if `height` is too small for all, the tasks with the longest queues."""
    labels = scene.labels
    if labels.kernels:
        return _kernels(scene, width, height)
    if isinstance(scene, GraphScene):
        return _jobs(scene, width, height)
    shown = list(range(len(labels.tasks)))
    lines_left = len(shown) if height is None else max(height - 1, 1)
    if lines_left < len(shown):
        busiest = sorted(shown, key=lambda task: (-scene.waiting[task], -scene.missed[task], task))
        shown = sorted(busiest[: max(lines_left - 1, 1)])
    noun, waiting = labels.nouns.task, f"{plural(labels.nouns.job)} waiting"
    names = min(max(len(name) for name in (noun, *labels.tasks)), max(width // 4, 8))
    queue = min(max(width - names - 26, 16), 40)
    missed = "missed" if _has_deadlines(scene) else ""
    lines = [Text(f"  {noun.ljust(names)}  {waiting.ljust(queue)}  {missed}", DIM)]
    for task in shown:
        line = Text().append(f"{letter(task)} ", Style(color=task_colour(task), bold=True))
        line.append(_short(labels.tasks[task], names).ljust(names) + "  ")
        count = scene.waiting[task]
        squares = "■" * min(count, queue - 4)
        line.append(f"{count:>3} ").append(squares.ljust(queue - 4) + "  ", Style(color=task_colour(task)))
        judged = scene.on_time[task] + scene.missed[task]
        style = Style(color=MISSED) if scene.missed[task] else DIM
        if _has_deadlines(scene):
            line.append(f"{scene.missed[task]:,} of {judged:,}", style)
        lines.append(line)
    if len(shown) < len(labels.tasks):
        hidden = len(labels.tasks) - len(shown)
        lines.append(Text(f"  … and {counted(hidden, f'more {noun}')} with shorter queues", DIM))
    return lines


def _jobs(scene: GraphScene, width: int, height: int | None) -> list[Text]:
    """Return a line per job in the system, the oldest first, with the number of its resources, links left out."""
    labels, active = scene.labels, scene.active
    lines_left = len(active) if height is None else max(height - 2, 1)
    head = f"{counted(len(active), labels.nouns.job)} in the system, with the {plural(labels.nouns.resource)} of each"
    if not active:
        head = f"no {labels.nouns.job} in the system"
    lines = [Text(f"  {head}", DIM)]
    running = scene.running[: len(labels.resources) - labels.links]
    for job in active[:lines_left]:
        busy = sum(one is not None and one.job.task == job for one in running)
        line = Text().append(f"{letter(job)} ", Style(color=task_colour(job), bold=True))
        line.append(_short(labels.tasks[job], 16).ljust(16) + f" {busy:>3} ")
        lines.append(line.append("■" * min(busy, max(width - 24, 1)), Style(color=task_colour(job))))
    if lines_left < len(active):
        hidden = len(active) - lines_left
        lines.append(Text(f"  … and {counted(hidden, f'more {labels.nouns.job}')}", DIM))
    return lines


def _kernels(scene: Scene, width: int, height: int | None) -> list[Text]:
    """Return a line per kernel, with the number of resources that run it or, of a transfer, carry it."""
    labels = scene.labels
    running = [one.colour for one in scene.running if one is not None]
    head = f"kernels, with the {plural(labels.nouns.resource)}{' or links' if labels.links else ''} of each"
    lines = [Text(f"  {head}", DIM)]
    for kernel, name in list(enumerate(labels.kernels))[: None if height is None else max(height - 1, 1)]:
        busy = running.count(kernel)
        line = Text().append(f"{letter(kernel)} ", Style(color=task_colour(kernel), bold=True))
        line.append(_short(name, 16).ljust(16) + f" {busy:>3} ")
        lines.append(line.append("■" * min(busy, max(width - 24, 1)), Style(color=task_colour(kernel))))
    return lines


def _has_deadlines(scene: Scene) -> bool:
    return any(one is not None for one in scene.labels.deadline)


def _key(scene: Scene, width: int) -> list[Text]:
    nouns = scene.labels.nouns
    first = f"A letter begins {with_article(nouns.bar)} of that {nouns.task}."
    lines = [f"{first} Red, in lower case: it missed its deadline." if _has_deadlines(scene) else first]
    measured = scene.labels.known_lengths and not scene.labels.batches
    bar = "" if not measured else f"    Bar: how long the {nouns.bar} has run, of what it takes alone."
    lines.append(f"{IDLE} idle{bar}")
    return [Text(line if len(line) <= width else short, DIM) for line, short in zip(lines, SHORT_KEY, strict=True)]


def _label(scene: Scene, resource: int) -> str:
    longest = min(max(len(name) for name in scene.labels.resources), 16)
    return _short(scene.labels.resources[resource], longest).ljust(longest) + "  "


def _short(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 1] + "…"
