"""What handlers print and log, in the log of their attempt."""

from __future__ import annotations

import asyncio
import io
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import pytest

import afl
from afl.runtime.entities import LogDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store
from afl.runtime.task_handlers.capture import capturing

SOURCE = """
event facet F() => (n: Long)
workflow W() => (n: Long) andThen { f = F() with Retry(attempts = 2, backoff = 0) yield W(n = f.n) }
"""
log = logging.getLogger("their.module")


@pytest.fixture
def store() -> Iterator[PersistenceAPI]:
    opened = open_store("memory://")
    yield opened
    opened.close()


def lines(store: PersistenceAPI) -> list[LogDefinition]:
    return store.get_logs_by_runner(store.get_runs(limit=1)[0].workflow_id)


def said(store: PersistenceAPI) -> list[tuple[str, str]]:
    return [(line.note_type, line.message) for line in lines(store)]


def run(store: PersistenceAPI, function: Callable[..., Any], **options: Any) -> None:
    afl.run(SOURCE, handlers={"F": function}, store=store, **options)


def talking() -> dict[str, int]:
    print("to standard output")
    print("to standard", "error", file=sys.stderr)
    log.warning("by %s", "logging")
    logging.getLogger("afl.theirs").warning("our own lines are no handler's")
    sys.stdout.write("not ended")
    return {"n": 1}


SAID = [
    ("info", "to standard output"),
    ("info", "to standard error"),
    ("warning", "by logging"),
    ("info", "not ended"),
]


def test_a_command_captures_what_a_handler_prints_and_logs(store: PersistenceAPI) -> None:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err), capturing():
        print("of the command itself")
        run(store, talking)
    assert said(store) == SAID
    assert out.getvalue() == "of the command itself\nto standard output\nnot ended"
    assert "to standard error\n" in err.getvalue()
    (first, *_) = lines(store)
    assert (first.attempt, first.step_id, first.object_type) == (1, first.runner_id + "/0/f", "task")


def test_a_coroutine_is_captured_with_the_threads_it_asks_for(store: PersistenceAPI) -> None:
    async def work() -> dict[str, int]:
        print("before")
        await asyncio.sleep(0)
        log.error("after")
        await asyncio.to_thread(print, "in a thread")
        return {"n": 1}

    with redirect_stdout(io.StringIO()), capturing():
        run(store, work)
    assert said(store) == [("info", "before"), ("error", "after"), ("info", "in a thread")]


def test_each_attempt_has_its_own_lines(store: PersistenceAPI) -> None:
    def work(context: afl.HandlerContext) -> dict[str, int]:
        print(f"this is attempt {context.attempt}")
        if context.attempt == 1:
            raise ValueError("once more")
        return {"n": 1}

    with redirect_stdout(io.StringIO()), capturing():
        run(store, work)
    assert [(line.attempt, line.message.partition(":")[0]) for line in lines(store)] == [
        (1, "this is attempt 1"),
        (1, "attempt 1 failed"),
        (2, "this is attempt 2"),
    ]


def test_a_library_changes_nothing_global(store: PersistenceAPI) -> None:
    before = sys.stdout, sys.stderr, logging.getLogger().handlers[:]
    during = []

    def work() -> dict[str, int]:
        during.append((sys.stdout, sys.stderr, logging.getLogger().handlers[:]))
        log.warning("nobody stores it")
        return {"n": 1}

    run(store, work)
    assert during == [before]
    assert said(store) == []


def test_an_embedded_run_captures_logging_if_asked_to(store: PersistenceAPI) -> None:
    before = logging.getLogger().handlers[:]

    def work() -> dict[str, int]:
        assert len(logging.getLogger().handlers) == len(before) + 1
        print("stays where it is")
        log.warning("a warning")
        return {"n": 1}

    run(store, work, capture_logging=True)
    assert said(store) == [("warning", "a warning")]
    assert logging.getLogger().handlers == before


def test_a_logged_exception_has_its_traceback(store: PersistenceAPI) -> None:
    def work() -> dict[str, int]:
        try:
            raise ValueError("handled")
        except ValueError:
            log.exception("it went wrong")
        return {"n": 1}

    run(store, work, capture_logging=True)
    ((level, text),) = said(store)
    assert level == "error"
    assert text.startswith("it went wrong\nTraceback (most recent call last)")
    assert text.endswith("ValueError: handled")


def test_a_warning_that_nobody_handles_is_still_shown(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [])
    shown = io.StringIO()
    with redirect_stderr(shown):
        run(store, talking, capture_logging=True)
    assert "by logging\n" in shown.getvalue()


def test_lines_are_bounded_in_length_and_number(store: PersistenceAPI) -> None:
    def work() -> dict[str, int]:
        print("x" * 100_000)
        for number in range(2_000):
            print(number)
        return {"n": 1}

    with redirect_stdout(io.StringIO()), capturing():
        run(store, work)
    found = lines(store)
    assert len(found[0].message) < 5_000
    assert len(found) == 1_001
    assert found[-1].note_type == "warning"
    assert "is not stored" in found[-1].message


def test_secrets_are_masked_and_progress_bars_are_read_as_they_are_seen(store: PersistenceAPI) -> None:
    afl.redact("s3cret-token")

    def work() -> dict[str, int]:
        print("the token is s3cret-token")
        for done in range(4):
            sys.stdout.write(f"\r{done} of 3")
        return {"n": 1}

    with redirect_stdout(io.StringIO()), capturing():
        run(store, work)
    assert "s3cret-token" not in lines(store)[0].message
    assert lines(store)[1].message == "3 of 3"
