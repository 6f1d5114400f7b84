"""The device over HTTP: inputs for the `external` tasks of a scenario, answers, health and figures."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from socket import socket
from typing import Any

import uvicorn
from fastapi import FastAPI, Request
from fastapi.responses import JSONResponse, PlainTextResponse, Response
from starlette.exceptions import HTTPException

from slipstream.dashboard.security import Guard
from slipstream.device.intake import Answer, FullError, Intake
from slipstream.errors import DeviceError, InputError
from slipstream.service.figures import CONTENT_TYPE, Figures
from slipstream.service.inputs import JSON, RAW, input_of, largest_body

BODY_SECONDS = 10.0
"""For which a request may take to arrive."""
MOST_BODIES = 32
"""Requests whose bodies are read at a time: others are sent away, so that memory stays bounded."""
MOST_CONNECTIONS = 1024

REFUSALS = {
    "expired": (503, "its deadline passed before it could start"),
    "dropped": (503, "the policy dropped it: the device cannot finish it in time"),
    "stopped": (503, "the device was stopped before it could run"),
    "rejected": (429, "the queue of the task is full: try again later"),
}
"""Status and sentence for jobs that did not run."""


def create_app(scenario: Any, intake: Intake, token: str | None = None) -> FastAPI:
    """Return the service of an intake; with a token, only for those who know it."""
    app = FastAPI(title="Slipstream", docs_url=None, redoc_url=None, openapi_url=None)
    largest = max(largest_body(intake.kind(task)) for task in intake.tasks.values())
    app.middleware("http")(Guard(token, "execute", largest))
    app.add_exception_handler(HTTPException, _unknown)
    desk = Desk(scenario, intake)

    @app.post("/v1/tasks/{name}")
    async def run(name: str, request: Request) -> Response:
        return await desk.answer(name, request)

    @app.get("/healthz")
    async def health() -> Response:
        return JSONResponse({"status": "ok"} if intake.well else {"status": "not running"}, 200 if intake.well else 503)

    @app.get("/metrics")
    async def metrics() -> Response:
        return PlainTextResponse(desk.figures.text(desk.gauges()), media_type=CONTENT_TYPE)

    return app


async def _unknown(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    known = "expected POST /v1/tasks/NAME, GET /healthz or GET /metrics"
    return JSONResponse({"error": f"{str(error.detail).lower()}: {known}"}, error.status_code)


class Desk:
    """Takes requests, one after the other or many at once, and words the answers."""

    def __init__(self, scenario: Any, intake: Intake) -> None:
        self._intake = intake
        self._tasks = {task.name: task for task in scenario.tasks}
        self._reading = 0
        self.figures = Figures(intake.tasks)

    def gauges(self) -> dict[str, tuple[str, dict[str, float]]]:
        """Return what can be read off at this moment."""
        places = {name: float(self._intake.taken(task)) for name, task in self._intake.tasks.items()}
        return {
            "slipstream_inputs_in_flight": ("Inputs of a task that wait or run.", places),
            "slipstream_up": ("Whether the device takes work.", {"": float(self._intake.well)}),
        }

    async def answer(self, name: str, request: Request) -> Response:
        """Answer a request for one run."""
        task = self._intake.tasks.get(name)
        if task is None:
            known = ", ".join(self._intake.tasks)
            return _refusal(404, f"no task {name[:200]!r} takes requests: expected one of {known}")
        content_type = request.headers.get("content-type", "").partition(";")[0].strip().lower()
        if content_type not in (JSON, RAW):
            return self._refuse(name, "bad_input", 415, f"content-type: expected {JSON} or {RAW}")
        if self._reading >= MOST_BODIES:
            return self._refuse(name, "full", 429, f"{MOST_BODIES} requests are being read: try again later")
        self._reading += 1
        try:
            body = await asyncio.wait_for(request.body(), BODY_SECONDS)
        except TimeoutError:
            return self._refuse(name, "bad_input", 408, f"the request did not arrive within {BODY_SECONDS:g} s")
        finally:
            self._reading -= 1
        try:
            values = input_of(self._intake.kind(task), content_type, body, self._intake.samples(task))
            waiting = self._intake.offer(task, values)
        except FullError as error:
            return self._refuse(name, "full", 429, str(error))
        except DeviceError as error:
            return self._refuse(name, "stopped", 503, str(error))
        except InputError as error:
            return self._refuse(name, "bad_input", 400, str(error))
        return self._worded(name, await asyncio.wrap_future(waiting))

    def _refuse(self, name: str, reason: str, status: int, text: str) -> Response:
        self.figures.refused(name, reason)
        return _refusal(status, text)

    def _worded(self, name: str, answer: Answer) -> Response:
        """Return the answer to a request that became a job."""
        self.figures.ended(name, answer.outcome, answer.latency_ns / 1e9, answer.on_time)
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
            return _refusal(status, text, about)
        variant = self._tasks[name].ladder[answer.variant]
        about["variant"] = {"rank": answer.variant, "name": variant.name, "accuracy": variant.accuracy}
        if answer.outcome == "failed":
            return _refusal(500, f"the model failed: {answer.text}", about)
        return JSONResponse({**about, "outputs": answer.outputs.tolist()})


def _refusal(status: int, text: str, about: dict[str, Any] | None = None) -> Response:
    headers = {"Retry-After": "1"} if status in (429, 503) else {}
    return JSONResponse({"error": text, **(about or {})}, status, headers)


@contextmanager
def serving(app: FastAPI, listening: socket) -> Iterator[None]:
    """Answer requests beside what the caller does, from a thread of its own."""
    settings = uvicorn.Config(
        app,
        log_level="error",
        access_log=False,
        lifespan="off",
        limit_concurrency=MOST_CONNECTIONS,
        timeout_keep_alive=5,
        timeout_graceful_shutdown=2,
    )
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, name="service", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join(10.0)
        listening.close()
