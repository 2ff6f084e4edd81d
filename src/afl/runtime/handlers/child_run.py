"""`with Run(...)`: the run that a step starts instead of doing the work of a workflow itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.program import paths
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.policies import ChildRun
from afl.runtime.step import StepDefinition
from afl.runtime.types import WorkflowId

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext

DEEPEST = 100  # so many levels of child runs wait for one another
_UNSUCCESSFUL = (RunnerState.FAILED, RunnerState.CANCELED)


class ChildRunStart:
    """Starts the child run of a step."""

    def __init__(self, step: StepDefinition, context: ExecutionContext) -> None:
        self._step = step
        self._context = context

    def start(
        self, called: Declaration, child: ChildRun, payload: dict[str, Any], work_id: str
    ) -> RunDefinition:
        """The run, which the commit of the step stores; StepFailure if its id is in use, or if it is too deep."""
        run = self._earlier_run() or self._new_run(called, child, payload, work_id)
        run.parent_told = int(not child.wait)
        self._context.changes.created_runs.append(run)
        return run

    def _earlier_run(self) -> RunDefinition | None:
        """The run that the step started before it was retried, if that can still do the work."""
        if self._context.is_fresh(self._step.id):
            return None
        earlier = self._context.persistence.get_children(self._step.id)
        return next(
            (run for run in earlier if run.parent_step == self._step.id and run.state not in _UNSUCCESSFUL),
            None,
        )

    def _new_run(
        self, called: Declaration, child: ChildRun, payload: dict[str, Any], work_id: str
    ) -> RunDefinition:
        run = self._context.run
        if child.wait:
            self._check_depth()
        program = self._context.program.of_workflow(called.name)
        run_id = self._free_id(child.id) if child.id else work_id
        if self._context.store_program is not None:
            self._context.store_program(program)
        else:
            self._context.persistence.save_program(program.hash, program.text)
        return RunDefinition(
            workflow_id=run_id,
            workflow_name=called.name,
            program_hash=program.hash,
            state=RunnerState.CREATED,
            flow_id=run.flow_id if run is not None else "",
            task_list=child.task_list or (run.task_list if run is not None else "default"),
            inputs={field.name: payload[field.name] for field in called.params},
            created=self._context.now,
            updated=self._context.now,
            parent_step=self._step.id,
            on_parent_close=child.on_parent_close,
        )

    def _check_depth(self) -> None:
        """Runs that wait for one another are a recursion; a chain of runs that do not may go on forever."""
        above, depth = self._context.run, 1
        while above is not None and above.parent_step and not above.parent_told:
            above, depth = self._context.persistence.get_run(WorkflowId(above.parent)), depth + 1
            if depth > DEEPEST:
                raise StepFailure(f"{DEEPEST} child runs wait for one another already", "RecursionLimit")

    def _free_id(self, wanted: str) -> str:
        """The id that the workflow gives.

        It gets a number if its holder is of this step and cannot be retried, or of a run that this one repeats.
        """
        run_id, number = wanted, 0
        while True:
            stored = self._context.persistence.get_run(WorkflowId(run_id))
            new = any(run.workflow_id == run_id for run in self._context.changes.created_runs)
            if stored is None and not new and run_id != self._context.workflow_id:
                return run_id
            if stored is None or not self._replaces(stored):
                raise StepFailure(f"there is a run {run_id} already; a child run needs a new id", "RunExists")
            number += 1
            run_id = f"{wanted}-{number}"

    def _replaces(self, stored: RunDefinition) -> bool:
        """Whether the step does the work of that child once more: it was retried, or its run was started again."""
        if stored.parent_step == self._step.id:
            return True
        if not stored.parent or stored.parent == self._context.workflow_id:
            return False
        return self._place(stored.parent) == self._place(self._context.workflow_id)

    def _place(self, run_id: str) -> tuple[str, ...]:
        """Where the work of a run belongs: to the run that it repeats, directly or through others; to itself if none.

        The work of a child run belongs to its step, in the run to which that of its parent belongs.
        """
        seen: set[str] = set()
        steps: list[str] = []
        while run_id not in seen and len(steps) <= DEEPEST:
            seen.add(run_id)
            run = self._context.persistence.get_run(WorkflowId(run_id))
            if run is not None and run.source:
                run_id = run.source
            elif run is not None and run.parent:
                steps.append(paths.relative(run.parent_step, WorkflowId(run.parent)))
                run_id = run.parent
        return run_id, *steps
