"""state.EventTransmit: a step that calls an event facet asks the outside to do its work, and waits."""

from __future__ import annotations

from typing import Any

from afl.kernel.ids import sortable_id
from afl.runtime.entities import RunDefinition, RunnerState, TaskDefinition, TaskHold, TaskState, child_via
from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.state_change import StateChangeResult
from afl.runtime.handlers.base import StateHandler
from afl.runtime.persistence.changes import EventDefinition, PublishedValue
from afl.runtime.program import paths
from afl.runtime.program.block import MixinUse
from afl.runtime.program.built_in_steps import PUBLISH, TIMERS, published_name, set_timer
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.expression import EvaluationContext
from afl.runtime.program.policies import ChildRun, child_policies, child_run_of, policies_of
from afl.runtime.states import EventState
from afl.runtime.types import EventId, WorkflowId

DEEPEST = 100  # so many levels of child runs wait for one another
_UNSUCCESSFUL = (RunnerState.FAILED, RunnerState.CANCELLED)


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
        work_id = sortable_id()
        task = self._task(work_id, called.task_data(payload))
        if called.name in TIMERS:
            set_timer(task)
            self.context.set_timer(task.deadline or self.context.now + task.timeout_ms)
        policies = policies_of(self.context.statement(self.step), called, payload, self._evaluation)
        if policies is not None:
            policies.apply(task)
            self._check_capability(task)
        return self._wait_for(task, payload)

    def _wait_for(self, task: TaskDefinition, payload: dict[str, Any]) -> StateChangeResult:
        mine = self.context.offer(task)
        self.context.changes.add_created_task(task)
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

    def _publish(self, payload: dict[str, Any]) -> None:
        name = published_name(payload)
        self.context.changes.published[name] = PublishedValue(
            self.step.workflow_id, name, payload["value"], self.context.now
        )

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
        run = self._earlier_run() or self._new_run(called, child, payload, work_id)
        run.parent_told = int(not child.wait)
        self.context.changes.created_runs.append(run)
        if not child.wait:
            return self.transition()
        task = self._task(work_id, called.task_data(payload))
        task.via, task.hold = child_via(run.workflow_id), TaskHold.ELSEWHERE
        policies = policies_of(self.context.statement(self.step), called, payload, self._evaluation)
        child_policies(policies, task)
        return self._wait_for(task, payload)

    def _earlier_run(self) -> RunDefinition | None:
        """The run that the step started before it was retried, if that can still do the work."""
        if self.context.is_fresh(self.step.id):
            return None
        earlier = self.context.persistence.get_children(self.step.id)
        return next(
            (run for run in earlier if run.parent_step == self.step.id and run.state not in _UNSUCCESSFUL),
            None,
        )

    def _new_run(
        self, called: Declaration, child: ChildRun, payload: dict[str, Any], work_id: str
    ) -> RunDefinition:
        run = self.context.run
        if child.wait:
            self._check_depth()
        program = self.context.program.of_workflow(called.name)
        run_id = self._free_id(child.id) if child.id else work_id
        if self.context.store_program is not None:
            self.context.store_program(program)
        else:
            self.context.persistence.save_program(program.hash, program.text)
        return RunDefinition(
            workflow_id=run_id,
            workflow_name=called.name,
            program_hash=program.hash,
            state=RunnerState.CREATED,
            flow_id=run.flow_id if run is not None else "",
            task_list=child.task_list or (run.task_list if run is not None else "default"),
            inputs={field.name: payload[field.name] for field in called.params},
            created=self.context.now,
            updated=self.context.now,
            parent_step=self.step.id,
            on_parent_close=child.on_parent_close,
        )

    def _check_depth(self) -> None:
        """Runs that wait for one another are a recursion; a chain of runs that do not may go on for ever."""
        above, depth = self.context.run, 1
        while above is not None and above.parent_step and not above.parent_told:
            above, depth = self.context.persistence.get_run(WorkflowId(above.parent)), depth + 1
            if depth > DEEPEST:
                raise StepFailure(f"{DEEPEST} child runs wait for one another already", "RecursionLimit")

    def _free_id(self, wanted: str) -> str:
        """The id that the workflow gives, with a number if the step had a run of that id that cannot be retried."""
        run_id, number = wanted, 0
        while True:
            stored = self.context.persistence.get_run(WorkflowId(run_id))
            new = any(run.workflow_id == run_id for run in self.context.changes.created_runs)
            if stored is None and not new and run_id != self.context.workflow_id:
                return run_id
            if stored is None or stored.parent_step != self.step.id:
                raise StepFailure(
                    f"there is a run {run_id} already; a child run needs an id of its own", "RunExists"
                )
            number += 1
            run_id = f"{wanted}-{number}"

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
