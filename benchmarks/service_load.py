"""What the HTTP service keeps up under load: goodput by number of connections, beside a slow-header attack, and memory.

The service is the command itself, `slipstream execute --listen`, with a small network and a queue that holds a request
of every connection. The clients are a closed loop: each connection sends its next request when it has the last answer.

Keys: levels (by number of connections: goodput_per_s, answers with status 200 per second that met their deadline;
p99_ms of their latency as the client sees it; cpu_us_per_answer, the processor time of the service for each, which
other programs disturb less; refused and broken, requests with another answer or none; ratio of the goodput to the best
level), least_ratio (the smallest of these ratios), slow_headers (goodput and ratio at 256 connections beside half-sent
heads that are replaced as soon as the service closes them, healthz_p99_ms and healthz_failed meanwhile), crowded (32
and the most connections with a queue of 16: most requests are refused with 429, and asked again at once), memory
(growth of the service in bytes per job, in the first and in the second half), others (share of the machine that other
programs took before).

Nine minutes; each measurement is printed on standard error.

    python benchmarks/service_load.py --json
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from options import print_figures

from slipstream.device.measurement.noise import others_share

REQUEST_BODY = b'{"sample": 0}'
REQUEST = (
    b"POST /v1/tasks/quick HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%s" % (len(REQUEST_BODY), REQUEST_BODY)
)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
HALF_A_HEAD = b"POST /v1/tasks/quick HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
DEADLINE_MS = 60_000
DESCRIPTORS = 12_000
STEADY_CONNECTIONS = 256
"""Of the measurements that are about something else than the number of connections."""


def scenario(queue_limit: int) -> dict[str, Any]:
    """Return a scenario of one quick network that takes requests."""
    task = {
        "name": "quick",
        "model": "builtin:mobilenet?variant=0",
        "dataset": "synthetic:3x16x16",
        "num_variants": 1,
        "variants": [{"latency_ms": 1.0, "accuracy": 0.7}],
        "arrival": {"kind": "external", "mean_gap_ms": 1.0},
        "deadline_ms": DEADLINE_MS,
    }
    return {"family": "edge", "horizon_ms": 1000, "device": {"queue_limit": queue_limit}, "tasks": [task]}


class Service:
    """A running command and where it listens."""

    def __init__(self, process: subprocess.Popen[str], port: int) -> None:
        self.process, self.port = process, port

    def resident_bytes(self) -> int:
        """Return the resident memory of the process that answers."""
        status = Path(f"/proc/{self.process.pid}/status").read_text()
        return 1024 * int(status.partition("VmRSS:")[2].split()[0])

    def cpu_seconds(self) -> float:
        """Return the processor time that the process which answers has taken, without its workers."""
        fields = Path(f"/proc/{self.process.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


@contextmanager
def service(queue_limit: int) -> Iterator[Service]:
    """Start the command, give it when it takes work, and end it in order."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "load.json").write_text(json.dumps(scenario(queue_limit)))
        command = [str(Path(sys.executable).with_name("slipstream")), "execute", "load.json", "--policy", "edf"]
        process = subprocess.Popen(
            [*command, "--listen", "127.0.0.1:0", "--json", "--log", "load.parquet"],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        try:
            started = json.loads("".join(iter(process.stdout.readline, "}\n")) + "}")
            running = Service(process, int(started["url"].rstrip("/").rpartition(":")[2]))
            asyncio.run(_until_well(running.port))
            yield running
        finally:
            process.terminate()  # a Ctrl-C is ignored where a shell started this in the background
            process.stdout.read()
            process.wait(120)
            process.stdout.close()


async def _until_well(port: int) -> None:
    until = time.monotonic() + 300.0
    while time.monotonic() < until:
        with contextlib.suppress(OSError):
            if await ask_health(port):
                return
        await asyncio.sleep(0.05)
    raise SystemExit("the service was not ready within 300 s")


async def ask_health(port: int) -> bool:
    """Return whether the health check of a new connection succeeds within 10 s."""
    try:
        async with asyncio.timeout(10.0):
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                writer.write(HEALTH)
                return (await reader.read()).startswith(b"HTTP/1.1 200")
            finally:
                writer.close()
    except (TimeoutError, ConnectionError):
        return False


class Tally:
    """What the clients of one level saw, while it counts."""

    def __init__(self) -> None:
        self.counting = False
        self.open = True
        self.outcomes: Counter[str] = Counter()
        self.latencies: list[float] = []

    def note(self, outcome: str, seconds: float = 0.0) -> None:
        """Count an outcome; the latency only of good ones."""
        if self.counting:
            self.outcomes[outcome] += 1
            if outcome == "good":
                self.latencies.append(seconds)


class Client(asyncio.Protocol):
    """One connection of a closed loop: sends a request, reads its answer, sends the next."""

    def __init__(self, tally: Tally, gone: asyncio.Future[None]) -> None:
        self._tally, self._gone = tally, gone
        self._received = b""
        self._sent = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._ask()

    def _ask(self) -> None:
        self._sent = time.perf_counter()
        self._transport.write(REQUEST)

    def data_received(self, data: bytes) -> None:
        self._received += data
        head, blank, body = self._received.partition(b"\r\n\r\n")
        if not blank or len(body) < int(head.lower().partition(b"content-length:")[2].split()[0]):
            return
        self._received = b""
        met = head.startswith(b"HTTP/1.1 200") and b'"deadline_met":true' in body.replace(b" ", b"")
        self._tally.note("good" if met else f"status {head[9:12].decode()}", time.perf_counter() - self._sent)
        if self._tally.open and b"connection: close" not in head.lower():
            self._ask()
        else:
            self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        if self._sent and error is not None:
            self._tally.note("broken")
        if not self._gone.done():
            self._gone.set_result(None)


async def _client(port: int, tally: Tally) -> None:
    """Keep one closed loop going; connect again where the service hung up."""
    loop = asyncio.get_running_loop()
    while tally.open:
        gone: asyncio.Future[None] = loop.create_future()
        try:
            transport, _ = await loop.create_connection(lambda gone=gone: Client(tally, gone), "127.0.0.1", port)
        except OSError:
            tally.note("broken")
            await asyncio.sleep(0.1)
            continue
        try:
            await gone
        finally:
            transport.abort()


async def _half_a_head(port: int, tally: Tally) -> None:
    """Hold a connection with a head that never ends; take another when the service closes it."""
    while tally.open:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
        except OSError:
            await asyncio.sleep(0.1)
            continue
        try:
            writer.write(HALF_A_HEAD)
            with contextlib.suppress(ConnectionError):
                await reader.read()
        finally:
            writer.transport.abort()


async def _health(port: int, tally: Tally, latencies: list[float], failed: list[float]) -> None:
    """Ask for the health ten times a second."""
    while tally.open:
        began = time.perf_counter()
        well = await ask_health(port)
        (latencies if well else failed).append(time.perf_counter() - began)
        await asyncio.sleep(0.1)


async def _level(running_service: Service, connections: int, seconds: float, slow: int = 0) -> dict[str, Any]:
    port, tally = running_service.port, Tally()
    latencies: list[float] = []
    failed: list[float] = []
    running = [asyncio.create_task(_half_a_head(port, tally)) for _ in range(slow)]
    if slow:
        await asyncio.sleep(2.0)
    running += [asyncio.create_task(_client(port, tally)) for _ in range(connections)]
    running.append(asyncio.create_task(_health(port, tally, latencies, failed)))
    await asyncio.sleep(max(2.0, seconds / 2))  # until all are connected, and the queue has its length
    tally.counting, began, cpu = True, time.perf_counter(), running_service.cpu_seconds()
    await asyncio.sleep(seconds)
    tally.counting, spent = False, time.perf_counter() - began
    cpu = running_service.cpu_seconds() - cpu
    tally.open = False
    for task in running:
        task.cancel()
    await asyncio.gather(*running, return_exceptions=True)
    return {
        "goodput_per_s": tally.outcomes["good"] / spent,
        "p99_ms": float(np.percentile(tally.latencies, 99)) * 1e3 if tally.latencies else None,
        "cpu_us_per_answer": 1e6 * cpu / max(1, tally.outcomes["good"]),
        "refused": sum(count for name, count in tally.outcomes.items() if name.startswith("status")),
        "broken": tally.outcomes["broken"],
        "healthz_p99_ms": float(np.percentile(latencies, 99)) * 1e3 if latencies else None,
        "healthz_failed": len(failed),
    }


def level(running: Service, connections: int, seconds: float, slow: int = 0) -> dict[str, Any]:
    """Measure the service at one number of connections, with a number of half-sent headers beside; leave it idle."""
    found = asyncio.run(_level(running, connections, seconds, slow))
    beside = f" beside {slow:,} half-sent heads" if slow else ""
    print(f"{connections:,} connections{beside}: {found['goodput_per_s']:,.0f} answers/s", file=sys.stderr, flush=True)
    time.sleep(2.0)
    return found


def memory(running: Service, seconds: float) -> dict[str, float]:
    """Return the growth of the service in bytes per job, in both halves of a steady load."""

    async def load() -> list[tuple[int, int]]:
        tally = Tally()
        tally.counting = True
        tasks = [asyncio.create_task(_client(running.port, tally)) for _ in range(STEADY_CONNECTIONS)]
        await asyncio.sleep(seconds / 6)
        marks = []
        for pause in (0.0, seconds / 2, seconds / 2):
            await asyncio.sleep(pause)
            marks.append((running.resident_bytes(), tally.outcomes["good"]))
            tally.latencies.clear()
        tally.open = False
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        return marks

    print(f"memory under a steady load, {seconds * 7 / 6:.0f} s", file=sys.stderr, flush=True)
    marks = asyncio.run(load())
    halves = [(after[0] - before[0]) / max(1, after[1] - before[1]) for before, after in pairwise(marks)]
    return {
        "first_half_bytes_per_job": halves[0],
        "second_half_bytes_per_job": halves[1],
        "jobs": float(marks[-1][1]),
        "resident_mb": marks[-1][0] / 1e6,
    }


def mean_of(rounds: list[dict[str, Any]]) -> dict[str, Any]:
    """Return the means of the rates, the medians of the times and the sums of the counts of some rounds."""
    found: dict[str, Any] = {"goodput_per_s": float(np.mean([one["goodput_per_s"] for one in rounds]))}
    for name in ("p99_ms", "cpu_us_per_answer", "healthz_p99_ms"):
        known = [one[name] for one in rounds if one[name] is not None]
        found[name] = float(np.median(known)) if known else None
    return found | {name: sum(one[name] for one in rounds) for name in ("refused", "broken", "healthz_failed")}


def measure(levels: list[int], seconds: float, rounds: int, slow: int, memory_seconds: float) -> dict[str, Any]:
    """Return every figure; the levels are measured in turn, since a shared machine changes its speed."""
    figures: dict[str, Any] = {"others": others_share()}
    with service(queue_limit=2 * max(levels)) as running:
        turns = [{each: level(running, each, seconds) for each in levels} for _ in range(rounds)]
        found = {each: mean_of([turn[each] for turn in turns]) for each in levels}
        attacked = mean_of([level(running, STEADY_CONNECTIONS, seconds, slow) for _ in range(rounds)])
        growth = memory(running, memory_seconds) if memory_seconds else {}
    best = max(row["goodput_per_s"] for row in found.values())
    with service(queue_limit=16) as running:
        turns = [{each: level(running, each, seconds) for each in (32, max(levels))} for _ in range(rounds)]
        crowded = {each: mean_of([turn[each] for turn in turns]) for each in (32, max(levels))}
    fewest, most = crowded.values()
    for row in (*found.values(), attacked):
        row["ratio"] = row["goodput_per_s"] / best
    most["ratio"] = most["goodput_per_s"] / fewest["goodput_per_s"]
    figures["levels"] = found
    figures["least_ratio"] = min(row["ratio"] for row in found.values())
    figures["slow_headers"] = attacked
    figures["crowded"] = crowded
    figures["memory"] = growth
    return figures


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--levels", default="32,256,1000,5000", help="numbers of connections")
    parser.add_argument("--seconds", type=float, default=6.0, help="seconds per measurement")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured, in turn")
    parser.add_argument("--slow", type=int, default=1023, help="half-sent headers of the attack")
    parser.add_argument("--memory-seconds", type=float, default=180.0, help="seconds of the steady load; 0: none")
    chosen = parser.parse_args()
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < DESCRIPTORS:
        raise SystemExit(f"at most {hard:,} open files are allowed here: expected {DESCRIPTORS:,} (`ulimit -Hn`)")
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    levels = [int(word) for word in chosen.levels.split(",")]
    figures = measure(levels, chosen.seconds, chosen.rounds, chosen.slow, chosen.memory_seconds)
    print_figures(figures, chosen.json)


if __name__ == "__main__":
    main()
