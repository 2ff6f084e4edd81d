"""What the client promises, on SQLite, on PostgreSQL and over HTTP, synchronous and asynchronous."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import ExitStack, asynccontextmanager, closing, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import psycopg
import pydantic
import pytest
from psycopg.rows import dict_row
from support.clients import opened_client
from support.dashboards import served, settings_for

import afl
from afl.client.async_client import AsyncClient
from afl.client.connection import connect
from afl.fleet.errors import PrincipalAway
from afl.kernel.errors import CapabilityError, InputError, NotFoundError, PayloadError
from afl.kernel.settings import Settings
from afl.models import ScriptedModel
from afl.models.scripted import calls
from afl.operations.program.library import publish_source
from afl.operations.program.submission import RunExists
from afl.operations.run.run_store import opened
from afl.runtime.types import WorkflowId
from afl.turns import TurnFailed, open_agents

QUIZ = """
event facet Ask(question: String) => (answer: String)

workflow Quiz(question: String = "why?") => (answer: String) andThen {
    asked = Ask(question = $.question)
    yield Quiz(answer = asked.answer)
}
"""

ORDER = """
event facet Paid(order: String) => (amount: Double) with Signal("paid")
event facet Check(amount: Double) => (ok: Boolean) with Human("finance")

workflow Order(order: String) => (amount: Double, ok: Boolean) andThen {
    stated = sys.Publish(name = "stage", value = "waits for the money")
    paid = Paid(order = $.order)
    checked = Check(amount = paid.amount)
    yield Order(amount = paid.amount, ok = checked.ok)
}
"""


def shout(question: str) -> dict[str, str]:
    if question == "fail":
        raise ValueError("no such question")
    return {"answer": question.upper()}


@dataclass
class Place:
    """Where clients connect to, and the store behind it, for workers."""

    settings: Settings
    store: Settings
    synchronous: bool

    @asynccontextmanager
    async def client(self) -> AsyncIterator[AsyncClient]:
        async with opened_client(self.settings, synchronous=self.synchronous) as client:
            yield client

    @asynccontextmanager
    async def working(self, handlers: Any = None) -> AsyncIterator[AsyncClient]:
        """A client beside a worker: one of the store, or, over HTTP, one of the client beside one that evaluates."""
        handlers = handlers or {"Ask": shout}
        remote = bool(self.settings.server)
        async with (
            opened_client(self.store) as beside,
            beside.worker(None if remote else handlers),
            self.client() as client,
            client.worker(handlers) if remote else nullcontext(),
        ):
            yield client


@pytest.fixture(params=["sqlite", "postgres", "http"])
def where(request: pytest.FixtureRequest) -> Iterator[tuple[Settings, Settings]]:
    with ExitStack() as stack:
        kind = "postgres" if request.param == "postgres" else "sqlite"
        store = settings_for(request.getfixturevalue(f"empty_{kind}_url"))
        if request.param != "http":
            yield store, store
            return
        url = stack.enter_context(served(store))
        yield settings_for(store.store, server=url), store


@pytest.fixture(params=["async", "sync"])
def place(request: pytest.FixtureRequest, where: tuple[Settings, Settings]) -> Place:
    return Place(*where, synchronous=request.param == "sync")


Story = Callable[[], Awaitable[None]]


def tell(story: Story) -> None:
    asyncio.run(_bounded(story))


async def _bounded(story: Story) -> None:
    async with asyncio.timeout(60):
        await story()


def test_a_run_is_started_awaited_looked_at_and_found(place: Place, tmp_path: Path) -> None:
    file = tmp_path / "quiz.afl"
    file.write_text(QUIZ)

    async def story() -> None:
        async with place.working() as flow:
            handle = await flow.start(file, "Quiz", question="so?")
            assert await handle.result(timeout=30) == {"answer": "SO?"}
            assert await flow.run(QUIZ, inputs={"question": "a"}, timeout=30) == {"answer": "A"}
            (other,) = [each.run for each in await flow.list(workflow="Quiz") if each.run != handle.id]
            differing = [each.step for each in (await handle.compare(other)).steps if each.differs]
            assert differing == ["asked"]
            assert (await handle.status()).state == "completed"
            assert [each.name for each in await handle.steps()] == ["asked"]
            assert (await handle.why()).code == "run-completed"
            assert await (await flow.get(handle.id)).result() == {"answer": "SO?"}
            assert await flow.query(handle.id, "asked") == {"answer": "SO?"}
            with pytest.raises(InputError, match="name of a published value"):
                await flow.query(handle.id, "")
            assert handle.id in [each.run for each in await flow.list(state="completed", workflow="Quiz")]
            assert await flow.list(since=datetime.now(UTC) + timedelta(hours=1)) == []
            assert (await flow.get(handle.id[:-1])).id == handle.id
            with pytest.raises(NotFoundError):
                await flow.get("nothing")
            with pytest.raises(InputError, match="the id of the run is empty"):
                await flow.get("")

    tell(story)


def test_the_same_id_is_the_same_run(place: Place) -> None:
    async def story() -> None:
        async with place.working() as flow:
            every = await asyncio.gather(*(flow.start(QUIZ, question="a", id="day-1") for _ in range(8)))
            assert {each.id for each in every} == {"day-1"}
            assert await every[0].result(timeout=30) == {"answer": "A"}
            again = await flow.start(QUIZ, question="a", id="day-1")
            assert await again.result() == {"answer": "A"}
            defaults = await flow.start(QUIZ, id="day-2")
            assert (await flow.start(QUIZ, question="why?", id="day-2")).id == defaults.id
            with pytest.raises(RunExists, match=r"id 'day-1'.* differs in its inputs \(question\)"):
                await flow.start(QUIZ, question="b", id="day-1")
            with pytest.raises(RunExists, match=r"Quiz.* start of Order differs in its workflow and program"):
                await flow.start(ORDER, order="1", id="day-1")
            with pytest.raises(InputError, match="without spaces and slashes"):
                await flow.start(QUIZ, id="a/b")
            with pytest.raises(InputError, match="the id of the run is empty"):
                await flow.start(QUIZ, id="")
            assert len(await flow.list()) == 2

    tell(story)


SHAPES = """
schema Item { sku: String, count: Int }
event facet Look(given: Json) => (seen: Json)
workflow Shapes(item: Item, items: [Item], day: String, sizes: [Int], given: Json) => (seen: Json) andThen {
    looked = Look(given = #{"item": $.item, "items": $.items, "day": $.day, "sizes": $.sizes, "given": $.given})
    yield Shapes(seen = looked.seen)
}
"""


@dataclass
class Item:
    sku: str
    count: int


class Model(pydantic.BaseModel):
    sku: str
    count: int


def test_inputs_are_what_python_has_and_handlers_get_what_is_stored(place: Place) -> None:
    inputs: dict[str, Any] = {
        "item": Item("a", 1),
        "items": (Model(sku="b", count=2),),
        "day": date(2026, 11, 18),
        "sizes": (1, 2),
        "given": {1: Path("x"), "set": {7}},
    }
    plain = {
        "item": {"sku": "a", "count": 1},
        "items": [{"sku": "b", "count": 2}],
        "day": "2026-11-18",
        "sizes": [1, 2],
        "given": {"1": "x", "set": [7]},
    }

    def look(given: Any) -> dict[str, Any]:
        assert given == plain
        return {"seen": [Model(sku="c", count=len(given))]}

    async def story() -> None:
        async with place.working({"Look": look}) as flow:
            result = await flow.run(SHAPES, inputs=inputs, id="shapes", timeout=30)
            assert result == {"seen": [{"sku": "c", "count": 5}]}
            again = await flow.start(SHAPES, inputs=inputs, id="shapes")
            assert again.id == "shapes"
            with pytest.raises(InputError, match="type object has no JSON form"):
                await flow.start(SHAPES, inputs=inputs | {"given": object()})
            with pytest.raises(InputError, match=r"id: Expected .str."):
                await flow.start(SHAPES, inputs=inputs, id=5)  # type: ignore[arg-type]

    tell(story)


@pytest.mark.parametrize(
    "value", [float("nan"), {"n": [float("-inf")]}, "\ud800", object(), {1: "a", "1": "b"}]
)
def test_an_input_without_a_json_form_is_refused(place: Place, value: Any) -> None:
    async def story() -> None:
        async with place.client() as flow:
            with pytest.raises(PayloadError, match="is not plain JSON data"):
                await flow.start("workflow Keep(value: Json) andThen { }", value=value)
            assert await flow.list() == []

    tell(story)


def test_a_number_out_of_its_bounds_is_refused(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            handle = await flow.start(QUIZ)
            for ask in (
                lambda: flow.list(limit=0),
                lambda: flow.list(min_cost=-1),
                lambda: flow.start(QUIZ, budget_tokens=1.5),  # type: ignore[arg-type]
                lambda: handle.signal("go", 5),  # type: ignore[arg-type]
            ):
                with pytest.raises(InputError, match="Expected"):
                    await ask()
            assert [line.run for line in await flow.list()] == [handle.id]

    tell(story)


def test_a_name_that_no_run_can_have_is_not_found(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            await flow.start(QUIZ, id="latest")
            for name in ("-", "a/b", "..", "latest/asked"):
                with pytest.raises(NotFoundError, match="there is no run"):
                    await flow.get(name)
            with pytest.raises(InputError, match="and not '-' alone"):
                await flow.start(QUIZ, id="-")

    tell(story)


def test_a_chosen_id_is_found_by_all_of_it_only(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            await flow.start(ORDER, order="10", id="order-10")
            for reach in (
                flow.get("order-1"),
                flow.signal("order-1", "paid", {"amount": 9.5}),
                flow.query("order-1", "stage"),
                flow.approvals(run="order-1"),
            ):
                with pytest.raises(NotFoundError, match="no run order-1 in this store"):
                    await reach
            assert (await flow.get("order-10")).id == "order-10"

    tell(story)


def test_runs_are_told_apart_by_names_and_tags(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            tagged = {"team": "data", "day": "2026-11-16"}
            one = await flow.start(QUIZ, name="the first one", tags=tagged)
            two = await flow.start(QUIZ, tags={"team": "data"})
            await flow.start(QUIZ)
            line = await one.status()
            assert (line.name, line.tags) == ("the first one", tagged)
            assert [each.run for each in await flow.list(tags={"team": "data"})] == [two.id, one.id]
            assert [each.run for each in await flow.list(tags=tagged, state="created")] == [one.id]
            assert await flow.list(tags={"team": "dat"}) == []
            assert [each.run for each in await flow.list(text="FIRST")] == [one.id]
            for tags in ({"a=b": "c"}, {"a": 1}, {"": "x"}, dict.fromkeys(map(str, range(21)), "x")):
                with pytest.raises(InputError):
                    await flow.start(QUIZ, tags=tags)  # type: ignore[arg-type]
            assert len(await flow.list()) == 3

    tell(story)


def test_signals_queries_and_approvals(place: Place) -> None:
    async def story() -> None:
        async with place.working() as flow:
            handle = await flow.start(ORDER, order="7")
            await handle.signal("paid", {"amount": 9.5}, id="first")
            await flow.signal(handle.id, "paid", {"amount": 9.5}, id="first")
            while not (waiting := await flow.approvals(run=handle.id)):
                await asyncio.sleep(0.02)
            assert await handle.query("stage") == "waits for the money"
            await flow.approve(waiting[0].id, {"ok": True})
            assert await handle.result(timeout=30) == {"amount": 9.5, "ok": True}
            other = await flow.start(ORDER, order="8")
            await other.signal("paid", {"amount": 1.0})
            while not (waiting := await flow.approvals(run=other.id)):
                await asyncio.sleep(0.02)
            await flow.reject(waiting[0].id, "we know them")
            assert await other.result(timeout=30) == {"amount": 1.0, "ok": False}

    tell(story)


def test_what_failed_is_raised_with_the_traceback_of_the_handler(place: Place) -> None:
    async def story() -> None:
        async with place.working() as flow:
            handle = await flow.start(QUIZ, question="fail")
            with pytest.raises(afl.RunFailed) as failed:
                await handle.result(timeout=30)
            assert "no such question" in str(failed.value)
            assert "in shout" in failed.value.traceback
            assert (await handle.retry()).steps == 1

    tell(story)


def test_a_retry_on_a_class_of_errors_includes_those_that_derive_from_it(place: Place) -> None:
    calls: list[int] = []

    def ask(question: str, context: afl.HandlerContext) -> dict[str, str]:
        calls.append(context.attempt)
        if context.attempt == 1:
            raise ConnectionResetError("gone")
        return {"answer": question}

    async def story() -> None:
        async with place.working({"Ask": ask}) as flow:
            retried = 'Ask(question = $.question) with Retry(2, backoff = 0, on = ["ConnectionError"])'
            source = QUIZ.replace("Ask(question = $.question)", retried)
            assert await flow.run(source, timeout=30) == {"answer": "why?"}

    tell(story)
    assert calls == [1, 2]


def test_an_error_says_when_to_try_again(place: Place) -> None:
    class Busy(Exception):
        retry_after = 0.2

    def ask(question: str, context: afl.HandlerContext) -> dict[str, str]:
        if context.attempt == 1:
            raise Busy("later")
        return {"answer": question}

    async def story() -> str:
        async with place.working({"Ask": ask}) as flow:
            retried = "Ask(question = $.question) with Retry(2, backoff = 0)"
            handle = await flow.start(QUIZ.replace("Ask(question = $.question)", retried))
            assert await handle.result(timeout=30) == {"answer": "why?"}
            return handle.id

    run = asyncio.run(story())
    with opened(place.store) as store:
        assert [attempt.retry_ms for attempt in store.get_failed_attempts(WorkflowId(run))] == [200]


def test_a_run_is_paused_canceled_and_awaited_no_longer_than_asked(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            handle = await flow.start(QUIZ)
            assert (await handle.pause()).state == "paused"
            assert (await handle.unpause()).changed
            with pytest.raises(TimeoutError, match=handle.id):
                await handle.result(timeout=0.05)
            awaited = asyncio.create_task(handle.result(timeout=30))
            await handle.cancel()
            with pytest.raises(afl.RunCanceled, match=r"cancell?ed by") as ended:
                await awaited
            assert ended.value.run == handle.id

    tell(story)


def test_sources_of_every_kind(place: Place, tmp_path: Path) -> None:
    compiled = afl.emit_dict(afl.parse(QUIZ))
    with opened(place.store) as store:
        publish_source(store, QUIZ, name="quiz")

    async def story() -> None:
        async with place.working() as flow:
            assert await flow.run("Quiz", question="named", timeout=30) == {"answer": "NAMED"}
            if not place.settings.server:
                assert await flow.run(compiled, question="c", timeout=30) == {"answer": "C"}
            with pytest.raises(afl.CompileError, match=r"wrong\.afl:1:10") as refused:
                (tmp_path / "wrong.afl").write_text("workflow {}")
                await flow.start(tmp_path / "wrong.afl")
            assert [each.line for each in refused.value.diagnostics] == [1]
            for wrong in ("no such file.afl", "two words", ""):
                with pytest.raises(InputError):
                    await flow.start(wrong)
            with pytest.raises(InputError, match="given twice"):
                await flow.start(QUIZ, inputs={"question": "a"}, question="b")
            named = QUIZ.replace('question: String = "why?"', "name: String").replace("$.question", "$.name")
            with pytest.raises(InputError, match=r"name= is an option of start.*inputs=\{'name': ...\}"):
                await flow.start(named, name="Ada")
            assert (await flow.start(named, inputs={"name": "Ada"})).workflow == "Quiz"
            with pytest.raises(InputError, match="has no zone"):
                await flow.list(since=datetime(2026, 1, 1))

    tell(story)


def test_the_log_is_followed_until_the_run_is_over(place: Place) -> None:
    source = QUIZ.replace("asked =", 'sys.log("asking")\n    asked =')

    async def story() -> None:
        async with place.working() as flow:
            handle = await flow.start(source, question="a")
            assert [line.message async for line in handle.logs(follow=True)] == ["asking"]
            assert [line.message async for line in handle.logs()] == ["asking"]
            assert [line.message async for line in handle.logs(grep="ASK", follow=True)] == ["asking"]
            assert [line.message async for line in handle.logs(level="error", follow=True)] == []

    tell(story)


def test_events_are_told_once_each_and_read_on_from_any_position(place: Place) -> None:
    source = ORDER.replace("stated =", 'sys.log("begun")\n    stated =')

    async def story() -> None:
        async with place.working() as flow:
            handle = await flow.start(source, order="7")
            told = []
            async for event in handle.events():
                told.append(event)
                if (event.kind, event.step) == ("step-waiting", "paid"):
                    await handle.signal("paid", {"amount": 1.5})
                elif event.kind == "step-waiting":
                    assert event.message == "human:finance"
                    (asked,) = await flow.approvals(run=handle.id)
                    await flow.approve(asked.id, {"ok": False})
            assert [(each.kind, each.step) for each in told if each.kind != "log"] == [
                ("step-completed", "stated"),
                ("step-waiting", "paid"),
                ("step-completed", "paid"),
                ("step-waiting", "checked"),
                ("step-completed", "checked"),
                ("run-completed", ""),
            ]
            logged = [each.message for each in told if each.kind == "log"]
            assert (len(logged), logged[0]) == (2, "begun") and logged[1].startswith("approved by ")
            assert told[-1].ends_run and "run-completed" in str(told[-1])
            for number, event in enumerate(told):
                assert [each async for each in handle.events(after=event.position)] == told[number + 1 :]
            with pytest.raises(InputError):
                [each async for each in handle.events(after="somewhere")]

    tell(story)


def test_the_history_has_what_people_do_to_a_run(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            handle = await flow.start(QUIZ)
            await handle.pause()
            await handle.unpause()
            await handle.cancel()
            kinds = [each.kind async for each in handle.events()]
            assert kinds == ["run-paused", "run-resumed", "run-canceled"]
            await handle.retry()
        async with place.working() as flow:
            handle = await flow.get(handle.id)
            assert await handle.result(timeout=30) == {"answer": "WHY?"}
            last = [(each.kind, each.step) async for each in handle.events()][3:]
            assert last == [
                ("run-retried", ""),
                ("step-started", "asked"),
                ("step-completed", "asked"),
                ("run-completed", ""),
            ]

    tell(story)


def test_schedules(place: Place) -> None:
    async def story() -> None:
        async with place.client() as flow:
            made = await flow.schedule(
                QUIZ, cron="0 7 * * *", zone="Europe/Oslo", question="a", catch_up="all"
            )
            assert (made.name, made.inputs, made.zone) == ("Quiz", {"question": "a"}, "Europe/Oslo")
            assert made.catch_up == "all"
            with pytest.raises(InputError, match="some"):
                await flow.schedule(QUIZ, cron="0 7 * * *", question="a", catch_up="some")
            assert [each.name for each in await flow.schedules()] == ["Quiz"]
            await flow.unschedule("Quiz")
            assert await flow.schedules() == []

    tell(story)


def test_agents_that_converse(place: Place) -> None:
    """A worker elsewhere takes their turns; here they are asked, looked at, and stopped."""

    async def story() -> None:
        async with place.client() as flow:
            assert await flow.turns.agents() == [] and await flow.turns.list() == []
            with pytest.raises(InputError, match="no agent 'nobody'"):
                await flow.turns.send("nobody", "Hello?")

    tell(story)


@dataclass
class Sum:
    total: int
    words: list[str]


@pytest.mark.parametrize("where", ["sqlite", "http"], indirect=True)
def test_a_turn_gives_a_value_of_a_type(place: Place) -> None:
    """The worker knows the type by its schema alone."""
    script = [
        calls("submit_result", {"result": given}) for given in ({"total": 5}, {"total": 5, "words": ["two"]})
    ]

    async def story() -> None:
        async with (
            open_agents(place.store.store, model=ScriptedModel(script)) as agents,
            place.client() as flow,
        ):
            await agents.define("clerk")
            assert await flow.turns.ask("clerk", "2 and 3?", result=Sum, timeout=30) == Sum(5, ["two"])
            with pytest.raises(TurnFailed, match="no more answers") as failed:
                await flow.turns.ask("clerk", "And 4?", result=Sum, timeout=30)
            assert failed.value.error_code == "model_error"

    tell(story)


@pytest.mark.parametrize("place", ["async", "sync"], indirect=True)
@pytest.mark.parametrize("where", ["sqlite"], indirect=True)
def test_the_fleet_and_messages(place: Place, redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", "1")  # nobody is there

    async def story() -> None:
        settings = replace(place.settings, redis=redis_url)
        async with opened_client(settings, synchronous=place.synchronous) as flow:
            assert await flow.messages.dead_letters() == []
            with pytest.raises(PrincipalAway):
                await flow.fleet.workflows()

    tell(story)


def joined_connection(place: Place) -> Any:
    if place.store.store.startswith("sqlite"):
        return sqlite3.connect(place.store.store.removeprefix("sqlite:///"), timeout=30)
    return psycopg.connect(place.store.store)


@pytest.mark.parametrize("place", ["sync"], indirect=True)
@pytest.mark.parametrize("where", ["sqlite", "postgres"], indirect=True)
def test_a_run_is_there_if_and_only_if_the_transaction_commits(place: Place) -> None:
    """On a connection that blocks, and so is used by one thread: the client's own calls are made in this one."""
    tags = {"a": "b"}
    with (
        connect(settings=place.store) as flow,
        flow.worker({"Ask": shout}),
        closing(joined_connection(place)) as own,
    ):
        lost = flow.start(QUIZ, question="a", connection=own, tags=tags)
        assert flow.list() == []
        own.rollback()
        kept = flow.start(QUIZ, question="a", id="kept", connection=own, tags=tags)
        assert flow.start(QUIZ, question="a", id="kept", connection=own).id == kept.id
        with pytest.raises(RunExists):
            flow.start(QUIZ, question="b", id="kept", connection=own)
        assert flow.list() == []
        own.commit()
        assert kept.result(timeout=30) == {"answer": "A"}
        assert [each.run for each in flow.list(tags=tags)] == ["kept"]
        with pytest.raises(NotFoundError):
            flow.get(lost.id)


@pytest.mark.parametrize("where", ["postgres"], indirect=True)
@pytest.mark.parametrize("place", ["async"], indirect=True)
def test_an_asynchronous_connection_takes_a_start(place: Place) -> None:
    async def story() -> None:
        async with (
            place.working() as flow,
            await psycopg.AsyncConnection.connect(place.store.store, row_factory=dict_row) as own,
        ):
            handle = await flow.start(QUIZ, question="a", connection=own)
            assert await flow.list() == []
            await own.commit()
            assert await handle.result(timeout=30) == {"answer": "A"}

    tell(story)


@pytest.mark.parametrize("place", ["sync"], indirect=True)
def test_a_connection_to_another_place_takes_no_start(place: Place, tmp_path: Path) -> None:
    with (
        connect(settings=place.settings) as flow,
        closing(sqlite3.connect(tmp_path / "other.db")) as other,
        pytest.raises((InputError, CapabilityError), match="connection="),
    ):
        flow.start(QUIZ, connection=other)


def test_a_worker_takes_functions_objects_and_lists_of_them(place: Place) -> None:
    class Desk:
        def __init__(self, mark: str) -> None:
            self._mark = mark

        @afl.handler("Ask")
        async def ask(self, question: str) -> dict[str, str]:
            return {"answer": question + self._mark}

    @afl.handler("other.Facet")
    def other() -> None: ...

    async def story() -> None:
        async with place.working([Desk("!"), other]) as flow:
            assert await flow.run(QUIZ, question="a", timeout=30) == {"answer": "a!"}
        async with place.client() as flow, flow.worker([other, Desk("?")]) as worker:
            assert worker.facets == ["other.Facet", "Ask"]

    tell(story)


def test_a_path_and_nothing_at_all_name_a_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with connect(tmp_path / "a.db") as flow:
        run = flow.start(QUIZ, question="a").id
    with connect(f"sqlite:///{tmp_path}/a.db") as flow:
        assert [each.run for each in flow.list()] == [run]
    monkeypatch.setenv("AFL_STORE", f"sqlite:///{tmp_path}/a.db")
    with connect() as flow:
        assert flow.get(run[:20]).id == run


@pytest.mark.parametrize("where", ["sqlite", "http"], indirect=True)
def test_a_session_of_the_client(place: Place) -> None:
    """Asked, listed, shown, forked and deleted, from a process that has no worker."""

    async def story() -> None:
        model = ScriptedModel(["one", "two", "three"])
        async with open_agents(place.store.store, model=model) as agents, place.client() as flow:
            await agents.define("guide")
            session = flow.turns.session("a/b 42", "guide", history={"last": 5})
            assert (await session.ask("1?", timeout=30)).text == "one"
            assert (await session.ask("2?", timeout=30)).text == "two"
            seen = await flow.turns.session("a/b 42").show()
            assert [turn.session for turn in seen.turns] == ["a/b 42"] * 2 and seen.history == {"last": 5}
            assert [card.text for card in seen.turns[1].context] == ["2?"]
            fork = await session.fork(after=seen.turns[0].turn.turn, name="other")
            assert (await fork.ask("3?", timeout=30)).text == "three"
            assert len(model.requests[-1].messages) == 3
            assert {each.session for each in await flow.turns.sessions()} == {"a/b 42", "other"}
            assert [each.agent for each in await flow.turns.agents()] == ["guide"]
            assert (await session.delete()).turns == 1  # the fork has the other one
            assert [each.forked_from for each in await flow.turns.sessions(agent="guide")] == ["a/b 42"]

    tell(story)
