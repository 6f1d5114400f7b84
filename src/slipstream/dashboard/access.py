"""Access checks and response headers of the package's HTTP servers, independent of a web framework."""

from __future__ import annotations

import hmac
import re
from collections.abc import Iterable, Mapping
from urllib.parse import quote, urlsplit

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""Content security policy: own files only, nothing inline, nothing from outside."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LARGEST_BODY = 8 * 2**20
LENGTH = re.compile("[0-9]{1,18}")


class Access:
    """Checks the token, the host, the origin and the length of requests to one server."""

    def __init__(self, token: str | None, command: str, largest_body: int = LARGEST_BODY) -> None:
        stated = stated_token(token)
        self._token = None if stated is None else _bytes(stated)
        self._command = command
        self._largest_body = largest_body

    def refusal(self, method: str, headers: Mapping[str, str], offered: Iterable[str | None]) -> tuple[int, str] | None:
        """Return status and message for a request that is refused, None for one that is allowed.

        The names in `headers` are in lower case; `offered` are the tokens of the request outside the Authorization
        header.
        """
        if self._token is None:
            # DNS rebinding: a foreign page may resolve its own name to this machine; the Host header gives it away.
            if _hostname(headers.get("host", "")) not in LOOPBACK:
                return 403, "this address is for this machine only"
        elif not self._known(headers, offered):
            return 401, f"expected the token that `slipstream {self._command}` printed"
        if method not in ("GET", "HEAD"):
            origin = headers.get("origin")
            if origin is not None and _netloc(origin) != headers.get("host"):
                return 403, "this request comes from another site"
            length = headers.get("content-length", "")
            if method == "POST" and not (LENGTH.fullmatch(length) and int(length) <= self._largest_body):
                return 413, f"expected at most {self._largest_body:,} bytes, with their length given"
        return None

    def _known(self, headers: Mapping[str, str], offered: Iterable[str | None]) -> bool:
        word, _, bearer = headers.get("authorization", "").partition(" ")
        tokens = [None if token is None else _bytes(token) for token in offered]
        if word == "Bearer":
            # Servers decode headers as Latin-1; this restores the bytes.
            tokens.append(bearer.encode("latin-1", "replace"))
        expected = self._token or b""
        return any(token is not None and hmac.compare_digest(token, expected) for token in tokens)


def stated_token(token: str | None) -> str | None:
    """Return `token`, or None if it is empty or blank, which would protect nothing."""
    return token if token and token.strip() else None


def quoted_token(token: str) -> str:
    """Return `token` percent-encoded, for a URL or a cookie."""
    return quote(_bytes(token), safe="")


def _bytes(text: str) -> bytes:
    """Return `text` as UTF-8; undecodable bytes, as of an environment variable, are restored."""
    return text.encode("utf-8", "surrogateescape")


def _hostname(host: str) -> str | None:
    try:
        return urlsplit(f"//{host}").hostname
    except ValueError:  # such as a malformed IPv6 address in brackets
        return None


def _netloc(origin: str) -> str | None:
    try:
        return urlsplit(origin).netloc
    except ValueError:
        return None
