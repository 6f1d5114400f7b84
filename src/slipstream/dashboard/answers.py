"""Answers in JSON, whatever the names in them hold."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse


class AsciiResponse(JSONResponse):
    """Answers JSON in which all but ASCII is escaped: names may hold characters that steer, or that no text can."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
