"""Agents of this installation: put yours here, and start the containers again."""

from __future__ import annotations

from afl import handler


@handler("Greet")
def greet(name: str) -> dict[str, str]:
    return {"message": f"Hello, {name}!"}
