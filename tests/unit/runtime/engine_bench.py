"""An evaluator on a store, with one workflow at a time on it."""

from __future__ import annotations

from typing import Any

from runtime_programs import Ast, compiled, workflow_of

from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.memory_store import MemoryStore
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import WorkflowId


class Engine:
    """Runs workflows and remembers the last one, so that it can be resumed."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.telemetry = Telemetry()
        self.evaluator = Evaluator(store, self.telemetry)
        self.workflow: Ast = {}
        self.program: Ast | None = None
        self.run_id = WorkflowId("")

    def run(self, source: str, inputs: dict[str, Any] | None = None, *, name: str = "") -> ExecutionResult:
        """Compile AFL text and execute a workflow of it."""
        program = compiled(source)
        return self.run_ast(workflow_of(program, name), inputs, program)

    def run_ast(
        self, workflow: Ast, inputs: dict[str, Any] | None = None, program: Ast | None = None, **options: Any
    ) -> ExecutionResult:
        """Execute a workflow given as compiled JSON."""
        self.workflow, self.program = workflow, program
        result = self.evaluator.execute(workflow, inputs, program, **options)
        self.run_id = result.workflow_id
        return result

    def resume(self) -> ExecutionResult:
        """Resume the last run."""
        return self.evaluator.resume(self.run_id, self.workflow, self.program)

    @property
    def waiting(self) -> list[StepDefinition]:
        """The steps of the last run at EventTransmit."""
        steps = self.store.get_steps_by_state(StepState.EVENT_TRANSMIT)
        return [step for step in steps if step.workflow_id == self.run_id]

    @property
    def tasks(self) -> list[TaskDefinition]:
        """The tasks of the last run."""
        return self.store.get_tasks_by_workflow(self.run_id)

    def step(self, name: str) -> StepDefinition:
        """The only step of the last run whose id ends with a statement's name."""
        steps = self.store.get_steps_by_workflow(self.run_id)
        (found,) = [step for step in steps if step.id.rpartition("/")[2] == name]
        return found

    def answer(self, **result: Any) -> ExecutionResult:
        """Continue the one waiting step and resume."""
        (step,) = self.waiting
        self.evaluator.continue_step(step.id, result)
        return self.resume()
