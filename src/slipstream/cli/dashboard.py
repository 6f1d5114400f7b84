"""`slipstream dashboard`: a folder of runs in the browser."""

from __future__ import annotations

import secrets
import socket
from contextlib import suppress
from pathlib import Path
from typing import Annotated

import typer

from slipstream.cli.common import JsonOption, console, print_json

FolderArgument = Annotated[Path, typer.Argument(help="The folder that holds your runs.", metavar="RUNS")]
HostOption = Annotated[str, typer.Option(help="Address to listen at; any but this machine's own needs a token.")]
PortOption = Annotated[int, typer.Option(help="Port to listen at; 0 takes a free one.", min=0, max=65535)]
TokenOption = Annotated[
    str | None,
    typer.Option(envvar="SLIPSTREAM_TOKEN", help="Word that visitors must know; made up where one is needed."),
]


def dashboard(
    runs: FolderArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show runs, comparisons and trainings in the browser, replay them choice by choice, and try scenarios.

    Ctrl-C ends it, and what was started from the page.

    Example: slipstream dashboard runs/
    """
    from slipstream.errors import InputError

    try:
        import uvicorn

        from slipstream.dashboard.app import create_app
        from slipstream.dashboard.security import LOOPBACK
    except ImportError as error:
        raise InputError(f"the dashboard needs {error.name}: run `pip install 'slipstream[dashboard]'`") from None

    if token is None and host not in LOOPBACK:
        token = secrets.token_urlsafe(24)
    app = create_app(runs, token)
    listening = _listen(host, port)
    place = f"[{host}]" if ":" in host else host
    url = f"http://{place}:{listening.getsockname()[1]}/" + (f"?token={token}" if token else "")
    if as_json:
        print_json({"url": url, "folder": str(runs), "token": token})
    else:
        console.print(f"Dashboard: {url}", soft_wrap=True, highlight=False)
        console.print("Ctrl-C ends it.")
    # What streams to a page never ends by itself.
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    with suppress(KeyboardInterrupt):  # the way to end it
        uvicorn.Server(settings).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    from slipstream.errors import InputError

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{host}:{port}: cannot listen there ({reason}): expected an address of this machine and a free --port"
        ) from None
