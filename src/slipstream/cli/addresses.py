"""Where the commands that answer over the network listen."""

from __future__ import annotations

import secrets
import socket
from typing import Annotated

import typer

TokenOption = Annotated[
    str | None,
    typer.Option(envvar="SLIPSTREAM_TOKEN", help="Word that visitors must know; made up where one is needed."),
]


def parse_address(text: str) -> tuple[str, int]:
    """Return host and port of an address such as '127.0.0.1:8080' or '[::1]:8080'."""
    from slipstream.errors import InputError

    host, colon, port = text.rpartition(":")
    if not (colon and host and port.isascii() and port.isdigit() and int(port) <= 65535):
        raise InputError(f"--listen: '{text}': expected HOST:PORT, such as 127.0.0.1:8080")
    return host.removeprefix("[").removesuffix("]"), int(port)


def token_for(host: str, token: str | None) -> str | None:
    """Return the token that visitors need: none for those of this machine, unless one was given that is not blank."""
    from slipstream.dashboard.access import LOOPBACK, stated_token

    stated = stated_token(token)
    return secrets.token_urlsafe(24) if stated is None and host not in LOOPBACK else stated


def listen(host: str, port: int, option: str = "--port") -> socket.socket:
    """Return a socket that listens there, or end with one line."""
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
    """Return the address as a browser takes it."""
    place = f"[{host}]" if ":" in host else host
    return f"http://{place}:{listening.getsockname()[1]}/"
