"""Who may ask, and what a browser may do with the answers."""

from __future__ import annotations

import hmac
from collections.abc import Awaitable, Callable
from urllib.parse import quote, urlsplit

from fastapi import Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
"""What a browser may load: our own files, nothing inline, nothing from outside."""
PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'none'"
)
"""Of pages found among the runs: they may run their own scripts, but as strangers who cannot ask us anything."""
HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-store",
}
COOKIE = "slipstream-token"
LOOPBACK = ("127.0.0.1", "localhost", "::1")
LARGEST_BODY = 8 * 2**20

Next = Callable[[Request], Awaitable[Response]]


class Guard:
    """Stands before every answer: checks the token, the host and the origin, and adds the headers."""

    def __init__(self, token: str | None, command: str = "dashboard", largest_body: int = LARGEST_BODY) -> None:
        self._token = stated_token(token)
        self._command = command
        self._largest_body = largest_body

    async def __call__(self, request: Request, answer: Next) -> Response:
        """Answer a request, or refuse it."""
        refusal = self._refused(request)
        given = request.query_params.get("token")
        if refusal is None and self._token is not None and given is not None:
            # Out of the address, so that it is neither shown nor shared; from here on the cookie says it.
            response: Response = RedirectResponse(request.url.path, status_code=303)
            # Quoted, since a header carries few of the characters that a token may have.
            response.set_cookie(COOKIE, quoted_token(self._token), httponly=True, samesite="strict")
        else:
            response = await answer(request) if refusal is None else refusal
        response.headers.setdefault("Content-Security-Policy", POLICY)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response

    def _refused(self, request: Request) -> Response | None:
        if self._token is None:
            # A page of somebody else's may point a name of its own at this machine: then the host is not ours.
            if urlsplit(f"//{request.headers.get('host', '')}").hostname not in LOOPBACK:
                return _refusal(403, "this address is for this machine only")
        elif not self._has_token(request):
            return _refusal(401, f"expected the token that `slipstream {self._command}` printed")
        if request.method not in ("GET", "HEAD"):
            origin = request.headers.get("origin")
            if origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
                return _refusal(403, "this request comes from another site")
            length = request.headers.get("content-length", "")
            if request.method == "POST" and not (length.isdigit() and int(length) <= self._largest_body):
                return _refusal(413, f"expected at most {self._largest_body:,} bytes, with their length given")
        return None

    def _has_token(self, request: Request) -> bool:
        expected, in_cookie = _bytes(self._token or ""), quoted_token(self._token or "").encode()
        word, _, bearer = request.headers.get("authorization", "").partition(" ")
        offered = [
            (request.cookies.get(COOKIE), in_cookie),
            (request.query_params.get("token"), expected),
            # Headers were decoded as Latin-1, whatever their bytes stood for.
            (bearer.encode("latin-1").decode("utf-8", "surrogateescape") if word == "Bearer" else None, expected),
        ]
        return any(one is not None and hmac.compare_digest(_bytes(one), right) for one, right in offered)


def stated_token(token: str | None) -> str | None:
    """Return `token`, or None where it is empty or blank: everybody knows such a token."""
    return token if token and token.strip() else None


def quoted_token(token: str) -> str:
    """Return `token` with all that an address or a cookie cannot hold as %-codes of its bytes."""
    return quote(_bytes(token), safe="")


def _bytes(text: str) -> bytes:
    """Return `text` as UTF-8; bytes that were not, such as those of a variable of the system, as they were."""
    return text.encode("utf-8", "surrogateescape")


def _refusal(status: int, text: str) -> Response:
    return JSONResponse({"error": text}, status_code=status)
