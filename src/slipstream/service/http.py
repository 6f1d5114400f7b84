"""Subset of HTTP/1.1 for the service: parsing of request heads, encoding of responses."""

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
"""Value of `Retry-After` in refusals of a full service."""

_TOKEN = rb"[!#$%&'*+\-.^_`|~0-9A-Za-z]+"
_REQUEST_LINE = re.compile(rb"(" + _TOKEN + rb") ([!-~]+) HTTP/1\.([01])")
_FIELD = re.compile(rb"(" + _TOKEN + rb"):[ \t]*([^\x00-\x08\x0a-\x1f\x7f]*?)[ \t]*")
_FIXED = "".join(f"{name}: {value}\r\n" for name, value in {"Content-Security-Policy": POLICY, **HEADERS}.items())
_LONGEST_LENGTH = 15
"""Most digits of a content-length, far beyond any body."""


class BadRequestError(InputError):
    """The head of a request is not valid HTTP/1.1; nothing after it can be parsed."""


@dataclass(frozen=True, slots=True)
class Request:
    """The head of a request."""

    method: str
    path: str
    """As it was sent, with escapes."""
    query: str
    headers: dict[str, str]
    """By name in lower case."""
    length: int
    """Length of the body in bytes; 0 where none is given."""
    keep_alive: bool
    """Whether another request may follow on the connection."""


@dataclass(frozen=True, slots=True)
class Response:
    """Response to a request."""

    status: int
    body: bytes
    content_type: str = "application/json"
    extra: str = ""
    """Further headers, each with its line ending."""


def json_response(status: int, content: dict[str, Any], extra: str = "") -> Response:
    """Return a response with the JSON of `content`."""
    return Response(status, json.dumps(content, separators=(",", ":")).encode(), extra=extra)


def refusal(status: int, text: str, about: dict[str, Any] | None = None) -> Response:
    """Return a response that says in one sentence, `text`, why a request is refused, with the data of `about`."""
    return json_response(status, {"error": text, **(about or {})})


def parse_head(head: bytes) -> Request:
    """Return the parsed request of `head`, which ends before the empty line.

    Raises:
        BadRequestError: One line: what is wrong. No later byte of the connection may be parsed as a request.
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
    # A body without a length in advance is not read, so nothing may follow it on its connection.
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
    """Return the bytes of a response; without `keep_alive` it closes the connection."""
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
