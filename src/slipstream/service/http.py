"""The part of HTTP/1.1 that the service speaks: heads of requests as data, answers as bytes."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from email.utils import formatdate
from functools import lru_cache
from http import HTTPStatus
from time import time
from typing import Any

from slipstream.dashboard.access import HEADERS, POLICY
from slipstream.errors import InputError

END_OF_HEAD = b"\r\n\r\n"
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
RETRY_SECONDS = 1
"""After which whoever found the service full may ask again."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_FIXED = "".join(f"{name}: {value}\r\n" for name, value in {"Content-Security-Policy": POLICY, **HEADERS}.items())
_LONGEST_LENGTH = 15
"""Digits of a content-length: no body comes near it."""


class BadRequestError(InputError):
    """The head of a request is not HTTP/1.1; nothing after it can be understood."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request."""

    method: str
    path: str
    """As it was sent: escapes are not resolved."""
    query: str
    headers: dict[str, str]
    """By their names in lower case."""
    length: int
    """Bytes of the body that follows; 0 where no length is given."""
    keep_alive: bool
    """Whether another request may follow."""


@dataclass(frozen=True, slots=True)
class Response:
    """An answer."""

    status: int
    body: bytes
    content_type: str = "application/json"
    extra: str = ""
    """Further headers, each with its end of line."""


def json_response(status: int, content: dict[str, Any], extra: str = "") -> Response:
    """Return an answer that holds JSON."""
    return Response(status, json.dumps(content, separators=(",", ":")).encode(), extra=extra)


def refusal(status: int, text: str, about: dict[str, Any] | None = None) -> Response:
    """Return an answer that says in one sentence, `text`, why a request is not fulfilled, with data about it."""
    return json_response(status, {"error": text, **(about or {})})


def parse_head(head: bytes) -> Request:
    """Return the request whose head this is, without the empty line at its end.

    Raises:
        BadRequestError: One line: what is wrong with it. No later byte of the connection may be read as a request.
    """
    first, *fields = head.split(b"\r\n")
    line = _REQUEST_LINE.fullmatch(first)
    if line is None:
        raise BadRequestError("expected a request line such as 'GET /healthz HTTP/1.1'")
    headers: dict[str, str] = {}
    for field in fields:
        found = _FIELD.fullmatch(field)
        if found is None:
            raise BadRequestError("expected header lines such as 'Host: localhost'")
        name = found[1].decode().lower()
        if name in headers:
            if name in ("host", "content-length", "transfer-encoding", "content-type", "authorization"):
                raise BadRequestError(f"expected one header '{name}'")
            headers[name] += f", {found[2].decode('latin-1')}"
        else:
            headers[name] = found[2].decode("latin-1")
    if line[3] == b"1" and "host" not in headers:
        raise BadRequestError("expected a header 'host'")
    path, _, query = line[2].decode().partition("?")
    # A body whose length is not given in advance is not read: nothing may follow it on its connection.
    keep_alive = _keeps_alive(headers, line[3] == b"1") and "transfer-encoding" not in headers
    return Request(line[1].decode(), path, query, headers, _length(headers), keep_alive)


def _length(headers: dict[str, str]) -> int:
    given = headers.get("content-length")
    if given is None:
        return 0
    if not (given.isascii() and given.isdigit() and len(given) <= _LONGEST_LENGTH):
        raise BadRequestError("content-length: expected a whole number")
    if "transfer-encoding" in headers:
        raise BadRequestError("expected a content-length or a transfer-encoding, not both")
    return int(given)


def _keeps_alive(headers: dict[str, str], by_default: bool) -> bool:
    wishes = headers.get("connection", "").lower()
    return "close" not in wishes if by_default else "keep-alive" in wishes


def encode(response: Response, keep_alive: bool) -> bytes:
    """Return an answer as it is sent; without `keep_alive` it says that it is the last of its connection."""
    head = _head(response.status, response.content_type, keep_alive, int(time()))
    return f"{head}{response.extra}Content-Length: {len(response.body)}\r\n\r\n".encode() + response.body


@lru_cache(maxsize=64)
def _head(status: int, content_type: str, keep_alive: bool, second: int) -> str:
    retry = f"Retry-After: {RETRY_SECONDS}\r\n" if status in (429, 503) else ""
    close = "" if keep_alive else "Connection: close\r\n"
    return (
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}\r\nDate: {formatdate(second, usegmt=True)}\r\n"
        f"Content-Type: {content_type}\r\n{_FIXED}{retry}{close}"
    )
