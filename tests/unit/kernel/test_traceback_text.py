"""The traceback of a handler's exception as it is stored."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest

import afl
from afl.kernel.redaction import redact
from afl.kernel.traceback_text import MOST_CHARACTERS, TracebackText, traceback_text


def guilty(message: str = "no luck") -> Any:
    raise ValueError(message)  # the guilty line


def raised(work: Callable[[], object]) -> TracebackText:
    try:
        work()
    except BaseException as error:
        return traceback_text(error)
    raise AssertionError("it did not raise")


def handled(function: Callable[..., Any]) -> TracebackText:
    """As it comes out of a run whose handler this is."""
    source = "event facet F() => (n: Long)\nworkflow W() => (n: Long) andThen { f = F() yield W(n = f.n) }"
    with pytest.raises(afl.RunFailed) as failed:
        afl.run(
            source,
            handlers={"F": lambda: function()} if function is guilty else {"F": function},
            store="memory://",
        )
    (attempt,) = failed.value.report.attempts
    assert attempt.traceback == failed.value.traceback
    return TracebackText(attempt.traceback, attempt.location)


async def guilty_coroutine() -> Any:
    await asyncio.sleep(0)
    guilty()


def through_a_generator() -> Any:
    def values() -> Iterator[int]:
        yield guilty()

    return list(values())


def through_a_thread() -> Any:
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(guilty).result()


def with_a_cause() -> Any:
    try:
        guilty("the cause")
    except ValueError as error:
        raise KeyError("what came of it") from error


def in_a_group() -> Any:
    raise ExceptionGroup("several", [ValueError("first"), ExceptionGroup("more", [KeyError("second")])])


@pytest.mark.parametrize(
    "handler", [guilty, guilty_coroutine, through_a_generator, through_a_thread, with_a_cause]
)
def test_the_guilty_line_is_there_and_our_frames_are_not(handler: Callable[..., Any]) -> None:
    found = handled(handler)
    assert "raise ValueError(message)  # the guilty line" in found.text
    assert f'File "{__file__}"' in found.text
    assert "task_handlers" not in found.text
    assert "event_loop" not in found.text
    assert found.location.startswith(f"{__file__}:")


def test_the_location_is_the_last_line_of_the_users_own_code() -> None:
    found = handled(lambda: json.loads("{"))
    assert "decoder.py" in found.text
    assert found.location.startswith(f"{__file__}:")
    assert handled(guilty).location.endswith(" in guilty")


def test_a_handler_whose_time_is_up_shows_where_it_was() -> None:
    source = """
    event facet F() => (n: Long)
    workflow W() => (n: Long) andThen { f = F() with Timeout(ms = 100) yield W(n = f.n) }
    """
    released = threading.Event()

    def hanging() -> dict[str, int]:
        released.wait()  # the line it hangs at
        return {"n": 1}

    with pytest.raises(afl.RunFailed) as failed:
        try:
            afl.run(source, handlers={"F": hanging}, store="memory://")
        finally:
            released.set()
    (attempt,) = failed.value.report.attempts
    assert (attempt.error_type, attempt.error) == ("Timeout", "not done after 100 ms")
    assert "released.wait()  # the line it hangs at" in attempt.traceback
    assert "executor.py" not in attempt.traceback
    assert attempt.location.endswith(" in hanging")


def test_causes_and_groups_and_notes_are_shown() -> None:
    found = handled(with_a_cause)
    assert "ValueError: the cause" in found.text
    assert "direct cause of the following exception" in found.text
    assert found.text.endswith("KeyError: 'what came of it'")
    group = handled(in_a_group)
    assert "ValueError: first" in group.text and "KeyError: 'second'" in group.text
    error = ValueError("no")
    error.add_note("try another address")
    assert "try another address" in traceback_text(error).text


def test_secrets_are_masked() -> None:
    redact("s3cret-token")
    found = raised(lambda: guilty("the key s3cret-token of postgres://ada:pass-word@db/x is wrong"))
    assert "s3cret-token" not in found.text
    assert "pass-word" not in found.text
    assert "is wrong" in found.text


def test_no_local_variables() -> None:
    def work() -> None:
        password = "hunter" + "2-local"
        guilty(str(len(password)))

    assert "hunter2-local" not in raised(work).text


def test_a_long_one_keeps_its_head_and_its_tail() -> None:
    found = raised(lambda: guilty("x" * 100_000 + "the end"))
    assert MOST_CHARACTERS <= len(found.text) < MOST_CHARACTERS + 100
    assert found.text.startswith("Traceback (most recent call last)")
    assert found.text.endswith("the end")
    assert "characters left out" in found.text
    assert len(raised(lambda: guilty("x" * 5_000_000)).text) < MOST_CHARACTERS + 100


def test_a_cut_shows_no_half_of_a_secret() -> None:
    redact("half-of-a-secret")
    texts = (raised(partial(guilty, "x" * n + "half-of-a-secret" * 2_000)).text for n in range(40))
    assert not any("half" in text or "secret" in text for text in texts)


class Nasty(Exception):
    """Whatever is asked of it raises."""

    def __str__(self) -> str:
        raise RuntimeError("no text")

    __repr__ = __str__


class Lying(Exception):
    @property
    def __cause__(self) -> BaseException | None:  # type: ignore[override]
        raise RuntimeError("no cause")


def deep(depth: int = 0) -> Any:
    return deep(depth + 1)


def cyclic() -> None:
    first, second = ValueError("first"), KeyError("second")
    first.__cause__, second.__cause__ = second, first
    raise first


@pytest.mark.parametrize(
    ("work", "name"),
    [
        (lambda: (_ for _ in ()).throw(Nasty()), "Nasty"),
        (lambda: (_ for _ in ()).throw(Lying("x")), "Lying"),
        (deep, "RecursionError"),
        (cyclic, "ValueError: first"),
        (lambda: compile("def f(:\n  pass", "their.py", "exec"), "SyntaxError"),
        (lambda: sys.exit(3), "SystemExit: 3"),
        (lambda: guilty("\ud800 half a character"), "half a character"),
    ],
)
def test_whatever_is_raised_has_a_text(work: Callable[[], object], name: str) -> None:
    found = raised(work)
    assert name in found.text
    assert len(found.text) < MOST_CHARACTERS + 100
    found.text.encode()


def test_an_exception_that_was_never_raised_has_no_frames() -> None:
    assert traceback_text(ValueError("no")) == TracebackText("ValueError: no", "")
