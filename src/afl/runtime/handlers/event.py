"""state.EventTransmit: a step that calls an event facet asks the outside to do its work, and waits."""

from __future__ import annotations

from typing import Any

from afl.kernel.ids import sortable_id
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import StateHandler
from afl.runtime.persistence.changes import EventDefinition, PublishedValue
from afl.runtime.program import paths
from afl.runtime.program.built_in_steps import PUBLISH, TIMERS, published_name, set_timer
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.policies import policies_of
from afl.runtime.states import EventState
from afl.runtime.types import EventId


class EventTransmitHandler(StateHandler):
    """Creates an event and its task, which share one id; a plain facet passes through."""

    def process_state(self) -> StateChangeResult:
        called = self.context.declaration(self.step)
        if called is None or not called.is_event:
            return self.transition()
        payload = self._build_payload()
        if called.name == PUBLISH:
            self._publish(payload)
            return self.transition()
        work_id = sortable_id()
        task = self._task(work_id, called.task_data(payload))
        if called.name in TIMERS:
            set_timer(task)
            self.context.set_timer(task.deadline or self.context.now + task.timeout_ms)
        policies = policies_of(self.context.statement(self.step), called, payload, self._evaluation)
        if policies is not None:
            policies.apply(task)
            self._check_capability(task)
        mine = self.context.offer(task)
        self.context.changes.add_created_task(task)
        event = EventDefinition(
            id=EventId(work_id),
            step_id=self.step.id,
            workflow_id=self.step.workflow_id,
            state=EventState.PROCESSING if mine else EventState.CREATED,
            event_type=self.step.facet_name,
            payload=payload,
        )
        self.context.changes.add_created_event(event)
        self.context.begin_waiting(self.step)
        if self.context.telemetry.enabled:
            self.context.telemetry.log_event_published(self.step, work_id, event.event_type)
        return self.stay()

    def _publish(self, payload: dict[str, Any]) -> None:
        name = published_name(payload)
        self.context.changes.published[name] = PublishedValue(
            self.step.workflow_id, name, payload["value"], self.context.now
        )

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
