"""Claims, deferrals and sweeps of the inbox, and what happens when many do things at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

from support.turns_house import OWNER, House

from afl.kernel.database import Query, connect
from afl.kernel.errors import FencedError
from afl.turns.model import InboxRow
from afl.turns.primitives.dispatch_next import dispatch_next
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import HeadStatus, InboxStatus
from afl.turns.store import inbox, stale_turns
from afl.turns.store.heads import read_head
from afl.turns.transitions import enter_running, finish


def claim(house: House, owner: str = OWNER, **options: object) -> list[InboxRow]:
    return house.write(lambda tx: inbox.claim_due(tx, targets=["generic"], owner=owner, **options))  # type: ignore[arg-type]


def test_due_messages_are_claimed_in_time_order_by_one_worker_each(house: House) -> None:
    for number in range(6):
        house.hire(f"agent-{number}")
        house.enqueue(f"agent-{number}")
    first, second = claim(house, "w1", limit=4), claim(house, "w2")
    assert [row.agent_id for row in [*first, *second]] == [f"agent-{number}" for number in range(6)]
    assert {row.status for row in first} == {InboxStatus.PROCESSING}
    assert {row.claimed_by for row in first} == {"w1"}
    assert claim(house, "w3") == []


def test_other_targets_are_not_served(house: House) -> None:
    house.hire("eve", "gpu")
    house.enqueue("eve")
    assert claim(house) == []
    rows = house.write(lambda tx: inbox.claim_due(tx, targets=["generic", "gpu"], owner="w"))
    assert [row.agent_id for row in rows] == ["eve"]


def test_a_deferred_message_comes_back_when_it_is_due(house: House) -> None:
    house.dispatched()
    (row,) = claim(house)
    later = house.write(lambda tx: inbox.defer(tx, house.project, row.inbox_id, 60_000, "not yet"))
    assert later is not None and (later.retry_count, later.defer_reason) == (1, "not yet")
    assert claim(house) == []
    assert not house.database.select(inbox.Q.is_due, targets=["generic"])[0]["due"]
    house.write(lambda tx: inbox.defer(tx, house.project, row.inbox_id, -1, "now"))
    assert house.database.select(inbox.Q.is_due, targets=["generic"])[0]["due"]
    (again,) = claim(house)
    assert again.retry_count == 2


def test_what_a_worker_claimed_is_given_back(house: House) -> None:
    house.dispatched()
    house.dispatched("bob")
    rows = {row.inbox_id for row in claim(house, "w1")}
    assert claim(house, "w2") == []
    assert {row.inbox_id for row in house.write(lambda tx: inbox.release(tx, "w1"))} == rows
    assert {row.inbox_id for row in claim(house, "w2")} == rows
    assert house.read(inbox.claimers) == ["w2"]


def test_stale_claims_and_those_of_the_dead_return(house: House) -> None:
    house.dispatched()
    house.dispatched("bob")
    claim(house, "w1", project=house.project, agent="ada")
    claim(house, "w2", project=house.project, agent="bob")
    assert house.write(lambda tx: inbox.requeue_stale(tx, older_ms=60_000)) == []
    back = house.write(lambda tx: inbox.requeue_stale(tx, older_ms=60_000, dead_owners=["w2"]))
    assert [row.agent_id for row in back] == ["bob"]
    back = house.write(lambda tx: inbox.requeue_stale(tx, older_ms=-1000))
    assert [row.agent_id for row in back] == ["ada"]


def test_a_message_that_is_done_is_done_once(house: House) -> None:
    house.dispatched()
    (row,) = claim(house)
    assert house.read(lambda tx: inbox.has_open_inbox(tx, house.project, "ada"))
    assert not house.read(lambda tx: inbox.has_open_inbox(tx, house.project, "ada", row.inbox_id))
    house.write(lambda tx: inbox.consume(tx, house.project, row.inbox_id))
    before = house.dump()
    house.write(lambda tx: inbox.refuse(tx, house.project, row.inbox_id, "late"))
    assert house.write(lambda tx: inbox.defer(tx, house.project, row.inbox_id, 0, "late")) is None
    assert house.dump() == before


def test_sweeps_find_what_nobody_moves(house: House) -> None:
    waiting, waits = house.suspended(waits=house.waits(2, deadline_ms=-1))
    running = house.running("bob", lease_ms=-1)
    house.hire("eve")
    house.enqueue("eve")
    expired = house.read(stale_turns.expired_waits)
    assert [wait.tool_call_id for wait in expired] == [wait.tool_call_id for wait in waits]
    assert expired[0].turn == house.ref(waiting)
    assert expired[0].context().recursion_depth == waiting.active_recursion_depth
    assert [head.agent_id for head in house.read(stale_turns.unleased_turns)] == ["bob"]
    assert [head.agent_id for head in house.read(lambda tx: stale_turns.running_of_others(tx, "me"))] == [
        "bob"
    ]
    assert running.agent_id == "bob"
    stuck = house.read(lambda tx: stale_turns.stuck_heads(tx, HeadStatus.DISPATCHED, -1000))
    assert [head.agent_id for head in stuck] == ["eve"]
    assert [due.agent_id for due in house.read(lambda tx: stale_turns.unclaimed_agents(tx, -1000))] == ["eve"]
    assert house.read(stale_turns.idle_with_queue) == []


def test_a_queue_that_was_missed_is_found(house: House) -> None:
    head = house.running()
    house.enqueue()
    name = "state.agent_inbox" if house.database.dialect == "postgres" else "state_agent_inbox"
    hide = Query.of(f"update {name} set agent_id = 'hidden' where status = 'queued'")
    show = Query.of(f"update {name} set agent_id = 'ada' where status = 'queued'")
    house.write(lambda tx: tx.run(hide))
    house.write(lambda tx: finish(tx, head, house.ending(head)))
    house.write(lambda tx: tx.run(show))
    assert house.read(stale_turns.idle_with_queue) == [(house.project, "ada")]
    assert house.write(lambda tx: dispatch_next(tx, house.project, "ada")).payload["dispatched"]


# Many at once ------------------------------------------------------------------------------------------------


def test_concurrent_claims_share_the_messages(database_url: str) -> None:
    with connect(database_url) as database:
        house = House(database)
        for number in range(40):
            house.hire(f"agent-{number}")
            house.enqueue(f"agent-{number}")
        gate = threading.Barrier(4)

        def work(owner: str) -> list[str]:
            gate.wait()
            mine: list[str] = []
            while rows := claim(house, owner, limit=3):
                assert len(rows) <= 3
                mine += [row.inbox_id for row in rows]
            return mine

        with ThreadPoolExecutor(4) as threads:
            taken = [row for mine in threads.map(work, ("a", "b", "c", "d")) for row in mine]
    assert len(taken) == len(set(taken)) == 40


def test_one_of_many_enters_a_turn(database_url: str) -> None:
    with connect(database_url) as database:
        house = House(database)
        head = house.dispatched()
        gate = threading.Barrier(4)

        def work(owner: str) -> bool:
            gate.wait()
            try:
                database.write(
                    lambda tx: enter_running(
                        tx, head, inbox_id=head.active_inbox_id or "", owner=owner, step_id=new_id("step")
                    ),
                )
            except FencedError:
                return False
            return True

        with ThreadPoolExecutor(4) as threads:
            entered = list(threads.map(work, ("a", "b", "c", "d")))
        assert entered.count(True) == 1
        assert house.count("state.agent_steps") == 1


def test_an_enqueue_beside_an_end_is_never_forgotten(database_url: str) -> None:
    """Whoever comes second sees the other: no turn stays queued at an idle agent, with no sweep to help."""
    with connect(database_url) as database:
        house = House(database)
        turns = 60

        def send() -> None:
            for _ in range(turns):
                house.enqueue()

        def serve() -> int:
            done = 0
            while done < 2 * turns:
                head = database.read(lambda tx: read_head(tx, house.project, "ada"))
                if head is not None and head.status is HeadStatus.DISPATCHED:
                    house.write(lambda tx, head=head: finish(tx, head, house.ending(head)))  # type: ignore[misc]
                    done += 1
                elif all(sender.done() for sender in senders):
                    last = house.head()
                    if last.status is HeadStatus.IDLE:
                        break
            return done

        with ThreadPoolExecutor(3) as threads:
            senders = [threads.submit(send) for _ in range(2)]
            served = threads.submit(serve).result()
        assert served == 2 * turns
        assert house.count("state.agent_inbox", "status = 'queued'") == 0
        assert house.count("state.outbox", "kind = 'task'") == 2 * turns
