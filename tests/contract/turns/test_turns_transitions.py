"""Every transition of a head, driven from the table: what it does, and that a miss does nothing at all."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import pytest
from support.turns_house import OWNER, House

from afl.kernel.database import Transaction
from afl.kernel.errors import FencedError
from afl.turns.cardbox.boxes import box_info, read_box
from afl.turns.cardbox.card_store import save_result
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import ToolWait
from afl.turns.model import Head
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.transitions import BY_NAME
from afl.turns.statuses import CardType, HeadStatus, TaskStatus, WaitStatus
from afl.turns.store.heads import read_waiting
from afl.turns.transitions import (
    apply_result,
    enter_running,
    extend_wait,
    fail_turn,
    finish,
    next_step,
    note,
    record_timeouts,
    resume,
    stop_turn,
    suspend,
)

Act = Callable[[Transaction, Head], Any]


@dataclass(frozen=True)
class DiagnosticSnapshot:
    """A head, and the transition that is tried on it."""

    head: Head
    act: Act


def _entering(house: House) -> DiagnosticSnapshot:
    head = house.dispatched()
    return DiagnosticSnapshot(head, _enter(head.active_inbox_id or "", new_id("step")))


def _enter(inbox_id: str, step: str) -> Act:
    return lambda tx, head: enter_running(tx, head, inbox_id=inbox_id, owner=OWNER, step_id=step)


def _stepping(house: House) -> DiagnosticSnapshot:
    head, step = house.running(), new_id("step")
    card = house.card(head)
    return DiagnosticSnapshot(head, lambda tx, head: next_step(tx, head, step_id=step, cards=[card]))


def _noting(house: House) -> DiagnosticSnapshot:
    head = house.running()
    card = house.card(head)
    return DiagnosticSnapshot(head, lambda tx, head: note(tx, head, cards=[card]))


def _suspending(house: House) -> DiagnosticSnapshot:
    head, waits = house.running(), house.waits(3, subject=house.subject())
    card = house.card(head)
    return DiagnosticSnapshot(head, lambda tx, head: suspend(tx, head, waits=waits, cards=[card]))


def _applying(house: House) -> DiagnosticSnapshot:
    head, waits = house.suspended()
    assert house.report(head, waits[0]).accepted
    return DiagnosticSnapshot(house.head(), _apply(house, head, waits[0]))


def _apply(house: House, head: Head, wait: ToolWait) -> Act:
    card = house.write(lambda tx: save_result(tx, house.project, house.result_card(head, wait)))

    def act(tx: Transaction, head: Head) -> Any:
        return apply_result(
            tx, head, inbox_id=None, tool_call_id=wait.tool_call_id, tool_result_card_id=card.card_id
        )

    return act


def _extending(house: House) -> DiagnosticSnapshot:
    head, waits = house.suspended()
    call = waits[0].tool_call_id
    return DiagnosticSnapshot(
        head, lambda tx, head: extend_wait(tx, head, tool_call_id=call, deadline_ms=90_000)
    )


def _recording(house: House) -> DiagnosticSnapshot:
    return DiagnosticSnapshot(house.suspended()[0], record_timeouts)


def _resuming(house: House) -> DiagnosticSnapshot:
    head, waits = house.suspended(waits=house.waits(1))
    act = _apply(house, head, waits[0])
    applied = house.write(lambda tx: act(tx, head))
    step = new_id("step")
    return DiagnosticSnapshot(applied.head, lambda tx, head: resume(tx, head, owner=OWNER, step_id=step))


def _finishing(where: str) -> Callable[[House], DiagnosticSnapshot]:
    def scene(house: House) -> DiagnosticSnapshot:
        head = house.running() if where == "running" else house.suspended()[0]
        ending = house.ending(head, cards=[house.card(head)])
        return DiagnosticSnapshot(head, lambda tx, head: finish(tx, head, ending))

    return scene


def _stopping(where: str) -> Callable[[House], DiagnosticSnapshot]:
    return lambda house: DiagnosticSnapshot(
        _at(house, where), lambda tx, head: stop_turn(tx, head, reason="enough")
    )


def _failing(where: str) -> Callable[[House], DiagnosticSnapshot]:
    def act(tx: Transaction, head: Head) -> Any:
        return fail_turn(tx, head, error="broken", error_code="protocol_violation")

    return lambda house: DiagnosticSnapshot(_at(house, where), act)


def _at(house: House, where: str) -> Head:
    if where == "dispatched":
        return house.dispatched()
    return house.running() if where == "running" else house.suspended()[0]


CASES: dict[str, tuple[str, Callable[[House], DiagnosticSnapshot]]] = {
    "enter": ("T3", _entering),
    "step": ("T4", _stepping),
    "note": ("T4", _noting),
    "suspend": ("T5", _suspending),
    "apply": ("T6", _applying),
    "extend": ("T6", _extending),
    "record": ("T6", _recording),
    "resume": ("T7", _resuming),
    "finish suspended": ("T8", _finishing("suspended")),
    "finish running": ("T9", _finishing("running")),
    "stop dispatched": ("T10", _stopping("dispatched")),
    "stop running": ("T10", _stopping("running")),
    "stop suspended": ("T10", _stopping("suspended")),
    "fail dispatched": ("T11", _failing("dispatched")),
    "fail suspended": ("T13", _failing("suspended")),
}
# Cards and commands of one turn do not fit another: that is found before the fence is tried.
MISSES = (FencedError, ProtocolViolation)
STALE: dict[str, Callable[[Head], Head]] = {
    "an older epoch": lambda head: replace(head, turn_epoch=head.turn_epoch - 1),
    "a newer epoch": lambda head: replace(head, turn_epoch=head.turn_epoch + 1),
    "an older revision": lambda head: replace(head, revision=head.revision - 1),
    "a newer revision": lambda head: replace(head, revision=head.revision + 1),
    "another turn": lambda head: replace(head, active_agent_turn_id="turn_of_somebody_else"),
    "another agent": lambda head: replace(head, agent_id="bob"),
    "another project": lambda head: replace(head, project_id="p2"),
}


def test_the_table_names_a_case_for_every_transition_of_a_worker() -> None:
    driven = {name for name, _ in CASES.values()}
    others = {"T1", "T2", "T2u", "T12", "T14"}  # primitives: test_turns_primitives.py
    assert driven | others == set(BY_NAME)
    for name, scene in CASES.values():
        assert BY_NAME[name].function and callable(scene)


@pytest.mark.parametrize("case", CASES)
def test_a_transition_does_what_the_table_says(house: House, case: str) -> None:
    name, make = CASES[case]
    scene, transition = make(house), BY_NAME[name]
    assert scene.head.status in transition.sources
    house.write(lambda tx: scene.act(tx, scene.head))
    after = house.head()
    assert after.status == transition.target
    assert after.turn_epoch == scene.head.turn_epoch + transition.bump
    assert after.revision == scene.head.revision + 1
    if transition.ends:
        assert_ended(house, scene.head)
    else:
        assert after.active_agent_turn_id == scene.head.active_agent_turn_id
        assert house.count("state.outbox", "kind = 'task'") == 0


def assert_ended(house: House, before: Head) -> None:
    """One evt.task, whose deliverable is of this turn and in the output box; nothing is left of the turn."""
    box, turn = before.output_box_id or "", before.active_agent_turn_id or ""
    assert house.count("state.outbox", f"kind = 'task' and agent_turn_id = '{turn}'") == 1
    cards = [card for _, card in house.read(lambda tx: read_box(tx, house.project, box))]
    last = cards[-1]
    assert (last.type, last.agent_turn_id) == (CardType.TASK_DELIVERABLE, turn)
    assert (
        house.count("state.outbox", f"deliverable_card_id = '{last.card_id}' and output_box_id = '{box}'")
        == 1
    )
    assert house.count("state.turn_waiting_tools") == 0
    assert house.count("state.agent_state_pointers", f"last_output_box_id = '{box}'") == 1
    info = house.read(lambda tx: box_info(tx, house.project, box))
    assert info is not None and not info.held
    idle = house.head()
    assert (idle.active_agent_turn_id, idle.output_box_id, idle.owner) == (None, None, "")


@pytest.mark.parametrize("case", CASES)
def test_a_miss_has_no_side_effect(house: House, case: str) -> None:
    """As there is none, all kinds of misses can be tried in one place."""
    scene = CASES[case][1](house)
    before = house.dump()
    for stale, spoiled in STALE.items():
        with pytest.raises(MISSES):
            house.write(lambda tx, spoiled=spoiled: scene.act(tx, spoiled(scene.head)))
        assert house.dump() == before, stale


@pytest.mark.parametrize("case", CASES)
def test_the_same_again_has_no_side_effect(house: House, case: str) -> None:
    scene = CASES[case][1](house)
    house.write(lambda tx: scene.act(tx, scene.head))
    before = house.dump()
    with pytest.raises(FencedError):
        house.write(lambda tx: scene.act(tx, scene.head))
    assert house.dump() == before


ENDS = ("T8", "T9", "T10", "T11", "T13")  # an end is an end from wherever it comes, but there is none of idle
ELSEWHERE = [
    (case, status.value)
    for case, (name, _) in CASES.items()
    for status in HeadStatus
    if status.value not in BY_NAME[name].sources and (status is HeadStatus.IDLE or name not in ENDS)
]


@pytest.mark.parametrize(("case", "status"), ELSEWHERE)
def test_a_transition_from_another_state_has_no_side_effect(house: House, case: str, status: str) -> None:
    scene = CASES[case][1](house)
    house.write(lambda tx: fail_turn(tx, scene.head, error="over", error_code="stopped"))
    if status == HeadStatus.IDLE:
        idle = house.head()
        there = replace(scene.head, turn_epoch=idle.turn_epoch, revision=idle.revision)
    else:
        there = _at(house, status)
    before = house.dump()
    with pytest.raises(MISSES):
        house.write(lambda tx: scene.act(tx, there))
    assert house.dump() == before


def test_suspending_writes_everything_before_anything_is_published(house: House) -> None:
    scene = _suspending(house)
    house.write(lambda tx: scene.act(tx, scene.head))
    head = house.head()
    assert (head.waiting_tool_count, head.owner) == (3, "")
    waiting = house.read(lambda tx: read_waiting(tx, head))
    assert [wait.wait_status for wait in waiting] == [WaitStatus.WAITING] * 3
    first = min(wait.deadline for wait in waiting)
    assert head.resume_deadline is not None and first - 1000 <= head.resume_deadline <= first
    assert house.count("state.outbox", "kind = 'cmd' and sequence is null") == 3
    assert house.count("state.execution_edges", "primitive = 'tool_call' and edge_phase = 'request'") == 3


def test_results_are_applied_in_any_order_each_by_one_winner(house: House) -> None:
    head, waits = house.suspended(waits=house.waits(3))
    acts = {wait.tool_call_id: _apply(house, head, wait) for wait in waits}
    remaining = []
    for call in reversed(acts):
        now = house.head()
        remaining.append(house.write(lambda tx, call=call, now=now: acts[call](tx, now)).remaining)  # type: ignore[misc]
    assert remaining == [2, 1, 0]
    before, now = house.dump(), house.head()
    with pytest.raises(FencedError):
        house.write(lambda tx: acts[waits[0].tool_call_id](tx, now))
    assert house.dump() == before
    assert now.resume_deadline is None


def test_a_call_nobody_waits_for_is_not_applied(house: House) -> None:
    head, _ = house.suspended()
    stranger = house.waits(1)[0]
    act = _apply(house, head, stranger)
    before = house.dump()
    with pytest.raises(FencedError):
        house.write(lambda tx: act(tx, head))
    assert house.dump() == before


def test_a_turn_does_not_resume_while_something_is_waited_for(house: House) -> None:
    head, _ = house.suspended()
    before = house.dump()
    with pytest.raises(FencedError):
        house.write(lambda tx: resume(tx, head, owner=OWNER, step_id=new_id("step")))
    assert house.dump() == before


def test_the_deadline_is_that_of_the_calls_still_waited_for(house: House) -> None:
    waits = [*house.waits(1, deadline_ms=1000), *house.waits(1, deadline_ms=500_000)]
    head, _ = house.suspended(waits=waits)
    act = _apply(house, head, waits[0])
    after = house.write(lambda tx: act(tx, head)).head
    assert after.resume_deadline - (head.resume_deadline or 0) > 400_000


def test_an_end_dispatches_the_next_turn_in_the_same_transaction(house: House) -> None:
    head = house.running()
    second = house.enqueue()
    assert "turn_epoch" not in second.payload and not second.signals
    result = house.write(lambda tx: finish(tx, head, house.ending(head)))
    assert result.payload["dispatched"] == second.payload["agent_turn_id"]
    now = house.head()
    assert (now.status, now.turn_epoch) == (HeadStatus.DISPATCHED, head.turn_epoch + 1)
    assert [signal.subject.rsplit(".", 1)[1] for signal in result.signals] == ["wakeup"]


def test_a_stopped_turn_is_canceled_with_its_code(house: House) -> None:
    head = house.running()
    house.write(lambda tx: stop_turn(tx, head, reason="enough"))
    assert house.count("state.outbox", "kind = 'task' and status = 'canceled'") == 1
    assert house.count("state.outbox", """payload like '%"error_code":"stopped"%'""") == 1
    assert house.count("cardbox.cards", "type = 'agent.error'") == 1


@pytest.mark.parametrize("status", list(TaskStatus))
def test_every_status_of_an_end_is_told(house: House, status: TaskStatus) -> None:
    head = house.running()
    house.write(lambda tx: finish(tx, head, house.ending(head, status)))
    assert house.count("state.outbox", f"kind = 'task' and status = '{status}'") == 1
    assert_ended(house, head)
