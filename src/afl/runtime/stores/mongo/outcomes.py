"""Outcomes: how a task's work ends, each under its own fence, in one transaction.

Every document that decides (the step, the held task, the mark) is also written, so two finishers of one step meet in
a write conflict, and the second one, tried again, sees that it came late.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymongo import InsertOne, UpdateOne
from pymongo.database import Database

from afl.runtime.entities import AttemptDefinition, TaskDefinition, TaskState, ended_attempts
from afl.runtime.events import mark_of
from afl.runtime.persistence.changes import Outcome, leaves_word
from afl.runtime.persistence.topics import CANCEL_TOPIC, RUNS_TOPIC, logs_topic
from afl.runtime.states import StepState
from afl.runtime.stores.mongo.collections import Collections, literal
from afl.runtime.stores.mongo.connection import Document
from afl.runtime.stores.mongo.records import attribute_documents, event_document, failure_fields, map_value
from afl.runtime.stores.mongo.servers import append_logs, log_document
from afl.runtime.stores.mongo.tasks import UNTOLD, held_by_its_claim, still_elsewhere, write_attempts

_OPEN = [TaskState.PENDING, TaskState.RUNNING]
_CLAIM = ("state", "owner", "epoch", "hold", "via")


class OutcomeCollection(Collections):
    """`finish` and `close_tasks` of the TaskStore protocol."""

    def finish(self, outcomes: Sequence[Outcome]) -> list[bool]:
        if not outcomes:
            return []
        writes = [_Writes.of(outcome) for outcome in outcomes]

        def finish(database: Database[Document]) -> list[bool]:
            accepted = _accepted(database, outcomes)
            chosen = [each for each, good in zip(writes, accepted, strict=True) if good]
            if chosen:
                database.steps.bulk_write([each.step for each in chosen])
                database.events.bulk_write([each.mark for each in chosen])
                if signals := [one for each in chosen for one in each.signals]:
                    database.signals.bulk_write(signals)
                if tasks := [one for each in chosen for one in each.tasks]:
                    database.tasks.bulk_write(tasks)
                append_logs(database, [log for each in chosen for log in each.logs])
                write_attempts(database, [one for each in chosen for one in each.attempts])
                if told := [each.child for each in chosen if each.child]:
                    known = {"$set": {"parent_told": 1}}
                    database.runs.update_many({"uuid": {"$in": told}}, known)
            return accepted

        finished = self.connection.transaction(finish)
        if any(finished):
            self._notify([RUNS_TOPIC])
        self._notify(
            logs_topic(log.runner_id)
            for done, each in zip(finished, outcomes, strict=True)
            for log in each.logs
            if done
        )
        ended = [each.task for done, each in zip(finished, outcomes, strict=True) if done]
        self._notify(logs_topic(each.workflow_id) for each in ended_attempts(ended) if each.is_unsuccessful)
        if any(done and leaves_word(each) for done, each in zip(finished, outcomes, strict=True)):
            self._notify([CANCEL_TOPIC])
        return finished

    def close_tasks(self, tasks: Sequence[TaskDefinition]) -> list[bool]:
        if not tasks:
            return []
        writes = [closing(task) for task in tasks]

        def close(database: Database[Document]) -> list[bool]:
            stored = _found(database, "tasks", [each.uuid for each in tasks], *_CLAIM)
            held = [_is_held(task, stored) for task in tasks]
            chosen = [write for write, good in zip(writes, held, strict=True) if good]
            if chosen:
                database.tasks.bulk_write(chosen)
                closed = [task for task, good in zip(tasks, held, strict=True) if good]
                write_attempts(database, ended_attempts(closed))
            return held

        return self.connection.transaction(close)


@dataclass(frozen=True, slots=True)
class _Writes:
    """What one outcome writes, made before the transaction begins."""

    step: UpdateOne
    tasks: list[UpdateOne]
    mark: InsertOne[Document]
    logs: list[Document]
    attempts: list[AttemptDefinition]
    signals: list[UpdateOne]
    child: str

    @classmethod
    def of(cls, outcome: Outcome) -> _Writes:
        step = outcome.step
        returns = attribute_documents(step.attributes.returns, f"the result of step {step.id}")
        finished = {
            "state": step.state,
            "attributes.returns": returns,
            **failure_fields(step.transition.error),
            "request": step.transition.request_transition,
            "ended": step.ended,
        }
        return cls(
            UpdateOne({"uuid": step.id}, {"$set": finished}),
            [_closing(outcome)] if outcome.task is not None else [],
            InsertOne(event_document(mark_of(outcome))),
            [log_document(log) for log in outcome.logs],
            ended_attempts([outcome.task]),
            _receiving(outcome),
            outcome.child,
        )


def closing(task: TaskDefinition) -> UpdateOne:
    """The update that closes a task: the holder's under its epoch; without an owner, whoever has it."""
    if task.owner:
        process = {"started": task.started, "host": task.host, "pid": task.pid}
        return UpdateOne(held_by_its_claim(task), {"$set": {**_ending(task), **process}})
    held: Document = {"uuid": task.uuid, "state": {"$in": _OPEN}}
    return UpdateOne(held, [{"$set": {**literal(_ending(task)), "hold": UNTOLD}}])


def _closing(outcome: Outcome) -> UpdateOne:
    task = outcome.task
    assert task is not None
    if not outcome.elsewhere:
        return closing(task)
    bridge = map_value(task.bridge, f"the bridge of task {task.uuid}")
    return UpdateOne(still_elsewhere(task), {"$set": {**_ending(task), "bridge": bridge, "hold": ""}})


def _receiving(outcome: Outcome) -> list[UpdateOne]:
    if not outcome.signal_id or outcome.task is None:
        return []
    signal = {"workflow_id": outcome.step.workflow_id, "id": outcome.signal_id}
    return [UpdateOne(signal, {"$set": {"task_id": outcome.task.uuid}})]


def _ending(task: TaskDefinition) -> Document:
    return {
        "state": task.state,
        "updated": task.updated,
        "error": map_value(task.error, f"the error of task {task.uuid}"),
        "result": map_value(task.result, f"the result of task {task.uuid}"),
    }


def _accepted(database: Database[Document], outcomes: Sequence[Outcome]) -> list[bool]:
    """Which outcomes are still wanted: the step waits, nobody else ended its work, and the claim is held."""
    marks = [mark_of(each).id for each in outcomes]
    steps = _found(database, "steps", [each.step.id for each in outcomes], "state")
    ended = _found(database, "events", marks, "state")
    claims = [
        each.task.uuid for each in outcomes if each.task is not None and (each.task.owner or each.elsewhere)
    ]
    tasks = _found(database, "tasks", claims, *_CLAIM)
    accepted = []
    received: set[tuple[str, str]] = set()
    for outcome, mark in zip(outcomes, marks, strict=True):
        waiting = steps.get(outcome.step.id, {}).get("state") == StepState.EVENT_TRANSMIT
        good = waiting and mark not in ended and _is_there(outcome, tasks)
        signal = (outcome.step.workflow_id, outcome.signal_id)
        good = good and signal not in received and _is_unreceived(database, outcome)
        if good:
            ended[mark] = {}  # a second outcome for it in the same call comes late
            received |= {signal} if outcome.signal_id else set()
        accepted.append(good)
    return accepted


def _is_there(outcome: Outcome, tasks: dict[str, Document]) -> bool:
    if not outcome.elsewhere or outcome.task is None:
        return _is_held(outcome.task, tasks)
    stored, expected = tasks.get(outcome.task.uuid, {}), still_elsewhere(outcome.task)
    return all(stored.get(name) == value for name, value in expected.items())


def _is_unreceived(database: Database[Document], outcome: Outcome) -> bool:
    if not outcome.signal_id:
        return True
    signal = {"workflow_id": outcome.step.workflow_id, "id": outcome.signal_id, "task_id": ""}
    return database.signals.find_one(signal, {"_id": 1}) is not None


def _is_held(task: TaskDefinition | None, tasks: dict[str, Document]) -> bool:
    if task is None or not task.owner:
        return True
    stored = tasks.get(task.uuid, {})
    held = (stored.get("state"), stored.get("owner"), stored.get("epoch"))
    return held == (TaskState.RUNNING, task.owner, task.epoch)


def _found(
    database: Database[Document], collection: str, ids: Sequence[str], *fields: str
) -> dict[str, Document]:
    if not ids:
        return {}
    shown = {"uuid": 1, **dict.fromkeys(fields, 1)}
    found = database[collection].find({"uuid": {"$in": ids}}, shown)
    return {each["uuid"]: each for each in found}
