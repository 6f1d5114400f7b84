"""HTTP service of a device: inputs for the `external` tasks of a scenario, answers, health and metrics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from socket import socket
from typing import Literal
from urllib.parse import parse_qs, unquote

from slipstream.dashboard.access import Access
from slipstream.device.request_queue import Answer, FullError, RequestQueue
from slipstream.errors import DeviceError, InputError
from slipstream.families.edge.scenario import EdgeScenario
from slipstream.service.handoff import Handoff
from slipstream.service.http import Request, Response, json_response, refusal
from slipstream.service.inputs import JSON, RAW, input_of, largest_body
from slipstream.service.metrics import CONTENT_TYPE, ServiceMetrics
from slipstream.service.server import BODY_SECONDS, MOST_READING_BYTES, Server, serving_in_thread

TASKS = "/v1/tasks/"
STATUS_PATHS = ("/healthz", "/metrics")
KNOWN = "expected POST /v1/tasks/NAME, GET /healthz or GET /metrics"

REFUSALS = {
    "expired": (503, "its deadline passed before it could start"),
    "dropped": (503, "the policy dropped it: the device cannot finish it in time"),
    "stopped": (503, "the device was stopped before it could run"),
    "rejected": (429, "the queue of the task is full: try again later"),
}
"""HTTP status and message of jobs that did not run."""


class Service:
    """Application that queues inputs for the runtime and sends the answers; with a token, only to those who have it."""

    def __init__(self, scenario: EdgeScenario, requests: RequestQueue, token: str | None = None) -> None:
        self._requests = requests
        self._tasks = {task.name: task for task in scenario.tasks}
        self._access = Access(
            token, "execute", max(largest_body(requests.kind(task)) for task in requests.tasks.values())
        )
        self.metrics = ServiceMetrics(requests.tasks)
        self.handoff = Handoff()

    def gauges(self) -> dict[str, tuple[str, dict[str, float]]]:
        """Return the gauges: help text and current values, by name."""
        in_flight = {name: float(self._requests.in_flight(task)) for name, task in self._requests.tasks.items()}
        return {
            "slipstream_inputs_in_flight": ("Inputs of a task that wait or run.", in_flight),
            "slipstream_up": ("Whether the device takes work.", {"": float(self._requests.healthy)}),
        }

    # As `server.Application`

    def essential(self, request: Request) -> bool:
        """Return whether a request asks for health or metrics."""
        return request.path in STATUS_PATHS

    def admit(self, request: Request) -> Response | None:
        """Return the refusal of a request before its body is read, None if it is admitted."""
        refused = self._access.refusal(request.method, request.headers, parse_qs(request.query).get("token", ()))
        if refused is not None:
            return refusal(*refused)
        is_task = request.path.startswith(TASKS) and "/" not in request.path[len(TASKS) :]
        if not is_task and request.path not in STATUS_PATHS:
            return refusal(404, f"not found: {KNOWN}")
        allowed = "POST" if is_task else "GET"
        if request.method != allowed:
            return json_response(405, {"error": f"method not allowed: {KNOWN}"}, f"Allow: {allowed}\r\n")
        if is_task:
            return self._admit_input(request)
        return refusal(413, "expected no body with GET") if request.length else None

    def _admit_input(self, request: Request) -> Response | None:
        name = _task_of(request)
        task = self._requests.tasks.get(name)
        if task is None:
            known = ", ".join(self._requests.tasks)
            return refusal(404, f"no task {name[:200]!r} takes requests: expected one of {known}")
        if _content_type(request) not in (JSON, RAW):
            return self._refuse(name, "bad_input", 415, f"content-type: expected {JSON} or {RAW}")
        try:
            self._requests.check(task)
        except FullError as error:
            return self._refuse(name, "full", 429, str(error))
        except DeviceError as error:
            return self._refuse(name, "stopped", 503, str(error))
        return None

    def answer(self, request: Request, body: bytes, reply: Callable[[Response], None]) -> Response | None:
        """Return the response to a request; None if `reply` will be called with it at the end of its job."""
        if request.path == "/healthz":
            healthy = self._requests.healthy
            return json_response(200 if healthy else 503, {"status": "ok" if healthy else "not running"})
        if request.path == "/metrics":
            return Response(200, self.metrics.text(self.gauges()).encode(), CONTENT_TYPE)
        name = _task_of(request)
        task = self._requests.tasks[name]
        try:
            values = input_of(self._requests.kind(task), _content_type(request), body, self._requests.samples(task))
            self._requests.offer(task, values, partial(self._send_answer, name, reply))
        except FullError as error:
            return self._refuse(name, "full", 429, str(error))
        except DeviceError as error:
            return self._refuse(name, "stopped", 503, str(error))
        except InputError as error:
            return self._refuse(name, "bad_input", 400, str(error))
        return None

    def refuse(self, request: Request, reason: Literal["late", "crowded"]) -> Response:
        """Return the refusal of a request whose body came too late, or exceeds the limit of bodies being read."""
        if reason == "late":
            text = f"the request did not arrive within {BODY_SECONDS:g} s"
            return self._refuse(_task_of(request), "bad_input", 408, text)
        text = f"{MOST_READING_BYTES:,} bytes of requests are being read: try again later"
        return self._refuse(_task_of(request), "full", 429, text)

    # Answers

    def _send_answer(self, name: str, reply: Callable[[Response], None], answer: Answer) -> None:
        """Hand the answer to a job over to the server's thread; called in the runtime's thread."""
        self.handoff.hand(lambda: reply(self._response(name, answer)))

    def _refuse(self, name: str, reason: str, status: int, text: str) -> Response:
        if name in self._requests.tasks:
            self.metrics.refused(name, reason)
        return refusal(status, text)

    def _response(self, name: str, answer: Answer) -> Response:
        """Return the response for the answer to a job of task `name`, and count it."""
        self.metrics.ended(name, answer.outcome, answer.latency_ns / 1e9, answer.on_time)
        about = {
            "task": name,
            "job": answer.job,
            "outcome": answer.outcome,
            "latency_ms": round(answer.latency_ns / 1e6, 6),
            "deadline_ms": self._tasks[name].relative_deadline_ms,
            "deadline_met": answer.on_time,
        }
        if answer.outcome in REFUSALS:
            status, text = REFUSALS[answer.outcome]
            return refusal(status, text, about)
        variant = self._tasks[name].ladder[answer.variant]
        about["variant"] = {"rank": answer.variant, "name": variant.name, "accuracy": variant.accuracy}
        if answer.outcome == "failed":
            return refusal(500, f"the model failed: {answer.text}", about)
        return json_response(200, {**about, "outputs": answer.outputs.tolist()})


def _task_of(request: Request) -> str:
    return unquote(request.path[len(TASKS) :])


def _content_type(request: Request) -> str:
    return request.headers.get("content-type", "").partition(";")[0].strip().lower()


@contextmanager
def serving(service: Service, listening: socket) -> Iterator[Server]:
    """Serve the requests to `service` in a thread of its own."""
    with serving_in_thread(service, listening, service.handoff) as server:
        yield server
