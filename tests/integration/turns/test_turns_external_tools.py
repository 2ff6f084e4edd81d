"""Tools of other processes: the turn suspends, and goes on when they have answered, in whatever order."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.postgres_proxy import Proxy
from support.turns_office import (
    Barrier,
    Office,
    Place,
    last_text,
    office,
    results_in,
    run,
    told_first,
    until,
    wants,
)

from afl.kernel.backoff import Backoff
from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns.bus.outbox import following
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard
from afl.turns.context import TurnContext, context_of_head
from afl.turns.intents import ReportIntent
from afl.turns.message import Message
from afl.turns.model import L0Result, TurnRef
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, put_tool
from afl.turns.statuses import AfterExecution, CardType, InboxStatus, MessageType, TaskStatus, WaitStatus
from afl.turns.store import heads, inbox
from afl.turns.store.stale_turns import expired_waits
from afl.turns.tools.local import local_tool
from afl.turns.tools.service import ToolService
from afl.turns.worker.services import WorkerLimits

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}, "key": {"type": "string"}}}


async def offer(
    there: Office, name: str = "far", after: str = "suspend", target: str = "far", **options: Any
) -> None:
    """A tool that nobody serves: the test answers in its place."""
    subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.{target}.{name}"
    row = Tool(there.project, name, "far away", SCHEMA, subject, AfterExecution(after), options)
    await there.database.run("write", lambda tx: put_tool(tx, row))


async def suspended(there: Office, agent: str = "ada") -> list[str]:
    """The calls that the agent waits for."""
    await until(lambda: there.head(agent).status == "suspended")
    head = there.head(agent)
    return [wait.tool_call_id for wait in there.read(lambda tx: heads.read_waiting(tx, head))]


async def waiting_for(there: Office, count: int) -> None:
    await until(lambda: there.head("ada").waiting_tool_count == count)


def result(there: Office, call: str, value: Any, status: str = "success", after: str = "suspend") -> NewCard:
    head = there.head("ada")
    waits = there.read(lambda tx: heads.read_waiting(tx, head))
    wait = next(each for each in waits if each.tool_call_id == call)
    error = None if status == "success" else {"code": "bad", "message": "it went wrong"}
    return NewCard(
        CardType.TOOL_RESULT,
        contents.tool_result_content(status, after, value, error),
        "tool.far",
        agent_turn_id=wait.agent_turn_id,
        step_id=wait.step_id,
        tool_call_id=call,
        function_name=wait.tool_name,
    )


def source(there: Office) -> TurnContext:
    return context_of_head(there.head("ada")).acting_as("tool.far")


async def report(there: Office, card: NewCard, context: TurnContext | None = None) -> L0Result:
    by = context or source(there)
    turn = TurnRef(there.project, "ada", card.agent_turn_id)

    def work(tx: Transaction) -> L0Result:
        stored = save_result(tx, there.project, card)
        payload = {
            "status": stored.content["status"],
            "after_execution": stored.content["after_execution"],
            "tool_result_card_id": stored.card_id,
        }
        return there.engine.report(tx, by, ReportIntent(turn, payload, card.tool_call_id))

    return await there.engine.run(work)


async def forge(there: Office, turn: TurnRef, call: str, payload: dict[str, Any]) -> None:
    """A report that no L0 would let in."""
    head = there.head("ada")
    row = inbox.message_row(
        project_id=there.project,
        inbox_id="forged",
        agent_id="ada",
        worker_target="agents",
        channel_id="public",
        message_type=MessageType.TOOL_RESULT,
        agent_turn_id=turn.agent_turn_id,
        turn_epoch=head.turn_epoch,
        headers=head.context_headers,
        payload=payload,
        status=InboxStatus.PENDING,
        correlation_id=call,
    )
    await there.database.run("write", lambda tx: inbox.put(tx, row))


THREE = [("far", {"n": n}) for n in range(3)]


@pytest.mark.parametrize("order", list(itertools.permutations(range(3))))
def test_results_in_any_order(place: Place, order: tuple[int, ...]) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await offer(there)
            await there.hire(told_first(THREE))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            calls = await suspended(there)
            assert there.head("ada").waiting_tool_count == 3
            for left, place_of in zip((2, 1, 0), order, strict=True):
                answer = await report(there, result(there, calls[place_of], f"r{place_of}"))
                assert answer.accepted
                if left:
                    await waiting_for(there, left)
            got = await there.agents.wait(turn)
            assert got.text == "r0 | r1 | r2"
            assert there.head("ada").turn_epoch == 1  # a resumed turn keeps its epoch
            await until(lambda: there.told("task"))
            waiting = [
                (each["metadata"]["waiting_tool_count"], each["metadata"]["activity"])
                for each in there.told("state")
                if each["status"] == "suspended"
            ]
            assert waiting == [
                (3, "awaiting_tool_result"),
                (2, "awaiting_tool_result"),
                (1, "awaiting_tool_result"),
            ]
            results = [card for card in there.output(turn) if card.type == "tool.result"]
            assert [card.tool_call_id for card in results] == [calls[n] for n in order]

    run(work)


def test_an_answer_that_ends_the_turn_must_give_the_fields(place: Place) -> None:
    told: list[str] = []

    def model(request: Request) -> Scripted:
        told.append(last_text(request))
        if len(told) == 1:
            return wants(("far", {"n": 1}))
        return wants(("submit_result", {"result": {"n": 2}}))

    async def work() -> None:
        async with office(place) as there:
            await offer(there, after="terminate")
            await there.hire(model)
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go", fields={"n": "a number"})
            (call,) = await suspended(there)
            assert (await report(there, result(there, call, {"m": 1}, after="terminate"))).accepted
            got = await there.agents.wait(turn)
            assert (got.status, got.fields) == (TaskStatus.SUCCESS, {"n": "2"})

    run(work)
    assert "lacks the required field n" in told[1]


def test_a_duplicate_changes_nothing(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            await there.hire(told_first(THREE[:2]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            first, second = await suspended(there)
            by = source(there)
            card, other = result(there, first, "one"), result(there, second, "two")
            assert (await report(there, card)).accepted
            await until(lambda: there.head("ada").waiting_tool_count == 1)
            again = await report(there, result(there, first, "another"))
            assert again.accepted and again.payload["duplicate"] is True
            assert there.head("ada").waiting_tool_count == 1
            await report(there, other)
            assert (await there.agents.wait(turn)).text == "one | two"
            late = await report(there, card, by)
            assert late.accepted and there.head("ada").status == "idle"
            results = [each for each in there.output(turn) if each.type == "tool.result"]
            assert len(results) == 2

    run(work)


def test_a_result_after_the_end_is_acknowledged(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            await there.hire(told_first(THREE[:1]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            card, by = result(there, call, "late"), source(there)
            await there.agents.stop(turn, "enough")
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code, got.error) == (TaskStatus.CANCELED, "stopped", "enough")
            before = there.count("state.agent_inbox")
            answer = await report(there, card, by)
            assert answer.accepted and answer.payload == {"late": True}
            assert there.count("state.agent_inbox") == before

    run(work)


def test_what_a_result_says_of_the_end(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there, after="terminate")
            await there.hire(told_first(THREE[:2]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            first, second = await suspended(there)
            await report(there, result(there, first, "fine", after="terminate"))
            card = result(there, second, None, status="failed", after="terminate")
            await report(there, card)
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "bad")
            assert got.text == "bad: it went wrong"
            end = there.output(turn)[-1]
            assert end.type == "task.deliverable" and end.agent_turn_id == turn.agent_turn_id

    run(work)


def test_control_in_a_result_wins(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there, after="terminate")
            await there.hire(told_first(THREE[:1]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            control = {"__cg_control": {"after_execution": "suspend"}, "n": 1}
            await report(there, result(there, call, control, after="terminate"))
            got = await there.agents.wait(turn)
            assert got.succeeded and '"n":1' in got.text  # the model had the last word

    run(work)


def test_control_in_a_result_that_is_no_word_is_passed_over(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there, after="suspend")
            await there.hire(told_first(THREE[:1]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            control = {"__cg_control": {"after_execution": ["terminate"]}, "n": 1}
            await report(there, result(there, call, control, after="suspend"))
            got = await there.agents.wait(turn)
            assert got.succeeded and '"n":1' in got.text

    run(work)


def test_time_runs_out(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there, timeout_seconds=0.01)
            worker = await there.hire(told_first(THREE[:2]), limits=WorkerLimits(suspend_timeout=0.01))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            first, _ = await suspended(there)
            # One tool has written its result and died before it could report it.
            card = result(there, first, "written")
            await there.database.run("write", lambda tx: save_result(tx, there.project, card))
            await until(lambda: there.read(lambda tx: _expired(tx)) == 2)
            await worker.watch()
            got = await there.agents.wait(turn)
            assert got.succeeded
            written, timed_out = got.text.split(" | ")
            assert written == "written" and "tool_timeout" in timed_out

    run(work)


def _expired(tx: Transaction) -> int:
    return len(expired_waits(tx))


def test_one_bad_row_does_not_stop_the_sweep(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there, timeout_seconds=0.01)
            worker = await there.hire(told_first(THREE[:1]), limits=WorkerLimits(suspend_timeout=0.01))
            names = ["ada", "bob", "eve"]
            turns = []
            for name in names:
                await there.agents.define(name, tools=["far"])
                turns.append(await there.agents.send(name, "go"))
            await until(lambda: there.read(_expired) == 3)
            honest = there.engine.report

            def stumble(tx: Transaction, context: TurnContext, intent: ReportIntent) -> L0Result:
                if intent.turn.agent_id == "ada":
                    raise ZeroDivisionError("a bad row")
                return honest(tx, context, intent)

            monkeypatch.setattr(there.engine, "report", stumble)
            await worker.watch()
            for turn in turns[1:]:
                assert "tool_timeout" in (await there.agents.wait(turn)).text
            assert there.head("ada").status == "suspended"
            monkeypatch.setattr(there.engine, "report", honest)
            await worker.watch()
            assert "tool_timeout" in (await there.agents.wait(turns[0])).text

    run(work)


def test_tools_of_here_and_of_elsewhere_in_one_step(place: Place) -> None:
    def near(n: int) -> str:
        return f"near {n}"

    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            await there.hire(told_first([("far", {"n": 1}), ("near", {"n": 2}), ("far", {"n": 3})]))
            await there.agents.define("ada", tools=[near, "far"])
            turn = await there.agents.send("ada", "go")
            calls = await suspended(there)
            assert len(calls) == 2
            for call in reversed(calls):
                await report(there, result(there, call, "far"))
            assert (await there.agents.wait(turn)).text == "far | near 2 | far"

    run(work)


def test_a_service_for_tools(place: Place) -> None:
    made: list[int] = []

    def square(n: int) -> int:
        """The square of a number."""
        made.append(n)
        return n * n

    async def work() -> None:
        async with office(place) as there:
            service = ToolService(there.engine, there.project, [local_tool(square, timeout=30)])
            await service.register()
            await service.start()
            await there.hire(told_first([("square", {"n": n}) for n in (2, 3, 4)]))
            await there.agents.define("ada", tools=["square"])
            got = await there.agents.ask("ada", "go")
            assert got.text == "4 | 9 | 16"
            assert sorted(made) == [2, 3, 4]
            commands = [row for row in there.read(_commands) if there.project in row.subject]
            await service.handle(commands[0])  # once more: not called again, and reported in vain
            assert sorted(made) == [2, 3, 4]
            await service.stop()

    run(work)


@pytest.mark.parametrize("deliver", [True, False])
def test_a_service_makes_no_call_again_because_the_store_was_away(
    empty_postgres_url: str, nats_url: str, deliver: bool
) -> None:
    calls: list[int] = []

    def pay(euros: int) -> str:
        calls.append(euros)
        return f"paid {euros}"

    async def work() -> None:
        with Proxy(empty_postgres_url) as proxy:
            proxy.cut_after, proxy.cut_at, proxy.deliver = b"paid 5", b"COMMIT\x00", deliver
            async with (
                office(Place(empty_postgres_url, nats_url)) as there,
                office(Place(proxy.url, nats_url)) as elsewhere,
            ):
                service = ToolService(elsewhere.engine, there.project, [pay], target="bank")
                await service.register()
                await service.start()
                await there.hire(told_first([("pay", {"euros": 5})]))
                await there.agents.define("ada", tools=["pay"])
                assert (await there.agents.ask("ada", "go")).text == "paid 5"
                await service.stop()
                assert proxy.cut_at is None  # the line was cut
        assert calls == [5]

    run(work)


def test_an_answer_that_no_card_can_hold_is_told_to_the_model(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    made: list[int] = []

    def huge() -> str:
        made.append(1)
        return "x" * 2_000_000

    async def work() -> None:
        async with office(place) as there:
            service = ToolService(there.engine, there.project, [local_tool(huge, timeout=30)])
            await service.register()
            await service.start()
            await there.hire(told_first([("huge", {})]))
            await there.agents.define("ada", tools=["huge"])
            assert "card_too_large" in (await there.agents.ask("ada", "go")).text
            await service.stop()

    run(work)
    assert made == [1]
    assert not [record for record in caplog.records if record.exc_info]


def test_a_service_makes_its_calls_side_by_side(place: Place) -> None:
    gate = Barrier()

    def hold(n: int) -> int:
        gate(str(n))
        return n

    async def work() -> None:
        async with office(place) as there:
            service = ToolService(there.engine, there.project, [local_tool(hold, timeout=30)])
            await service.register()
            await service.start()
            await there.hire(told_first([("hold", {"n": n}) for n in range(10)]))
            await there.agents.define("ada", tools=["hold"])
            turn = await there.agents.send("ada", "go")
            await gate.called(10)
            gate.open()
            assert (await there.agents.wait(turn)).text == " | ".join(str(n) for n in range(10))
            await service.stop()

    run(work)


def test_a_call_that_waits_for_its_turn_keeps_its_time(place: Place) -> None:
    gate = Barrier()
    begun: list[int] = []

    def hold() -> str:
        gate("held")
        return "held"

    async def work() -> None:
        async with office(place) as there:

            def late() -> int:
                head = there.head("ada")
                waits = there.read(lambda tx: heads.read_waiting(tx, head))
                (wait,) = [each for each in waits if each.tool_name == "late"]
                begun.append(wait.deadline - there.database.now())
                return 1

            tools = [local_tool(hold, timeout=30), local_tool(late, timeout=600)]
            service = ToolService(there.engine, there.project, tools, concurrency=1)
            await service.register()
            for name in ("hold", "late"):  # what the turn grants them is less than what they may take
                await offer(there, name, timeout_seconds=30, target="python")
            await service.start()
            await there.hire(told_first([("hold", {}), ("late", {})]))
            await there.agents.define("ada", tools=["hold", "late"])
            turn = await there.agents.send("ada", "go")
            await gate.called()
            await suspended(there)
            gate.open()
            assert (await there.agents.wait(turn)).text == "held | 1"
            await service.stop()

    run(work)
    assert begun[0] > 500_000


def test_a_service_of_no_calls_at_once_is_refused(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            with pytest.raises(InputError, match="at least 1"):
                ToolService(there.engine, there.project, [], concurrency=0)

    run(work)


def _commands(tx: Transaction) -> list[Message]:
    return [row.message for row in following(tx, 0, 100) if ".cmd." in row.message.subject]


def test_a_tool_that_no_subject_leads_to(place: Place) -> None:
    said: list[str] = []

    def model(request: Request) -> Scripted:
        if answered := results_in(request):
            said.extend(answered)
            return "done"
        return wants(("far", {"n": 1}))

    async def work() -> None:
        async with office(place) as there:
            row = Tool(there.project, "far", "far away", SCHEMA)
            await there.database.run("write", lambda tx: put_tool(tx, row))
            await there.hire(model)
            await there.agents.define("ada", tools=["far"])
            assert (await there.agents.ask("ada", "go")).succeeded

    run(work)
    assert "protocol_violation" in said[0]


def test_fixed_arguments_are_not_the_models(place: Place) -> None:
    offered: list[Any] = []

    def model(request: Request) -> Scripted:
        if results_in(request):
            return "done"
        offered.append(dict(request.tools[0].input_schema["properties"]))
        return wants(("far", {"n": 1, "key": "guessed"}))

    async def work() -> None:
        async with office(place) as there:
            await offer(there, args={"fixed": {"key": "secret"}, "defaults": {"lang": "en"}})
            await there.hire(model)
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            box = there.head("ada").output_box_id or ""
            made = next(card for card in there.cards(box) if card.type == "tool.call")
            assert made.content["arguments"] == {"lang": "en", "n": 1, "key": "secret"}
            await report(there, result(there, call, 1))
            assert (await there.agents.wait(turn)).succeeded

    run(work)
    assert list(offered[0]) == ["n"]


def test_a_report_that_broke_the_protocol_fails_the_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            await there.hire(told_first(THREE[:1]))
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            await forge(there, turn, call, {"result": "inline"})
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "invalid_payload")
            assert there.output(turn)[-1].card_id == got.deliverable_card_id

    run(work)


def test_a_card_that_never_comes_is_waited_for_so_often(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            limits = WorkerLimits(defer=Backoff(0.01), max_defers=0)
            await there.hire(told_first(THREE[:1]), limits=limits)
            await there.agents.define("ada", tools=["far"])
            turn = await there.agents.send("ada", "go")
            (call,) = await suspended(there)
            payload = {"status": "success", "after_execution": "suspend", "tool_result_card_id": "card_none"}

            await forge(there, turn, call, payload)
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "resume_retry_exhausted")

    run(work)


def test_waits_are_written_with_the_suspension(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await offer(there)
            await there.hire(lambda request: wants(*THREE) if last_text(request) else "x")
            await there.agents.define("ada", tools=["far"])
            await there.agents.send("ada", "go")
            await suspended(there)
            head = there.head("ada")
            waits = there.read(lambda tx: heads.read_waiting(tx, head))
            assert [wait.wait_status for wait in waits] == [WaitStatus.WAITING] * 3
            assert head.resume_deadline is not None and head.expecting_correlation_id is None
            assert there.count("state.execution_edges", "primitive = 'tool_call'") == 3
            assert there.count("state.outbox", "kind = 'cmd'") == 3

    run(work)
