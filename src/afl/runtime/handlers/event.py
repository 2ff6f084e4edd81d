"""state.EventTransmit: a step that calls an event facet asks the outside to do its work, and waits."""

from __future__ import annotations

from typing import Any

from afl.kernel.ids import sortable_id
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState, child_via
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import StateHandler
from afl.runtime.handlers.child_run import ChildRunStart
from afl.runtime.persistence.changes import EventDefinition, PublishedValue
from afl.runtime.persistence.history import HistoryEvent, HistoryKind
from afl.runtime.program import paths
from afl.runtime.program.block import MixinUse
from afl.runtime.program.built_in_steps import PUBLISH, TAG, TIMERS, published_name, set_timer, tagged
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.policies import child_policies, child_run_of, policies_of
from afl.runtime.states import EventState
from afl.runtime.types import EventId


class EventTransmitHandler(StateHandler):
    """Creates an event and its task, which share one id; a plain facet passes through."""

    def process_state(self) -> StateChangeResult:
        called = self.context.declaration(self.step)
        if called is None or not called.is_event:
            use = self._child_run(called)
            return self.transition() if called is None or use is None else self._start_run(called, use)
        payload = self._build_payload()
        if called.name == PUBLISH:
            self._publish(payload)
            return self.transition()
        if called.name == TAG:
            self._tag(payload)
            return self.transition()
        work_id = sortable_id()
        task = self._task(work_id, called.task_data(payload))
        if called.name in TIMERS:
            set_timer(task)
            self.context.set_timer(task.deadline or self.context.now + task.timeout_ms)
            return self._wait_for(task, payload)
        policies = policies_of(self.context.statement(self.step), called, payload, self._evaluation)
        if policies is not None:
            policies.apply(task)
            self._check_capability(task)
        return self._wait_for(task, payload)

    def _wait_for(self, task: TaskDefinition, payload: dict[str, Any]) -> StateChangeResult:
        mine = self.context.offer(task)
        self.context.changes.add_created_task(task)
        self._add_to_history(task)
        event = EventDefinition(
            id=EventId(task.uuid),
            step_id=self.step.id,
            workflow_id=self.step.workflow_id,
            state=EventState.PROCESSING if mine else EventState.CREATED,
            event_type=self.step.facet_name,
            payload=payload,
        )
        self.context.changes.add_created_event(event)
        self.context.begin_waiting(self.step)
        if self.context.telemetry.enabled:
            self.context.telemetry.log_event_published(self.step, task.uuid, event.event_type)
        return self.stay()

    def _add_to_history(self, task: TaskDefinition) -> None:
        waits_for = task.via or (task.hold if task.hold == TaskHold.TIMER else "")
        kind = HistoryKind.STEP_WAITING if waits_for else HistoryKind.STEP_STARTED
        path = paths.relative(self.step.id, self.context.workflow_id)
        event = HistoryEvent(kind, self.context.now, path, self.step.facet_name, waits_for)
        self.context.changes.history.append(event)

    def _publish(self, payload: dict[str, Any]) -> None:
        name = published_name(payload)
        self.context.changes.published[name] = PublishedValue(
            self.step.workflow_id, name, payload["value"], self.context.now
        )

    def _tag(self, payload: dict[str, Any]) -> None:
        run = self.context.run
        if run is not None:  # without one nobody could find it
            run.tags = tagged(run.tags, payload)
            self.context.changes.tags[payload["name"]] = payload["value"]

    # -- child runs -------------------------------------------------------------------------------------------

    def _child_run(self, called: Declaration | None) -> MixinUse | None:
        """The mixin by which what is called is a run of its own."""
        if called is None or not called.is_workflow:
            return None
        statement = self.context.statement(self.step)
        return statement.child_run if statement is not None else None

    def _start_run(self, called: Declaration, use: MixinUse) -> StateChangeResult:
        """Start the child run in the commit that creates its task; the step goes on if it does not wait."""
        child, payload = child_run_of(use, self._evaluation()), self._build_payload()
        work_id = sortable_id()
        run = ChildRunStart(self.step, self.context).start(called, child, payload, work_id)
        if not child.wait:
            return self.transition()
        task = self._task(work_id, called.task_data(payload))
        task.via, task.hold = child_via(run.workflow_id), TaskHold.ELSEWHERE
        policies = policies_of(self.context.statement(self.step), called, payload, self._evaluation)
        child_policies(policies, task)
        return self._wait_for(task, payload)

    def _task(self, work_id: str, data: dict[str, Any]) -> TaskDefinition:
        run = self.context.run
        return TaskDefinition(
            uuid=work_id,
            name=self.step.facet_name,
            runner_id=self.context.runner_id,
            workflow_id=self.step.workflow_id,
            flow_id=run.flow_id if run is not None else "",
            step_id=self.step.id,
            state=TaskState.PENDING,
            created=self.context.now,
            updated=self.context.now,
            task_list_name=run.task_list if run is not None else "default",
            data=data,
        )

    def _evaluation(self) -> EvaluationContext:
        return self.context.frame(paths.parent(self.step.id)).evaluation(self.step.id)

    def _check_capability(self, task: TaskDefinition) -> None:
        if task.concurrency_key and "concurrency" not in self.context.persistence.capabilities:
            policy = "Rate" if task.per_minute else "Concurrency"
            raise StepFailure(
                f"{policy}: this store has no concurrency keys; SQLite and PostgreSQL have", "BadPolicy"
            )

    def _build_payload(self) -> dict[str, Any]:
        return {name: attribute.value for name, attribute in self.step.attributes.params.items()}
