"""Files as input of turns and as results of tools: in the card or in the blob store, on both kinds of database."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from pydantic_ai.messages import BinaryContent, ImageUrl
from support.event_loop import in_event_loop

from afl.kernel.database import Database
from afl.kernel.errors import InputError, NotFoundError
from afl.models import File, FileUrl, ScriptedModel, Text
from afl.models.content import FileRef
from afl.models.messages import ToolResult, files_in
from afl.models.scripted import calls
from afl.turns import Agents, Guardrails, Limits, Refuse, local_tool, open_agents
from afl.turns.cardbox.boxes import read_box
from afl.turns.cardbox.cards import Card
from afl.turns.content.blob_store import FolderBlobs
from afl.turns.errors import ContentTooLarge
from afl.turns.model import TurnRef
from afl.turns.store import inbox

SMALL = File(b"small image", "image/png", "small.png")
LARGE = File(bytes(range(256)) * 8, "image/png", "large.png")
LIMITS = Limits(inline_bytes=100, file_bytes=10_000, request_bytes=20_000)


@asynccontextmanager
async def opened(
    database: Database, folder: Path, model: ScriptedModel, **options: Any
) -> AsyncIterator[Agents]:
    limits = options.pop("limits", LIMITS)
    async with open_agents(database, model=model, limits=limits, blobs=str(folder), **options) as agents:
        await agents.define("guide", "Look.")
        yield agents


async def asked_card(agents: Agents, turn: TurnRef) -> Card:
    def look(tx: Any) -> Card:
        row = inbox.turn_row(tx, agents.project, turn.agent_turn_id)
        assert row is not None
        return read_box(tx, agents.project, row.payload["context_box_id"])[0][1]

    return await agents.engine.database.run("read", look)


def blobs(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.rglob("*") if path.is_file())


@in_event_loop
async def test_a_small_file_is_in_the_card(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["A dot."])
    async with opened(database, tmp_path, model) as agents:
        turn = await agents.send("guide", ["What is this?", SMALL])
        assert (await agents.wait(turn)).text == "A dot."
        card = await asked_card(agents, turn)
    (request,) = model.requests
    assert request.messages[0].content == (Text("What is this?"), SMALL)
    assert card.content["text"] == "What is this?"
    assert "data" in card.content["parts"][1]
    assert blobs(tmp_path) == []


@in_event_loop
async def test_a_large_file_is_in_the_blob_store(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["A gradient."])
    async with opened(database, tmp_path, model) as agents:
        turn = await agents.send("guide", [LARGE, "What is this?", SMALL])
        await agents.wait(turn)
        card = await asked_card(agents, turn)
    assert model.requests[0].messages[0].content == (LARGE, Text("What is this?"), SMALL)
    stored = card.content["parts"][0]
    assert "data" not in stored
    assert (stored["size"], stored["name"]) == (2048, "large.png")
    assert blobs(tmp_path) == [stored["sha256"]]


@in_event_loop
async def test_the_types_of_others(database: Database, tmp_path: Path) -> None:
    class Picture:  # as Pillow has it
        mode, format, filename = "RGB", "PNG", "/home/me/photo.png"

        def getpixel(self, place: tuple[int, int]) -> int:
            return 0

        def save(self, file: Any, format: str) -> None:
            file.write(f"{format} of pixels".encode())

    (tmp_path / "note.txt").write_text("Hello")
    model = ScriptedModel(["Seen."])
    given = [
        BinaryContent(b"x", media_type="audio/wav"),
        ImageUrl("https://example.com/a.png"),
        Picture(),
        tmp_path / "note.txt",
    ]
    async with opened(database, tmp_path / "blobs", model) as agents:
        await agents.ask("guide", given)
    assert files_in(model.requests[0]) == [
        File(b"x", "audio/wav"),
        FileUrl("https://example.com/a.png", "image", "image/png"),
        File(b"PNG of pixels", "image/png", "photo.png"),
        File(b"Hello", "text/plain", "note.txt"),
    ]


@pytest.mark.parametrize("given", [[], [1], {"a": 1}, b"bytes", ["text", None]])
@in_event_loop
async def test_what_is_no_content(database: Database, tmp_path: Path, given: Any) -> None:
    async with opened(database, tmp_path, ScriptedModel([])) as agents:
        with pytest.raises(InputError, match="expected text, a File"):
            await agents.send("guide", given)


@in_event_loop
async def test_a_file_that_is_too_large_is_refused(database: Database, tmp_path: Path) -> None:
    async with opened(database, tmp_path, ScriptedModel([])) as agents:
        with pytest.raises(ContentTooLarge, match="10,000 bytes"):
            await agents.send("guide", ["Look", File(bytes(10_001), "image/png")])
    assert blobs(tmp_path) == []


@in_event_loop
async def test_many_small_files_go_to_the_blob_store(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["Nine."])
    files = [File(bytes([number]) * 90, "image/png") for number in range(9)]
    async with opened(database, tmp_path, model) as agents:
        await agents.ask("guide", files)
    assert files_in(model.requests[0]) == files
    assert len(blobs(tmp_path)) == 5  # a card has four times the limit of one file


@in_event_loop
async def test_a_tool_returns_files(database: Database, tmp_path: Path) -> None:
    def chart(kind: str) -> Any:
        """Draws."""
        return ["Here it is:", LARGE, SMALL] if kind == "both" else SMALL

    model = ScriptedModel([calls("chart", {"kind": "both"}), calls("chart", {"kind": "one"}), "Drawn."])
    async with opened(database, tmp_path, model, tools=[chart]) as agents:
        await agents.define("artist", "Draw.", tools=["chart"])
        assert (await agents.ask("artist", "Draw!")).text == "Drawn."
    results = [
        block
        for message in model.requests[-1].messages
        for block in message.content
        if isinstance(block, ToolResult)
    ]
    assert [result.files for result in results] == [(LARGE, SMALL), (SMALL,)]
    assert results[0].content.startswith("Here it is:\n(file large.png, image/png, 2,048 bytes)")
    assert len(blobs(tmp_path)) == 1


@in_event_loop
async def test_a_tool_returns_a_file_that_is_too_large(database: Database, tmp_path: Path) -> None:
    def chart() -> Any:
        """Draws."""
        return File(bytes(20_000), "image/png")

    model = ScriptedModel([calls("chart", {}), "It failed."])
    async with opened(database, tmp_path, model, tools=[chart]) as agents:
        await agents.define("artist", "Draw.", tools=["chart"])
        await agents.ask("artist", "Draw!")
    (result,) = [b for m in model.requests[-1].messages for b in m.content if isinstance(b, ToolResult)]
    assert result.is_error
    assert "content-too-large" in result.content


@in_event_loop
async def test_later_turns_of_a_session_see_the_file(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["A gradient.", "Yes."])
    async with opened(database, tmp_path, model) as agents:
        session = agents.session("one", "guide")
        await session.ask(["What is this?", LARGE])
        await session.ask("Sure?")
    assert files_in(model.requests[1]) == [LARGE]


@in_event_loop
async def test_more_files_than_a_model_is_sent(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["Seen.", "Seen."])
    files = [File(bytes([number]) * 9_000, "image/png", f"{number}.png") for number in range(3)]
    async with opened(database, tmp_path, model) as agents:
        session = agents.session("one", "guide")
        await session.ask(files[:1])
        await session.ask(files[1:])
    assert files_in(model.requests[1]) == files[1:]
    assert "(file 0.png, image/png, 9,000 bytes; it is not shown" in str(model.requests[1].messages)


@in_event_loop
async def test_more_files_than_a_card_may_have(database: Database, tmp_path: Path) -> None:
    async with opened(database, tmp_path, ScriptedModel([])) as agents:
        with pytest.raises(ContentTooLarge, match="101 files"):
            await agents.send("guide", [File(b"", "image/png")] * 101)
        with pytest.raises(ContentTooLarge, match="20,000 bytes together"):
            await agents.send("guide", [File(bytes(9_000), "image/png")] * 3)
    assert blobs(tmp_path) == []


@in_event_loop
async def test_a_tool_that_ends_the_turn_delivers_its_files(database: Database, tmp_path: Path) -> None:
    def chart() -> Any:
        """Draws."""
        return ["Drawn.", SMALL, LARGE]

    async with opened(database, tmp_path, ScriptedModel([calls("chart", {})])) as agents:
        await agents.define("artist", "Draw.", tools=[local_tool(chart, after_execution="terminate")])
        ended = await agents.ask("artist", "Draw!")
        assert ended.succeeded and ended.text.startswith("Drawn.")
        card = ended.deliverable_card_id
        assert [await agents.file(card, number) for number in (0, 1)] == [SMALL, LARGE]
        with pytest.raises(NotFoundError, match="no file 2"):
            await agents.file(card, 2)


@in_event_loop
async def test_a_missing_file_fails_the_turn(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["?"])
    async with opened(database, tmp_path, model) as agents:
        turn = await agents.send("guide", "wait")
        await agents.wait(turn)
        session = agents.session("one", "guide")
        card = await _stored(agents)
        FolderBlobs(tmp_path).delete(card)
        ended = await session.ask(["Look", FileRef(card, LARGE.size, LARGE.media_type, "large.png")])
    assert (ended.error_code, len(model.requests)) == ("content_unavailable", 1)
    assert f"is not at {tmp_path}" in str(ended.error)
    assert "AFL_BLOBS" in str(ended.error)


@in_event_loop
async def test_a_changed_file_fails_the_turn(database: Database, tmp_path: Path) -> None:
    async with opened(database, tmp_path, ScriptedModel(["?"])) as agents:
        digest = await _stored(agents)
        (tmp_path / digest[:2] / digest).write_bytes(b"something else")
        ended = await agents.ask("guide", [FileRef(digest, LARGE.size, LARGE.media_type)])
    assert ended.error_code == "content_unavailable"
    assert "was changed" in str(ended.error)


async def _stored(agents: Agents) -> str:
    """A file in the blob store, given by a card that was never written."""
    (part,) = await agents.engine.content.keep(agents.project, "card_none", [LARGE])
    return str(part["sha256"])


@in_event_loop
async def test_a_refused_input_has_no_files_later(database: Database, tmp_path: Path) -> None:
    def check(text: str) -> Any:
        return Refuse("not this") if "bad" in text else text.upper()

    model = ScriptedModel(["Fine.", "Again."])
    async with opened(database, tmp_path, model) as agents:
        await agents.define("careful", "Look.", guardrails=Guardrails(input=[check]))
        session = agents.session("one", "careful")
        assert (await session.ask(["bad", SMALL])).error_code == "input_refused"
        await session.ask(["good", LARGE])
    assert files_in(model.requests[0]) == [LARGE]
    assert "GOOD" in str(model.requests[0].messages)


@in_event_loop
async def test_a_budget_counts_a_file_by_its_kind(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["Fine."])
    limits = Limits()
    async with opened(database, tmp_path, model, limits=limits) as agents:
        await agents.define("cheap", "Look.", budget={"turn": {"tokens": 8_000}})
        big = File(bytes(60_000), "image/png")
        assert (await agents.ask("cheap", ["Look", big])).succeeded
