"""The dashboard: static pages over a folder of runs, and the HTTP API behind them."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response, StreamingResponse

from slipstream.dashboard.answers import AsciiResponse
from slipstream.dashboard.comparison import compare_runs
from slipstream.dashboard.decisions import Decisions
from slipstream.dashboard.jobs import Jobs, TooManyJobsError
from slipstream.dashboard.live import follow
from slipstream.dashboard.replay import Recording, Recordings
from slipstream.dashboard.results.metrics import MetricsCache
from slipstream.dashboard.results.notes import Note, Notes
from slipstream.dashboard.results.real_runs import RealRuns
from slipstream.dashboard.results.twins import read_twin
from slipstream.dashboard.runs import RunsFolder, UnknownRunError
from slipstream.dashboard.security import PAGE_POLICY, Guard
from slipstream.dashboard.trial import Draft, Trial, checked, known_policies, problems_of
from slipstream.errors import InputError, one_line
from slipstream.families.contract import FAMILIES
from slipstream.files.inputs import read_bytes
from slipstream.learn.files import HISTORY
from slipstream.policies.base import applicable
from slipstream.policies.rollout import base_names, is_rollout
from slipstream.reports.runs import played_policy
from slipstream.reports.terminal.tables import direction_of
from slipstream.scenario import builtin_names, dump, load, schema

TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
SHARED = ("charts.js", "timeview.js", "page.css")
"""Files that the report and the dashboard both draw with."""

LARGEST_PAGE_BYTES = 256 * 2**20
MOST_ASKED = 50
"""Runs whose metrics one request may ask for."""

Finite = Annotated[float, Query(allow_inf_nan=False)]
Name = Annotated[str, Query(max_length=1000)]


def create_app(root: Path, token: str | None = None, jobs: Jobs | None = None) -> FastAPI:
    """Return the dashboard of the folder `root`; with `token`, only for requests that carry it."""
    folder = RunsFolder(root)
    board = Board(folder, jobs or Jobs(folder.root))
    for family in FAMILIES.values():
        _ = family.scenario_type  # imported now rather than in the first request

    @asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        yield
        board.jobs.close()

    # No documentation pages: those of FastAPI load their scripts from elsewhere.
    app = FastAPI(
        title="Slipstream",
        docs_url=None,
        redoc_url=None,
        openapi_url=None,
        lifespan=lifespan,
        default_response_class=AsciiResponse,
    )
    app.middleware("http")(Guard(token))
    app.add_exception_handler(InputError, _input_error)
    app.add_exception_handler(RequestValidationError, _invalid_request)
    _add_files(app, folder)
    _add_runs(app, board)
    _add_replay(app, board)
    _add_trials(app, board)
    return app


class Board:
    """State that all requests share."""

    def __init__(self, folder: RunsFolder, jobs: Jobs) -> None:
        self.folder, self.jobs, self.recordings = folder, jobs, Recordings()
        self.metrics, self.notes, self.real_runs = MetricsCache(), Notes(folder.root), RealRuns()
        self._decisions: tuple[Recording, Decisions] | None = None
        self._lock = threading.Lock()

    def recording(self, name: str) -> Recording:
        """Return a recorded run."""
        self.folder.entry(name, "run")
        return self.recordings.open(self.folder.path(name))

    def decision(self, recording: Recording, at: float, number: int | None) -> dict[str, Any]:
        """Return a choice of a recorded run; a lock serialises requests, since they share a simulator."""
        with self._lock:
            if self._decisions is None or self._decisions[0] is not recording:
                self._check_policy(recording)
                self._decisions = (recording, Decisions(recording))
            made = self._decisions[1]
            return made.at(at) if number is None else made.number(number)

    def listing(self) -> dict[str, Any]:
        """Return all entries of the folder with their notes, and what the families' tables show."""
        entries, more = self.folder.listing()
        notes, problem = {}, None
        try:
            notes = self.notes.all()
        except InputError as error:
            problem = str(error)
        runs = [{**entry.to_dict(), "note": notes.get(entry.name, "")} for entry in entries]
        families = {
            name: {
                "unit": family.time_unit,
                "headline": [direction_of(metric) for metric in family.headline],
            }
            for name, family in FAMILIES.items()
        }
        return {
            "folder": self.folder.root.name,
            "runs": runs,
            "more": more,
            "families": families,
            "notes_problem": problem,
        }

    def metrics_of(self, names: Sequence[str]) -> dict[str, Any]:
        """Return the metrics of runs by name, or for a run that cannot be read the reason."""
        if len(names) > MOST_ASKED:
            raise InputError(f"{len(names)} runs: expected at most {MOST_ASKED} at a time")
        found: dict[str, Any] = {}
        for name in names:
            try:
                self.folder.entry(name, "run")
                found[name] = {"metrics": self.metrics.of(self.folder.path(name))}
            except UnknownRunError:
                raise
            except InputError as error:
                found[name] = {"error": str(error)}
        return found

    def real_run(self, name: str) -> dict[str, Any]:
        """Return a run on real hardware beside its simulation."""
        entry = self.folder.entry(name, "run")
        recording = self.recording(name)
        self._check_policy(recording)
        return self.real_runs.beside_simulation(recording, (name, entry.modified))

    def _check_policy(self, recording: Recording) -> None:
        """Refuse a policy whose folder is not among the runs: a log may name any folder of this machine."""
        played, family = played_policy(recording.about), recording.family.name
        for name in base_names(played, family) if is_rollout(played) else [played]:
            if name.partition("(")[0] in known_policies(family):
                continue
            try:
                inside = Path(name).resolve().is_relative_to(self.folder.root)
            except (OSError, ValueError, RuntimeError):
                inside = False
            if not inside:
                raise InputError(
                    f"policy '{name[:200]}' is not among the runs: its choices cannot be made again: expected a "
                    "built-in policy, or a folder among the runs"
                )


async def _input_error(_: Request, error: Exception) -> Response:
    status = 404 if isinstance(error, UnknownRunError) else 429 if isinstance(error, TooManyJobsError) else 400
    return AsciiResponse({"error": str(error)}, status_code=status)


async def _invalid_request(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    field = ".".join(str(part) for part in first["loc"][1:])
    return AsciiResponse({"error": one_line(f"{field}: {first['msg']}")}, status_code=422)


def _add_files(app: FastAPI, folder: RunsFolder) -> None:
    """Serve the package's static files, read once, and the HTML pages among the runs."""
    own = resources.files("slipstream.dashboard").joinpath("static")
    shared = resources.files("slipstream.reports").joinpath("assets")
    files = {entry.name: entry.read_bytes() for entry in own.iterdir() if Path(entry.name).suffix in TYPES}
    files |= {name: shared.joinpath(name).read_bytes() for name in SHARED}

    @app.get("/")
    async def start() -> Response:
        return Response(files["index.html"], media_type="text/html")

    @app.get("/static/plotly.js")
    def plotly() -> Response:
        # Large, and the same for one version of the package: the browser may keep it for a while.
        return Response(plotly_js(), media_type="text/javascript", headers={"Cache-Control": "private, max-age=86400"})

    @app.get("/static/{name}")
    async def static(name: str) -> Response:
        if name not in files:
            raise UnknownRunError(f"{name[:200]!r}: no such file")
        return Response(files[name], media_type=TYPES[Path(name).suffix])

    @app.get("/page")
    def page(name: Name) -> Response:
        folder.entry(name, "page")
        text = read_bytes(folder.path(name), "a page", limit=LARGEST_PAGE_BYTES, label=name)
        return Response(text, media_type="text/html", headers={"Content-Security-Policy": PAGE_POLICY})


@cache
def plotly_js() -> bytes:
    """Return the script of the chart library, which reports embed too."""
    from plotly.offline import get_plotlyjs

    return str(get_plotlyjs()).encode()


def _add_runs(app: FastAPI, board: Board) -> None:
    @app.get("/api/runs")
    def runs() -> dict[str, Any]:
        return board.listing()

    @app.get("/api/metrics")
    def metrics(run: Annotated[list[Name], Query()]) -> dict[str, Any]:
        return board.metrics_of(run)

    @app.get("/api/real")
    def real(run: Name) -> dict[str, Any]:
        return board.real_run(run)

    @app.get("/api/twin")
    def twin(run: Name) -> dict[str, Any]:
        board.folder.entry(run, "twin")
        return read_twin(board.folder.path(run))

    @app.post("/api/note")
    def note(written: Note) -> dict[str, Any]:
        board.folder.entry(written.run)
        return {"run": written.run, "note": board.notes.write(written)}

    @app.get("/api/compare")
    def compare(run: Annotated[list[str], Query()], baseline: str = "") -> dict[str, Any]:
        return compare_runs(board.folder, board.recordings, run, baseline)

    @app.get("/api/live")
    async def live(request: Request, name: Name) -> Response:
        entry = board.folder.entry(name)
        if entry.kind not in ("training", "live"):
            raise UnknownRunError(f"{name!r}: is a {entry.kind}: expected a training, or a run on a device")
        path = board.folder.path(name)
        source = path / HISTORY if entry.kind == "training" else path
        return StreamingResponse(
            follow(source, board.folder.root, request.is_disconnected), media_type="text/event-stream"
        )


def _add_replay(app: FastAPI, board: Board) -> None:
    @app.get("/api/replay")
    def replay(run: Name) -> dict[str, Any]:
        return board.recording(run).about_page()

    @app.get("/api/window")
    def window(
        run: Name,
        begin: Annotated[Finite, Query(alias="from")],
        end: Annotated[Finite, Query(alias="to")],
        columns: Annotated[int, Query(ge=1, le=4096)] = 300,
        detail: Annotated[int, Query(ge=0, le=10_000)] = 300,
    ) -> Response:
        piece = board.recording(run).window(begin, end, columns, detail)
        return Response(json.dumps(piece, separators=(",", ":")), media_type="application/json")

    @app.get("/api/moment")
    def moment(run: Name, at: Finite) -> dict[str, Any]:
        return board.recording(run).moment(at)

    @app.get("/api/decision")
    def decision(
        run: Name, at: Finite = 0.0, number: Annotated[int | None, Query(ge=0, le=2**53)] = None
    ) -> dict[str, Any]:
        return board.decision(board.recording(run), at, number)


def _add_trials(app: FastAPI, board: Board) -> None:
    @app.get("/api/scenarios")
    def scenarios() -> dict[str, Any]:
        policies = {family: known_policies(family) for family in FAMILIES}
        # Preselected: the default policy, and the last heuristic that applies, which is the most elaborate.
        defaults = {
            name: [family.default_policy, applicable(load(family.default_scenario))[-1]]
            for name, family in FAMILIES.items()
        }
        return {"scenarios": builtin_names(), "policies": policies, "defaults": defaults, "schema": schema()}

    @app.get("/api/scenario")
    def scenario(name: str) -> dict[str, Any]:
        if name not in builtin_names():
            raise UnknownRunError(f"{name[:200]!r}: no such scenario: expected one of {', '.join(builtin_names())}")
        found: dict[str, Any] = json.loads(dump(load(name)))
        return found

    @app.post("/api/check")
    def check(draft: Draft) -> Response:
        data, found = problems_of(draft.text)
        return AsciiResponse({"problems": [{"place": place, "text": text} for place, text in found], "scenario": data})

    @app.post("/api/jobs", status_code=201)
    def begin(trial: Trial) -> dict[str, Any]:
        return board.jobs.start(*checked(trial)).to_dict()

    @app.get("/api/jobs")
    def all_jobs() -> list[dict[str, Any]]:
        return [job.to_dict() for job in board.jobs.all()]

    @app.get("/api/jobs/{name}")
    def job(name: str) -> dict[str, Any]:
        return board.jobs.find(name).to_dict()

    @app.delete("/api/jobs/{name}")
    def cancel(name: str) -> dict[str, Any]:
        return board.jobs.cancel(name).to_dict()
