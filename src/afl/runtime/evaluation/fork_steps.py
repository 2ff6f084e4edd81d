"""The steps that a fork begins with: copies of those of its source, with its own ids and times."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from afl.runtime.errors import StepFailure
from afl.runtime.evaluation.fork_plan import ForkPlan, called_by
from afl.runtime.program import paths
from afl.runtime.program.expression import FACET_REFERENCE
from afl.runtime.program.program import Program
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition, StepTransition
from afl.runtime.types import AttributeValue, FacetAttributes, ObjectType, StepId, WorkflowId

Values = Mapping[str, Any]
_CAUGHT = ("error", "error_type")


@dataclass(frozen=True)
class ForkEdits:
    """What is to be different: the inputs of the chosen step, and results of kept steps by their paths."""

    inputs: Values = field(default_factory=dict)
    results: Mapping[str, Values] = field(default_factory=dict)


class ForkedSteps:
    """Makes the steps of a fork."""

    def __init__(
        self,
        program: Program,
        plan: ForkPlan,
        source: tuple[WorkflowId, Mapping[str, StepDefinition]],
        fork: tuple[WorkflowId, int],
        chosen: str,
        edits: ForkEdits,
        event_results: Mapping[str, Values],
    ) -> None:
        self._program = program
        self._plan = plan
        self._source, self._steps = source
        self._fork, self._now = fork
        self._chosen = chosen
        self._edits = edits
        self._event_results = event_results

    def all(self) -> Iterator[StepDefinition]:
        """The steps, those above before those below."""
        plan = self._plan
        for path in sorted({*plan.kept, *plan.reopened, *plan.reset}):
            if path in plan.kept:
                yield self._kept(path)
            elif path in plan.reopened:
                yield self._reopened(path)
            else:
                yield self._begun_anew(path)

    def _kept(self, path: str) -> StepDefinition:
        step = self._copy(path)
        for name, value in self._edits.results.get(path, {}).items():
            step.set_attribute(name, value, is_return=True)
        return step

    def _reopened(self, path: str) -> StepDefinition:
        step, state = self._copy(path), self._plan.reopened[path]
        step.change_state(state)
        step.transition.error, step.transition.request_transition, step.ended = None, False, 0
        if step.is_block:
            step.progress = self._block_progress(path, step)
        else:
            step.progress = BlockProgress(self._children(path, state))
            step.attributes.returns = _attributes(self._returns_before_capture(path, step, state))
        if state == StepState.MIXIN_BLOCKS_CONTINUE:
            for alias in self._aliases(path):
                step.attributes.params.pop(alias, None)  # what the mixin had
        return step

    def _aliases(self, path: str) -> list[str]:
        called = called_by(self._program, path)
        return [mixin.alias for mixin in called.mixins if mixin.alias] if called is not None else []

    def _children(self, path: str, state: str) -> int:
        if state == StepState.STATEMENT_CATCH_CONTINUE:
            return 1
        if state == StepState.STATEMENT_BLOCKS_CONTINUE:
            return len(self._program.bodies_of(self._program.place(path).statement))
        return len(self._aliases(path))

    def _block_progress(self, path: str, step: StepDefinition) -> BlockProgress:
        """How far it is; whoever takes up the run counts its children."""
        known, graph = step.progress, self._program.place(path).graph
        assert known is not None and graph is not None  # else it would begin anew
        if step.object_type == ObjectType.AND_REPEAT:
            number = self._plan.repeats[path]
            step.attributes.returns = _attributes(self._loop_values(path, step, number))
            return BlockProgress(number + 1, opened=number + 1)
        if step.object_type in (ObjectType.AND_MAP, ObjectType.AND_WHEN):
            return BlockProgress(known.total, opened=known.opened)
        return BlockProgress(len(graph.by_key))

    def _loop_values(self, path: str, step: StepDefinition, number: int) -> dict[str, Any]:
        """What the iterations before this one yielded: it began with that, and with defaults or null for the rest."""
        graph = self._program.place(path).graph
        begun = self._steps[paths.child(path, f"#{number}")]
        values = self._mapped(begun.attributes.get_param(str(graph and graph.variable)) or {})
        if all(paths.child(path, f"#{each}") in self._steps for each in range(number)):
            names = self._yielded_before(path, number)
        else:  # the first are removed: of what they may have yielded, all that is not the value of none
            names = {name for name in step.attributes.returns if values.get(name) is not None}
        return {name: values[name] for name in step.attributes.returns if name in names and name in values}

    def _yielded_before(self, repeat: str, number: int) -> set[str]:
        """The names that the iterations before this one have yielded."""
        names: set[str] = set()
        for path, step in self._steps.items():
            if step.object_type == ObjectType.YIELD_ASSIGNMENT and path.startswith(f"{repeat}/#"):
                iteration, *inside = path.removeprefix(f"{repeat}/#").split("/")
                if int(iteration) < number and step.is_complete:
                    owners = sum(not paths.is_block(each) for each in inside[:-1])
                    statement = self._program.place(path).statement
                    is_own = statement is not None and statement.level == owners
                    names.update(step.attributes.params if is_own else ())
        return names

    def _returns_before_capture(self, path: str, step: StepDefinition, state: str) -> dict[str, Any]:
        """The returns of a step when it opened what it waits for: those of its agent, and the error that it caught."""
        if state == StepState.MIXIN_BLOCKS_CONTINUE:
            return {}
        values: dict[str, Any] = self._mapped(dict(self._event_results.get(path, {})))
        if state == StepState.STATEMENT_CATCH_CONTINUE:
            values |= {name: step.attributes.get_return(name) for name in _CAUGHT} | self._failure_below(path)
        return values

    def _failure_below(self, path: str) -> dict[str, str]:
        """The error that a catch block was entered with, where it may have yielded another of that name."""
        for position in range(len(self._program.bodies_of(self._program.place(path).statement))):
            body = self._steps.get(f"{path}/{position}" if path else str(position))
            error = body.transition.error if body is not None else None
            if isinstance(error, StepFailure):
                return {"error": error.message, "error_type": error.error_type}
        return {}

    # -- steps that begin anew --------------------------------------------------------------------------------

    def _begun_anew(self, path: str) -> StepDefinition:
        step = self._copy(path) if path in self._steps else self._new(path)
        kept = {} if step.statement_id is not None else step.attributes.params  # an element has its value
        edited = self._edits.inputs if path == self._chosen else {}
        step.progress, step.ended = None, 0
        step.transition.error, step.transition.request_transition = None, False
        step.change_state(StepState.CREATED)
        if not edited or step.is_block:
            step.attributes = FacetAttributes(kept | _attributes(edited), {})
            return step
        step.change_state(StepState.FACET_INIT_END)  # its arguments are not evaluated again
        if step.object_type == ObjectType.SCHEMA_INSTANTIATION:
            step.attributes.returns |= _attributes(edited)
        else:
            step.attributes = FacetAttributes(step.attributes.params | _attributes(edited), {})
        return step

    def _new(self, path: str) -> StepDefinition:
        """A step that the source does not have: of a statement or a block that is new in the program."""
        place, step_id = self._program.place(path), self._id(path)
        owner = (
            paths.owner(step_id, self._fork)
            if place.statement is None
            else paths.owner(paths.parent(step_id), self._fork)
        )
        step = StepDefinition(step_id, ObjectType.AND_THEN, self._fork, container_id=owner, started=self._now)
        step.root_id = StepId(self._fork)
        if place.statement is None:
            step.object_type = place.graph.object_type if place.graph is not None else ObjectType.AND_THEN
            above = self._steps.get(_owner(path))
            step.container_type = above.object_type if above is not None else None
            return step
        called = self._program.declarations.get(place.statement.facet_name)
        is_value = called is not None and called.is_schema
        step.object_type = ObjectType.SCHEMA_INSTANTIATION if is_value else place.statement.object_type
        step.statement_id, step.facet_name = place.statement.id, place.statement.facet_name
        step.block_id = paths.block(step_id)
        return step

    # -- copies -----------------------------------------------------------------------------------------------

    def _copy(self, path: str) -> StepDefinition:
        source = self._steps[path]
        transition = StepTransition(source.state, source.state, error=source.transition.error)
        return replace(
            source,
            id=self._id(path),
            workflow_id=self._fork,
            container_id=self._moved(source.container_id),
            block_id=self._moved(source.block_id),
            root_id=self._moved(source.root_id),
            transition=transition,
            attributes=FacetAttributes(
                self._moved_values(source.attributes.params), self._moved_values(source.attributes.returns)
            ),
            started=self._now,
            ended=self._now if source.ended else 0,
        )

    def _moved_values(self, values: Mapping[str, AttributeValue]) -> dict[str, AttributeValue]:
        return {name: replace(each, value=self._mapped(each.value)) for name, each in values.items()}

    def _id(self, path: str) -> StepId:
        return StepId(f"{self._fork}/{path}" if path else self._fork)

    def _moved(self, step_id: str | None) -> Any:
        """The id of the copy of a step."""
        return None if step_id is None else self._id(paths.relative(step_id, self._source))

    def _mapped(self, value: Any) -> Any:
        """A value in which references to steps lead to their copies."""
        if isinstance(value, list):
            return [self._mapped(each) for each in value]
        if not isinstance(value, dict):
            return value
        mapped = {name: self._mapped(each) for name, each in value.items()}
        if mapped.get(FACET_REFERENCE) is True and mapped.get("workflow_id") == self._source:
            mapped |= {"step_id": self._moved(mapped.get("step_id")), "workflow_id": self._fork}
        return mapped


def _owner(path: str) -> str:
    """The path of the step that a block belongs to."""
    above = paths.parent(path)
    while above and paths.is_block(paths.key(above)):
        above = paths.parent(above)
    return above


def _attributes(values: Values) -> dict[str, AttributeValue]:
    return {name: AttributeValue(name, value) for name, value in values.items()}
