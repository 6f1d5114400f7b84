"""What a Slurm cluster is doing at one moment: its nodes, and the jobs that run, wait or have just ended."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass

LEFT_TO_SLURM = ("Dependency", "DependencyNeverSatisfied", "BeginTime")
"""Reasons for which a job waits that no scheduling decision changes."""
RUNNING = ("RUNNING", "COMPLETING", "CONFIGURING", "SUSPENDED", "STAGE_OUT")
"""States in which a job holds GPUs."""
HELD = ("JobHeldUser", "JobHeldAdmin")
MOST_ARRAY_TASKS = 100_000
MARK = "slipstream"
"""Administrator's comment of jobs whose list of required nodes is a driver's."""


@dataclass(frozen=True)
class SlurmNode:
    """A node."""

    name: str
    kind: str
    """Type of its GPUs."""
    gpus: int
    available: bool
    """Whether jobs may start there: it is neither down nor drained nor reserved."""


@dataclass(frozen=True)
class SlurmJob:
    """A job, or one task of a job array; times in seconds since 1970."""

    id: str
    """As Slurm's commands take it: '12', or '12_3' for a task of an array."""
    user: str
    partition: str
    state: str
    """PENDING, RUNNING, COMPLETED and so on."""
    reason: str
    """Why it waits."""
    gpus: int
    limit_s: float
    """Time limit, infinite if there is none."""
    submit: float
    start: float
    """0 if it has not started."""
    end: float
    """0 if it has not ended."""
    held: tuple[tuple[str, int], ...] = ()
    """The GPUs it holds: (node, GPUs)."""
    restarts: int = 0
    """Number of times it was requeued."""
    on_nodes: int | None = None
    """Number of nodes that its request is about, None if it asked for GPUs in all, on any number of nodes."""
    constrained: bool = False
    """Whether its user asked for certain nodes or features."""
    is_placed: bool = False
    """Whether its list of required nodes is one that a driver wrote."""

    @property
    def runs(self) -> bool:
        """Whether it holds GPUs."""
        return self.state in RUNNING

    @property
    def waits(self) -> bool:
        """Whether it waits for a start."""
        return self.state in ("PENDING", "REQUEUED", "REQUEUE_HOLD", "SPECIAL_EXIT")

    @property
    def is_held(self) -> bool:
        """Whether it waits until it is released."""
        return self.waits and self.reason in HELD

    @property
    def can_start(self) -> bool:
        """Whether nothing but a decision, a release and free GPUs keeps it from starting."""
        return self.waits and self.reason not in LEFT_TO_SLURM


@dataclass(frozen=True)
class Snapshot:
    """Nodes and jobs of the chosen partitions at the time `now`."""

    now: float
    nodes: tuple[SlurmNode, ...]
    jobs: tuple[SlurmJob, ...]


# Notations of Slurm


def gpus_of_tres(text: str) -> int:
    """Return the number of GPUs in a list of resources such as 'cpu=4,gres/gpu=2' or 'gres:gpu:a100:2'."""
    total = typed = 0
    for part in text.split(","):
        found = re.fullmatch(r"(?:gres[:/])?gpu(?:[:/]([^=:/]+))?(?:[=:](\d+))?(?:\(.*)?", part.strip())
        if found is None:
            continue
        kind, count = found.groups()
        if kind is not None and count is None and kind.isdigit():
            kind, count = None, kind
        if kind is None:
            total += int(count or 1)
        else:
            typed += int(count or 1)
    # Accounting lists the total beside the number of each type.
    return total or typed


def gres_of(text: str) -> tuple[str, int]:
    """Return type and number of the GPUs of a node from its generic resources, such as 'gpu:a100:4(S:0-1)'."""
    kinds, count = [], 0
    for part in re.sub(r"\([^)]*\)", "", text).split(","):
        words = part.split(":")
        if words[0] == "gpu" and words[-1].isdigit():
            kinds.append(words[1] if len(words) > 2 else "gpu")
            count += int(words[-1])
    return "+".join(sorted(set(kinds))), count


def seconds_of_limit(text: str) -> float | None:
    """Return a time limit such as '1-02:03:04', '02:03:04' or '3:04' in seconds, infinite if there is none."""
    if text in ("UNLIMITED", "Partition_Limit", "infinite", "INVALID", "NOT_SET", ""):
        return math.inf
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)(?:\.\d+)?", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)


def nodes_of(text: str) -> list[str]:
    """Return the names in a list of nodes such as 'n[1-3,5],login'."""
    names = []
    for part in re.findall(r"[^,\[]+(?:\[[^\]]*\][^,\[]*)*", text):
        names += _expanded(part)
    return names


def _expanded(part: str) -> list[str]:
    found = re.match(r"([^\[]*)\[([^\]]*)\](.*)", part)
    if found is None:
        return [part]
    before, ranges, after = found.groups()
    names = []
    for one in ranges.split(","):
        low, dash, high = one.partition("-")
        for number in range(int(low), int(high if dash else low) + 1):
            names += _expanded(f"{before}{number:0{len(low)}d}{after}")
    return names


def array_tasks(text: str) -> list[int]:
    """Return the numbers in the task list of an array, such as '0-3,7%2' or '0-8:4'."""
    numbers: list[int] = []
    for part in text.partition("%")[0].split(","):
        found = re.fullmatch(r"(\d+)(?:-(\d+)(?::(\d+))?)?", part.strip())
        if found is not None:
            low, high, step = (int(one) if one else None for one in found.groups())
            assert low is not None
            numbers += range(low, (low if high is None else high) + 1, step or 1)
        if len(numbers) > MOST_ARRAY_TASKS:
            break
    return numbers[:MOST_ARRAY_TASKS]


def natural(name: str) -> tuple[tuple[int, int, str], ...]:
    """Return a sort key in which n2 comes before n10."""
    return tuple((0, int(part), "") if part.isdigit() else (1, 0, part) for part in re.findall(r"\d+|\D+", name))


def kinds_of(nodes: tuple[SlurmNode, ...]) -> Mapping[str, list[SlurmNode]]:
    """Return the nodes with GPUs by the name of their kind, in the order of their names.

    A kind is named by the type of its GPUs, and by their number too where nodes with that type differ in it.
    """
    with_gpus = sorted((node for node in nodes if node.gpus), key=lambda node: natural(node.name))
    sizes: dict[str, set[int]] = {}
    for node in with_gpus:
        sizes.setdefault(node.kind, set()).add(node.gpus)
    kinds: dict[str, list[SlurmNode]] = {}
    for node in with_gpus:
        name = node.kind if len(sizes[node.kind]) == 1 else f"{node.kind}-{node.gpus}"
        kinds.setdefault(name, []).append(node)
    return kinds
