"""Requests to the dashboard and to the service of a device, straight into their applications."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import quote

from slipstream.dashboard.app import create_app as create_dashboard
from slipstream.dashboard.jobs import Job, Jobs
from slipstream.device.request_queue import RequestQueue
from slipstream.device.workload import workload_of
from slipstream.scenario import dump, load
from slipstream.service.app import Service
from slipstream.service.http import encode, parse_head
from slipstream.service.inputs import JSON, RAW, input_of
from tests.fuzz.checks import BrokenError
from tests.fuzz.mutations import damaged_bytes, json_bytes, nasty, nasty_name
from tests.fuzz.stored import runs_folder
from tests.fuzz.surface import Reading, Surface, put

QUESTIONS = {
    "/api/metrics": ("run",),
    "/api/compare": ("run", "baseline"),
    "/api/replay": ("run",),
    "/api/window": ("run", "from", "to", "columns", "detail"),
    "/api/moment": ("run", "at"),
    "/api/decision": ("run", "at", "number"),
    "/api/scenario": ("name",),
    "/page": ("name",),
}
"""What the dashboard is asked by GET, and with which parameters."""
REFUSALS = {*range(400, 500), 503}
"""Status of requests that are refused; 503 says that the device does not run."""
EXTERNAL = {"kind": "external", "mean_gap_ms": 20}


class IdleJobs(Jobs):
    """Jobs that are accepted and never begun: a case must not start a process."""

    def _work(self, job: Job) -> None:
        job.state = "done"


class Requests(Surface):
    """Bodies, headers, paths and parameters of requests."""

    name = "http"
    share = 0.8

    def prepare(self, home: Path) -> None:
        files = runs_folder(home / "runs")
        self.names = [*files, "trained", "tried", "deep"]
        self.loop = asyncio.new_event_loop()
        # What explains choices is compiled at the first question.
        put(files, home / "asked")
        first = create_dashboard(home / "asked", None, IdleJobs(home / "asked"))
        for name in files:
            if name.endswith(".parquet"):
                asked = _ask(first, "GET", "/api/decision", f"run={quote(name)}", b"", {"host": "localhost"})
                self.loop.run_until_complete(asked)
        self.dashboard: Any = None
        self.files = files
        self.trial = {"text": dump(load("edge/tiny")), "policies": ["edf", "edf-fit"], "episodes": 2, "seed": 0}
        task: dict[str, Any] = {"model": "builtin:mobilenet", "dataset": "synthetic:1x2x2", "num_variants": 1}
        task |= {
            "name": "camera",
            "arrival": EXTERNAL,
            "deadline_ms": 100,
            "variants": [{"latency_ms": 1, "accuracy": 0.5}],
        }
        scenario: Any = load({"family": "edge", "name": "service", "horizon_ms": 1000, "tasks": [task]})
        self.requests = RequestQueue(scenario, workload_of(scenario))
        self.service = Service(scenario, self.requests)

    def close(self) -> None:
        self.loop.run_until_complete(self.loop.shutdown_default_executor())
        self.loop.close()
        self.requests.close_sockets()

    def make(self, rng: Random, folder: Path) -> Reading:
        if rng.random() < 0.35:
            return self._service(rng)
        runs = folder / "runs"
        put({name: self.files[name] for name in rng.sample(list(self.files), 2)}, runs)
        if self.dashboard is None:  # the folder of cases is always the same
            self.dashboard = create_dashboard(runs, None, IdleJobs(runs))
        method, path, query, body, headers = self._dashboard(rng)

        def ask() -> list[str]:
            request = _ask(self.dashboard, method, path, query, body, headers)
            return _shown(*self.loop.run_until_complete(request))

        return ask

    def _dashboard(self, rng: Random) -> tuple[str, str, str, bytes, dict[str, str]]:
        headers = {"host": "localhost", "content-type": "application/json"}
        if rng.random() < 0.5:
            path = rng.choice(("/api/check", "/api/jobs"))
            data = self.trial if path == "/api/jobs" else {"text": self.trial["text"]}
            if rng.random() < 0.3:
                data = {**data, "text": json_bytes(rng, json.loads(str(data["text"]))).decode("utf-8", "replace")}
            body = json_bytes(rng, data) if rng.random() < 0.8 else damaged_bytes(rng, json.dumps(data).encode())
            return "POST", path, "", body, _headers(rng, headers, body)
        path = rng.choice(
            [*QUESTIONS, "/", "/api/runs", "/api/jobs", "/static/app.js", "/api/jobs/x", "/api/scenarios"]
        )
        values = {key: self._value(rng, key) for key in QUESTIONS.get(path, ()) if rng.random() < 0.9}
        query = "&".join(f"{key}={quote(value.encode('utf-8', 'surrogatepass'))}" for key, value in values.items())
        if rng.random() < 0.1:
            path = f"/{rng.choice(('static', 'api/jobs', 'page', '..'))}/{nasty_name(rng)[:300]}"
        method = rng.choice(("GET",) * 8 + ("HEAD", "DELETE", "PUT", "OPTIONS"))
        return method, path, query, b"", _headers(rng, headers, b"")

    def _value(self, rng: Random, key: str) -> str:
        if rng.random() < 0.3:
            return str(nasty(rng))[:2000]
        if key in ("run", "name"):
            return rng.choice([*self.names, "edge/tiny", nasty_name(rng)])
        return rng.choice(("0", "1", "5", "100", "-1", "1e18", "0.5", "300"))

    def _service(self, rng: Random) -> Reading:
        """Ask the service with bytes as they come from a connection, or hand an input to its reader."""
        data = rng.choice(({"input": [[[0.0, 1.0], [2.0, 3.0]]]}, {"sample": 0}))
        body = json_bytes(rng, data) if rng.random() < 0.7 else damaged_bytes(rng, rng.randbytes(16))
        kind = rng.choice((JSON, RAW, "text/plain", ""))
        if rng.random() < 0.5:
            task = self.requests.tasks["camera"]
            return lambda: [str(input_of(self.requests.kind(task), kind, body, self.requests.samples(task)).shape)]
        path = "/v1/tasks/" + (nasty_name(rng)[:300] if rng.random() < 0.2 else "camera")
        path = rng.choice((path, path, path, "/healthz", "/metrics", "/"))
        method = "POST" if path.startswith("/v1") else "GET"
        headers = _headers(rng, {"host": "localhost", "content-type": kind}, body)
        head = f"{method} {quote(path.encode('utf-8', 'surrogatepass'))}?token=%ff HTTP/1.1\r\n"
        head += "\r\n".join(f"{name}: {value}" for name, value in headers.items())
        raw = head.encode("latin-1", "replace")
        sent = damaged_bytes(rng, raw, 2) if rng.random() < 0.5 else raw

        def ask() -> list[str]:
            request = parse_head(sent)
            answer = self.service.admit(request) or self.service.answer(request, body, lambda _: None)
            if answer is None:
                raise BrokenError(f"{sent!r}: no answer, though no device runs")
            encode(answer, True)
            return _shown(answer.status, answer.content_type, answer.body)

        return ask


def _shown(status: int, content_type: str, answer: bytes) -> list[str]:
    """Return what of an answer is shown, once its status is one that it may have."""
    if not (200 <= status < 400 or status in REFUSALS):
        raise BrokenError(f"status {status}: {answer[:300]!r}")
    if not content_type.startswith("application/json"):
        return []
    text = answer.decode()
    told = json.loads(text).get("error", "") if status >= 400 and text else ""
    return [text, str(told)]


def _headers(rng: Random, headers: dict[str, str], body: bytes) -> dict[str, str]:
    """Return headers with the length of a body; some wrong, some odd."""
    headers = {**headers, "content-length": str(len(body))}
    if rng.random() < 0.2:
        name = rng.choice(
            ("host", "origin", "content-type", "content-length", "authorization", "cookie", "accept", "range")
        )
        headers[name] = rng.choice(
            ("", "x", "http://[", "-1", "99999999999", "1e3", "Bearer \xff", "a=b; c", "\x80", "[::1")
        )
    return headers


async def _ask(
    app: Any, method: str, path: str, query: str, body: bytes, headers: dict[str, str]
) -> tuple[int, str, bytes]:
    """Return status, content type and body of what an application answers."""
    raw = path.encode("utf-8", "surrogatepass")
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": raw.decode("utf-8", "replace"), "raw_path": quote(raw).encode(), "query_string": query.encode(),
        "root_path": "", "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
        "headers": [(name.encode(), value.encode("latin-1", "replace")) for name, value in headers.items()],
    }  # fmt: skip
    events = [{"type": "http.request", "body": body, "more_body": False}]
    sent: list[dict[str, Any]] = []

    async def receive() -> dict[str, Any]:
        return events.pop() if events else {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    await app(scope, receive, send)
    begun = next(one for one in sent if one["type"] == "http.response.start")
    kinds = [value.decode("latin-1") for name, value in begun["headers"] if name.lower() == b"content-type"]
    content = b"".join(one.get("body", b"") for one in sent if one["type"] == "http.response.body")
    return int(begun["status"]), (kinds or [""])[0], content
