"""Attempts: a record for each delivery, stored by what ended it, whole or not at all."""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from dataclasses import replace
from typing import Any

import pytest
from store_records import (
    RUN,
    OpenStore,
    a_run,
    a_task,
    begin,
    begun,
    claimed,
    eventually,
    stored_run,
    stored_task,
    wait_outside,
)

from afl.kernel.errors import FencedError
from afl.runtime.entities import (
    KEPT_ATTEMPTS,
    AttemptDefinition,
    AttemptOutcome,
    NoteType,
    RunnerState,
    TaskDefinition,
    TaskState,
    close_attempt,
    in_order,
    own_attempt,
    retried,
)
from afl.runtime.evaluation.outcome import failed
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.types import StepId, WorkflowId

ERROR = {"message": "no\x00 luck", "type": "ValueError"}


def ended(task: TaskDefinition, error: dict[str, str] | None = None, **details: Any) -> TaskDefinition:
    """The task as its holder closes it."""
    closed = copy(task)
    closed.state = TaskState.COMPLETED if error is None else TaskState.FAILED
    closed.error, closed.updated = error, 77
    close_attempt(closed)
    if closed.attempt is not None:
        closed.attempt = replace(closed.attempt, **details)
    return closed


def outcomes(store: PersistenceAPI, task_id: str = "") -> list[tuple[int, str, str]]:
    return [(each.number, each.outcome, each.worker) for each in store.get_failed_attempts(RUN, task_id)]


def logged(store: PersistenceAPI) -> list[tuple[str, int, str]]:
    return [(each.note_type, each.attempt, each.message) for each in store.get_logs_by_runner(RUN)]


@pytest.mark.parametrize("by", ["commit", "close_tasks"])
def test_a_task_that_is_done_is_the_record_of_its_attempt(store: PersistenceAPI, by: str) -> None:
    run = begin(store)
    store.save_task(a_task(step_id="s", created=11))
    task = ended(begun(store))
    task.host, task.pid, task.started = "here", 12, 22
    if by == "commit":
        store.commit(IterationChanges(run=run, updated_tasks=[task]))
    else:
        assert store.close_tasks([task]) == [True]
    assert own_attempt(stored_task(store)) == AttemptDefinition(
        RUN, "t", 1, "s", "worker", "completed", host="here", pid=12, queued=11, started=22, ended=77
    )
    assert (store.get_failed_attempts(RUN), logged(store)) == ([], [])


def test_a_running_task_is_the_record_of_its_attempt(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s", created=11))
    assert own_attempt(stored_task(store)) is None
    task = begun(store)
    attempt = own_attempt(task)
    assert attempt is not None
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, "running", "worker")
    assert (attempt.queued, attempt.started, attempt.ended) == (11, task.started, 0)


def test_a_failed_attempt_keeps_its_traceback_and_is_in_the_log(store: PersistenceAPI) -> None:
    run = begin(store)
    store.save_task(a_task(step_id="s"))
    text = "Traceback\n  File ü\x00\nValueError: no"
    task = ended(begun(store), ERROR, traceback=text, location="/app/agents.py:7 in fetch", ended=33)
    store.commit(IterationChanges(run=run, updated_tasks=[task]))
    (attempt,) = store.get_failed_attempts(RUN)
    assert (attempt.outcome, attempt.error_type) == (AttemptOutcome.FAILED, "ValueError")
    assert attempt.error.startswith("no") and attempt.error.endswith(" luck")
    assert attempt.traceback.startswith("Traceback\n  File ü") and attempt.traceback.endswith(
        "ValueError: no"
    )
    (line,) = store.get_logs_by_runner(RUN)
    assert (line.note_type, line.attempt, line.step_id, line.object_id) == (NoteType.ERROR, 1, "s", "t")
    assert (line.file, line.line, line.time) == ("/app/agents.py", 7, 33)
    assert "attempt 1 failed: ValueError: no" in line.message
    assert "/app/agents.py:7 in fetch" in line.message


def test_a_refused_commit_stores_no_attempt(store: PersistenceAPI) -> None:
    begin(store)
    store.save_task(a_task(step_id="s"))
    task = ended(begun(store), ERROR)
    with pytest.raises(FencedError):
        store.commit(IterationChanges(run=a_run(epoch=9, owner=store.owner_id), updated_tasks=[task]))
    assert store.get_failed_attempts(RUN) == []
    assert logged(store) == []


def test_finish_stores_the_attempt_of_its_task(store: PersistenceAPI) -> None:
    wait_outside(store)
    task, step = begun(store), store.get_step(StepId("s"))
    assert step is not None
    late = copy(task)
    assert store.finish([failed(step, task, "no", "ValueError")]) == [True]
    again = store.get_step(StepId("s"))
    assert again is not None
    assert store.finish([failed(again, late, "no", "ValueError")]) == [False]
    assert outcomes(store) == [(1, "failed", "worker")]
    assert logged(store) == [(NoteType.ERROR, 1, "attempt 1 failed: ValueError: no")]


def test_a_task_of_no_step_has_attempts_too_and_they_go_with_it(store: PersistenceAPI) -> None:
    store.save_task(a_task(workflow_id=""))
    assert store.close_tasks([ended(begun(store), ERROR)]) == [True]
    assert [each.outcome for each in store.get_failed_attempts("", "t")] == ["failed"]
    assert store.get_logs_by_runner("") == []
    assert store.delete_tasks(100, 10) == 1
    assert store.get_failed_attempts("", "t") == []


def test_a_retry_is_queued_when_its_delay_is_over(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s", created=5))
    for _ in range(2):
        task = begun(store)
        assert store.requeue(retried(task, ERROR, 0), 0, ERROR)
        assert not store.requeue(retried(task, ERROR, 0), 0, ERROR)
    store.close_tasks([ended(begun(store))])
    last = own_attempt(stored_task(store))
    assert last is not None
    first, second, third = in_order([last, *store.get_failed_attempts(RUN)])
    assert [first.number, second.number, third.number] == [1, 2, 3]
    assert [first.outcome, second.outcome, third.outcome] == ["failed", "failed", "completed"]
    assert (first.queued, second.queued, third.queued) == (5, first.ended, second.ended)
    assert (first.retry_ms, third.retry_ms) == (0, None)
    assert store.get_failed_attempts(RUN) == [first, second]
    assert [number for _, number, _ in logged(store)] == [1, 2]


def died(store: PersistenceAPI) -> None:
    assert store.release_tasks("worker", died=True) == 1


def stopped(store: PersistenceAPI) -> None:
    assert store.release_tasks("worker", died=False) == 1


def returned(store: PersistenceAPI) -> None:
    assert store.return_tasks([stored_task(store)], begun=True) == 1


def canceled(store: PersistenceAPI) -> None:
    assert store.cancel_run(WorkflowId(RUN), "enough")


LOSSES = [
    (died, "died", "attempt 1 was lost: its worker died"),
    (stopped, "released", "attempt 1 was given back by a worker that stopped"),
    (returned, "released", "attempt 1 was given back by a worker that stopped"),
    (canceled, "canceled", "attempt 1 was canceled"),
]


@pytest.mark.parametrize(("lose", "outcome", "message"), LOSSES)
def test_an_attempt_that_its_worker_does_not_end_is_recorded_by_what_does(
    store: PersistenceAPI, lose: Callable[[PersistenceAPI], None], outcome: str, message: str
) -> None:
    begin(store)
    store.save_task(a_task(step_id="s"))
    started = begun(store).started
    lose(store)
    (attempt,) = store.get_failed_attempts(RUN)
    assert (attempt.number, attempt.outcome, attempt.worker) == (1, outcome, "worker")
    assert (attempt.step_id, attempt.started) == ("s", started)
    assert attempt.ended >= started > 0
    assert [(number, text) for _, number, text in logged(store)] == [(1, message)]


def test_an_expired_lease_ends_an_attempt(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s"))
    store.claim_task(["F"], owner="worker", lease_ms=1)
    eventually(lambda: store.reclaim())
    assert outcomes(store) == [(1, "expired", "worker")]
    assert logged(store) == [
        (NoteType.ERROR, 1, "attempt 1 was lost: its lease expired without being renewed")
    ]


def test_a_deadline_ends_an_attempt(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s", timeout_ms=1))
    begun(store)
    eventually(lambda: store.reclaim())
    (attempt,) = store.get_failed_attempts(RUN)
    assert (attempt.outcome, attempt.error_type, attempt.error) == (
        AttemptOutcome.FAILED,
        "Timeout",
        "not done after 1 ms",
    )


def test_the_process_of_a_worker_that_is_known_is_recorded(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s"))
    begun(store, store.owner_id)
    store.release_tasks(store.owner_id, died=True)
    (attempt,) = store.get_failed_attempts(RUN)
    assert f"process {attempt.pid} on {attempt.host}" in store.describe(store.owner_id)


def test_what_was_given_back_before_it_began_was_no_attempt(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s"))
    assert store.return_tasks([claimed(store)]) == 1
    assert store.get_failed_attempts(RUN) == []
    assert claimed(store).deliveries == 1


def test_of_many_attempts_the_first_and_the_newest_are_kept(store: PersistenceAPI) -> None:
    store.save_task(a_task(step_id="s"))
    last = KEPT_ATTEMPTS + 4
    for _ in range(last):
        task = claimed(store)
        assert store.requeue(retried(task, ERROR, 0), 0, ERROR)
    numbers = [each.number for each in store.get_failed_attempts(RUN, "t")]
    assert numbers == [1, *range(last - KEPT_ATTEMPTS + 1, last + 1)]


def test_attempts_go_with_their_run(store: PersistenceAPI) -> None:
    for run in (RUN, WorkflowId("other")):
        begin(store, run)
        store.save_task(a_task(f"task-{run}", workflow_id=run, step_id=f"s-{run}"))
        store.close_tasks([ended(begun(store), ERROR)])
    gone = stored_run(store)
    gone.state, gone.ended, gone.owner = RunnerState.FAILED, 100, ""
    store.commit(IterationChanges(run=gone))
    assert store.delete_runs(200, 10) == 1
    assert store.get_failed_attempts(RUN) == []
    assert len(store.get_failed_attempts("other")) == 1


def test_attempts_of_one_task_and_of_the_first_tasks_that_have_any(open_store: OpenStore) -> None:
    store = open_store()
    for uuid in ("a", "b", "c"):
        store.save_task(a_task(uuid, step_id=f"s-{uuid}"))
        store.close_tasks([ended(begun(store), None if uuid == "b" else ERROR)])
    assert [each.task_id for each in store.get_failed_attempts(RUN)] == ["a", "c"]
    assert [each.task_id for each in store.get_failed_attempts(RUN, "c")] == ["c"]
    assert store.get_failed_attempts(RUN, "b") == []
    assert [each.task_id for each in store.get_failed_attempts(RUN, limit=1)] == ["a"]
