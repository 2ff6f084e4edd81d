"""Functions as handlers: their parameters, their answers, and what their context can tell and be told."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import threading
from collections.abc import Coroutine, Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any, Generic, Literal, NamedTuple, NotRequired, TypedDict, TypeVar

import pytest
from msgspec import Meta
from pydantic import BaseModel, Field
from support.agents import SECONDS, Recorder, begin, ended, only_task, run_of, serving

from afl import handler
from afl.kernel.errors import InputError, StoreUnavailable
from afl.runtime.entities import LogDefinition, NoteOriginator, TaskDefinition
from afl.runtime.errors import WorkCanceled
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.task_handlers.handler import Handler, HandlerContext, Handlers


def a_context(**fields: Any) -> HandlerContext:
    return HandlerContext("t1", "run/s1", "run", "ns.F", **fields)


def call(function: Any, context: HandlerContext | None = None, **payload: Any) -> Any:
    return Handler("ns.F", function)(payload, context or a_context())


# -- parameters and answers -----------------------------------------------------------------------------------


def test_the_parameters_are_the_facets() -> None:
    assert call(lambda a, b=2: {"sum": a + b}, a=1) == {"sum": 3}
    assert call(lambda **all: all, a=1, b=2) == {"a": 1, "b": 2}


def test_context_comes_only_to_those_who_ask() -> None:
    context = kept = a_context()
    assert call(lambda a, context: {"same": context is kept}, context, a=1) == {"same": True}
    assert call(lambda context: context.step_id, context) == "run/s1"


def test_a_function_that_does_not_take_what_the_facet_gives_says_so() -> None:
    with pytest.raises(InputError, match=r"the handler of ns\.F does not take what the facet gives: .*'nme'"):
        call(lambda name: {}, nme="x")


class Color(Enum):
    RED = "red"


@dataclass
class Weight:
    grams: int
    parts: list[int]


@dataclass
class Other:
    grams: int


class Price(BaseModel):
    cents: int
    at: datetime


TYPED = {
    "weight": {"grams": 5, "parts": [1], "more": 1},
    "prices": [{"cents": 3, "at": "2026-01-02T00:00:00Z"}],
    "day": "2026-01-02",
    "color": "red",
    "file": "a/b",
    "maybe": None,
    "by_name": {"x": {"grams": 1, "parts": []}},
    "plain": [1],
}


def test_parameters_are_of_the_types_that_they_are_annotated_with() -> None:
    seen: list[Any] = []

    def work(
        weight: Weight,
        prices: list[Price],
        day: date,
        color: Color,
        file: Path,
        maybe: Weight,
        by_name: dict[str, Weight] | None,
        plain: str,
        context: HandlerContext,
    ) -> None:
        seen.extend([weight, prices, day, color, file, maybe, by_name, plain, context])

    context = a_context()
    call(work, context, **TYPED)
    price = Price(cents=3, at=datetime(2026, 1, 2, tzinfo=UTC))
    assert seen == [
        Weight(5, [1]),
        [price],
        date(2026, 1, 2),
        Color.RED,
        Path("a/b"),
        None,
        {"x": Weight(1, [])},
        [1],
        context,
    ]


@dataclass
class Shelf:
    counts: dict[int, str]


def test_keys_of_maps_are_of_the_types_that_they_are_annotated_with() -> None:
    seen: list[Any] = []

    def work(
        counts: dict[int, str],
        shares: Mapping[float, int] | None,
        days: dict[date, list[dict[int, int]]],
        shelf: Shelf,
        either: dict[int | str, str],
    ) -> None:
        seen.extend([counts, shares, days, shelf, either])

    given = {"1": "a", "20": "b"}
    days = {"2026-01-02": [{"3": 4}]}
    call(work, counts=given, shares={"1.5": 2}, days=days, shelf={"counts": given}, either=given)
    named = {1: "a", 20: "b"}
    assert seen == [named, {1.5: 2}, {date(2026, 1, 2): [{3: 4}]}, Shelf(named), given]

    with pytest.raises(InputError, match=r"takes 'counts' as dict\[int, str\]; .*'x'"):
        call(work, counts={"x": "a"})


def test_a_parameter_that_does_not_fit_its_type_is_named() -> None:
    def work(weight: Weight) -> None:
        raise AssertionError("not called")

    with pytest.raises(InputError, match=r"handler of ns\.F takes 'weight' as Weight; .*`grams`"):
        call(work, weight={"parts": []})

    def unclear(either: Weight | Other) -> dict[str, Any]:  # two that cannot be told from each other
        return {"either": either}

    assert call(unclear, either={"grams": 1}) == {"either": {"grams": 1}}


T = TypeVar("T")


@dataclass
class Box(Generic[T]):
    held: T


class Spot(NamedTuple):
    row: int
    day: date


def test_collections_bytes_and_generic_classes_are_what_they_are_annotated_as() -> None:
    seen: list[Any] = []

    def work(
        data: bytes, more: list[bytes], tags: set[str], pair: tuple[int, str], spot: Spot, box: Box[int]
    ) -> None:
        seen.extend([data, more, tags, pair, spot, box])

    given = {"data": "YWI=", "more": ["/w=="], "tags": ["x"], "pair": [1, "a"]}
    call(work, **given, spot=[1, "2026-01-02"], box={"held": 3})
    assert seen == [b"ab", [b"\xff"], {"x"}, (1, "a"), Spot(1, date(2026, 1, 2)), Box(3)]
    with pytest.raises(InputError, match="takes 'data' as bytes; 'no!' does not fit: Invalid base64"):
        call(work, data="no!")


class Train(BaseModel):
    kind: Literal["train"] = "train"
    leaves: date


class Bike(BaseModel):
    kind: Literal["bike"] = "bike"
    gears: int


class Leg(TypedDict):
    day: date
    next: NotRequired[Leg]


@dataclass
class Trip:
    by: list[Train | Bike]


class Note(TypedDict):
    text: str


def test_unions_of_models_and_typed_dicts_are_what_they_are_annotated_as() -> None:
    seen: list[Any] = []

    def work(
        by: Annotated[Train | Bike, Field(discriminator="kind")],
        then: list[Train | Bike],
        leg: Leg,
        trip: Trip,
        note: Note,
    ) -> None:
        seen.extend([by, then, leg, trip, note])

    train, bike = {"kind": "train", "leaves": "2026-01-02"}, {"kind": "bike", "gears": 3}
    leg = {"day": "2026-01-02", "next": {"day": "2026-01-03"}}
    call(work, by=train, then=[bike, train], leg=leg, trip={"by": [bike]}, note={"text": "x", "more": 1})
    day = date(2026, 1, 2)
    assert seen == [
        Train(leaves=day),
        [Bike(gears=3), Train(leaves=day)],
        {"day": day, "next": {"day": date(2026, 1, 3)}},
        Trip([Bike(gears=3)]),
        {"text": "x", "more": 1},
    ]
    with pytest.raises(InputError, match=r"(?s)takes 'by' as .*Train.*; .*'car'"):
        call(work, by={"kind": "car"}, then=[], leg=leg, trip={"by": []}, note={})


def test_what_a_parameter_is_annotated_with_beside_its_type_is_checked() -> None:
    def work(
        count: Annotated[int, Field(ge=1)],
        name: Annotated[str, Meta(max_length=3)],
        other: Annotated[int, "of us"],
    ) -> dict[str, Any]:
        return {"all": [count, name, other]}

    assert call(work, count=1, name="abc", other="any") == {"all": [1, "abc", "any"]}
    with pytest.raises(
        InputError, match=r"takes 'count' as int; 0 does not fit: (?s:.*)greater than or equal to 1"
    ):
        call(work, count=0, name="abc", other=1)
    with pytest.raises(InputError, match=r"takes 'name' as str; 'abcd' does not fit: .*length <= 3"):
        call(work, count=1, name="abcd", other=1)


def test_a_type_that_nothing_is_made_of_is_named() -> None:
    def work(colors: Iterable[Color]) -> None:
        raise AssertionError("not called")

    with pytest.raises(
        InputError, match=r"takes 'colors' as .*Iterable\[.*Color\]; .* cannot be made of data"
    ):
        call(work, colors=["red"])


class Tour(BaseModel):
    first_stop: str = Field("none", alias="firstStop")
    next: Tour | None = None


def test_a_model_is_made_of_the_names_of_its_fields_and_of_their_aliases() -> None:
    """What is stored of a model has the names of fields; by its aliases alone each would get its default again."""
    seen: list[Tour] = []

    def work(tour: Tour) -> None:
        seen.append(tour)

    call(work, tour=Tour(firstStop="Bergen").model_dump(mode="json"))
    call(work, tour={"firstStop": "Oslo", "next": {"first_stop": "Bergen"}})
    assert [each.first_stop for each in seen] == ["Bergen", "Oslo"]
    assert seen[1].next == seen[0]


def test_a_partial_function_has_the_types_of_its_function() -> None:
    def work(prefix: str, day: date) -> dict[str, Any]:
        return {"day": f"{prefix} {day:%d.%m.}"}

    assert call(functools.partial(work, "on"), day="2026-01-02") == {"day": "on 02.01."}


def test_a_type_that_only_type_checkers_know_converts_nothing() -> None:
    def work(day: date, other: Unknown) -> dict[str, Any]:  # type: ignore[name-defined]  # noqa: F821
        return {"day": day}

    assert call(work, day="2026-01-02", other=1) == {"day": "2026-01-02"}


def test_answers_become_plain_data() -> None:
    assert call(lambda: Weight(5, [1])) == {"grams": 5, "parts": [1]}
    at = datetime(2026, 1, 2, tzinfo=UTC)
    assert call(lambda: Price(cents=3, at=at)) == {"cents": 3, "at": "2026-01-02T00:00:00Z"}
    assert call(lambda: {"a": 1}) == {"a": 1}
    assert call(lambda: None) is None
    assert call(lambda: Weight) is Weight, "a class is no answer; the evaluator will refuse it"


def test_coroutines_are_awaited() -> None:
    async def work(n: int) -> Weight:
        await asyncio.sleep(0)
        return Weight(n, [])

    assert call(work, n=4) == {"grams": 4, "parts": []}


class Doubling:
    async def __call__(self, n: int) -> dict[str, int]:
        await asyncio.sleep(0)
        return {"n": 2 * n}


def test_whatever_gives_a_coroutine_is_awaited() -> None:
    double = Doubling()

    @functools.wraps(double.__call__)
    def wrapped(*args: Any, **named: Any) -> Coroutine[Any, Any, dict[str, int]]:
        return double(*args, **named)

    assert call(double, n=4) == {"n": 8}
    assert call(wrapped, n=4) == {"n": 8}
    assert call(lambda n: double(n), n=4) == {"n": 8}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({7: print}, "a handler is registered for 7; expected the name of a facet"),
        ({"": print}, "a handler is registered for ''; expected the name of a facet"),
        ({"F": None}, "the handler of F is None; expected a function"),
        ({"F": "agents.work"}, "the handler of F is 'agents.work'; expected a function"),
        ({"F": dict}, r"the parameters of the handler of F, <class 'dict'>, cannot be read"),
    ],
)
def test_what_cannot_be_a_handler_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Handlers.of(given)


def test_marked_functions_of_a_module_are_handlers() -> None:
    @handler("a.F")
    @handler("G")
    def work(n: int) -> dict[str, int]:
        return {"n": n}

    def other() -> None:
        """Not marked."""

    handlers = Handlers.of(SimpleNamespace(work=work, again=work, other=other, number=3))
    assert handlers.names == ["G", "a.F"]
    assert handlers.serves("a.F")
    assert handlers.serves("x.G")
    assert not handlers.serves("b.F")
    assert work(3) == {"n": 3}, "it stays a plain function"


def test_one_facet_has_one_handler() -> None:
    @handler("F")
    def one() -> None: ...

    @handler("F")
    def two() -> None: ...

    with pytest.raises(InputError, match="two handlers for F"):
        Handlers.of(SimpleNamespace(one=one, two=two))


# -- what a context knows -------------------------------------------------------------------------------------


def test_a_context_is_made_from_its_task() -> None:
    task = TaskDefinition("t9", "ns.F", "r", "run", "f", "run/s", deliveries=3, timeout_ms=60_000)
    before = datetime.now(UTC)
    context = HandlerContext.of(task, lambda entry: None, lambda: True)
    assert (context.deadline, context.remaining) == (None, None)
    context.start_clock(60_000)
    assert (context.task_id, context.step_id, context.workflow_id) == ("t9", "run/s", "run")
    assert (context.facet, context.attempt, context.idempotency_key) == ("ns.F", 3, "run/s")
    assert context.deadline is not None
    assert before + timedelta(seconds=60) <= context.deadline <= datetime.now(UTC) + timedelta(seconds=60)
    assert context.remaining is not None
    assert 0 < context.remaining <= 60


def test_without_a_time_limit_there_is_no_deadline() -> None:
    context = a_context()
    assert (context.deadline, context.remaining, context.canceled) == (None, None, False)
    context.log("goes nowhere")
    context.heartbeat()
    assert not context.cancellation.is_set()


def test_the_time_that_remains_is_never_below_nothing() -> None:
    context = a_context()
    context.start_clock(1)
    while context.remaining:
        pass
    assert context.remaining == 0.0


# -- what it can say ------------------------------------------------------------------------------------------


def test_a_line_in_the_log() -> None:
    entries: list[LogDefinition] = []
    context = a_context(write=entries.append)
    context.log("reading", pages=3)
    context.log("odd", "warning")
    context.log("bad", level="error")
    first, second, third = entries
    assert (first.message, first.note_type, first.details) == ("reading", "info", {"pages": 3})
    assert (first.runner_id, first.step_id, first.object_id) == ("run", "run/s1", "t1")
    assert first.note_originator == NoteOriginator.AGENT
    assert (second.note_type, third.note_type) == ("warning", "error")
    assert first.order < second.order < third.order
    assert len({entry.uuid for entry in entries}) == 3
    with pytest.raises(ValueError, match="level is 'loud'; expected one of info, warning, error"):
        context.log("x", "loud")


def test_progress_is_a_line_with_a_fraction() -> None:
    entries: list[LogDefinition] = []
    context = a_context(write=entries.append)
    context.progress(0)
    context.progress(0.5, "half way")
    context.progress(1)
    assert [(entry.message, entry.details) for entry in entries] == [
        ("0%", {"progress": 0}),
        ("half way", {"progress": 0.5}),
        ("100%", {"progress": 1}),
    ]


@pytest.mark.parametrize("fraction", [-0.1, 1.1, float("nan")])
def test_a_fraction_is_from_0_to_1(fraction: float) -> None:
    with pytest.raises(ValueError, match="expected a number from 0 to 1"):
        a_context().progress(fraction)


# -- what it can be told --------------------------------------------------------------------------------------


def test_a_heartbeat_renews_and_learns_that_the_work_is_somebody_elses() -> None:
    answers = [True, True, False]
    context = a_context(renew=lambda: answers.pop(0))
    context.heartbeat()
    context.heartbeat()
    with pytest.raises(WorkCanceled, match="another worker has the task now"):
        context.heartbeat()
    with pytest.raises(WorkCanceled):
        context.heartbeat()
    assert context.canceled
    assert answers == []


def test_canceling_sets_everything_once() -> None:
    context, called = a_context(), []
    waiting = context.cancellation
    with context.on_cancel(lambda: called.append(1)):
        context.cancel("its time is up")
        context.cancel("again")
    assert (context.canceled, waiting.is_set(), called) == (True, True, [1])
    assert a_context().cancellation is not waiting
    with pytest.raises(WorkCanceled, match="its time is up"):
        context.heartbeat()


def test_who_asks_after_the_cancellation_learns_of_it_too() -> None:
    context, called = a_context(), []
    context.cancel("over")
    assert context.cancellation.is_set()
    with context.on_cancel(lambda: called.append(1)):
        assert called == [1]


def test_a_heartbeat_that_does_not_reach_the_store_is_no_failure_of_the_work(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def away() -> bool:
        raise StoreUnavailable("away")

    context = a_context(renew=away)
    context.heartbeat()
    assert not context.canceled
    assert "the heartbeat of task t1 did not reach the store: away" in caplog.text


def test_a_callback_that_fails_does_not_harm_who_tells(caplog: pytest.LogCaptureFixture) -> None:
    """It is told by the thread that keeps all leases."""
    context, called = a_context(), []

    def broken() -> None:
        raise ValueError("no")

    with context.on_cancel(broken), context.on_cancel(lambda: called.append(1)):
        context.cancel("over")
        with context.on_cancel(broken):
            assert called == [1]
    assert caplog.text.count("task t1 could not be told that it is canceled") == 2


def test_word_that_comes_after_the_answer_of_a_coroutine_is_nothing() -> None:
    context = a_context()

    async def work() -> dict[str, int]:
        return {"n": 1}

    kept: list[Any] = []

    def keep(self: HandlerContext, callback: Any) -> Any:
        kept.append(callback)
        return contextlib.nullcontext()

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(context), "on_cancel", keep)
        assert call(work, context) == {"n": 1}
    kept[0]()
    assert not context.canceled


def test_a_coroutine_is_canceled_with_its_work() -> None:
    context, begun, cleaned = a_context(), threading.Event(), []

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaned.append(True)

    def cancel() -> None:
        assert begun.wait(SECONDS)
        context.cancel("over")

    canceler = threading.Thread(target=cancel)
    canceler.start()
    with pytest.raises(WorkCanceled, match="the work was canceled"):
        call(work, context)
    canceler.join()
    assert cleaned == [True]


# -- all of it in a service -----------------------------------------------------------------------------------


def serve(store: MemoryStore, function: Any) -> tuple[RunnerService, Recorder]:
    recorder = Recorder(store)
    config = RunnerConfig(http=False, poll_interval_ms=20)
    service = RunnerService(
        recorder.api, Evaluator(recorder.api), config, handlers=Handlers.of({"ns.Double": function})
    )
    return service, recorder


@pytest.mark.parametrize("kind", ["function", "coroutine"])
def test_a_handler_of_a_canceled_run_stops(store: MemoryStore, kind: str) -> None:
    begun, stopped = threading.Event(), threading.Event()

    def work(n: int, context: HandlerContext) -> dict[str, int]:
        begun.set()
        if context.cancellation.wait(SECONDS):
            stopped.set()
        return {"m": n}

    async def work_async(n: int) -> dict[str, int]:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.set()
        return {"m": n}

    service, recorder = serve(store, work if kind == "function" else work_async)
    run = begin(store)
    with serving(service, recorder):
        assert begun.wait(SECONDS)
        assert store.cancel_run(run, "enough")
        assert stopped.wait(SECONDS)
    assert run_of(store, run).state == "canceled"
    assert only_task(store, run).state == "canceled"


def test_logs_and_progress_are_in_the_runs_log(store: MemoryStore) -> None:
    def work(n: int, context: HandlerContext) -> dict[str, int]:
        context.log("begins", "warning", n=n)
        context.progress(0.4, "goes on")
        return {"m": n}

    service, recorder = serve(store, work)
    run = begin(store)
    with serving(service, recorder):
        ended(store, run)
    entries = store.get_logs_by_runner(run)
    assert [(entry.message, entry.note_type, entry.details) for entry in entries] == [
        ("begins", "warning", {"n": 3}),
        ("goes on", "info", {"progress": 0.4}),
    ]
    assert {entry.step_id for entry in entries} == {only_task(store, run).step_id}


@pytest.mark.parametrize("answer", [Weight(5, [1]), object(), {1, 2}, "text"])
def test_an_answer_that_is_not_the_facets_fails_the_step(store: MemoryStore, answer: Any) -> None:
    service, _ = serve(store, lambda n: answer)
    run = begin(store)
    assert service.run_once() == 1
    assert run_of(store, run).state == "failed"
    error = only_task(store, run).error
    assert error is not None
    assert "ns.Double" in error["message"]


def test_a_mark_without_a_facet_is_refused_at_once() -> None:
    def work(n: int) -> None: ...

    with pytest.raises(InputError, match=r'write @handler\("namespace.Facet"\) above work, not @handler'):
        handler(work)  # type: ignore[arg-type]
