"""A conversation with an agent in a terminal; from a pipe, one line is one question."""

from __future__ import annotations

import asyncio
import json
import signal
import sys
import threading
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import asdict

from afl.cli.console import say, write
from afl.cli.turns_transcript import say_how_it_ended
from afl.kernel.settings import Settings
from afl.operations.turn.turn_service import Chat, TurnModule, WorkerOptions, staffed
from afl.operations.turn.turn_store import TurnStore, opened
from afl.turns.agents import Agents
from afl.turns.cardbox.deliverable import Delivered

_GRACE_SECONDS = 2.0


def converse(
    settings: Settings,
    module: TurnModule | None,
    agent: str,
    after: str,
    *,
    questions: Sequence[str] = (),
    as_json: bool = False,
) -> bool:
    """Until the input ends; with `questions`, those and no more. Whether all of these were answered."""

    async def conversing() -> bool:
        async with _place(settings, module) as agents, Chat(agents, agent, after) as chat:
            if not questions:
                await _talk(chat, agent, as_json)
            answers = [await _answer(chat, agent, question, as_json) for question in questions]
        return all(answer.succeeded for answer in answers)

    return asyncio.run(conversing())


async def _talk(chat: Chat, agent: str, as_json: bool) -> None:
    lines = _Lines("you> " if sys.stdin.isatty() else "")
    asyncio.get_running_loop().add_signal_handler(signal.SIGINT, lambda: _interrupt(chat, lines))
    if sys.stdin.isatty():
        say(f"This is {agent}. Ctrl+C stops an answer, Ctrl+D ends the conversation.", "dim")
    async for line in lines:
        if line.strip():
            await _answer(chat, agent, line.strip(), as_json)


def _place(settings: Settings, module: TurnModule | None) -> AbstractAsyncContextManager[Agents]:
    if module is None:
        return opened(TurnStore(settings))
    return staffed(settings, module, WorkerOptions(grace=_GRACE_SECONDS))


async def _answer(chat: Chat, agent: str, line: str, as_json: bool) -> Delivered:
    if as_json:
        delivered = await chat.say(line)
        print(json.dumps(asdict(delivered)), flush=True)
        return delivered
    voice = _Voice(agent if sys.stdout.isatty() else "")
    delivered = await chat.say(line, voice.receive)
    voice.end(delivered)
    return delivered


def _interrupt(chat: Chat, lines: _Lines) -> None:
    stopping = asyncio.ensure_future(chat.stop())
    stopping.add_done_callback(lambda done: None if done.result() is not None else lines.end())


class _Voice:
    """Prints words while they come, and at the end what has not been said."""

    def __init__(self, agent: str) -> None:
        self._label = f"{agent}> " if agent else ""
        self._received = ""

    def receive(self, text: str) -> None:
        if not self._received:
            write(self._label)
        self._received += text
        write(text)

    def end(self, delivered: Delivered) -> None:
        """The words of earlier steps stand on lines of their own; what was delivered is said in full."""
        if not self._received.endswith(delivered.text):
            missing = delivered.text
            if self._received and delivered.text.startswith(self._received):
                missing = delivered.text[len(self._received) :]
            elif self._received and not self._received.endswith("\n"):
                missing = f"\n{delivered.text}"
            self.receive(missing)
        write("\n")
        say_how_it_ended(delivered)


class _Lines:
    """Lines of standard input, read by a thread that nobody waits for: a process must be able to end."""

    def __init__(self, prompt: str) -> None:
        self._prompt = prompt
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[str | None] = asyncio.Queue()
        self._wanted = threading.Semaphore(0)
        threading.Thread(target=self._read, name="afl-stdin", daemon=True).start()

    def end(self) -> None:
        """As if the input had ended."""
        self._lines.put_nowait(None)

    async def __aiter__(self) -> AsyncIterator[str]:
        while True:
            self._wanted.release()
            line = await self._lines.get()
            if line is None:
                return
            yield line

    def _read(self) -> None:
        while self._wanted.acquire():
            line = self._next()
            if self._loop.is_closed():
                return
            self._loop.call_soon_threadsafe(self._lines.put_nowait, line)
            if line is None:
                return

    def _next(self) -> str | None:
        if not self._prompt:
            return sys.stdin.readline() or None
        try:
            return input(self._prompt)
        except EOFError:
            print()
            return None
