"""Content on its way into cards, and out of them: small files are in the card itself, others in the blob store."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from urllib.parse import unquote
from weakref import WeakKeyDictionary

from afl.kernel.backoff import Backoff
from afl.kernel.database import Database, Transaction
from afl.kernel.errors import NotFoundError
from afl.models import Request, Text, ToolResult
from afl.models.content import Content, File, FileRef, described
from afl.models.messages import Block, Message
from afl.turns.cardbox.card_store import find_cards
from afl.turns.cardbox.parts import Part, digest_of, files_of, stored_part
from afl.turns.content.blob_store import BlobStore, FolderBlobs, MemoryBlobs, open_blobs
from afl.turns.errors import ContentTooLarge, ContentUnavailable
from afl.turns.model import Limits
from afl.turns.store.blobs import (
    blobs_to_check,
    delete_expired,
    delete_unused,
    enter_blobs,
    expired_blobs,
    is_kept,
)

T = TypeVar("T")
_ATTEMPTS = 3
_BACKOFF = Backoff(0.05, cap=1.0)
_BATCH = 100
_MOST_INLINE = 4  # times the limit of one file, in all of a card
_log = logging.getLogger("afl.turns")
_in_memory: WeakKeyDictionary[Database, MemoryBlobs] = WeakKeyDictionary()


class ContentKeeper:
    """The files of one store's cards. `blobs` is an address; empty: a folder beside the file of an SQLite store."""

    def __init__(self, database: Database, limits: Limits, blobs: str | BlobStore = "") -> None:
        self._database = database
        self._limits = limits
        self._given = blobs
        self._opened: BlobStore | None = None

    async def keep(self, project: str, card: str, parts: Sequence[Part]) -> list[dict[str, Any]]:
        """The parts as the card will have them; the bytes of large files are stored before this returns."""
        self._check_sizes(parts)
        left = self._limits.inline_bytes * _MOST_INLINE
        stored: list[dict[str, Any]] = []
        large: dict[str, bytes] = {}
        for part in parts:
            inline = isinstance(part, File) and part.size <= min(left, self._limits.inline_bytes)
            stored.append(stored_part(part, inline=inline))
            if isinstance(part, File) and inline:
                left -= part.size
            elif isinstance(part, File):
                large[stored[-1]["sha256"]] = part.data
        sizes = {
            each["sha256"]: each["size"] for each in stored if each["type"] == "file" and "data" not in each
        }
        grace = self._limits.blob_grace_ms
        if sizes:  # also of files that are stored already
            await self._database.run("write", lambda tx: enter_blobs(tx, project, card, sizes, grace))
        for digest, data in large.items():
            await self._tried(partial((await self._blobs()).write, digest, data))
        return stored

    async def loaded(self, request: Request) -> Request:
        """The request with the bytes of its files; ContentUnavailable if one cannot be read."""
        found = await self.loaded_messages(request.messages)
        return request if found is request.messages else replace(request, messages=found)

    async def loaded_messages(self, messages: tuple[Message, ...]) -> tuple[Message, ...]:
        """Messages with the bytes of their files; the newest, if they are more than a model is sent at once."""
        wanted = list(_references(messages))
        if not wanted:
            return messages
        got: dict[FileRef, Block] = {}
        left = self._limits.request_bytes
        for each in reversed(wanted):
            if each in got:
                continue
            if each.size > left:
                got[each] = Text(f"{described(each)[:-1]}; it is not shown: there are too many files)")
                continue
            left -= each.size
            got[each] = await self._file(each)
        return tuple(_with_files(message, got) for message in messages)

    async def read(self, file: FileRef) -> bytes:
        """The bytes of a file; ContentUnavailable says why they cannot be had."""
        blobs = await self._blobs()
        try:
            data = await self._tried(partial(blobs.read, file.sha256), FileNotFoundError)
        except FileNotFoundError as error:
            raise ContentUnavailable(
                f"{described(file)} is not at {blobs.address}, as {file.sha256}; all workers and servers of this "
                "store need the same AFL_BLOBS, and what was deleted there has to be put back"
            ) from error
        if digest_of(data) != file.sha256:
            raise ContentUnavailable(
                f"{described(file)} at {blobs.address}, as {file.sha256}, was changed: its SHA-256 is another; "
                "restore it from a backup, or delete it and give the file again"
            )
        return data

    async def file_of(self, project: str, card: str, number: int) -> File:
        """A file of a card, by its place among the files there; NotFoundError if it has none."""
        found = await self._database.run("read", lambda tx: find_cards(tx, project, [card]).get(card))
        files = [] if found is None else files_of(found.content)
        part = files[number] if 0 <= number < len(files) else None
        if isinstance(part, FileRef):
            return File(await self.read(part), part.media_type, part.name)
        if isinstance(part, File):
            return part
        raise NotFoundError(f"card {card!r} has no file {number}; `afl turns show` has the cards of a turn")

    async def clean(self) -> int:
        """Delete files that no card has, and those older than files are kept; how many."""
        keep_ms = self._limits.blob_days * 86_400_000
        read = partial(self._database.run, "read")
        unused = await read(lambda tx: blobs_to_check(tx, _BATCH))
        old = await read(lambda tx: expired_blobs(tx, keep_ms, _BATCH)) if keep_ms else []
        if not unused and not old and self._opened is None:
            return 0
        blobs = await self._blobs()
        await asyncio.to_thread(blobs.sweep)
        works = [partial(delete_unused, digest=each, delete=blobs.delete) for each in unused]
        works += [partial(delete_expired, digest=each, keep_ms=keep_ms, delete=blobs.delete) for each in old]
        deleted = 0
        for work in works:
            try:
                deleted += await self._database.run("write", work)
            except OSError as error:
                _log.warning("a file stays at %s: %s", blobs.address, error)
        return deleted

    def _check_sizes(self, parts: Iterable[Part]) -> None:
        files = [part for part in parts if isinstance(part, File)]
        most, in_all = self._limits.file_bytes, self._limits.request_bytes
        for part in files:
            if part.size > most:
                raise ContentTooLarge(
                    f"{described(part)} is larger than the limit of {most:,} bytes; "
                    "give a smaller one, or raise AFL_MAX_FILE_BYTES"
                )
        if len(files) > self._limits.files:
            raise ContentTooLarge(
                f"{len(files):,} files are given at once; the limit is {self._limits.files:,}"
            )
        if sum(part.size for part in files) > in_all:
            raise ContentTooLarge(f"the files are larger than {in_all:,} bytes together; give fewer at once")

    async def _file(self, wanted: FileRef) -> Block:
        """The file; what was deleted because of its age is told to the model."""
        try:
            return File(await self.read(wanted), wanted.media_type, wanted.name)
        except ContentUnavailable:

            def look(tx: Transaction) -> bool:
                return is_kept(tx, wanted.sha256)

            if await self._database.run("read", look):
                raise
            return Text(f"{described(wanted)[:-1]}; it was deleted, since files are not kept for longer)")

    async def _blobs(self) -> BlobStore:
        if self._opened is None:
            given = self._given
            opened = (
                await asyncio.to_thread(_open, self._database, given) if isinstance(given, str) else given
            )
            self._opened = opened
        return self._opened

    async def _tried(self, call: Callable[[], T], *but: type[OSError]) -> T:
        """What a call of the blob store gives; one that fails is made again, except after errors of the types `but`."""
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return await asyncio.to_thread(call)
            except OSError as error:
                if isinstance(error, but):
                    raise
                if attempt == _ATTEMPTS:
                    where = (await self._blobs()).address
                    raise ContentUnavailable(
                        f"the blob store {where} cannot be used: {error}; check AFL_BLOBS, and that it can be written"
                    ) from error
            await asyncio.sleep(_BACKOFF.delay(attempt))
        raise AssertionError("unreachable")


def _open(database: Database, address: str) -> BlobStore:
    if address:
        return open_blobs(address)
    if database.url.startswith("sqlite:///"):
        return FolderBlobs(Path(unquote(database.url.removeprefix("sqlite:///"))).with_suffix(".blobs"))
    if database.url.startswith("memory"):
        return _in_memory.setdefault(database, MemoryBlobs())
    raise ContentUnavailable(
        "there is no blob store for files that are larger than a card may have; set AFL_BLOBS to a folder that all "
        "workers and servers share, or to an address such as s3://bucket/path"
    )


def _references(messages: Iterable[Message]) -> Iterable[FileRef]:
    for message in messages:
        for block in message.content:
            if isinstance(block, FileRef):
                yield block
            elif isinstance(block, ToolResult):
                yield from (each for each in block.files if isinstance(each, FileRef))


def _with_files(message: Message, got: Mapping[FileRef, Block]) -> Message:
    blocks = [got[block] if isinstance(block, FileRef) else block for block in message.content]
    return replace(
        message,
        content=tuple(_result(block, got) if isinstance(block, ToolResult) else block for block in blocks),
    )


def _result(result: ToolResult, got: Mapping[FileRef, Block]) -> ToolResult:
    """A result with the bytes of its files; the words in place of a file that cannot be had are part of its text."""
    files: list[Content] = []
    words = [result.content]
    for each in result.files:
        found = got[each] if isinstance(each, FileRef) else each
        if isinstance(found, Text):
            words.append(found.text)
        elif isinstance(found, Content):
            files.append(found)
    return replace(result, content="\n".join(words), files=tuple(files)) if result.files else result
