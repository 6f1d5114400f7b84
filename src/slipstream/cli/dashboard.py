"""`slipstream dashboard`: a folder of runs in the browser."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from slipstream import interrupts
from slipstream.cli.addresses import TokenOption, listen, token_for, url_of
from slipstream.cli.common import JsonOption, console, print_json

FolderArgument = Annotated[Path, typer.Argument(help="Folder of event logs and trainings.", metavar="RUNS")]
HostOption = Annotated[str, typer.Option(help="Address to listen on; a token is required unless it is loopback.")]
PortOption = Annotated[int, typer.Option(help="Port to listen on; 0 picks a free one.", min=0, max=65535)]


def dashboard(
    runs: FolderArgument,
    host: HostOption = "127.0.0.1",
    port: PortOption = 8765,
    token: TokenOption = None,
    as_json: JsonOption = False,
) -> None:
    """Serve a dashboard of runs, comparisons and trainings: replay decisions step by step, and try scenarios.

    Ctrl-C stops it and everything that was started from its pages.

    Example: slipstream dashboard runs/
    """
    from slipstream.errors import InputError

    try:
        import uvicorn

        from slipstream.dashboard.access import quoted_token
        from slipstream.dashboard.app import create_app
        from slipstream.dashboard.memory import use_huge_pages
    except ImportError as error:
        raise InputError(f"the dashboard needs {error.name}: run `pip install 'slipstream[dashboard]'`") from None

    token = token_for(host, token)
    app = create_app(runs, token)
    use_huge_pages(False)
    listening = listen(host, port)
    url = url_of(host, listening) + (f"?token={quoted_token(token)}" if token else "")
    if as_json:
        print_json({"url": url, "folder": str(runs), "token": token})
    else:
        console.print(f"Dashboard: {url}", soft_wrap=True, highlight=False)
        console.print("Press Ctrl-C to stop.")
    # Event streams to open pages never end by themselves.
    settings = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=1)
    with interrupts.as_normal_end():
        uvicorn.Server(settings).run(sockets=[listening])
