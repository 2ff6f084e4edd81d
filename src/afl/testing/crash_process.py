"""One process of a crash matrix: it runs the user's function, writes down what happens, and may end in the middle."""

from __future__ import annotations

import base64
import json
import os
import pickle
import threading
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from afl.client.client import Client
from afl.client.handle import RunHandle
from afl.client.source import Source
from afl.client.worker import Worker
from afl.kernel import crashpoint
from afl.operations.work.offers import offer_of
from afl.runtime.task_handlers.handler import Handlers, TaskHandler
from afl.runtime.task_handlers.handler_context import HandlerContext
from afl.testing.client import SkippingCalls, open_calls

CRASHED = 86  # the exit code of a process that ended in the middle
# Around each commit; and after each handler, since one commit may store the results of several.
POINTS = ("handler.after", "commit.before", "commit.after", "finish.before", "finish.after")


@dataclass
class Record:
    """What processes wrote down: the places they got to, calls by facet and key, who used the key, how it ended."""

    points: Counter[str] = field(default_factory=Counter)
    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    uses_key: set[str] = field(default_factory=set)
    result: Any = None
    error: str = ""
    ended: bool = False

    @classmethod
    def read(cls, path: Path) -> Record:
        """All that was written to a file, by one process or by one after the other."""
        record = cls()
        for line in path.read_text().splitlines() if path.exists() else ():
            kind, *values = json.loads(line)
            if kind == "point":
                record.points[values[0]] += 1
            elif kind == "call":
                record.calls[(values[0], values[1])] += 1
            elif kind == "key":
                record.uses_key.add(values[0])
            elif kind == "result":
                record.result, record.ended = pickle.loads(base64.b64decode(values[0])), True
            elif kind == "error":
                record.error, record.ended = values[0], True
        return record


class Recorder:
    """Appends to the file of a Record; what is appended stays when the process ends at once."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def write(self, *values: str) -> None:
        """One line."""
        os.write(self._file, json.dumps(values).encode() + b"\n")


class CrashAt:
    """Ends the process the n-th time that it gets to a place of a name; writes down the places on the way."""

    def __init__(self, recorder: Recorder, point: str, count: int) -> None:
        self._recorder = recorder
        self._point = point
        self._left = count
        self._guard = threading.Lock()

    def __call__(self, name: str) -> None:
        if name not in POINTS:
            return
        with self._guard:
            self._recorder.write("point", name)
            if name == self._point:
                self._left -= 1
                if self._left == 0:
                    os._exit(CRASHED)


class CrashClient(Client):
    """A client whose runs have the same ids in every process, and whose workers write down the calls of handlers."""

    def __init__(self, calls: SkippingCalls, recorder: Recorder) -> None:
        super().__init__(calls)
        self._recorder = recorder
        self._starts = 0

    def start(
        self, source: Source, workflow: str | None = None, *, id: str | None = None, **options: Any
    ) -> RunHandle:
        """As that of Client. Without an `id` the run has its number among those that the function starts."""
        self._starts += 1
        return super().start(source, workflow, id=id or f"run-{self._starts}", **options)

    def worker(self, handlers: Any = None, **options: Any) -> Worker:
        """As that of Client."""
        offer = offer_of(handlers)
        watched = Handlers(_WatchedHandler(each, self._recorder) for each in offer.handlers)
        return super().worker(replace(offer, handlers=watched), **options)


class _WatchedHandler:
    def __init__(self, handler: TaskHandler, recorder: Recorder) -> None:
        self.facet = handler.facet
        self._handler = handler
        self._recorder = recorder

    def __call__(self, payload: Mapping[str, Any], context: HandlerContext) -> Any:
        self._recorder.write("call", context.facet, context.idempotency_key)
        watched = _WatchedContext.of_context(context, self._recorder)
        return self._handler(payload, watched)


class _WatchedContext(HandlerContext):
    """A context that writes down that its key was asked for."""

    recorder: Recorder

    @classmethod
    def of_context(cls, context: HandlerContext, recorder: Recorder) -> _WatchedContext:
        """The same object: the worker cancels it, and handlers may have got hold of it in another way."""
        context.__class__ = cls
        assert isinstance(context, cls)
        context.recorder = recorder
        return context

    @property
    def idempotency_key(self) -> str:
        self.recorder.write("key", self.facet)
        return super().idempotency_key


def live(
    function: Callable[..., Any], given: Mapping[str, Any], url: str, path: Path, point: str, count: int
) -> None:
    """Call the function with a client on the store. `point` and `count` say where to end; '' is nowhere."""
    recorder = Recorder(path)
    crashpoint.watch(CrashAt(recorder, point, count))
    try:
        with open_calls(url) as calls:
            result = function(CrashClient(calls, recorder), **given)
        recorder.write("result", base64.b64encode(pickle.dumps(result)).decode())
    except BaseException as error:
        recorder.write("error", f"{type(error).__name__}: {error}")
