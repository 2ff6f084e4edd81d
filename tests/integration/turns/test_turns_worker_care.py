"""What a worker takes care of: turns in its name, slots for what it claimed, loops that go on, an end in time."""

from __future__ import annotations

import asyncio
import re
from typing import Any

import pytest
from support.eventually import eventually
from support.postgres_proxy import Proxy
from support.turns_office import Barrier, Office, Place, office, results_in, run, told_first, until, wants

from afl.kernel.database import Transaction
from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns import transitions
from afl.turns.model import InboxRow, Limits
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool, put_tool
from afl.turns.statuses import AfterExecution, HeadStatus, WaitStatus
from afl.turns.store import heads, inbox
from afl.turns.worker.claims import Claimed, claim
from afl.turns.worker.services import WorkerLimits


def enter(there: Office, agent: str, owner: str) -> None:
    """The turn of an agent is entered in somebody's name."""

    def work(tx: Transaction) -> None:
        head = heads.read_head(tx, there.project, agent)
        assert head is not None and head.active_inbox_id is not None
        step = new_id("step")
        transitions.enter_running(
            tx, head, inbox_id=head.active_inbox_id, owner=owner, step_id=step, lease_ms=60_000
        )

    there.database.write(work)


def test_a_turn_in_our_name_that_we_do_not_know_of_is_given_away(place: Place) -> None:
    """The answer to a claim was lost: without care its lease would be renewed forever."""

    async def work() -> None:
        slow = Barrier()

        def hold(key: str) -> str:
            slow(key)
            return "held"

        async with office(place, Limits(lease_ms=150)) as there:
            await there.agents.define("ada", tools=[hold])
            await there.agents.define("bob", tools=[], worker_target="elsewhere")
            worker = await there.hire(told_first([("hold", {"key": "k"})]))
            kept = await there.agents.send("ada", "go")
            await slow.called()
            lost = await there.agents.send("bob", "go")
            await asyncio.to_thread(enter, there, "bob", worker.owner)
            other = await there.hire(lambda request: "found", targets=["elsewhere"])
            while there.head("bob").turn_epoch == 1:
                await other.watch()
            assert (await there.agents.wait(lost)).text == "found"
            slow.open()
            assert (await there.agents.wait(kept)).text == "held"

    run(work)


def test_a_worker_with_one_hand_takes_one_turn(place: Place) -> None:
    async def work() -> None:
        slow = Barrier()

        def hold(key: str) -> str:
            slow(key)
            return "held"

        async with office(place) as there:
            there.agents.toolbox.add(hold)
            for agent in ("ada", "bob", "cyd"):
                await there.agents.define(agent, tools=None)  # its tools are read apart from the claim
            turns = [await there.agents.send(agent, "go") for agent in ("ada", "bob", "cyd")]
            model = told_first([("hold", {"key": "k"})])
            workers = [await there.hire(model, limits=WorkerLimits(concurrency=1)) for _ in range(3)]
            await slow.called(3)
            assert [len(worker.running_turns) for worker in workers] == [1, 1, 1]
            slow.open()
            assert [(await there.agents.wait(turn)).text for turn in turns] == ["held"] * 3

    run(work)


def test_a_worker_ends_though_a_message_cannot_be_handled(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            worker = await there.hire(lambda request: "done")
            never = asyncio.Event()

            async def hang(row: InboxRow) -> None:
                await never.wait()

            worker._handle = hang  # type: ignore[method-assign]
            await there.agents.define("ada", tools=[])
            turn = await there.agents.send("ada", "go")
            await there.agents.wait(turn)
            message = there.read(lambda tx: inbox.turn_row(tx, there.project, turn.agent_turn_id))
            assert message is not None
            worker._handle_all([message])
            await worker.stop(grace=0.1)
            assert not worker._handling

    run(work)


@pytest.mark.parametrize("deliver", [True, False])
@pytest.mark.parametrize("lost", ["paid 5", "Once upon"])
def test_what_was_done_is_not_done_again_because_the_store_was_away(
    empty_postgres_url: str, nats_url: str, lost: str, deliver: bool
) -> None:
    """The connection breaks when a result or a reply is committed, and the commit may have succeeded or not."""

    async def work() -> None:
        calls: list[str] = []

        def pay(euros: int) -> str:
            calls.append("pay")
            return f"paid {euros}"

        def answer(request: Request) -> Scripted:
            calls.append("model")
            return "Once upon a time" if results_in(request) else wants(("pay", {"euros": 5}))

        with Proxy(empty_postgres_url) as proxy:
            proxy.cut_at, proxy.deliver = lost.encode(), deliver
            async with office(Place(proxy.url, nats_url)) as there:
                there.agents.toolbox.add(pay)
                await there.hire(answer)
                await there.agents.define("ada", tools=["pay"], budget={"turn": {"tokens": 1_000_000}})
                got = await there.agents.ask("ada", "go")
                assert (got.status, got.text) == ("success", "Once upon a time")
                assert proxy.cut_at is None  # the line was cut
        assert calls == ["model", "pay", "model"]

    run(work)


def test_what_was_claimed_and_not_handled_is_given_back_at_the_end(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada", tools=[])
            turn = await there.agents.send("ada", "go")
            worker = await there.hire(lambda request: "done", targets=["elsewhere"])
            owner = worker.owner
            taken = there.database.write(
                lambda tx: inbox.claim_due(tx, targets=["agents"], owner=owner, limit=5)
            )
            assert [row.agent_turn_id for row in taken] == [turn.agent_turn_id]
            await worker.stop(grace=0.1)
            await there.hire(lambda request: "done")
            assert (await there.agents.wait(turn)).text == "done"

    run(work)


def test_a_claim_that_fails_is_not_the_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    failures = iter([ValueError("a row that cannot be read"), KeyError("another")])
    plain = claim

    def fail_twice(tx: Transaction, **options: Any) -> Claimed:
        if (failure := next(failures, None)) is not None:
            raise failure
        return plain(tx, **options)

    monkeypatch.setattr("afl.turns.worker.worker.claim", fail_twice)

    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("ada", tools=[])
            turn = await there.agents.send("ada", "go")
            await there.hire(lambda request: "done")
            assert (await there.agents.wait(turn)).text == "done"

    run(work)


def test_a_renewal_that_fails_is_not_the_last(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []
    plain = heads.renew

    def renew(tx: Transaction, owner: str, lease_ms: int) -> Any:
        calls.append(owner)
        if len(calls) == 1:
            raise ValueError("who knows")
        return plain(tx, owner, lease_ms)

    monkeypatch.setattr(heads, "renew", renew)

    async def work() -> None:
        slow = Barrier()

        def hold(key: str) -> str:
            slow(key)
            return "held"

        async with office(place, Limits(lease_ms=300)) as there:
            await there.agents.define("ada", tools=[hold])
            turn = await there.agents.send("ada", "go")
            await there.hire(told_first([("hold", {"key": "k"})]))
            await slow.called()
            await until(lambda: len(calls) > 2)
            slow.open()
            assert (await there.agents.wait(turn)).text == "held"

    run(work)


def test_a_deadline_that_was_told_of_is_a_deadline_no_more(place: Place) -> None:
    """Two calls: the time of one is up, that of the other is what the head waits for from then on."""

    async def work() -> None:
        async with office(place) as there:
            for name, seconds in (("hasty", 0.05), ("patient", 60)):
                subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.far.{name}"
                row = Tool(
                    there.project,
                    name,
                    name,
                    {"type": "object"},
                    subject,
                    AfterExecution.SUSPEND,
                    {"timeout_seconds": seconds},
                )
                there.database.write(lambda tx, row=row: put_tool(tx, row))
            limits = WorkerLimits(suspend_timeout=0.05)
            worker = await there.hire(told_first([("hasty", {}), ("patient", {})]), limits=limits)
            await there.agents.define("ada", tools=["hasty", "patient"])
            await there.agents.send("ada", "go")
            await until(lambda: there.head("ada").status is HeadStatus.SUSPENDED)
            first = there.head("ada").resume_deadline
            while there.head("ada").waiting_tool_count == 2:
                await worker.watch()
            head = there.head("ada")
            waits = there.read(lambda tx: heads.read_waiting(tx, head))
            (patient,) = [wait for wait in waits if wait.wait_status is WaitStatus.WAITING]
            assert first is not None and head.resume_deadline == patient.deadline > first

    run(work)


def test_a_worker_whose_event_loop_is_blocked_keeps_its_turns(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with office(place, Limits(lease_ms=600)) as there:
            calls: list[int] = []

            async def block() -> str:
                """It does not await anything, so that nothing else in the loop goes on."""
                calls.append(there.head("ada").lease_until)
                eventually(lambda: there.head("ada").lease_until > calls[0] + 1_200)
                return "done"

            await there.agents.define("ada", tools=[block])
            await there.hire(told_first([("block", {})]))
            assert (await there.agents.wait(await there.agents.send("ada", "go"))).text == "done"
            assert len(calls) == 1

    run(work)
    (first, *_) = [each for each in caplog.messages if "event loop" in each]
    assert re.search(r"has been blocked for more than 0.1 s at \S+\.py:\d+ in \S+: other turns wait", first)
