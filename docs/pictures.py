"""Draw the concept pictures of the documentation as SVG files: `python docs/pictures.py` writes `docs/images/*.svg`.

The decision of `auto-decision.svg` is a real one, kept in `auto-decision.json`; `--decide` takes it anew.

Every picture carries its own background and both colour schemes, so it is legible on light and dark pages.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from html import escape
from pathlib import Path

IMAGES = Path(__file__).resolve().parent / "images"
WIDTH = 760

LIGHT = {
    "card": "#ffffff",
    "edge": "#d5dbe5",
    "text": "#1b2433",
    "muted": "#5b6678",
    "line": "#7a8698",
    "box": "#f3f5f9",
    "blue": "#3b76d6",
    "orange": "#d9822b",
    "green": "#2f9e6b",
    "purple": "#8559c9",
    "red": "#d1453b",
    "grey": "#b7c0ce",
}
DARK = {
    "card": "#171b22",
    "edge": "#343c4a",
    "text": "#e8ecf3",
    "muted": "#a3aec0",
    "line": "#8592a6",
    "box": "#222833",
    "blue": "#4a86e8",
    "orange": "#d98530",
    "green": "#2f9e6b",
    "purple": "#9068d4",
    "red": "#dd5a50",
    "grey": "#4d586a",
}


class Drawing:
    """Collects the elements of one picture; coordinates are pixels from the top left corner."""

    def __init__(self, height: int, title: str) -> None:
        self.height = height
        self.title = title
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, w: float, h: float, fill: str = "box", stroke: str = "edge", r: float = 6
    ) -> None:
        """Draw a rectangle with rounded corners."""
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{r:g}" class="f-{fill} s-{stroke}"/>'
        )

    def text(self, x: float, y: float, text: str, style: str = "", anchor: str = "start") -> None:
        """Write one line; `style` names classes such as `small`, `bold`, `muted`, `on` (on a coloured box)."""
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{style}" text-anchor="{anchor}">{escape(text)}</text>')

    def label(self, x: float, y: float, w: float, h: float, *lines: str, fill: str = "box", style: str = "") -> None:
        """Draw a rectangle with centred lines; the first one is bold if there are several."""
        self.box(x, y, w, h, fill)
        colour = "" if fill == "box" else "on"
        top = y + h / 2 + 4.5 - 8.5 * (len(lines) - 1)
        for index, line in enumerate(lines):
            bold = "bold" if index == 0 and len(lines) > 1 else "small" if len(lines) > 1 else ""
            muted = "muted" if index and not colour else ""
            self.text(x + w / 2, top + 17 * index, line, f"{bold} {muted} {colour} {style}", "middle")

    def bar(self, x: float, y: float, w: float, h: float, fill: str, text: str = "") -> None:
        """Draw a run on a timeline."""
        self.box(x, y, w, h, fill, fill, 3)
        if text:
            self.text(x + w / 2, y + h / 2 + 4, text, "small on", "middle")

    def arrow(self, *points: tuple[float, float], dashed: bool = False) -> None:
        """Draw a line through `points` with a head at its end."""
        path = " L".join(f"{x:g} {y:g}" for x, y in points)
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<path d="M{path}" class="line"{dash} marker-end="url(#head)"/>')

    def line(self, x1: float, y1: float, x2: float, y2: float, colour: str = "edge", width: float = 1) -> None:
        """Draw a straight line without a head."""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" class="s-{colour}" stroke-width="{width:g}"/>'
        )

    def dot(self, x: float, y: float, r: float, fill: str, text: str = "") -> None:
        """Draw a node of a graph."""
        self.parts.append(f'<circle cx="{x:g}" cy="{y:g}" r="{r:g}" class="f-{fill}"/>')
        if text:
            self.text(x, y + 4, text, "small on", "middle")

    def svg(self) -> str:
        """Return the picture as the text of an SVG file."""
        size = f'width="{WIDTH}" height="{self.height}" viewBox="0 0 {WIDTH} {self.height}"'
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" {size} role="img" aria-label="{escape(self.title)}">',
                f"<title>{escape(self.title)}</title>",
                f"<style>{_style()}</style>",
                '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
                'orient="auto-start-reverse"><path d="M0 0 L8 4 L0 8 z" class="f-line"/></marker></defs>',
                f'<rect x=".5" y=".5" width="{WIDTH - 1}" height="{self.height - 1}" rx="10" class="f-card s-edge"/>',
                *self.parts,
                "</svg>\n",
            ]
        )


def _style() -> str:
    font = "font:13px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif"
    rules = [f"text{{{font};fill:var(--text)}}", ".small{font-size:11.5px}", ".bold{font-weight:600}"]
    rules += [
        ".muted{fill:var(--muted)}",
        ".on{fill:#fff}",
        ".mono{font-family:ui-monospace,'DejaVu Sans Mono',monospace}",
    ]
    rules += [".line{fill:none;stroke:var(--line);stroke-width:1.5}"]
    rules += [f".f-{name}{{fill:var(--{name})}}.s-{name}{{stroke:var(--{name})}}" for name in LIGHT]
    light = ";".join(f"--{name}:{value}" for name, value in LIGHT.items())
    dark = ";".join(f"--{name}:{value}" for name, value in DARK.items())
    return f"svg{{{light}}}@media(prefers-color-scheme:dark){{svg{{{dark}}}}}" + "".join(rules)


def decision_loop() -> Drawing:
    """Draw a decision: a free stream, candidate rows with a mask, a policy, a dispatch, the next event."""
    d = Drawing(
        330, "The decision loop: a free resource, candidate rows with a mask, a policy that scores them, a dispatch"
    )
    d.label(20, 110, 130, 64, "A stream is free", "two tasks have jobs")
    d.text(185, 34, "Candidates: one row of features each", "bold")
    header = ["start", "variant", "slack", "latency", "accuracy", "allowed", "score"]
    columns = [197, 262, 326, 374, 430, 492, 552]
    d.box(185, 44, 405, 188)
    for x, name in zip(columns, header, strict=True):
        d.text(x, 64, name, "small muted")
    rows = [
        ("camera", "small", "18 ms", "3 ms", "0.70", "yes", "2.1"),
        ("camera", "large", "18 ms", "11 ms", "0.90", "yes", "3.4"),
        ("speech", "small", "6 ms", "2 ms", "0.62", "yes", "2.8"),
        ("speech", "large", "6 ms", "8 ms", "0.81", "no", ""),
        ("drop", "camera", "", "", "", "yes", "-4.0"),
        ("wait", "", "", "", "", "yes", "0.3"),
    ]
    for index, row in enumerate(rows):
        y = 72 + 26 * index
        best, legal = index == 1, row[5] == "yes"
        if best:
            d.box(190, y, 395, 23, "green", "green", 4)
        for x, cell in zip(columns, row, strict=True):
            d.text(x, y + 16, cell, "small on" if best else "small" if legal else "small muted")
    d.label(625, 62, 115, 44, "Policy", "scores every row")
    for index, name in enumerate(["one-line rule", "network", "planner", "your function"]):
        d.text(682, 128 + 19 * index, name, "small muted", "middle")
    d.label(625, 262, 115, 48, "Dispatch", "best allowed row", fill="green")
    d.label(300, 262, 260, 48, "Time passes", "simulator, or the real machine")
    d.label(20, 262, 200, 48, "Event", "a job arrives or ends")
    d.arrow((150, 142), (183, 142))
    d.arrow((592, 84), (623, 84))
    d.arrow((682, 200), (682, 260))
    d.arrow((623, 286), (562, 286))
    d.arrow((298, 286), (222, 286))
    d.arrow((85, 260), (85, 176))
    return d


def data_flow() -> Drawing:
    """Draw the path of the data from the scenario file to the report."""
    d = Drawing(250, "The path of the data: scenario, arrays, lane, policy, event log, metrics, report")
    d.label(20, 30, 120, 52, "scenario.json", "work and machine")
    d.label(180, 30, 120, 52, "spec, arrivals", "arrays, seeded")
    d.box(340, 18, 190, 214)
    d.text(435, 40, "Lane: one machine", "bold", "middle")
    d.label(358, 54, 154, 44, "Candidates, mask")
    d.label(358, 128, 74, 44, "Simulator", fill="blue")
    d.label(438, 128, 74, 44, "Real CPU", fill="orange")
    d.text(435, 194, "the same code lists, applies", "small muted", "middle")
    d.text(435, 210, "and records in both", "small muted", "middle")
    d.label(590, 30, 150, 52, "Policy", "rule, network, planner")
    d.label(590, 112, 150, 52, "Event log", "one row per change")
    d.label(590, 184, 150, 48, "Metrics, report", "also from a real run")
    d.arrow((140, 56), (178, 56))
    d.arrow((300, 56), (338, 56))
    d.arrow((512, 66), (588, 50))
    d.arrow((588, 70), (550, 84), (550, 112), (437, 112), (437, 126))
    d.arrow((530, 150), (588, 140))
    d.arrow((665, 164), (665, 182))
    d.label(
        20,
        130,
        280,
        84,
        "No arrow points back",
        "policies never read the future;",
        "metrics never read the simulator's state",
    )
    return d


def family_edge() -> Drawing:
    """Draw edge: queues of jobs with deadlines, a ladder of variants, a device with two streams."""
    d = Drawing(230, "Edge: several networks share one device; which job, in which variant, on the free stream?")
    for index, (name, colour) in enumerate([("camera", "blue"), ("speech", "orange"), ("alarm", "green")]):
        y = 44 + 52 * index
        d.text(20, y + 17, name)
        for job in range(3 - index):
            d.bar(84 + 24 * job, y + 3, 18, 20, colour)
    d.text(20, 24, "jobs with deadlines", "bold")
    d.text(190, 24, "variants", "bold")
    for index, (width, name) in enumerate([(22, "fast, 62%"), (44, "middle, 71%"), (84, "slow, 79%")]):
        d.bar(190, 40 + 46 * index, width, 18, "blue")
        d.text(190, 40 + 46 * index + 32, name, "small muted")
    d.arrow((165, 100), (183, 100))
    d.arrow((296, 100), (322, 100))
    d.text(330, 24, "device: two streams that slow each other down", "bold")
    for index in (0, 1):
        y = 50 + 62 * index
        d.box(330, y, 410, 44)
        d.text(338, y + 27, f"stream {index}", "small muted")
    for x, w, colour in [(395, 90, "blue"), (490, 36, "green"), (531, 150, "orange")]:
        d.bar(x, 58, w, 28, colour)
    for x, w, colour in [(395, 42, "orange"), (442, 130, "blue"), (577, 44, "blue")]:
        d.bar(x, 120, w, 28, colour)
    d.text(645, 139, "what next?", "small bold")
    d.line(628, 44, 628, 172, "red", 2)
    d.text(628, 190, "now", "small", "middle")
    d.text(
        20,
        214,
        "A job that ends by its deadline earns the accuracy of its variant; a late or dropped one costs.",
        "small muted",
    )
    return d


def family_dag() -> Drawing:
    """Draw dag: jobs that are graphs of stages, a pool of executors that take time to move."""
    d = Drawing(240, "Dag: jobs are graphs of stages; which stage gets the free executors, and how many?")
    d.text(20, 24, "jobs: graphs of stages", "bold")
    first = {"a": (40, 62), "b": (100, 48), "c": (100, 84), "d": (160, 62), "e": (215, 62)}
    for start, end in ("ab", "ac", "bd", "cd", "de"):
        (x1, y1), (x2, y2) = first[start], first[end]
        d.arrow((x1 + 13, y1), (x2 - 14, y2))
    for name, (x, y) in first.items():
        d.dot(x, y, 12, "grey" if name in "a" else "blue")
    second = {"a": (40, 150), "b": (100, 150), "c": (160, 132), "d": (160, 170)}
    for start, end in ("ab", "bc", "bd"):
        (x1, y1), (x2, y2) = second[start], second[end]
        d.arrow((x1 + 13, y1), (x2 - 14, y2))
    for x, y in second.values():
        d.dot(x, y, 12, "orange")
    d.arrow((250, 108), (300, 108))
    d.text(315, 24, "a pool of executors, one task each", "bold")
    rows = [
        [(0, 100, "blue"), (104, 60, "blue"), (190, 110, "orange")],
        [(0, 80, "blue"), (84, 90, "blue"), (200, 96, "orange")],
        [(0, 130, "orange"), (134, 120, "orange")],
        [(0, 120, "orange"), (146, 90, "blue"), (240, 70, "blue")],
    ]
    for index, bars in enumerate(rows):
        y = 40 + 37 * index
        d.box(315, y, 425, 30)
        d.text(323, y + 20, f"executor {index}", "small muted")
        for x, w, colour in bars:
            d.bar(392 + x, y + 5, w, 20, colour)
    for x, y in [(560, 55), (571, 92), (515, 166)]:
        d.line(x, y, x + 20, y, "red", 2)
    d.text(20, 204, "A stage is ready when its parents are done (grey).", "small muted")
    d.text(
        20,
        222,
        "Red: an executor moves to another job, which takes time. Goal: a low mean completion time.",
        "small muted",
    )
    return d


def family_taskgraph() -> Drawing:
    """Draw taskgraph: a graph of tasks on tiles, processors with memories and a link."""
    d = Drawing(240, "Taskgraph: tasks read and write tiles; which task on which processor, and what stays in memory?")
    d.text(20, 24, "graph of tasks", "bold")
    nodes = {"P": (60, 52), "T1": (30, 104), "T2": (95, 104), "S1": (30, 156), "G": (95, 156), "P2": (60, 202)}
    for start, end in [("P", "T1"), ("P", "T2"), ("T1", "S1"), ("T1", "G"), ("T2", "G"), ("S1", "P2"), ("G", "P2")]:
        (x1, y1), (x2, y2) = nodes[start], nodes[end]
        length = ((x2 - x1) ** 2 + (y2 - y1) ** 2) ** 0.5
        ux, uy = (x2 - x1) / length, (y2 - y1) / length
        d.arrow((x1 + 15 * ux, y1 + 15 * uy), (x2 - 17 * ux, y2 - 17 * uy))
    for name, (x, y) in nodes.items():
        colour = {"P": "blue", "T": "orange", "S": "green", "G": "purple"}[name[0]]
        d.dot(x, y, 14, colour, {"P": "PO", "T": "TR", "S": "SY", "G": "GE"}[name[0]])
    d.text(175, 24, "tiles", "bold")
    for row in range(4):
        for column in range(row + 1):
            d.box(175 + 26 * column, 44 + 26 * row, 23, 23, "blue" if row == column else "orange", "card", 2)
    d.text(175, 172, "A task reads", "small muted")
    d.text(175, 188, "and writes tiles.", "small muted")
    d.arrow((288, 100), (312, 100))
    d.text(320, 24, "processors, memories, links", "bold")
    bars = {
        "CPU 0": [(0, 60, "blue"), (220, 60, "blue")],
        "GPU 0": [(85, 40, "orange"), (130, 52, "green"), (186, 30, "purple")],
        "GPU 1": [(92, 44, "orange"), (150, 66, "purple")],
    }
    for index, (name, runs) in enumerate(bars.items()):
        y = 42 + 46 * index
        d.box(320, y, 420, 36)
        d.text(328, y + 23, name, "small muted")
        for x, w, colour in runs:
            d.bar(375 + x, y + 6, w, 24, colour)
        if index:
            for tile in range(4):
                d.box(676 + 15 * tile, y + 11, 12, 14, "grey" if tile > 1 else "orange", "card", 2)
    d.line(436, 72, 459, 92, "red", 2)
    d.line(436, 72, 466, 138, "red", 2)
    d.text(320, 200, "Red: a tile crosses a link before the task can begin.", "small muted")
    d.text(320, 218, "Small squares: tiles in GPU memory. Goal: finish the graph early.", "small muted")
    return d


def family_serving() -> Drawing:
    """Draw serving: requests, a router, accelerators that host variants and run batches."""
    d = Drawing(240, "Serving: which variant does each accelerator host, and where does a request go?")
    d.text(20, 24, "requests", "bold")
    for index, (name, colour) in enumerate([("images", "blue"), ("text", "orange")]):
        y = 60 + 64 * index
        d.text(20, y - 6, name, "small muted")
        for x in (0, 14, 22, 46, 60, 82, 88):
            d.bar(20 + x, y, 5, 22, colour)
    d.label(160, 76, 96, 52, "Router", "batches")
    d.arrow((120, 84), (158, 96))
    d.arrow((120, 136), (158, 112))
    d.label(160, 168, 96, 44, "Planner", fill="purple")
    d.text(310, 24, "accelerators, each hosts one variant", "bold")
    rows = [
        ("A100", "resnet152, 78%", "blue", [(0, 60), (64, 60), (128, 60)], (192, 26)),
        ("T4", "resnet18, 70%", "blue", [(0, 34), (38, 34), (90, 34), (130, 34)], None),
        ("T4", "bert-base, 84%", "orange", [(10, 80), (94, 80)], None),
    ]
    for index, (kind, variant, colour, batches, load) in enumerate(rows):
        y = 40 + 50 * index
        d.box(310, y, 430, 40)
        d.text(320, y + 17, kind, "small bold")
        d.text(320, y + 32, variant, "small muted")
        for x, w in batches:
            d.bar(428 + x, y + 8, w, 24, colour, "4" if w > 50 else "2")
        if load:
            d.bar(428 + load[0], y + 8, load[1], 24, "grey")
        d.arrow((258, 102), (306, y + 20))
    d.bar(650, 48, 60, 24, "orange", "4")
    d.arrow((258, 190), (308, 190))
    d.text(318, 194, "chooses the variants, every few seconds", "small")
    d.text(318, 218, "Grey: weights load. Numbers: requests in a batch.", "small muted")
    return d


def family_cluster() -> Drawing:
    """Draw cluster: a queue of jobs of several sizes, GPUs over time, a backfilled job."""
    d = Drawing(240, "Cluster: which waiting job starts next, on which GPUs?")
    d.text(20, 24, "waiting jobs", "bold")
    queue = [("first: 4 GPUs, 3 h", 60, 48, "purple"), ("1 GPU, 1 h", 20, 12, "green"), ("2 GPUs, 4 h", 80, 24, "blue")]
    y = 38.0
    for name, w, h, colour in queue:
        d.bar(20, y, w, h, colour)
        d.text(110, y + h / 2 + 4, name, "small")
        y += h + 16
    d.text(20, 190, "height: GPUs, length: run time", "small muted")
    d.arrow((232, 100), (282, 100))
    d.text(300, 24, "GPUs over time", "bold")
    d.box(300, 36, 440, 132)
    for gpu in range(1, 6):
        d.line(300, 36 + 22 * gpu, 740, 36 + 22 * gpu)
    for x, gpu, w, gpus, colour, text in [
        (302, 0, 190, 3, "blue", "job A"),
        (302, 3, 110, 2, "orange", "job B"),
        (416, 3, 76, 1, "green", "backfilled"),
        (496, 0, 150, 4, "purple", "reserved for the first job"),
    ]:
        d.bar(x, 37 + 22 * gpu, w, 22 * gpus - 2, colour, text)
    d.line(416, 30, 416, 174, "red", 2)
    d.text(416, 190, "now", "small", "middle")
    d.text(
        20,
        220,
        "A job may start before the first one if it does not delay it. Goal: short waits, low energy, fair shares.",
        "small muted",
    )
    return d


def family_llm() -> Drawing:
    """Draw llm: waiting requests, an engine whose batch advances step by step, and its memory of blocks."""
    d = Drawing(240, "Llm: which waiting request joins the batch, and which one leaves a full memory?")
    d.text(20, 24, "waiting requests", "bold")
    queue = [("request 6", 96, 30), ("request 7", 22, 60), ("request 8", 48, 18)]
    for index, (name, prompt, output) in enumerate(queue):
        y = 44 + 44 * index
        d.text(20, y - 1, name, "small muted")
        d.bar(20, y + 4, prompt, 16, "grey")
        d.box(20 + prompt + 2, y + 4, output, 16, "box", "grey", 3)
    d.text(20, 186, "full: prompt, open: output", "small muted")
    d.arrow((160, 92), (208, 92))
    d.text(220, 24, "engine: a batch of seats, step by step", "bold")
    steps = [236 + 36 * step for step in range(9)]
    rows = [
        ("green", 0, [(0, 36, "prompt")], range(1, 9)),
        ("blue", 1, [(36, 36, "prompt")], range(2, 6)),
        ("orange", 2, [(0, 72, "prompt")], range(2, 9)),
        ("purple", 3, [(108, 36, "prompt")], range(4, 7)),
    ]
    for colour, row, prompts, tokens in rows:
        y = 40 + 34 * row
        d.box(220, y, 340, 28)
        for x, w, text in prompts:
            d.bar(224 + x, y + 4, w - 3, 20, colour, text if w > 40 else "")
        for step in tokens:
            d.bar(steps[step] - 12, y + 4, 33, 20, colour)
    d.text(492, 162, "preempted", "small muted")
    d.line(476, 36, 476, 178, "red", 2)
    d.text(476, 194, "memory is full", "small", "middle")
    d.text(590, 24, "memory of blocks", "bold")
    owners = ["green"] * 9 + ["orange"] * 10 + ["purple"] * 5
    for block, colour in enumerate(owners):
        d.box(590 + 24 * (block % 6), 40 + 24 * (block // 6), 21, 21, colour, "card", 2)
    d.text(590, 152, "Colour: whose tokens.", "small muted")
    d.text(590, 168, "Full: a request has to leave.", "small muted")
    d.text(20, 222, "Every step gives each running request one token; prompts share its token budget.", "small muted")
    return d


def family_elastic() -> Drawing:
    """Draw elastic: throughputs of jobs on kinds and numbers of GPUs, and their allocation round by round."""
    d = Drawing(240, "Elastic: which GPUs does each job have in the next round, and how many?")
    d.text(20, 24, "throughput by kind and number", "bold")
    speeds = {"image model": ("blue", [20, 36, 80, 150]), "recommender": ("orange", [30, 44, 48, 62])}
    for index, (name, (colour, widths)) in enumerate(speeds.items()):
        y = 44 + 76 * index
        d.text(20, y, name, "small muted")
        for row, (text, width) in enumerate(zip(("1 old", "2 old", "1 new", "2 new"), widths, strict=True)):
            d.text(20, y + 15 + 14 * row, text, "small muted")
            d.bar(66, y + 7 + 14 * row, width, 9, colour)
    d.arrow((236, 108), (276, 108))
    d.text(290, 24, "GPUs, allocated anew in every round", "bold")
    rows = [
        ("new 0", ["orange", "blue", "blue", "green"]),
        ("new 1", ["blue", "blue", "blue", "green"]),
        ("old 0", ["green", "orange", "orange", "orange"]),
        ("old 1", ["green", "green", "", "blue"]),
    ]
    for index, (name, owners) in enumerate(rows):
        y = 40 + 34 * index
        d.box(290, y, 450, 28)
        d.text(298, y + 18, name, "small muted")
        for number, colour in enumerate(owners):
            if colour:
                changed = number > 0 and owners[number - 1] != colour
                d.bar(346 + 97 * number + (14 if changed else 0), y + 4, 78 if changed else 92, 20, colour)
    for number in range(1, 4):
        d.line(343 + 97 * number, 36, 343 + 97 * number, 178)
    d.text(440, 194, "next round", "small", "middle")
    d.text(20, 220, "Gaps: a job restarts on other GPUs. Goal: short completion times, fair shares.", "small muted")
    return d


DECISION = IMAGES / "auto-decision.json"
SCENARIO, BASE, SEED, LEAST = "dag/small", "fair", 3, 3
"""Where the decision of the picture is found: the greatest lead over the base among at least `LEAST` candidates."""


def decide() -> None:
    """Write the leads of all candidates of a decision of `rollout` over the base's choice, in all of its futures."""
    from slipstream.policies.base import find
    from slipstream.policies.rollout import Rollout
    from slipstream.scenario import load
    from slipstream.sim.simulator import Simulator

    simulator = Simulator(load(SCENARIO), log_rows=0)
    policy = Rollout("dag", [find(BASE, "dag")])
    simulator.reset(SEED, "eval")
    greatest = 0.0
    while simulator.asking:
        found = policy.estimate(simulator)
        leads = found.totals - found.totals[:, :1]
        taken = found.actions.tolist().index(found.action)
        if len(found.actions) >= LEAST and leads[:, taken].mean() > greatest:
            greatest = float(leads[:, taken].mean())
            simulator.observe()
            rows = [simulator.family.row_name(simulator, row) or "wait" for row in found.actions.tolist()]
            data = {"number": int(simulator.header["choices"]) - 1, "rows": rows, "taken": taken}
            data |= {"leads": leads.T.round(3).tolist(), "errors": found.errors.round(3).tolist()}
        simulator.step(found.action)
    DECISION.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def auto_decision() -> Drawing:
    """Draw the candidates of a decision, each with its lead over the base's choice in every future."""
    data = json.loads(DECISION.read_text(encoding="utf-8"))
    rows, leads, errors = data["rows"], data["leads"], data["errors"]
    futures, left, right, step = len(leads[0]), 250.0, 630.0, 44
    picture = Drawing(
        96 + step * len(rows), f"A decision of rollout: {len(rows)} candidates, each played on in {futures} futures"
    )
    picture.text(20, 30, f"Decision {data['number']} of {SCENARIO}, under rollout({BASE})", "bold")
    picture.text(20, 50, f"Every candidate is played on by {BASE} in the same {futures} futures.", "small muted")
    picture.text(20, 80, "candidate", "small bold")
    picture.text(left, 80, "lead in each future, and their mean", "small bold")
    picture.text(740, 80, "lead ± error", "small bold", "end")
    low, high = min(map(min, leads)), max(map(max, leads))

    def x(value: float) -> float:
        return float(left + (right - left) * (value - low) / (high - low or 1.0))

    picture.line(x(0.0), 88, x(0.0), 106 + step * len(rows) - 30, "blue")
    for index, (row, own) in enumerate(zip(rows, leads, strict=True)):
        mean = sum(own) / futures
        y, taken = 106 + step * index, index == data["taken"]
        colour = "green" if taken else "blue" if index == 0 else "grey"
        if taken:
            picture.box(10, y - 20, WIDTH - 20, step - 6, "box", "green")
        note = "taken" if taken else f"what {BASE} would choose" if index == 0 else ""
        picture.text(20, y, row, "bold" if taken else "")
        picture.text(20, y + 15, note, "small muted")
        picture.line(left, y, right, y)
        for value in own:
            picture.dot(x(value), y, 3.5, colour)
        picture.line(x(mean), y - 11, x(mean), y + 11, "red", 3)
        lead = "0" if index == 0 else f"{mean:+.1f} ± {errors[index]:.1f}"
        picture.text(740, y + 4, lead, "small", "end")
    return picture


PICTURES: dict[str, Callable[[], Drawing]] = {
    "decision-loop": decision_loop,
    "data-flow": data_flow,
    "auto-decision": auto_decision,
    "family-edge": family_edge,
    "family-dag": family_dag,
    "family-taskgraph": family_taskgraph,
    "family-serving": family_serving,
    "family-cluster": family_cluster,
    "family-llm": family_llm,
    "family-elastic": family_elastic,
}


def main() -> None:
    """Write all pictures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--decide", action="store_true", help="take the decision of auto-decision.svg anew")
    if parser.parse_args().decide:
        decide()
    for name, draw in PICTURES.items():
        (IMAGES / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
