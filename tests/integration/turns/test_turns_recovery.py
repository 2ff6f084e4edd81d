"""Workers that are lost, messages that were forgotten, turns that are stopped."""

from __future__ import annotations

import asyncio
import threading

import pytest
from support.turns_office import (
    SECONDS,
    Barrier,
    Place,
    last_text,
    lose,
    office,
    results_in,
    run,
    told_first,
    until,
    wants,
)

from afl.kernel.database import Query, Transaction
from afl.models import Reply, Request
from afl.models.model import OnText
from afl.models.scripted import Scripted, says
from afl.turns.errors import ProtocolViolation
from afl.turns.model import InboxRow, Limits
from afl.turns.statuses import InboxStatus, MessageType, TaskStatus
from afl.turns.store import inbox
from afl.turns.store.steps import read_steps
from afl.turns.tools.local import current_call
from afl.turns.worker.services import WorkerLimits

SHORT = Limits(lease_ms=300)


def test_a_lost_workers_turn_goes_on_from_its_cards(place: Place) -> None:
    gate = Barrier()
    keys: list[str] = []
    asked: list[int] = []

    def slow(n: int) -> str:
        keys.append(current_call().idempotency_key)
        if len(keys) <= 3:
            gate("here")
        return f"slow {n}"

    def model(request: Request) -> Scripted:
        asked.append(len(request.messages))
        if answered := results_in(request):
            return " | ".join(answered)
        return wants(*(("slow", {"n": n}) for n in range(3)))

    async def work() -> None:
        async with office(place, SHORT) as there:
            first = await there.hire(model)
            await there.agents.define("ada", tools=[slow])
            turn = await there.agents.send("ada", "go")
            await until(lambda: len(keys) == 3)
            await lose(first)
            second = await there.hire(model, watch_seconds=0.05)
            got = await there.agents.wait(turn)
            gate.open()
            assert got.text == "slow 0 | slow 1 | slow 2"
            assert there.head("ada").turn_epoch == 2  # the takeover
            results = [card for card in there.output(turn) if card.type == "tool.result"]
            assert len(results) == 3 and second.owner != first.owner
            steps = there.read(lambda tx: read_steps(tx, there.project, turn.agent_turn_id))
            assert steps[0].metadata["llm_usage"]["input_tokens"] == 100

    run(work)
    assert len(keys) == 6 and set(keys[:3]) == set(keys[3:])  # the same calls under the same keys
    assert asked == [1, 3]  # the model was not asked again for what it had said


def test_the_one_who_was_given_up_writes_nothing(place: Place) -> None:
    thinking, go_on = threading.Event(), threading.Event()
    words = iter(["of the first", "of the second"])

    class Slow:
        name = "slow"

        def resolve(self, name: str) -> str:
            return name or self.name

        def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
            said = next(words)
            if said == "of the first":
                thinking.set()
                assert go_on.wait(SECONDS)
            return says(said)

    async def work() -> None:
        async with office(place, SHORT) as there:
            slow = Slow()
            first = await there.hire(slow)
            for loop in first._loops[1:]:  # its leases are not renewed any more, and it does not know
                loop.cancel()
            await there.agents.define("ada")
            turn = await there.agents.send("ada", "go")
            await asyncio.to_thread(thinking.wait, SECONDS)
            await there.hire(slow, watch_seconds=0.05)
            got = await there.agents.wait(turn)
            go_on.set()
            assert got.text == "of the second"
            await until(lambda: not first.running_turns)
            assert there.count("state.outbox", "kind = 'task'") == 1
            assert [card.content.get("text") for card in there.output(turn)] == ["of the second"] * 2

    run(work)


def test_a_long_call_is_not_robbed(place: Place) -> None:
    gate = Barrier()

    def slow() -> str:
        gate("here")
        return "done"

    async def work() -> None:
        async with office(place, SHORT) as there:
            await there.hire(told_first([("slow", {})]))
            other = await there.hire(told_first([("slow", {})]))
            await there.agents.define("ada", tools=[slow])
            turn = await there.agents.send("ada", "go")
            await until(lambda: gate.calls)
            until_then = there.head("ada").lease_until
            await until(lambda: there.database.now() > until_then + 300)
            await other.watch()
            assert there.head("ada").turn_epoch == 1
            gate.open()
            assert (await there.agents.wait(turn)).text == "done"

    run(work)
    assert gate.calls == ["here"]


def test_a_turn_that_no_worker_survives_fails(place: Place) -> None:
    gate = Barrier()

    def deadly() -> None:
        gate("here")

    async def work() -> None:
        async with office(place, Limits(lease_ms=50, max_takeovers=2)) as there:
            await there.agents.define("ada", tools=[deadly])
            turn = await there.agents.send("ada", "go")
            for victim in range(3):
                worker = await there.hire(told_first([("deadly", {})]), watch_seconds=0.02)
                await gate.called(victim + 1)
                await lose(worker)
            await there.hire(told_first([("deadly", {})]), watch_seconds=0.02)
            got = await there.agents.wait(turn)
            gate.open()
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "takeovers_exceeded")

    run(work)


def test_forgotten_messages_return(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada")
            turn = await there.agents.send("ada", "go")

            def forget(tx: Transaction) -> int:
                rows = inbox.claim_due(tx, targets=["agents"], owner="somebody#1")
                tx.run(
                    Query.of(
                        f"update {_inbox(there.database.dialect)} set processed_at = processed_at - 400000"
                    )
                )
                return len(rows)

            assert await there.database.run("write", forget) == 1
            worker = await there.hire(lambda request: "here")
            await worker.watch()
            assert (await there.agents.wait(turn)).text == "here"

    run(work)


def _inbox(dialect: str) -> str:
    return "state.agent_inbox" if dialect == "postgres" else "state_agent_inbox"


def test_a_turn_whose_message_is_gone_fails(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada")
            turn = await there.agents.send("ada", "go")
            await there.database.run("write", lambda tx: inbox.consume(tx, there.project, turn.agent_turn_id))
            table = _inbox(there.database.dialect).replace("agent_inbox", "agent_state_head")
            older = Query.of(f"update {table} set updated_at = updated_at - 60000")
            await there.database.run("write", lambda tx: tx.run(older))
            worker = await there.hire(lambda request: "never")
            await worker.watch()
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "dispatch_lost")

    run(work)


@pytest.mark.parametrize(("agent", "epoch"), [("ada", 9), ("ada", 2), ("ada", 0), ("bob", 1)])
@pytest.mark.parametrize("kind", [MessageType.TURN, MessageType.UI_ACTION])
def test_a_message_of_a_turn_that_l0_never_made_is_an_error(
    place: Place, agent: str, epoch: int, kind: MessageType
) -> None:
    async def work() -> None:
        async with office(place) as there:
            for name in ("ada", "bob"):
                await there.agents.define(name)
            await there.hire(lambda request: "here")
            await there.agents.ask("ada", "go")  # its first epoch; bob never had one
            headers = there.head("ada").context_headers
            row = inbox.message_row(
                project_id=there.project,
                inbox_id="turn_forged",
                agent_id=agent,
                worker_target="agents",
                channel_id="public",
                message_type=kind,
                agent_turn_id="turn_forged",
                turn_epoch=epoch,
                headers=headers,
                payload={},
                status=InboxStatus.PENDING,
            )
            assert await there.database.run("write", lambda tx: inbox.put(tx, row))

            def refused() -> InboxRow | None:
                found = there.read(lambda tx: inbox.read_row(tx, there.project, "turn_forged"))
                return found if found is not None and found.archived_at is not None else None

            done = await until(refused)
            assert done is not None and done.status is InboxStatus.ERROR
            assert "turn_forged" in (done.last_error or "") and str(epoch) in (done.last_error or "")
            assert (await there.agents.ask("ada", "again")).text == "here"

    run(work)


def test_a_message_of_a_turn_that_is_over_is_done(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada")
            turn = await there.agents.send("ada", "go")
            await there.agents.stop(turn)
            await there.hire(lambda request: "here")
            assert (await there.agents.wait(turn)).status is TaskStatus.CANCELED
            assert there.count("state.agent_inbox", "status = 'error'") == 0

    run(work)


def test_a_running_turn_is_stopped(place: Place) -> None:
    gate = Barrier()

    def slow() -> None:
        gate("here")

    async def work() -> None:
        async with office(place) as there:
            worker = await there.hire(told_first([("slow", {})]))
            await there.agents.define("ada", tools=[slow])
            turn = await there.agents.send("ada", "go")
            await until(lambda: gate.calls)
            assert (await there.agents.stop(turn, "enough")).accepted
            got = await there.agents.wait(turn)
            assert (got.status, got.error_code, got.error) == (TaskStatus.CANCELED, "stopped", "enough")
            await until(lambda: not worker.running_turns)
            gate.open()
            assert there.output(turn)[-1].card_id == got.deliverable_card_id
            assert there.count("state.outbox", "kind = 'task'") == 1

    run(work)


def test_a_queued_turn_is_stopped(place: Place) -> None:
    gate = Barrier()

    def slow() -> str:
        gate("here")
        return "done"

    async def work() -> None:
        async with office(place) as there:
            await there.hire(told_first([("slow", {})]))
            await there.agents.define("ada", tools=[slow])
            first = await there.agents.send("ada", "one")
            second = await there.agents.send("ada", "two")
            await until(lambda: gate.calls)
            await there.agents.stop(second)
            assert (await there.agents.wait(second)).status is TaskStatus.CANCELED
            gate.open()
            assert (await there.agents.wait(first)).text == "done"

    run(work)


def test_a_person_may_call_a_tool(place: Place) -> None:
    gate = Barrier()

    def greet(name: str) -> str:
        return f"hello {name}"

    def slow() -> str:
        gate("here")
        return "done"

    def never(request: Request) -> Scripted:
        raise AssertionError("no model takes part")

    async def work() -> None:
        async with office(place) as there:
            await there.hire(never)
            await there.agents.define("ada", tools=[greet, slow])
            turn = await there.agents.act("ada", "greet", {"name": "bob"}, action_id="a1")
            assert turn is not None
            got = await there.agents.wait(turn)
            assert (got.status, got.text) == (TaskStatus.SUCCESS, "hello bob")
            busy = await there.agents.act("ada", "slow", action_id="a2")
            assert busy is not None
            await until(lambda: gate.calls)
            before = [
                there.count(table)
                for table in ("state.agent_inbox", "state.execution_edges", "cardbox.cards")
            ]
            assert await there.agents.act("ada", "greet", {"name": "eve"}, action_id="a3") is None
            after = [
                there.count(table)
                for table in ("state.agent_inbox", "state.execution_edges", "cardbox.cards")
            ]
            assert before == after
            gate.open()
            assert (await there.agents.wait(busy)).text == "done"
            unknown = await there.agents.act("ada", "fly", action_id="a4")
            assert unknown is not None
            assert (await there.agents.wait(unknown)).error_code == "unknown_tool"

    run(work)


def test_sixty_agents_with_three_tools_and_eight_workers(place: Place) -> None:
    """None of the workers waits for a queue that it has to empty itself."""

    def one(n: int) -> int:
        return n

    async def work() -> None:
        async with office(place) as there:
            model = told_first([("one", {"n": n}) for n in range(3)])
            for _ in range(8):
                await there.hire(model, limits=WorkerLimits(concurrency=1))
            for n in range(60):
                await there.agents.define(f"agent{n}", tools=[one])
            turns = [await there.agents.send(f"agent{n}", "go") for n in range(60)]
            for turn in turns:
                assert (await there.agents.wait(turn)).text == "0 | 1 | 2"
            assert there.count("state.outbox", "kind = 'task' and status = 'success'") == 60

    run(work)


def test_an_unknown_agent_is_refused(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            with pytest.raises(ProtocolViolation, match="not in the roster"):
                await there.agents.send("nobody", "go")
            assert there.count("cardbox.cards") == 0

    run(work)


def test_the_same_correlation_is_the_same_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: last_text(request))
            await there.agents.define("ada")
            first = await there.agents.send("ada", "go", correlation_id="c1")
            assert (await there.agents.wait(first)).text == "go"
            again = await there.agents.send("ada", "go", correlation_id="c1")
            assert again == first
            assert there.count("state.outbox", "kind = 'task'") == 1

    run(work)


def test_a_worker_that_ends_leaves_its_turns_to_others(place: Place) -> None:
    gate = Barrier()

    def slow() -> str:
        if not gate.calls:
            gate("here")
        return "done"

    async def work() -> None:
        async with office(place) as there:  # the lease is long: it is not waited for
            first = await there.hire(told_first([("slow", {})]))
            await there.agents.define("ada", tools=[slow])
            turn = await there.agents.send("ada", "go")
            await gate.called()
            await first.stop(grace=0.01)
            await there.hire(told_first([("slow", {})]), watch_seconds=0.02)
            assert (await there.agents.wait(turn)).text == "done"
            gate.open()
            assert there.head("ada").takeovers == 0

    run(work)
