"""Files of turns over HTTP: the API, an unmodified client of OpenAI, pages, and the command line."""

from __future__ import annotations

import asyncio
from base64 import b64encode
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from support.clients import opened_client
from support.dashboards import TOKENS, served, settings_for, with_users
from support.deferred import openai
from support.event_loop import in_event_loop

from afl.models import File, FileUrl, ScriptedModel
from afl.models.messages import files_in
from afl.operations.roles import Role
from afl.turns import Agents, TurnRef, open_agents
from afl.turns.store.turn_queries import latest_turns

PNG = b"\x89PNG\r\n\x1a\n" + bytes(100_000)  # larger than a card has
ENCODED = b64encode(PNG).decode()


@pytest.fixture
def server(empty_sqlite_url: str) -> Iterator[tuple[str, str]]:
    """The addresses of a server and of its store."""
    with served(with_users(empty_sqlite_url)) as url:
        yield url, empty_sqlite_url


@asynccontextmanager
async def guide(store: str, model: ScriptedModel) -> AsyncIterator[Agents]:
    async with open_agents(store, model=model) as agents:
        await agents.define("guide", "Look.")
        yield agents


def http_client(url: str, role: Role | None = Role.OPERATOR) -> httpx2.AsyncClient:
    headers = {} if role is None else {"Authorization": f"Bearer {TOKENS[role]}"}
    return httpx2.AsyncClient(base_url=url, headers=headers, timeout=60)


async def wait(agents: Agents) -> str:
    """The last turn, once it is over."""
    (row,) = await agents.engine.database.run("read", lambda tx: latest_turns(tx, agents.project, "", 1))
    await agents.wait(TurnRef(agents.project, row.agent_id, row.agent_turn_id))
    return str(row.agent_turn_id)


@in_event_loop
async def test_the_api_takes_files_and_gives_them_back(server: tuple[str, str]) -> None:
    url, store = server
    model = ScriptedModel(["A dot."])
    async with guide(store, model) as agents, http_client(url) as http:
        files = [
            {"data": ENCODED, "media_type": "image/png", "name": "../../dot.png"},
            {
                "data": b64encode(b"<svg onload=alert(1)>").decode(),
                "media_type": "image/svg+xml",
                "name": "x.svg",
            },
        ]
        sent = await http.post("/api/v1/turns", json={"agent": "guide", "text": "Look", "files": files})
        assert sent.status_code == 200, sent.text
        turn = await wait(agents)
        assert files_in(model.requests[0])[0] == File(PNG, "image/png", "dot.png")
        shown = (await http.get(f"/api/v1/turns/{turn}")).json()
        card = shown["context"][0]
        assert card["files"][0] == {
            "number": 0,
            "name": "dot.png",
            "media_type": "image/png",
            "size": len(PNG),
            "url": "",
        }
        assert ENCODED[:100] not in str(shown)
        got = (await http.get(f"/api/v1/cards/{card['card']}/files/0")).json()
        assert got == {"data": ENCODED, "media_type": "image/png", "name": "dot.png"}
        assert (await http.get(f"/api/v1/cards/{card['card']}/files/7")).status_code == 404
        assert (await http.get("/api/v1/cards/none/files/0")).status_code == 404

        page = await http.get(f"/turns/{turn}", headers={"Accept": "text/html"})
        assert f'<img src="/turns/files/{card["card"]}/0" alt="dot.png"' in page.text
        assert f'<a href="/turns/files/{card["card"]}/1" download>x.svg</a>' in page.text
        picture = await http.get(f"/turns/files/{card['card']}/0")
        assert (picture.content, picture.headers["content-type"]) == (PNG, "image/png")
        drawing = await http.get(f"/turns/files/{card['card']}/1")
        assert drawing.headers["content-type"] == "application/octet-stream"
        assert drawing.headers["content-disposition"] == "attachment; filename*=UTF-8''x.svg"
        for each in (picture, drawing):
            assert each.headers["x-content-type-options"] == "nosniff"
            assert "default-src 'none'; sandbox" in each.headers["content-security-policy"]
    async with http_client(url, None) as stranger:
        refused = await stranger.get(f"/turns/files/{card['card']}/0")
        assert refused.status_code in (303, 401)
        assert PNG not in refused.content


@pytest.mark.parametrize(
    ("file", "told"),
    [
        ({"data": "!!!", "media_type": "image/png"}, "base64"),
        ({"data": "aGk=", "media_type": "image/png\r\nX-Evil: 1"}, "no media type"),
        ({"media_type": "image/png"}, "data"),
        ({"data": "aGk="}, "media_type"),
        ({"data": "A" * 9_000_000, "media_type": "image/png"}, "larger"),
    ],
)
@in_event_loop
async def test_what_is_no_file_is_refused(server: tuple[str, str], file: Any, told: str) -> None:
    url, store = server
    async with guide(store, ScriptedModel([])), http_client(url) as http:
        answer = await http.post("/api/v1/turns", json={"agent": "guide", "text": "Look", "files": [file]})
    assert answer.status_code in (413, 422)
    assert told in answer.text


@in_event_loop
async def test_an_unmodified_client_of_openai_sends_files(server: tuple[str, str]) -> None:
    url, store = server
    model = ScriptedModel(["A dot."])
    parts: list[Any] = [
        {"type": "text", "text": "What is this?"},
        {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{ENCODED}", "detail": "low"}},
        {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}},
        {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "wav"}},
        {"type": "file", "file": {"file_data": "data:application/pdf;base64,aGk=", "filename": "/a/b.pdf"}},
    ]
    async with (
        guide(store, model),
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key=TOKENS[Role.OPERATOR]) as client,
    ):
        first = {"role": "user", "content": parts[:2]}
        said = [first, {"role": "assistant", "content": "Hm."}, {"role": "user", "content": parts}]
        answer = await client.chat.completions.create(model="guide", messages=said)  # type: ignore[arg-type]
        assert answer.choices[0].message.content == "A dot."
        for wrong in (
            {"type": "image_url", "image_url": {"url": "file:///etc/passwd"}},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,!"}},
            {"type": "image_url", "image_url": {"url": "data:image/png,abc"}},
            {"type": "input_audio", "input_audio": {"data": "aGk=", "format": "midi"}},
            {"type": "file", "file": {"file_id": "file-1"}},
            {"type": "video_url"},
        ):
            with pytest.raises(openai.UnprocessableEntityError, match="messages: a part"):
                await client.chat.completions.create(
                    model="guide",
                    messages=[{"role": "user", "content": [wrong]}],  # type: ignore[list-item]
                )
    image = File(PNG, "image/png")
    assert files_in(model.requests[0]) == [
        image,
        image,
        FileUrl("https://example.com/a.png"),
        File(b"hi", "audio/wav"),
        File(b"hi", "application/pdf", "b.pdf"),
    ]


@pytest.mark.parametrize("remote", [False, True], ids=["store", "http"])
def test_the_client_sends_files_and_reads_them(server: tuple[str, str], tmp_path: Path, remote: bool) -> None:
    url, store = server
    model = ScriptedModel(["A dot.", "Another."])
    (tmp_path / "dot.png").write_bytes(PNG)

    async def story() -> None:
        settings = settings_for(store, server=url if remote else "", token=TOKENS[Role.OPERATOR])
        async with guide(store, model), opened_client(settings, synchronous=False) as flow:
            assert (await flow.turns.ask("guide", "Look", files=[tmp_path / "dot.png"])).text == "A dot."
            session = flow.turns.session("one", "guide")
            assert (await session.ask("Look", files=[File(b"hi", "image/gif")])).text == "Another."
            view = (await session.show()).turns[0]
            card = next(each for each in view.context if each.files)
            assert await flow.turns.file(card.card) == File(b"hi", "image/gif")

    asyncio.run(asyncio.wait_for(story(), 60))
    assert [files_in(request) for request in model.requests] == [
        [File(PNG, "image/png", "dot.png")],
        [File(b"hi", "image/gif")],
    ]
