"""Lua scripts: read from `lua/`, run by hash, sent in full when the server does not know them.

A script may begin with `-- uses: clock other`; the named files of `lua/parts/` are then put before it. Defining a
function costs time on every run, so the parts of a line `-- rarely: ...` are defined by calling `rarely()`. All keys
a script uses are passed as KEYS. A script is never sent a second time when the connection breaks: it may have run.
"""

from __future__ import annotations

import asyncio
import hashlib
import re
from collections.abc import Mapping, Sequence
from functools import cache
from importlib import resources
from typing import Any

from redis.asyncio import Redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import NoScriptError, ReadOnlyError, RedisError, ResponseError
from redis.exceptions import TimeoutError as RedisTimeoutError

from afl.coordination.connections import borrow
from afl.coordination.errors import ErrorTypes

Argument = bytes | str | int | float
_AWAY = (RedisConnectionError, RedisTimeoutError, OSError)
_USES, _RARELY = "-- uses:", "-- rarely:"
_FUNCTION = re.compile(r"^local function (\w+)", re.MULTILINE)
_SMALL = 32 * 1024  # bytes
_PIPELINE = 500  # commands per flush: bounds the server's reply buffer


class Script:
    """One script and its hash."""

    def __init__(self, name: str, text: str) -> None:
        self.name = name
        self.text = text
        self.sha = hashlib.sha1(text.encode()).hexdigest()
        self._named, self._spelled = packed("EVALSHA", self.sha), packed("EVAL", text)

    def head(self, keys: Sequence[str], fixed: Sequence[Argument], more: int) -> bytes:
        """The constant part of the command; `more` arguments follow it."""
        parts: list[Argument] = ["EVALSHA", self.sha, len(keys), *keys, *fixed]
        return b"*%d\r\n" % (len(parts) + more) + packed(*parts)

    def spelled_out(self, command: bytes) -> bytes:
        """The command with the text in place of the hash, which every server accepts."""
        return command.replace(self._named, self._spelled, 1)


@cache
def script(name: str) -> Script:
    """The script of `lua/<name>.lua`, with the parts it uses before it."""
    text = _read(f"{name}.lua")
    return Script(name, "\n".join([_parts(text, _USES), _seldom(_parts(text, _RARELY)), text]))


def _parts(text: str, mark: str) -> str:
    """The parts that a line at the top names."""
    lines = [line.removeprefix(mark).split() for line in text.splitlines()[:2] if line.startswith(mark)]
    return "\n".join(_read(f"parts/{part}.lua") for line in lines for part in line)


def _seldom(parts: str) -> str:
    """A function `rarely` that defines the functions of the parts when it is called, and returns them in a table."""
    if not parts:
        return ""
    names = ", ".join(f"{name} = {name}" for name in _FUNCTION.findall(parts))
    return f"local function rarely()\n{parts}\nreturn {{{names}}}\nend"


def _read(path: str) -> str:
    return resources.files("afl.coordination").joinpath("lua", *path.split("/")).read_text(encoding="utf-8")


def packed(*arguments: Argument) -> bytes:
    """Arguments in the encoding of the protocol."""
    parts = []
    for each in arguments:
        data = each if isinstance(each, bytes) else str(each).encode()
        parts.append(b"$%d\r\n%b\r\n" % (len(data), data))
    return b"".join(parts)


_Asked = tuple[Script, bytes, "asyncio.Future[Any]"]


class ScriptRunner:
    """Runs scripts, and converts exceptions of the driver into errors of one part."""

    def __init__(self, redis: Redis, faults: ErrorTypes) -> None:
        self.redis = redis
        self._faults = faults
        self._under_way = False
        self._queue: list[_Asked] = []
        self._driver: asyncio.Task[None] | None = None

    async def run(
        self,
        name: str,
        keys: Sequence[str],
        arguments: Sequence[Argument] = (),
        *,
        kinds: Mapping[str, str] | None = None,
    ) -> Any:
        """The result of one script. With `kinds` a key of another type is named in the error."""
        it = script(name)
        head = it.head(keys, (), len(arguments))
        return await self.call(it, head + packed(*arguments), kinds)

    async def call(self, it: Script, command: bytes, kinds: Mapping[str, str] | None = None) -> Any:
        """The result of one packed command of a script.

        Commands that arrive while another is in flight are sent together, in one exchange: more concurrency costs less
        per command.
        """
        try:
            if self._under_way:
                return await self._queued(it, command)
            self._under_way = True
            try:
                return await self._exchange_one(it, command)
            finally:
                self._go_on()
        except (RedisError, OSError) as error:
            raise await self.fault(error, kinds) from error

    async def _exchange_one(self, it: Script, command: bytes) -> Any:
        connection = await borrow(self.redis)
        try:
            await _write(connection, command)
            try:
                return await connection.read_response(disable_decoding=True)
            except NoScriptError:
                await _write(connection, it.spelled_out(command))
                return await connection.read_response(disable_decoding=True)
        finally:
            await self.redis.connection_pool.release(connection)

    def _queued(self, it: Script, command: bytes) -> asyncio.Future[Any]:
        answer: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((it, command, answer))
        return answer

    def _go_on(self) -> None:
        """An exchange is complete; send the commands that arrived meanwhile."""
        if self._queue:
            self._driver = asyncio.create_task(self._drive(), name="coordination exchange")
        else:
            self._under_way = False

    async def _drive(self) -> None:
        try:
            while self._queue:
                batch = self._queue[:_PIPELINE]
                del self._queue[:_PIPELINE]
                await self._exchange_many([each for each in batch if not each[2].cancelled()])
        finally:
            self._under_way = False
            for _, _, answer in self._queue:  # only when it was canceled with its loop
                answer.cancel()
            self._queue.clear()

    async def _exchange_many(self, batch: Sequence[_Asked]) -> None:
        try:
            answers = await self._exchange([(it, command) for it, command, _ in batch])
        except (RedisError, OSError) as error:
            answers = [error] * len(batch)
        except asyncio.CancelledError:
            for _, _, future in batch:
                future.cancel()
            raise
        for (_, _, future), answer in zip(batch, answers, strict=True):
            if future.done():
                continue
            if isinstance(answer, Exception):
                future.set_exception(answer)
            else:
                future.set_result(answer)

    async def call_all(self, it: Script, commands: Sequence[bytes]) -> list[Any]:
        """The results of many commands of one script, in order; an error is a result too."""
        answers: list[Any] = []
        try:
            for start in range(0, len(commands), _PIPELINE):
                answers += await self._exchange([(it, each) for each in commands[start : start + _PIPELINE]])
        except (RedisError, OSError) as error:
            raise await self.fault(error, None) from error
        return answers

    async def _exchange(self, asked: Sequence[tuple[Script, bytes]]) -> list[Any]:
        """All in one round trip; those with an unknown script in a second."""
        connection = await borrow(self.redis)
        try:
            answers = await _exchange(connection, [command for _, command in asked])
            forgotten = [n for n, answer in enumerate(answers) if isinstance(answer, NoScriptError)]
            again = await _exchange(connection, [asked[n][0].spelled_out(asked[n][1]) for n in forgotten])
        finally:
            await self.redis.connection_pool.release(connection)
        for n, answer in zip(forgotten, again, strict=True):
            answers[n] = answer
        return answers

    async def fault(self, error: Exception, kinds: Mapping[str, str] | None) -> Exception:
        """The error of this part for an exception of the driver."""
        if isinstance(error, _AWAY):
            return self._faults.unavailable(
                f"the Redis server does not answer ({error}); the next call tries again"
            )
        if isinstance(error, ReadOnlyError):  # a former primary: its address may lead to another server now
            await self.redis.connection_pool.disconnect(inuse_connections=False)
            return self._faults.unavailable(
                f"the Redis server accepts no writes ({error}); the next call connects again"
            )
        if str(error).startswith("WRONGTYPE"):
            return self._faults.wrong_key(await self._wrong_key(kinds or {}))
        return self._faults.refused(f"the Redis server refused: {error}")

    async def _wrong_key(self, kinds: Mapping[str, str]) -> str:
        for key, expected in kinds.items():
            try:
                found = await self.redis.execute_command("TYPE", key)  # type: ignore[no-untyped-call]
            except RedisError as error:
                return f"a key holds another kind of value than expected; which one cannot be told ({error})"
            kind = found.decode() if isinstance(found, bytes) else found
            if kind not in ("none", expected):
                return f"key {key!r} holds a {kind}, expected a {expected}; choose another key_prefix or remove it"
        return "a key holds another kind of value than expected; choose another key_prefix"


async def _write(connection: AbstractConnection, command: bytes) -> None:
    """The driver starts a task for each write with a timeout; one that fits the buffers cannot block anyway."""
    timeout = connection.socket_timeout
    if timeout is None or len(command) > _SMALL:
        await connection.send_packed_command(command)
        return
    connection.socket_timeout = None
    try:
        await connection.send_packed_command(command)
    finally:
        connection.socket_timeout = timeout


async def _exchange(connection: AbstractConnection, commands: Sequence[bytes]) -> list[Any]:
    if not commands:
        return []
    await _write(connection, b"".join(commands))
    answers: list[Any] = []
    for _ in commands:
        try:
            answers.append(await connection.read_response(disable_decoding=True))
        except ResponseError as error:
            answers.append(error)
    return answers
