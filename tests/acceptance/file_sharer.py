"""A process that runs workflows on a store which others use at the same time; it obeys lines on its standard input.

`open` opens the store and runs one workflow; `work 2.5` runs workflows for that many seconds; each answers one line.
"""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from afl.language import compile_source
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.local_runner import LocalRunner
from afl.runtime.program.program import Program
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.task_handlers.handler import Handlers

SOURCE = """
event facet Add(n: Long) => (m: Long)
workflow Chain(n: Long) => (y: Long) andThen {
    a = Add(n = $.n)
    b = Add(n = a.m)
    c = Add(n = b.m)
    yield Chain(y = c.m)
}
"""


class Sharer:
    """One of several users of a file."""

    def __init__(self, url: str) -> None:
        self._program = Program({"program": compile_source(SOURCE).program, "workflow": "Chain"})
        self._url = url
        self._commits = 0
        self._runs = 0

    def open(self) -> dict[str, Any]:
        self._store = SqliteStore(self._url)
        self._store.commit = self._counted(self._store.commit)  # type: ignore[method-assign]
        self._runner = LocalRunner(Evaluator(self._store), Handlers.of({"Add": lambda n: {"m": n + 1}}))
        return self._one()

    def _counted(self, commit: Any) -> Any:
        def counted(changes: Any) -> None:
            commit(changes)
            self._commits += 1

        return counted

    def _one(self) -> dict[str, Any]:
        result: ExecutionResult = self._runner.run(self._program, {"n": self._runs})
        right = result.outputs == {"y": self._runs + 3}
        self._runs += 1
        return {"right": right, "status": result.status, "error": str(result.error)}

    def work(self, seconds: float) -> dict[str, Any]:
        self._commits, before, wrong = 0, self._runs, []
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            answer = self._one()
            if not answer["right"]:
                wrong.append(answer)
        return {"commits": self._commits, "runs": self._runs - before, "wrong": wrong}

    def close(self) -> None:
        self._runner.close()
        self._store.close()


def main() -> None:
    sharer = Sharer(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        verb, *rest = line.split()
        answer = sharer.open() if verb == "open" else sharer.work(float(rest[0]))
        print(json.dumps(answer), flush=True)
    sharer.close()


if __name__ == "__main__":
    main()
