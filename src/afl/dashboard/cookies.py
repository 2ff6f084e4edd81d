"""Reading cookies: ours need no decoding, and the standard library's takes quadratic time (before Python 3.12.6)."""

from __future__ import annotations

from starlette.requests import HTTPConnection


def cookie_of(request: HTTPConnection, name: str) -> str:
    """The value of a cookie of ours; empty if there is none."""
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name:
                return value.strip().strip('"')
    return ""
