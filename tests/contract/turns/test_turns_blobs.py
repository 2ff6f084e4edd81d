"""The blob store and what is cleaned there: unused and old files, while others are being given."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.event_loop import in_event_loop

from afl.kernel.database import Database, Query, connect
from afl.kernel.errors import InputError
from afl.models import File, ScriptedModel
from afl.models.content import FileRef
from afl.models.messages import files_in
from afl.turns import Limits, open_agents
from afl.turns.cardbox.parts import digest_of
from afl.turns.content.blob_store import BlobStore, FolderBlobs, FsspecBlobs, MemoryBlobs, open_blobs
from afl.turns.content.keeper import ContentKeeper
from afl.turns.errors import ContentUnavailable
from afl.turns.store.blobs import delete_unused
from afl.turns.store.tables import ensure_tables
from afl.turns.store.turn_queries import latest_turns

IMAGE = File(bytes(range(256)), "image/png", "a.png")
AGE = Query.of(
    "update {schema:cardbox}blobs set touched_at = touched_at - 172800000, check_at = check_at - 172800000"
)
LIMITS = Limits(inline_bytes=10, blob_grace_ms=0)


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]


def keeper(database: Database, folder: Path, **limits: Any) -> ContentKeeper:
    ensure_tables(database)
    return ContentKeeper(database, replace(LIMITS, **limits), str(folder))


async def given(content: ContentKeeper, card: str = "card_none") -> FileRef:
    (part,) = await content.keep("p", card, [IMAGE])
    return FileRef(part["sha256"], part["size"], part["media_type"], part["name"])


@in_event_loop
async def test_a_file_whose_card_was_never_written_is_deleted_later(
    database: Database, tmp_path: Path
) -> None:
    """What a crash between the file and its card leaves."""
    patient = keeper(database, tmp_path, blob_grace_ms=3_600_000)
    await given(patient)
    assert await patient.clean() == 0
    assert len(files(tmp_path)) == 1
    quick = keeper(database, tmp_path)
    await given(quick)  # now it may be checked at once
    assert await quick.clean() == 1
    assert files(tmp_path) == []
    assert await quick.clean() == 0


@in_event_loop
async def test_a_file_that_a_card_has_stays_until_its_session_is_deleted(
    database: Database, tmp_path: Path
) -> None:
    model = ScriptedModel(["Seen.", "Seen again."])
    async with open_agents(database, model=model, limits=LIMITS, blobs=str(tmp_path)) as agents:
        await agents.define("guide", "Look.")
        content = agents.engine.content
        first, second = agents.session("one", "guide"), agents.session("two", "guide")
        await first.ask(["Look", IMAGE])
        await second.ask(["Look", IMAGE])
        assert await content.clean() == 0
        assert len(files(tmp_path)) == 1
        await first.delete()
        assert await content.clean() == 0
        await second.delete()
        aged(database)
        assert await content.clean() == 1
    assert files(tmp_path) == []


def aged(database: Database) -> None:
    """Two days pass for all files."""
    database.write(lambda tx: tx.run(AGE))


@in_event_loop
async def test_old_files_are_deleted_and_the_model_is_told(database: Database, tmp_path: Path) -> None:
    model = ScriptedModel(["Seen.", "Gone."])
    limits = replace(LIMITS, blob_days=1)
    async with open_agents(database, model=model, limits=limits, blobs=str(tmp_path)) as agents:
        await agents.define("guide", "Look.")
        session = agents.session("one", "guide")
        await session.ask(["Look", IMAGE])
        assert await agents.engine.content.clean() == 0
        aged(database)
        assert await agents.engine.content.clean() == 1
        assert (await session.ask("Still there?")).text == "Gone."
    assert files_in(model.requests[1]) == []
    assert "(file a.png, image/png, 256 bytes; it was deleted" in str(model.requests[1].messages)


def test_a_file_that_is_given_while_it_is_deleted_is_there(database_url: str, tmp_path: Path) -> None:
    with connect(database_url) as cleaning, connect(database_url) as giving:
        content = keeper(cleaning, tmp_path)
        other = keeper(giving, tmp_path, blob_grace_ms=3_600_000)
        digest = asyncio.run(given(content)).sha256
        begun = threading.Event()

        def give() -> None:
            begun.set()
            asyncio.run(given(other))

        thread = threading.Thread(target=give)

        def delete(name: str) -> None:
            thread.start()  # it waits for the row, or has it after this
            begun.wait()
            FolderBlobs(tmp_path).delete(name)

        assert cleaning.write(lambda tx: delete_unused(tx, digest, delete))
        thread.join()
        assert asyncio.run(other.read(FileRef(digest, 256, "image/png"))) == IMAGE.data
        assert asyncio.run(other.clean()) == 0


@in_event_loop
async def test_a_file_that_was_given_after_it_was_found_unused_stays(
    database: Database, tmp_path: Path
) -> None:
    digest = (await given(keeper(database, tmp_path))).sha256
    await given(keeper(database, tmp_path, blob_grace_ms=3_600_000))
    assert not database.write(lambda tx: delete_unused(tx, digest, FolderBlobs(tmp_path).delete))
    assert len(files(tmp_path)) == 1


class Unreliable(MemoryBlobs):
    """Fails as often as it is told to."""

    failures = 0

    def _fail(self) -> None:
        if self.failures:
            self.failures -= 1
            raise ConnectionError("no route")

    def write(self, digest: str, data: bytes) -> None:
        self._fail()
        super().write(digest, data)

    def delete(self, digest: str) -> None:
        self._fail()
        super().delete(digest)


@in_event_loop
async def test_a_blob_store_that_fails(database: Database) -> None:
    ensure_tables(database)
    blobs = Unreliable()
    content = ContentKeeper(database, LIMITS, blobs)
    blobs.failures = 2
    ref = await given(content)
    assert await content.read(ref) == IMAGE.data
    blobs.failures = 1
    assert await content.clean() == 0
    assert await content.clean() == 1
    blobs.failures = 3
    with pytest.raises(ContentUnavailable, match="no route; check AFL_BLOBS"):
        await given(content)


@in_event_loop
async def test_a_server_needs_to_know_where_files_go(empty_postgres_url: str, tmp_path: Path) -> None:
    with connect(empty_postgres_url) as database:
        ensure_tables(database)
        with pytest.raises(ContentUnavailable, match="set AFL_BLOBS to a folder"):
            await given(ContentKeeper(database, LIMITS))
    with connect(f"sqlite:///{tmp_path}/a%20b.db") as database:
        ensure_tables(database)
        await given(ContentKeeper(database, LIMITS))
    assert len(files(tmp_path / "a b.blobs")) == 1
    with connect("memory://") as database:
        ensure_tables(database)
        ref = await given(ContentKeeper(database, LIMITS))
        assert await ContentKeeper(database, LIMITS).read(ref) == IMAGE.data


@pytest.fixture(params=["folder", "file", "memory", "fsspec"])
def blobs(request: pytest.FixtureRequest, tmp_path: Path) -> BlobStore:
    if request.param == "memory":
        return MemoryBlobs()
    addresses = {
        "folder": str(tmp_path),
        "file": f"file://{tmp_path}/a%20b",
        "fsspec": f"memory://{tmp_path.name}",
    }
    return open_blobs(addresses[request.param])


def test_any_blob_store(blobs: BlobStore) -> None:
    name = "ab" * 32
    with pytest.raises(FileNotFoundError):
        blobs.read(name)
    blobs.write(name, b"bytes")
    blobs.write(name, b"bytes")
    assert blobs.read(name) == b"bytes"
    blobs.sweep()
    blobs.delete(name)
    blobs.delete(name)
    with pytest.raises(FileNotFoundError):
        blobs.read(name)
    assert blobs.address
    with pytest.raises(InputError, match="no SHA-256"):
        blobs.write("../../etc/passwd", b"")


def test_a_file_that_was_cut_off_is_written_again(tmp_path: Path) -> None:
    name, folder = "ab" * 32, FolderBlobs(tmp_path)
    fsspec = FsspecBlobs(f"memory://{tmp_path.name}")
    for each in (folder, fsspec):
        each.write(name, b"by")
        each.write(name, b"bytes")
        assert each.read(name) == b"bytes"
    assert len(files(tmp_path)) == 1  # and nothing unfinished beside it


def test_what_a_dead_writer_left_is_swept(tmp_path: Path) -> None:
    folder = FolderBlobs(tmp_path)
    folder.write("ab" * 32, b"bytes")
    (tmp_path / "tmp" / "old").write_bytes(b"b")
    (tmp_path / "tmp" / "new").write_bytes(b"b")
    os.utime(tmp_path / "tmp" / "old", (0, 0))
    folder.sweep()
    assert {path.name for path in files(tmp_path)} == {"ab" * 32, "new"}


def test_addresses_that_nobody_knows() -> None:
    with pytest.raises(InputError, match="blobs cannot be kept at nothing://x"):
        open_blobs("nothing://x")


_VICTIM = """
import asyncio, os, signal, sys
from pathlib import Path
from afl.models import File
from afl.turns import Limits, open_agents
from afl.turns.content.blob_store import FolderBlobs

class Dying(FolderBlobs):
    def write(self, digest, data):
        super().write(digest, data)
        (Path(sys.argv[2]) / "tmp" / "unfinished").write_bytes(b"half")
        os.kill(os.getpid(), signal.SIGKILL)

async def main():
    limits = Limits(inline_bytes=10, blob_grace_ms=0)
    async with open_agents(sys.argv[1], limits=limits, blobs=Dying(Path(sys.argv[2]))) as agents:
        await agents.define("guide", "Look.")
        await agents.send("guide", ["Look", File(bytes(range(256)), "image/png")])

asyncio.run(main())
"""


def test_a_process_that_is_killed_between_a_file_and_its_card(database_url: str, tmp_path: Path) -> None:
    """Another one finds no turn, gives the same file, and what the dead one left is deleted."""
    folder = tmp_path / "blobs"
    died = subprocess.run([sys.executable, "-c", _VICTIM, database_url, str(folder)], timeout=60, check=False)
    assert died.returncode == -signal.SIGKILL
    assert {path.name for path in files(folder)} == {digest_of(IMAGE.data), "unfinished"}

    async def story() -> None:
        model = ScriptedModel(["Seen."])
        async with open_agents(database_url, model=model, limits=LIMITS, blobs=str(folder)) as agents:
            rows = await agents.engine.database.run(
                "read", lambda tx: latest_turns(tx, agents.project, "", 9)
            )
            assert rows == []
            assert await agents.engine.content.clean() == 1
            assert (await agents.ask("guide", ["Look", IMAGE])).text == "Seen."
            assert await agents.engine.content.clean() == 0
        assert files_in(model.requests[0]) == [IMAGE]

    asyncio.run(asyncio.wait_for(story(), 60))
    os.utime(folder / "tmp" / "unfinished", (0, 0))
    FolderBlobs(folder).sweep()
    assert [path.name for path in files(folder)] == [digest_of(IMAGE.data)]
