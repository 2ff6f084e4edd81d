"""Whatever happens to a task elsewhere, in whatever order: the store and a simple model agree."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass, replace
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from support.properties import tries

from afl.runtime.entities import RunDefinition, TaskDefinition, TaskHold, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import TaskFilter
from afl.runtime.persistence.changes import IterationChanges, Outcome
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

RUN, STEP, TASK = WorkflowId("run"), StepId("run/0/s"), "task"
NO = {"message": "no", "type": "AgentError"}
PENDING = ("elsewhere", "timeout", "paused")


@dataclass
class Model:
    """What is to be known of the task: where it stands, and whether the other side is still to be told of its end."""

    via: str
    stands: str = "elsewhere"
    epoch: int = 0
    failures: int = 0
    untold: bool = False
    marked: bool = False
    paused: bool = False
    over: bool = False

    @property
    def is_pending(self) -> bool:
        return self.stands in PENDING

    def end(self, stands: str, *, by_other_side: bool = False) -> None:
        self.stands, self.marked = stands, stands != "canceled"
        self.untold = not by_other_side and not self.via.startswith("human:")


class Elsewhere(RuleBasedStateMachine):
    """One task of one run, in everybody's hands."""

    @initialize(via=st.sampled_from(["agent:a", "fleet:f", "message:m", "human:h"]))
    def hand_out(self, via: str) -> None:
        self.store, self.model = MemoryStore(), Model(via)
        run = RunDefinition(RUN, "W", "hash", owner=self.store.owner_id, epoch=1)
        task = TaskDefinition(TASK, "F", "", RUN, "", STEP, via=via, hold=TaskHold.ELSEWHERE)
        changes = IterationChanges(run=run, new_run=True, created_tasks=[task])
        changes.add_created_step(self.step())
        self.store.commit(changes)
        self.seen = [self.task()]

    def teardown(self) -> None:
        if "store" in vars(self):
            self.store.close()

    def task(self) -> TaskDefinition:
        found = self.store.get_task(TASK)
        assert found is not None
        return found

    def step(self, error: str = "") -> StepDefinition:
        step = StepDefinition(STEP, ObjectType.VARIABLE_ASSIGNMENT, RUN, state=StepState.EVENT_TRANSMIT)
        step.change_state(StepState.EVENT_TRANSMIT)
        if error:
            step.mark_error(StepFailure(error))
        return step

    def read(self, data: Any) -> TaskDefinition:
        """The task as somebody read it, now or some time ago."""
        self.seen.append(self.task())
        return copy(data.draw(st.sampled_from(self.seen), label="as it was read"))

    def finish(self, task: TaskDefinition, state: str, *, elsewhere: bool = False) -> bool:
        task.state, task.owner = state, ""
        step = self.step("no" if state == TaskState.FAILED else "")
        return self.store.finish([Outcome(step, task, elsewhere)])[0]

    def still_there(self, read: TaskDefinition) -> bool:
        model = self.model
        return model.stands == "elsewhere" and (read.epoch, read.via) == (model.epoch, model.via)

    # -- what may happen --------------------------------------------------------------------------------------

    @rule(data=st.data(), state=st.sampled_from([TaskState.COMPLETED, TaskState.FAILED]))
    def the_other_side_ends_it(self, data: Any, state: str) -> None:
        read = self.read(data)
        expected = self.still_there(read)
        assert self.finish(read, state, elsewhere=True) is expected
        if expected:
            self.model.end(state, by_other_side=True)

    @rule(data=st.data())
    def it_is_tried_again(self, data: Any) -> None:
        read, model = self.read(data), self.model
        read.owner = ""
        expected = model.is_pending and read.epoch == model.epoch
        assert self.store.requeue(read, 0, NO) is expected
        if expected:
            model.epoch, model.failures = model.epoch + 1, model.failures + 1
            model.stands = "paused" if model.paused else "elsewhere"

    @rule()
    def its_time_is_up(self) -> None:
        if self.model.is_pending:
            self.store.save_task(replace(self.task(), deadline=1))
        self.store.reclaim()
        if self.model.stands == "elsewhere":
            self.model.stands, self.model.epoch = "timeout", self.model.epoch + 1

    @rule()
    def it_is_judged(self) -> None:
        late = self.store.find_tasks(TaskFilter(state=TaskState.PENDING, hold=TaskHold.TIMEOUT))
        assert [task.uuid for task in late] == ([TASK] if self.model.stands == "timeout" else [])
        for task in late:
            assert self.finish(task, TaskState.FAILED)
            self.model.end("failed")

    @rule()
    def an_operator_ends_it(self) -> None:
        model, expected = self.model, not self.model.marked and not self.model.over
        if model.over:
            return  # an operator is refused before it comes to the store
        assert self.finish(self.task(), TaskState.COMPLETED) is expected
        if expected:
            model.end("completed")

    @rule(data=st.data(), to=st.sampled_from(["human:boss", "human:h"]))
    def somebody_else_is_asked(self, data: Any, to: str) -> None:
        read = self.read(data)
        if not self.model.via.startswith("human:"):
            return
        expected = self.still_there(read)
        assert self.store.ask_next(read, to) is expected
        if expected:
            self.model.via = to

    @rule()
    def the_other_side_is_told(self) -> None:
        expected = self.model.untold and not self.model.is_pending
        assert self.store.told(self.task()) is expected
        self.model.untold = False

    @rule()
    def its_run_is_paused(self) -> None:
        expected = not self.model.over and not self.model.paused
        assert self.store.pause_run(RUN, "lunch") is expected
        self.model.paused = self.model.paused or expected

    @rule()
    def its_run_goes_on(self) -> None:
        expected = not self.model.over and self.model.paused
        assert self.store.unpause_run(RUN) is expected
        if expected:
            self.model.paused = False
            self.model.stands = "elsewhere" if self.model.stands == "paused" else self.model.stands

    @rule()
    def its_run_is_canceled(self) -> None:
        model = self.model
        assert self.store.cancel_run(RUN, "enough") is not model.over
        if model.is_pending:
            model.end("canceled")
            model.epoch += 1
        model.over, model.marked = True, False

    # -- what always holds ------------------------------------------------------------------------------------

    @invariant()
    def store_and_model_agree(self) -> None:
        if "store" not in vars(self):
            return
        model, task = self.model, self.task()
        assert (task.epoch, task.failures, task.via) == (model.epoch, model.failures, model.via)
        if model.is_pending:
            assert (task.state, task.hold) == (TaskState.PENDING, model.stands)
        else:
            assert task.state == model.stands
            assert task.hold == ("elsewhere" if model.untold else "")
        assert bool(self.store.get_marks(RUN)) is model.marked
        assert self.store.claim_tasks(["F"], limit=5, any_event=True) == []
        waits = self.store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via=model.via))
        assert [each.uuid for each in waits] == ([TASK] if model.stands == "elsewhere" else [])
        untold = self.store.ended_elsewhere(model.via.partition(":")[0])
        ended = model.untold and not model.is_pending
        assert [each.uuid for each in untold] == ([TASK] if ended else [])


TestElsewhere = Elsewhere.TestCase
TestElsewhere.settings = tries(60)
