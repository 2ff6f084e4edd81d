"""Pages of parts whose packages are not installed, and of parts that take too long."""

from __future__ import annotations

import asyncio
import importlib
from typing import Any

import pytest
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route
from starlette.testclient import TestClient

from afl.dashboard.pages import parts
from afl.dashboard.pages.parts import Part, PartAway, ask_soon, of_part, optional_routes
from afl.kernel.errors import MissingExtraError

PART = Part("fleet", "Fleet", "What it is.", (("Start it", "afl fleet principal"),))


def test_without_its_packages_a_part_says_which(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(name: str) -> Any:
        raise MissingExtraError("pyzmq is required. Install it with: pip install agentflow-afl[fleet]")

    monkeypatch.setattr(importlib, "import_module", missing)
    routes = optional_routes("afl.nothing", PART, ["/fleet", "/fleet/{rest:path}"])
    client = TestClient(Starlette(routes=routes), "http://127.0.0.1")
    for path in ("/fleet", "/fleet/runs/1"):
        answer = client.get(path)
        assert answer.status_code == 200
        assert "Fleet cannot be reached" in answer.text and "pip install agentflow-afl[fleet]" in answer.text


def test_a_module_that_is_there_has_its_own_routes() -> None:
    routes = optional_routes("afl.dashboard.pages.search", PART, [])
    assert [route.path for route in routes] == ["/search"]


def test_what_takes_too_long_counts_as_away(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PATIENCE_SECONDS", 0.01)

    async def never(request: Request, function: Any) -> None:
        await asyncio.Event().wait()

    monkeypatch.setattr(parts, "ask", never)

    @of_part(PART)
    async def handler(request: Request) -> Response:
        return PlainTextResponse(str(await ask_soon(request, len)))

    client = TestClient(Starlette(routes=[Route("/fleet/fragment/x", handler)]), "http://127.0.0.1")
    answer = client.get("/fleet/fragment/x")
    assert "it has not answered for 0 seconds" in answer.text
    assert "Fleet cannot be reached" in answer.text and "<html" not in answer.text


def test_the_late_error_of_a_part_is_nobodys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "_PATIENCE_SECONDS", 0.01)

    async def late() -> None:
        given_up = asyncio.Event()

        async def fail(request: Request, function: Any) -> None:
            await given_up.wait()
            raise ValueError("too late to be told")

        monkeypatch.setattr(parts, "ask", fail)
        with pytest.raises(PartAway):
            await ask_soon(Request({"type": "http"}), len)
        given_up.set()
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert len(others) == 1
        await asyncio.wait(others)

    asyncio.run(late())
