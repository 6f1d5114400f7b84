"""Middleware of the dashboard: access checks, token cookie and security headers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import unquote

from fastapi import Request, Response
from fastapi.responses import JSONResponse, RedirectResponse

from slipstream.dashboard.access import HEADERS, POLICY, Access, quoted_token, stated_token

PAGE_POLICY = (
    "sandbox allow-scripts; default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; "
    "img-src data: blob:; frame-ancestors 'none'"
)
"""Content security policy of pages among the runs: own scripts may run, sandboxed, without access to the API."""
EMPTY_STYLE = "'sha256-47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU='"
"""Hash of the empty text: plotly.js fills an empty style element rule by rule, which needs no further permission."""
BOARD_POLICY = POLICY.replace("style-src 'self'", f"style-src 'self' {EMPTY_STYLE}")
"""Content security policy of the dashboard: own files only, nothing inline but an empty style element."""
COOKIE = "slipstream-token"

Next = Callable[[Request], Awaitable[Response]]


class Guard:
    """Middleware that checks token, host and origin of every request, and adds the headers."""

    def __init__(self, token: str | None) -> None:
        self._token = stated_token(token)
        self._access = Access(token, "dashboard")

    async def __call__(self, request: Request, answer: Next) -> Response:
        """Answer a request, or refuse it."""
        given = request.query_params.get("token")
        kept = request.cookies.get(COOKIE)
        # Percent-encoded: a header cannot carry all characters of a token.
        offered = (None if kept is None else unquote(kept, errors="surrogateescape"), given)
        refusal = self._access.refusal(request.method, request.headers, offered)
        if refusal is not None:
            response: Response = JSONResponse({"error": refusal[1]}, refusal[0])
        elif self._token is not None and given is not None:
            # Removed from the URL, so that it is neither shown nor shared; the cookie carries it from here on.
            response = RedirectResponse(request.url.path, status_code=303)
            response.set_cookie(COOKIE, quoted_token(self._token), httponly=True, samesite="strict")
        else:
            response = await answer(request)
        response.headers.setdefault("Content-Security-Policy", BOARD_POLICY)
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        return response
