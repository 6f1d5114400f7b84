"""JSON responses that are safe for any name."""

from __future__ import annotations

import json
from typing import Any

from fastapi.responses import JSONResponse


class AsciiResponse(JSONResponse):
    """JSON response in ASCII: names may contain control characters or lone surrogates, which are escaped."""

    def render(self, content: Any) -> bytes:
        """Return the body."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")
