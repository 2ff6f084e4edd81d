"""Why a step is not done that a person, an agent, the fleet or a message does."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated_store import CHAIN, HOUR, MINUTE, begin, serve, task_of

from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.operations.reason.reasons import Outlook
from afl.operations.reason.why import why
from afl.runtime.entities import LogDefinition, TaskDefinition, TaskHold
from afl.runtime.memory_store import MemoryStore


def chain(mixin: str) -> str:
    return CHAIN.replace("a = Double(n = $.n)", f"a = Double(n = $.n) with {mixin}")


def test_somebody_has_to_answer(store: MemoryStore) -> None:
    run = begin(store, chain('Human("finance")'))
    task = task_of(store, run)
    reason = why(store, run)
    assert [each.code for each in reason.chain] == ["run-waits", "step-waits-for-person", "task-human"]
    assert [each.sentence for each in reason.chain][1:] == [
        "it waits for someone in finance to answer t.Double.",
        "waiting for someone in finance.",
    ]
    assert (reason.outlook, reason.cause.action) == (
        Outlook.STANDS,
        f"Answer it: afl approvals show {task.uuid}",
    )


def test_a_signal_has_to_be_delivered(store: MemoryStore) -> None:
    run = begin(store, chain('Signal("it\'s done") with Timeout(hours = 4)'))
    reason = why(store, run)
    assert [each.code for each in reason.chain] == ["run-waits", "step-waits-for-signal", "task-signal"]
    assert [each.sentence for each in reason.chain][1:] == [
        "it waits for the signal it's done, whose value t.Double returns.",
        "it waits for the signal it's done; expires in 3 h 59 min.",
    ]
    assert (reason.outlook, reason.cause.action) == (
        Outlook.STANDS,
        f"Deliver it with: afl signal {run} 'it'\"'\"'s done' --input m=LONG",
    )


def test_until_when_and_who_is_asked_otherwise(store: MemoryStore) -> None:
    human = 'Human("finance", escalate_to = "boss", escalate_minutes = 90) with Timeout(hours = 4)'
    task = task_of(store, begin(store, chain(human)))
    assert why(store, task.uuid).sentence == (
        "waiting for someone in finance; boss is asked in 1 h 29 min; expires in 3 h 59 min."
    )
    store.save_task(replace(task, deadline=store.now() - MINUTE, lease_until=store.now() - MINUTE))
    late = "when a server is started: none is alive to see to it"
    assert why(store, task.uuid).sentence == (
        f"waiting for someone in finance; boss is asked {late}; expires {late}."
    )
    serve(store, "other")
    assert why(store, task.uuid).sentence.endswith("; expires at the next sweep.")


@pytest.mark.parametrize(
    ("mixin", "place", "kind"),
    [
        ('Agent("researcher")', "agent researcher", "agents"),
        ('Fleet("etl.daily")', "the fleet's workflow etl.daily", "the fleet"),
        ('Message("translator")', "a message to translator", "messages"),
    ],
)
def test_nobody_hands_it_over(store: MemoryStore, mixin: str, place: str, kind: str) -> None:
    run = begin(store, chain(f"{mixin} with Timeout(hours = 4)"))
    task = task_of(store, run)
    serve(store, "t.Double", "afl:execute")
    reason = why(store, run)
    assert [each.code for each in reason.chain] == ["run-waits", "step-waits-for-agent", "task-no-bridge"]
    assert (
        reason.cause.sentence
        == f"handed to {place}; no live server bridges to {kind}; expires in 3 h 59 min."
    )
    assert reason.outlook is Outlook.STANDS
    assert f"afl resume {run}" in reason.cause.action
    serve(store, f"afl:{task.via.partition(':')[0]}", silent_ms=5 * HOUR)
    assert why(store, run).cause.code == "task-no-bridge"
    serve(store, f"afl:{task.via.partition(':')[0]}", service_name="afl-runner", server_name="host-9")
    reason = why(store, run)
    assert (reason.cause.code, reason.outlook) == ("task-elsewhere", Outlook.MOVES)
    assert reason.cause.sentence == f"handed to {place} by afl-runner on host-9; expires in 3 h 59 min."


def test_what_a_bridge_could_not_begin_is_said(store: MemoryStore) -> None:
    run = begin(store, chain('Agent("researcher")'))
    task = task_of(store, run)
    serve(store, "afl:agent")
    store.save_log(note(task, waits="agent 'researcher' is not in the roster of main"))
    reason = why(store, task.uuid)
    assert (reason.code, reason.outlook) == ("task-not-begun", Outlook.STANDS)
    assert reason.sentence == (
        "agent researcher is unavailable: agent 'researcher' is not in the roster of main."
    )
    store.save_log(note(task))
    assert why(store, task.uuid).code == "task-elsewhere"


def test_a_run_of_the_fleet_that_no_agent_takes_is_said(store: MemoryStore) -> None:
    run = begin(store, chain('Fleet("etl.daily")'))
    task = task_of(store, run)
    serve(store, "afl:fleet", service_name="afl-runner", server_name="host-9")
    store.save_log(note(task, queued="run r1 waits: only agents of the reference are connected"))
    reason = why(store, run)
    assert (reason.cause.code, reason.outlook) == ("task-queued-elsewhere", Outlook.STANDS)
    assert reason.cause.sentence == (
        "handed to the fleet's workflow etl.daily by afl-runner on host-9; "
        "run r1 waits: only agents of the reference are connected."
    )
    assert "afl fleet agent" in reason.cause.action
    store.save_log(note(task))
    assert why(store, run).cause.code == "task-elsewhere"


def note(task: TaskDefinition, **details: str) -> LogDefinition:
    uuid = sortable_id()
    return LogDefinition(
        uuid, 0, task.workflow_id, task.step_id, object_id=task.uuid, details=details, time=wall_ms()
    )


def test_the_process_that_runs_the_workflow_may_hand_it_over(store: MemoryStore) -> None:
    run = begin(store, chain('Agent("researcher")'))
    assert store.take_run(run, lease_ms=HOUR) is not None  # type: ignore[arg-type]
    reason = why(store, task_of(store, run).uuid)
    assert reason.code == "task-elsewhere"
    assert reason.sentence.startswith("handed to agent researcher by ")
    assert reason.sentence.endswith(", which runs the workflow.")


def test_another_attempt_is_due(store: MemoryStore) -> None:
    task = task_of(store, begin(store, chain('Agent("researcher") with Retry(3)')))
    assert store.requeue(task, HOUR, {"message": "it was lost"})
    reason = why(store, task.uuid)
    assert reason.code == "task-delayed"
    assert "(attempt 2 of 3); it failed with: it was lost" in reason.sentence


def test_its_time_was_up(store: MemoryStore) -> None:
    task = task_of(store, begin(store, chain('Human("finance") with Timeout(hours = 3)')))
    store.save_task(replace(task, hold=TaskHold.TIMEOUT))
    reason = why(store, task.uuid)
    assert (reason.code, reason.sentence.partition(";")[0]) == (
        "task-timeout",
        "t.Double was not answered within its 3 h",
    )
