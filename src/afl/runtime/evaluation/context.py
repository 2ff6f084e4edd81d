"""The state of one invocation of the evaluator: the run's steps in memory, what changed, and what to look at next."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from afl.kernel.clock import wall_ms
from afl.runtime.entities import RunDefinition, TaskDefinition, TaskState
from afl.runtime.errors import EvaluationError
from afl.runtime.evaluation.failure import locate
from afl.runtime.evaluation.frame import Frame
from afl.runtime.evaluation.step_memory import StepMemory
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.persistence.history import LONGEST_DETAIL, HistoryEvent, HistoryKind
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import ObjectType, StepId, WorkflowId


@dataclass
class ExecutionContext(StepMemory):
    """Everything mutable of one `execute` or `resume`; never shared between invocations.

    `arrivals` are steps to process in this iteration, `agenda` those to look at in the next one, `inbox` what the
    children of a step reported to it.
    """

    persistence: PersistenceAPI
    telemetry: Telemetry
    changes: IterationChanges
    workflow_id: WorkflowId
    workflow_ast: dict[str, Any] | None = None
    workflow_defaults: dict[str, Any] = field(default_factory=dict)
    program_ast: dict[str, Any] | None = None
    runner_id: str = ""
    program: Program = field(default_factory=lambda: Program({}))
    run: RunDefinition | None = None
    serves: Callable[[TaskDefinition], bool] | None = None
    store_program: Callable[[Program], None] | None = None
    foreach_window: int = 256

    arrivals: deque[StepDefinition] = field(default_factory=deque)
    agenda: dict[StepId, None] = field(default_factory=dict)
    inbox: dict[StepId, list[StepDefinition]] = field(default_factory=dict)
    claimed: list[TaskDefinition] = field(default_factory=list)
    now: int = field(default_factory=wall_ms)
    timer_at: int = 0  # when the first timer that was set here is over, about (wall clock, ms); 0 without any

    emptied: int = 0
    _log_order: int = 0
    _steps: dict[StepId, StepDefinition] = field(default_factory=dict)
    _fresh: set[StepId] = field(default_factory=set)
    _frames: dict[StepId, Frame] = field(default_factory=dict)
    _removed: set[StepId] = field(default_factory=set)

    def __post_init__(self) -> None:
        if not self.program.compiled and (self.workflow_ast or self.program_ast):
            self.program = Program({"program": self.program_ast, "workflow": self.workflow_ast})

    # -- steps ------------------------------------------------------------------------------------------------

    def create_step(
        self,
        step_id: StepId,
        object_type: str,
        *,
        statement: StatementDefinition | None = None,
        owner_id: StepId | None = None,
        owner_type: str | None = None,
        facet_name: str = "",
    ) -> StepDefinition:
        """A new step, to be processed in this iteration. A block also notes the type of its owner."""
        step = StepDefinition(
            id=step_id,
            object_type=object_type,
            workflow_id=self.workflow_id,
            statement_id=statement.id if statement is not None else None,
            container_type=owner_type,
            container_id=owner_id,
            block_id=paths.block(step_id)
            if statement is not None and object_type != ObjectType.FACET
            else None,
            root_id=StepId(self.workflow_id) if owner_id is not None else None,
            facet_name=facet_name,
            started=self.now,
        )
        self._steps[step_id] = step
        self._fresh.add(step_id)
        self.changes.add_created_step(step)
        self.arrivals.append(step)
        if self.telemetry.enabled:
            self.telemetry.log_step_created(step)
        return step

    def set_timer(self, at: int) -> None:
        """A step sleeps until about this time."""
        self.timer_at = min(self.timer_at, at) if self.timer_at else at

    def take_timer(self) -> int | None:
        """In how many milliseconds the first timer that was set since the last call is over."""
        at, self.timer_at = self.timer_at, 0
        return at - wall_ms() if at else None

    # -- who looks at what, when ------------------------------------------------------------------------------

    def wake(self, step_id: StepId) -> None:
        """Look at a step in the next iteration."""
        self.agenda[step_id] = None

    def report(self, step: StepDefinition) -> None:
        """A step is over: tell the one that waits for it, which acts in the next iteration."""
        step.ended = self.now
        if step.object_type == ObjectType.VARIABLE_ASSIGNMENT:
            self.changes.history.append(self._end_of(step))
        waiting = paths.parent(step.id)
        if waiting:
            self.inbox.setdefault(waiting, []).append(step)
            self.agenda[waiting] = None

    def _end_of(self, step: StepDefinition) -> HistoryEvent:
        path = paths.relative(step.id, self.workflow_id)
        if step.is_complete:
            return HistoryEvent(HistoryKind.STEP_COMPLETED, self.now, path, step.facet_name)
        error = str(step.transition.error or "")[:LONGEST_DETAIL]
        return HistoryEvent(HistoryKind.STEP_FAILED, self.now, path, step.facet_name, error)

    def begin_children(self, step: StepDefinition, count: int) -> None:
        """Count a step's children anew: it is about to open that many."""
        step.progress = BlockProgress(total=count, opened=count, active=count)

    def settle_children(self, step: StepDefinition) -> list[StepDefinition]:
        """Count what the children of a step reported; the first failure is kept on the step itself."""
        reports = self.inbox.pop(step.id, [])
        progress = step.progress
        if reports and progress is not None:
            self.changes.touch(step)
            for child in reports:
                progress.active -= 1
                if child.is_complete:
                    progress.complete += 1
                else:
                    progress.errored += 1
                    self._keep_first_error(step, progress, child)
        return reports

    def _keep_first_error(self, step: StepDefinition, progress: BlockProgress, child: StepDefinition) -> None:
        """Of several failures the first in program order counts, whichever came first in time."""
        place = self._order_of(child)
        if progress.error_at < 0 or place < progress.error_at:
            progress.error_at = place
            step.transition.error = child.transition.error

    def _order_of(self, child: StepDefinition) -> int:
        segment = paths.key(child.id)
        if paths.is_block(segment):
            return int(segment.lstrip("#?!") or 0)
        statement = self.statement(child)
        return statement.order if statement is not None else 0

    # -- the program ------------------------------------------------------------------------------------------

    def frame(self, block_id: StepId) -> Frame:
        """The block in memory."""
        found = self._frames.get(block_id)
        if found is None:
            graph = self.program.place(paths.relative(block_id, self.workflow_id)).graph
            if graph is None:
                raise EvaluationError(
                    block_id, "the program has no such block; was the run started with another one?"
                )
            found = self._frames[block_id] = Frame(self, block_id, graph)
        return found

    def statement(self, step: StepDefinition) -> StatementDefinition | None:
        """The statement a step stands for; None for the root and for blocks."""
        return self.program.place(paths.relative(step.id, self.workflow_id)).statement

    def get_statement_definition(self, step: StepDefinition) -> StatementDefinition | None:
        """The same; None also for a step that the program does not have."""
        try:
            return self.statement(step)
        except LookupError:
            return None

    def phases(self, step: StepDefinition) -> tuple[bool, bool]:
        """Whether a step has mixins to run, and whether it has blocks to run or returns to fill in."""
        return self.program.phases(self.statement(step), self.declaration(step))

    def declaration(self, step: StepDefinition) -> Declaration | None:
        """What a step calls; None for an undeclared facet."""
        if step.id == StepId(self.workflow_id):
            return self.program.workflow
        return self.program.declarations.get(step.facet_name)

    def get_facet_definition(self, facet_name: str) -> dict[str, Any] | None:
        """The compiled JSON of a facet, or None."""
        found = self.program.declaration(facet_name)
        return dict(found.ast) if found is not None else None

    def resolve_qualified_name(self, short_name: str) -> str:
        """The full name of a facet."""
        return self.program.full_name(short_name)

    def get_workflow_ast(self) -> dict[str, Any] | None:
        """The compiled JSON of the workflow."""
        return self.workflow_ast if self.workflow_ast is not None else dict(self.program.workflow.ast)

    def get_workflow_root(self) -> StepDefinition | None:
        """The root step."""
        return self.step(StepId(self.workflow_id))

    def get_block_graph(self, block_id: StepId) -> DependencyGraph:
        """The graph of a block."""
        return self.frame(block_id).graph

    def set_block_graph(self, block_id: StepId, graph: DependencyGraph) -> None:
        """Use a graph for a block in place of the program's."""
        self._frames[block_id] = Frame(self, block_id, graph)

    def get_block_ast(self, block_step: StepDefinition) -> dict[str, Any] | None:
        """The compiled JSON of a block, or None for a step that is none, or that the program does not have."""
        try:
            graph = self.program.place(paths.relative(block_step.id, self.workflow_id)).graph
        except LookupError:
            return None
        return graph.ast if graph is not None and block_step.is_block else None

    def get_completed_step_by_name(self, name: str, block_id: StepId) -> StepDefinition | None:
        """The completed step of that name in a block, or None."""
        step = self.step(paths.child(block_id, name))
        return step if step is not None and step.is_complete else None

    # -- failure ----------------------------------------------------------------------------------------------

    def fail(self, step: StepDefinition, error: Exception, during: str = StepState.EVENT_TRANSMIT) -> None:
        """A step failed in a state: enter its catch block if it has one and was not in it, else end it."""
        failure = locate(error, step, self.program)
        self.changes.touch(step)
        if not step.is_block and not during.startswith("state.statement.catch"):
            graph = self.program.catch_of(self.statement(step))
            if graph is not None and step.object_type != ObjectType.YIELD_ASSIGNMENT:
                step.set_attribute("error", failure.message, is_return=True)
                step.set_attribute("error_type", failure.error_type, is_return=True)
                step.transition.error = None
                step.change_state(StepState.STATEMENT_CATCH_BEGIN)
                self.wake(step.id)
                return
        step.mark_error(failure)
        self.report(step)

    # -- outside work -----------------------------------------------------------------------------------------

    def offer(self, task: TaskDefinition) -> bool:
        """Keep a new task for this process if it serves it: the task is born claimed, in the same commit."""
        if self.serves is None or task.concurrency_key or task.via or not self.serves(task):
            return False
        task.state = TaskState.RUNNING
        task.owner = self.persistence.owner_id
        task.epoch = task.deliveries = 1
        task.started = self.now
        self.claimed.append(task)
        return True

    def begin_waiting(self, step: StepDefinition) -> None:
        """A step came to EventTransmit; so no repeat that it stands in goes round idle."""
        self.waiting_changed(+1)
        for repeat, progress, _ in self._repeats_around(step.id):
            if progress.idle:
                progress.idle = 0
                self.changes.touch(repeat)

    def was_removed(self, step_id: StepId) -> bool:
        """Whether a step stood in an iteration of a repeat that is no longer in the store."""
        return any(number < progress.kept.start for _, progress, number in self._repeats_around(step_id))

    def _repeats_around(self, step_id: StepId) -> Iterator[tuple[StepDefinition, BlockProgress, int]]:
        """The repeats that a step stands in, with their progress and the number of its iteration."""
        for path, _, number in self.program.repeats_around(paths.relative(step_id, self.workflow_id)):
            repeat = self.step(paths.child(self.workflow_id, path))
            if repeat is not None and repeat.progress is not None:
                yield repeat, repeat.progress, number

    def waiting_changed(self, by: int) -> None:
        """A step came to EventTransmit, or left it."""
        if self.run is not None:
            self.run.waiting += by

    def next_log_order(self) -> int:
        """A number that grows with every log entry of the run."""
        self._log_order = max(self._log_order + 1, self.now * 1000)
        return self._log_order
