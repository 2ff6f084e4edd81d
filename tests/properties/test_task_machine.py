"""The life of tasks under everybody at once: workers, sweeps and operators, in any order, against a simple model.

Never are two tasks of a step running; never are more tasks of a key open than its limit; a task ends once; epochs only
grow; and what a claim that is over has to say is refused.
"""

from __future__ import annotations

import tempfile
from copy import deepcopy
from dataclasses import dataclass, field

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from support.properties import tries

from afl.kernel.database import Query
from afl.runtime.entities import RunDefinition, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluation.outcome import failed
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.changes import EventDefinition, IterationChanges, Outcome
from afl.runtime.recovery.sweep import judge
from afl.runtime.sqlite_store import SqliteStore
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.sql_store.store import SqlStore
from afl.runtime.types import EventId, ObjectType, StepId, WorkflowId

RUNS = ("run-1", "run-2")
WORKERS = ("ann", "bob")
LIMITS = {"": 0, "small": 1, "large": 2}
LONG = 10**9
DEATHS = 3
OPEN = (TaskState.PENDING, TaskState.RUNNING)
ENDED = (TaskState.COMPLETED, TaskState.FAILED, TaskState.CANCELED, TaskState.IGNORED)
NO = {"message": "no", "type": "ValueError"}


def _statement(name: str, text: str) -> Query:
    return Query(name, sqlite=text, postgres=None)


_LEASES_END = _statement("leases_end", "update afl_tasks set lease_until = 1 where state = 'running'")
_TIME_IS_UP = _statement(
    "time_is_up", "update afl_tasks set deadline = 1 where state = 'running' and timeout_ms > 0"
)


@dataclass
class Known:
    """What the model knows of a task."""

    run: str
    step: str
    key: str
    state: str = TaskState.PENDING
    owner: str = ""
    epoch: int = 0
    last: TaskDefinition | None = None  # as it was when it ended


@dataclass
class Model:
    tasks: dict[str, Known] = field(default_factory=dict)
    paused: set[str] = field(default_factory=set)
    canceled: set[str] = field(default_factory=set)

    def of(self, run: str, *states: str) -> list[Known]:
        return [task for task in self.tasks.values() if task.run == run and task.state in states]


def takes_a_place(task: TaskDefinition) -> bool:
    """Of those that its key has: at work (also if its run was paused meanwhile), or free to be claimed."""
    return task.state == TaskState.RUNNING or (task.state == TaskState.PENDING and not task.hold)


class TaskMachine(RuleBasedStateMachine):
    """Everybody who touches tasks."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = tempfile.TemporaryDirectory(prefix="afl-")
        self.store = self.open()
        self.store.max_deliveries = DEATHS
        self.model = Model()
        self.claims: list[TaskDefinition] = []  # every one that there ever was
        self.steps = 0
        for run in RUNS:
            self.store.commit(IterationChanges(run=RunDefinition(run, "ns.W", "hash"), new_run=True))

    def open(self) -> SqlStore:
        return MemoryStore()

    def teardown(self) -> None:
        self.store.close()
        self.folder.cleanup()

    # -- what is there ----------------------------------------------------------------------------------------

    def stored(self, uuid: str) -> TaskDefinition:
        task = self.store.get_task(uuid)
        assert task is not None
        return task

    def all_stored(self) -> list[TaskDefinition]:
        return [task for run in RUNS for task in self.store.get_tasks_by_workflow(WorkflowId(run))]

    def is_held(self, claim: TaskDefinition) -> bool:
        known = self.model.tasks[claim.uuid]
        return (known.state, known.owner, known.epoch) == (TaskState.RUNNING, claim.owner, claim.epoch)

    def drawn_claim(self, data: st.DataObject) -> TaskDefinition:
        """Any claim; every other time one that its owner has lost and made anew, if there is one."""
        known = self.model.tasks
        anew = [
            claim
            for claim in self.claims
            if (known[claim.uuid].state, known[claim.uuid].owner) == (TaskState.RUNNING, claim.owner)
            and known[claim.uuid].epoch != claim.epoch
        ]
        claims = anew if anew and data.draw(st.booleans()) else self.claims
        return deepcopy(data.draw(st.sampled_from(claims)))

    @initialize(
        kinds=st.lists(
            st.tuples(st.sampled_from(RUNS), st.sampled_from(list(LIMITS)), st.booleans(), st.booleans()),
            min_size=4,
            max_size=10,
        )
    )
    def begin(self, kinds: list[tuple[str, str, bool, bool]]) -> None:
        """Something to do from the beginning, and somebody at it."""
        for run, key, timed, retries in kinds:
            self.create(run, key, 0, timed, retries)
        self.claim("ann", 4)

    # -- the evaluator ----------------------------------------------------------------------------------------

    @rule(
        run=st.sampled_from(RUNS),
        key=st.sampled_from(list(LIMITS)),
        priority=st.integers(-1, 1),
        timed=st.booleans(),
        retries=st.booleans(),
    )
    def create(self, run: str, key: str, priority: int, timed: bool, retries: bool) -> None:
        if run in self.model.paused | self.model.canceled:
            return
        self.steps += 1
        step = StepDefinition(
            id=StepId(f"{run}/s{self.steps}"),
            object_type=ObjectType.VARIABLE_ASSIGNMENT,
            workflow_id=WorkflowId(run),
            facet_name="ns.F",
        )
        step.change_state(StepState.EVENT_TRANSMIT)
        step.transition.commit()
        self._add(step, key, priority, timed, retries, fresh=True)

    @rule(data=st.data(), priority=st.integers(-1, 1))
    def create_another_for_a_step(self, data: st.DataObject, priority: int) -> None:
        waiting = [
            known
            for known in self.model.tasks.values()
            if known.state in OPEN and known.run not in self.model.paused
        ]
        if waiting:
            known = data.draw(st.sampled_from(waiting))
            step = self.store.get_step(StepId(known.step))
            assert step is not None
            self._add(step, "", priority, False, False, fresh=False)

    def _add(
        self, step: StepDefinition, key: str, priority: int, timed: bool, retries: bool, *, fresh: bool
    ) -> None:
        task = TaskDefinition(
            f"t{len(self.model.tasks)}", "ns.F", "", step.workflow_id, "", step.id, data={"n": 1}
        )
        task.concurrency_key, task.concurrency_limit, task.priority = key, LIMITS[key], priority
        task.timeout_ms = LONG if timed else 0
        if retries:
            task.retry = {"attempts": 2, "backoff": 0, "factor": 1.0, "max": 0, "on": []}
        changes = IterationChanges()
        if fresh:
            changes.add_created_step(step)
        changes.add_created_task(task)
        changes.add_created_event(
            EventDefinition(
                EventId(task.uuid), step.id, step.workflow_id, EventState.CREATED, "ns.F", {"n": 1}
            )
        )
        self.store.commit(changes)
        self.model.tasks[task.uuid] = Known(step.workflow_id, step.id, key)

    # -- workers ----------------------------------------------------------------------------------------------

    @rule(worker=st.sampled_from(WORKERS), limit=st.integers(1, 4))
    def claim(self, worker: str, limit: int) -> None:
        before = {task.uuid: task for task in self.all_stored()}
        claimed = self.store.claim_tasks(["F"], limit=limit, owner=worker, lease_ms=LONG)
        self.store.start_tasks(claimed)
        assert len(claimed) <= limit
        for task in claimed:
            known = self.model.tasks[task.uuid]
            assert known.state == TaskState.PENDING
            assert known.run not in self.model.paused | self.model.canceled
            assert task.epoch > known.epoch
            known.state, known.owner, known.epoch = TaskState.RUNNING, worker, task.epoch
            self.claims.append(task)
        order = [(-before[task.uuid].priority, int(task.uuid[1:])) for task in claimed]
        assert order == sorted(order)
        if len(claimed) < limit:
            self._nothing_was_passed_over(before)

    def _nothing_was_passed_over(self, before: dict[str, TaskDefinition]) -> None:
        """Whoever could have been claimed was."""
        for uuid, known in self.model.tasks.items():
            older = [
                other
                for name, other in self.model.tasks.items()
                if other.step == known.step and int(name[1:]) < int(uuid[1:]) and other.state in OPEN
            ]
            if (
                known.state == TaskState.PENDING
                and not known.key
                and known.run not in self.model.paused
                and not older
                and not self.model.tasks[uuid].owner
            ):
                running = [o for o in self.model.tasks.values() if o.step == known.step and o.owner]
                held = before[uuid].hold
                assert running or held, f"{uuid} could have been claimed"

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), good=st.booleans())
    def answer(self, data: st.DataObject, good: bool) -> None:
        """A worker answers for a claim, which it may have lost long ago."""
        claim = self.drawn_claim(data)
        known, held = self.model.tasks[claim.uuid], self.is_held(claim)
        step = self.store.get_step(StepId(known.step))
        assert step is not None
        waits = step.state == StepState.EVENT_TRANSMIT and not self._is_marked(known)
        before = self.stored(claim.uuid)
        done = self.store.finish([self._outcome(step, claim, good)])[0]
        assert done == (held and waits)
        if done:
            self._ends(claim.uuid, TaskState.COMPLETED if good else TaskState.FAILED)
        else:
            assert self.stored(claim.uuid) == before

    def _is_marked(self, known: Known) -> bool:
        marks = self.store.get_marks(WorkflowId(known.run))
        return any(mark.step_id == known.step for mark in marks)

    def _outcome(self, step: StepDefinition, claim: TaskDefinition, good: bool) -> Outcome:
        if not good:
            return failed(step, claim, "no", "ValueError")
        claim.state, claim.result = TaskState.COMPLETED, {"m": 1}
        step.set_attribute("m", 1, is_return=True)
        step.request_state_change(True)
        return Outcome(step, claim)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def requeue(self, data: st.DataObject) -> None:
        claim = self.drawn_claim(data)
        held = self.is_held(claim)
        assert self.store.requeue(claim, 0, NO) == held
        if held:
            self._comes_back(claim.uuid)
            assert self.stored(claim.uuid).failures == claim.failures + 1

    @precondition(lambda self: self.claims)
    @rule(data=st.data(), begun=st.booleans())
    def give_back(self, data: st.DataObject, begun: bool) -> None:
        claim = self.drawn_claim(data)
        held = self.is_held(claim)
        assert self.store.return_tasks([claim], begun=begun) == int(held)
        if held:
            self._comes_back(claim.uuid)

    @precondition(lambda self: self.claims)
    @rule(data=st.data())
    def renew(self, data: st.DataObject) -> None:
        claim = self.drawn_claim(data)
        assert self.store.renew_task(claim, LONG) == self.is_held(claim)
        mine = [
            (uuid, known.epoch)
            for uuid, known in self.model.tasks.items()
            if known.state == TaskState.RUNNING and known.owner == claim.owner
        ]
        assert sorted(self.store.renew(claim.owner, LONG)) == sorted(mine)

    @rule(worker=st.sampled_from(WORKERS), died=st.booleans())
    def leave(self, worker: str, died: bool) -> None:
        mine = [
            uuid
            for uuid, known in self.model.tasks.items()
            if known.state == TaskState.RUNNING and known.owner == worker
        ]
        assert self.store.release_tasks(worker, died=died) == len(mine)
        for uuid in mine:
            self._comes_back(uuid)
            if died and self.stored(uuid).deaths >= DEATHS:
                assert self.stored(uuid).hold == TaskHold.POISONED

    # -- sweeps -----------------------------------------------------------------------------------------------

    @rule()
    def leases_end(self) -> None:
        running = [u for u, known in self.model.tasks.items() if known.state == TaskState.RUNNING]
        self.store.database.atomic(_LEASES_END)
        assert self.store.reclaim() >= len(running)
        for uuid in running:
            self._comes_back(uuid)

    @rule()
    def time_is_up(self) -> None:
        late = [
            task.uuid for task in self.all_stored() if task.state == TaskState.RUNNING and task.timeout_ms
        ]
        self.store.database.atomic(_TIME_IS_UP)
        self.store.reclaim()
        for uuid in late:
            self._comes_back(uuid)
            assert self.stored(uuid).hold == TaskHold.TIMEOUT

    @rule()
    def judge(self) -> None:
        before = {t.uuid: t for t in self.all_stored() if t.hold in (TaskHold.POISONED, TaskHold.TIMEOUT)}
        judge(Evaluator(self.store))
        for uuid, old in before.items():
            task = self.stored(uuid)
            if task.state == TaskState.PENDING:
                assert (old.retry is not None, task.failures) == (True, old.failures + 1)
                self._comes_back(uuid)
            else:
                self._ends(uuid, TaskState.FAILED)

    @rule()
    def sweep(self) -> None:
        """After a sweep nobody waits for a key that has room."""
        self.store.reclaim()
        for key, limit in LIMITS.items():
            tasks = [task for task in self.all_stored() if key and task.concurrency_key == key]
            free = [task for task in tasks if takes_a_place(task)]
            waiting = [task for task in tasks if task.hold == TaskHold.CONCURRENCY]
            assert not waiting or len(free) == limit

    # -- operators --------------------------------------------------------------------------------------------

    @rule(run=st.sampled_from(RUNS))
    def pause(self, run: str) -> None:
        done = self.store.pause_run(WorkflowId(run), "later")
        assert done == (run not in self.model.paused | self.model.canceled)
        if done:
            self.model.paused.add(run)

    @rule(run=st.sampled_from(RUNS))
    def unpause(self, run: str) -> None:
        assert self.store.unpause_run(WorkflowId(run)) == (run in self.model.paused)
        self.model.paused.discard(run)

    @precondition(lambda self: len(self.model.tasks) > 6)
    @rule(run=st.sampled_from(RUNS))
    def cancel(self, run: str) -> None:
        done = self.store.cancel_run(WorkflowId(run), "enough")
        assert done == (run not in self.model.canceled)
        self.model.paused.discard(run)
        self.model.canceled.add(run)
        for uuid, known in self.model.tasks.items():
            if known.run == run and known.state in OPEN:
                self._ends(uuid, TaskState.CANCELED)

    # -- what follows -----------------------------------------------------------------------------------------

    def _comes_back(self, uuid: str) -> None:
        task, known = self.stored(uuid), self.model.tasks[uuid]
        assert (task.state, task.owner, task.lease_until, task.started) == (TaskState.PENDING, "", 0, 0)
        assert task.epoch >= known.epoch
        known.state, known.owner, known.epoch = TaskState.PENDING, "", task.epoch

    def _ends(self, uuid: str, state: str) -> None:
        task, known = self.stored(uuid), self.model.tasks[uuid]
        assert task.state == state
        known.state, known.last, known.owner = state, task, ""

    @invariant()
    def the_store_has_what_the_model_says(self) -> None:
        """All of it in one look: a look after each step is most of what the machine does."""
        tasks = self.all_stored()
        for task in tasks:
            known = self.model.tasks[task.uuid]
            assert task.state == known.state, task.uuid
            if known.state == TaskState.RUNNING:
                assert (task.owner, task.epoch) == (known.owner, known.epoch)
            if known.last is not None:
                assert task == known.last, "a task that ended was touched"
            assert task.epoch >= known.epoch
            if task.state == TaskState.PENDING and task.workflow_id in self.model.paused:
                assert task.hold, "a task of a paused run can be claimed"
        running = [task.step_id for task in tasks if task.state == TaskState.RUNNING]
        assert len(running) == len(set(running)), "two tasks of one step run"
        for key, limit in LIMITS.items():
            keyed = [task for task in tasks if key and task.concurrency_key == key]
            assert len([task for task in keyed if takes_a_place(task)]) <= limit, "a key is over its limit"


class FileMachine(TaskMachine):
    """The same on a file."""

    def open(self) -> SqlStore:
        return SqliteStore(f"sqlite:///{self.folder.name}/afl.db")


class TestTasksInMemory(TaskMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = tries(70, deep=120)


class TestTasksOnAFile(FileMachine.TestCase):  # type: ignore[misc, valid-type]
    settings = tries(15)
