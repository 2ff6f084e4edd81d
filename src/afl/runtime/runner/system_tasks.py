"""Tasks of the system itself: `afl:execute` starts a run of a flow, `afl:resume` continues a step.

Agents of other languages and other faces leave them in the queue like any other task.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from copy import copy
from typing import Any

from afl.kernel.clock import wall_ms
from afl.kernel.error_text import error_text
from afl.kernel.errors import AgentFlowError, CorruptRow, InputError, StoreError
from afl.language.compiler import compile_source
from afl.runtime.entities import FlowDefinition, RunnerState, TaskDefinition, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.program.program import Program
from afl.runtime.stores.masking import error_record
from afl.runtime.types import StepId, WorkflowId

EXECUTE_TASK_NAME = "afl:execute"
RESUME_TASK_NAME = "afl:resume"

_log = logging.getLogger(__name__)


class SystemTasks:
    """Does them; `evaluate` goes on with a run."""

    names = (EXECUTE_TASK_NAME, RESUME_TASK_NAME)

    def __init__(self, evaluator: Evaluator, evaluate: Callable[[str], object]) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._evaluate = evaluate

    def do(self, task: TaskDefinition) -> bool:
        """Do one and close it; False if it failed."""
        closed = copy(task)
        try:
            if task.unreadable:
                raise CorruptRow(task.unreadable)
            closed.result = self._execute(task) if task.name == EXECUTE_TASK_NAME else self._resume(task)
            closed.state = TaskState.COMPLETED
        except StoreError:
            raise  # not its fault: it is tried again
        except Exception as error:  # whatever it is, it is this task's: the next one must be done
            closed.state = TaskState.FAILED
            closed.error = error_record(error_text(error), type(error).__name__)
            _log.warning("%s %s failed: %s", task.name, task.uuid, error)
        closed.updated = wall_ms()
        self._store.close_tasks([closed])
        return closed.state == TaskState.COMPLETED

    def _resume(self, task: TaskDefinition) -> dict[str, Any]:
        data = task.data or {}
        step_id = data.get("step_id") or task.step_id
        if not step_id:
            raise InputError("Resume task missing step_id")
        workflow_id = data.get("workflow_id") or task.workflow_id or step_id.partition("/")[0]
        continued = self._evaluator.continue_step(StepId(step_id), {})
        self._evaluate(workflow_id)
        return {"workflow_id": workflow_id, "continued": continued}

    def _execute(self, task: TaskDefinition) -> dict[str, Any]:
        data = task.data or {}
        runner_id = str(data.get("runner_id") or "")
        try:
            flow = self._flow(str(data.get("flow_id") or ""))
            program = _program(flow, str(data.get("workflow_name") or ""))
            # Its own id, so that a task delivered again starts no second run.
            workflow_id = self._evaluator.submit(
                program,
                data.get("inputs"),
                runner_id=runner_id,
                flow_id=flow.uuid,
                task_list=task.task_list_name,
                workflow_id=WorkflowId(f"run-{task.uuid}"),
            )
        except AgentFlowError:
            self._follow(runner_id, RunnerState.FAILED)
            raise
        self._follow(runner_id, RunnerState.RUNNING, workflow_id)
        self._evaluate(workflow_id)
        run = self._store.get_run(workflow_id)
        return {"status": run.state if run is not None else RunnerState.RUNNING, "workflow_id": workflow_id}

    def _flow(self, flow_id: str) -> FlowDefinition:
        flow = self._store.get_flow(flow_id)
        if flow is None:
            raise InputError(f"Flow '{flow_id}' not found")
        if not flow.compiled_sources:
            raise InputError(f"Flow '{flow_id}' has no compiled sources")
        return flow

    def _follow(self, runner_id: str, state: str, workflow_id: str = "") -> None:
        """Let the runner record say where its run stands."""
        runner = self._store.get_runner(runner_id) if runner_id else None
        if runner is None:
            return
        runner.state, runner.workflow_id = state, workflow_id or runner.workflow_id
        now = wall_ms()
        if state == RunnerState.RUNNING:
            runner.start_time = runner.start_time or now
        else:
            runner.end_time, runner.duration = now, now - (runner.start_time or now)
        self._store.save_runner(runner)


def _program(flow: FlowDefinition, workflow: str) -> Program:
    compiled = compile_source(flow.compiled_sources[0].content, name=flow.compiled_sources[0].name).program
    known = Program({"program": compiled}).workflows()
    full = [name for name in known if workflow in (name, name.rpartition(".")[2])]
    if len(full) != 1:
        raise InputError(f"Workflow '{workflow}' not found in flow '{flow.uuid}'; it has {', '.join(known)}")
    return Program({"program": compiled, "workflow": full[0]})
