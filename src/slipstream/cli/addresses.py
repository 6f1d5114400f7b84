"""Listening sockets, addresses and tokens of the commands that serve HTTP."""

from __future__ import annotations

import secrets
import socket
from typing import Annotated

import typer

from slipstream.cli.help_text import REQUESTS

TokenOption = Annotated[
    str | None,
    typer.Option(
        envvar="SLIPSTREAM_TOKEN",
        help="Token that clients must send; generated if one is needed and none is given.",
        rich_help_panel=REQUESTS,
    ),
]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as '127.0.0.1:8080' or '[::1]:8080'."""
    from slipstream.errors import InputError

    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise InputError(f"--listen: '{text}': expected HOST:PORT, such as 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def token_for(host: str, token: str | None) -> str | None:
    """Return the token that clients of `host` must send: `token` if not blank, none on loopback, else a random one."""
    from slipstream.dashboard.access import LOOPBACK, stated_token

    stated = stated_token(token)
    return secrets.token_urlsafe(24) if stated is None and host not in LOOPBACK else stated


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens on `host` and `port`; `option` is what an error calls the port."""
    from slipstream.errors import InputError

    try:
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        return socket.create_server((host, port), family=family)
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"{host}:{port}: cannot listen there ({reason}): expected an address of this machine and a free {option}"
        ) from None


def url_of(host: str, listening: socket.socket) -> str:
    """Return the URL of the socket `listening` on `host`."""
    shown = f"[{host}]" if ":" in host else host
    return f"http://{shown}:{listening.getsockname()[1]}/"
