"""A frame: an open block in memory. It knows which of its steps are done and where its references lead."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from functools import cached_property
from typing import TYPE_CHECKING, Any

from afl.runtime.errors import StepFailure, UnresolvedReferenceError
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.program.expression import FACET_REFERENCE, EvaluationContext
from afl.runtime.program.operators import type_name
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId

if TYPE_CHECKING:
    from afl.runtime.evaluation.context import ExecutionContext


class Standing(Enum):
    """Where a step stands that an inner block refers to."""

    READY = "ready"
    WAITING = "waiting"
    FAILED = "failed"


class OwnerValues(Mapping[str, Any]):
    """`$`, read when an expression first uses it: the owner may carry a list of ten thousand elements."""

    def __init__(self, read: Callable[[], dict[str, Any]]) -> None:
        self._read = read

    @cached_property
    def _values(self) -> dict[str, Any]:
        return self._read()

    def __getitem__(self, name: str) -> Any:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __contains__(self, name: object) -> bool:
        return name in self._values


class Frame:
    """One block instance. What it holds can be rebuilt from the store at any time."""

    __slots__ = (
        "_context",
        "_elements",
        "_evaluation",
        "_offered",
        "_watch",
        "done",
        "graph",
        "id",
        "owner_id",
    )

    def __init__(self, context: ExecutionContext, block_id: StepId, graph: DependencyGraph) -> None:
        self._context = context
        self.id = block_id
        self.graph = graph
        self.owner_id = paths.owner(block_id, context.workflow_id)
        self.done: set[str] = set()
        self._watch: dict[str, str] = {}
        self._offered: set[str] = set()
        self._evaluation: EvaluationContext | None = None
        self._elements: list[Any] | None = None

    def evaluation(self, step_id: str) -> EvaluationContext:
        """Where the references of this block's statements lead."""
        if self._evaluation is None:
            variable = self.graph.variable if self._is_element else None
            self._evaluation = EvaluationContext(
                OwnerValues(self._inputs), self.lookup, variable, self.loop_value(), None
            )
        self._evaluation.step_id = step_id
        return self._evaluation

    def close(self) -> None:
        """It is of no use any more: part with what knows it in turn, so that it goes at once."""
        self._evaluation = None

    def _inputs(self) -> dict[str, Any]:
        """`$`: the owner's parameters, then what its agent and its mixins gave."""
        owner = self._context.require_step(self.owner_id)
        values = {name: attribute.value for name, attribute in owner.attributes.params.items()}
        values.update((name, attribute.value) for name, attribute in owner.attributes.returns.items())
        return values

    def elements(self) -> list[Any]:
        """What a foreach goes over; pure, so evaluating it again after a restart gives the same."""
        if self._elements is None:
            assert self.graph.iterable is not None
            value = self.graph.iterable(self.evaluation(self.id))
            if isinstance(value, dict):
                value = [{"key": key, "value": item} for key, item in value.items()]
            if not isinstance(value, list):
                raise StepFailure(f"foreach needs a list or a map, got {type_name(value)}", "TypeMismatch")
            self._elements = value
        return self._elements

    def limit(self) -> int:
        """How many elements of a foreach may be active at a time."""
        if self.graph.limit is None:
            return sys.maxsize
        value = self.graph.limit(self.evaluation(self.id))
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise StepFailure(
                f"the limit of a foreach is {value!r}; expected a whole number, at least 1", "BadLimit"
            )
        return value

    def loop_value(self) -> Any:
        """The element of a foreach; each element's block keeps its own."""
        if not self._is_element:
            return None
        return self._context.require_step(self.id).attributes.get_param(str(self.graph.variable))

    @property
    def _is_element(self) -> bool:
        """Whether this is an element of a foreach or an iteration of a repeat: only those know the variable."""
        return self.graph.variable is not None and paths.key(self.id).startswith("#")

    @property
    def _is_head(self) -> bool:
        """Whether this is the foreach or repeat itself: its list, limit and condition see no steps of its block."""
        return self.graph.variable is not None and not self._is_element

    def lookup(self, name: str, attribute: str | None) -> Any:
        """The value of `name.attribute` (or of bare `name`) as seen from this block."""
        if name in self.graph.by_key and not self._is_head:
            return self._of_step(self._context.step(paths.child(self.id, name)), name, attribute)
        if name == self.graph.variable and self._is_element:
            value = self.loop_value()
            return value if attribute is None else _property(value, name, attribute)
        if self.graph.inline:
            if paths.key(self.owner_id) == name:
                return self._of_step(self._context.require_step(self.owner_id), name, attribute)
            return self.enclosing().lookup(name, attribute)
        if name.startswith(f"{self._context.workflow_id}/"):
            return self._of_step(self._context.step(StepId(name)), name, attribute)
        raise UnresolvedReferenceError(_shown(name, attribute), f"Reference to undefined step '{name}'")

    def _of_step(self, step: StepDefinition | None, name: str, attribute: str | None) -> Any:
        if step is None:
            raise UnresolvedReferenceError(_shown(name, attribute), f"step '{name}' has not run")
        if attribute is None:
            return self._reference_to(step)
        found = step.attributes.returns.get(attribute) or step.attributes.params.get(attribute)
        if found is None:
            known = sorted({*step.attributes.returns, *step.attributes.params})
            reason = f"step '{name}' has no value '{attribute}'; it has {', '.join(known) or 'none'}"
            raise UnresolvedReferenceError(_shown(name, attribute), reason)
        return found.value

    def _reference_to(self, step: StepDefinition) -> dict[str, Any]:
        if step.object_type == ObjectType.SCHEMA_INSTANTIATION:
            return {name: attribute.value for name, attribute in step.attributes.returns.items()}
        return {
            FACET_REFERENCE: True,
            "step_id": step.id,
            "workflow_id": step.workflow_id,
            "facet_name": step.facet_name,
        }

    def complete(self, key: str) -> list[StatementDefinition]:
        """A step of the block completed: which statements may begin now."""
        self.done.add(key)
        ready = [s for s in self.graph.dependents.get(key, ()) if self._awaits(s, key) and self.is_ready(s)]
        self._offered.update(statement.key for statement in ready)
        return ready

    def exclude(self, keys: set[str]) -> None:
        """These statements have steps already."""
        self._offered |= keys

    def _awaits(self, statement: StatementDefinition, key: str) -> bool:
        return statement.key not in self._offered and self._watch.get(statement.key, key) == key

    def is_ready(self, statement: StatementDefinition) -> bool:
        """Whether all that the statement refers to is complete; if not, it waits for one of them at a time."""
        for need in reversed(statement.needs):
            if not self.is_done(need):
                self._watch[statement.key] = need
                return False
        return True

    def is_done(self, key: str) -> bool:
        """Whether a step of the block is complete."""
        if key in self.done:
            return True
        step = self._context.known_step(paths.child(self.id, key))
        if step is not None and step.is_complete:
            self.done.add(key)
            return True
        return False

    def enclosing(self) -> Frame:
        """The block in which the owner of this (inline) block stands."""
        return self._context.frame(paths.parent(self.owner_id))

    def standing(self, name: str) -> Standing:
        """Whether what a name means here is there already, may still come, or never will."""
        statement = self.graph.by_key.get(name)
        if statement is None:
            known = name == self.graph.variable or not self.graph.inline or paths.key(self.owner_id) == name
            return Standing.READY if known else self.enclosing().standing(name)
        step = self._context.known_step(paths.child(self.id, name))
        if step is not None:
            if not step.is_terminal:
                return Standing.WAITING
            return Standing.READY if step.is_complete else Standing.FAILED
        doomed = any(self.standing(need) is Standing.FAILED for need in statement.needs)
        return Standing.FAILED if doomed else Standing.WAITING

    def doomed_by(self, key: str) -> list[str]:
        """The failed step and every statement of the block that can now never begin."""
        doomed, pending = {key: None}, [key]
        for current in pending:
            for statement in self.graph.dependents.get(current, ()):
                if statement.key not in doomed:
                    doomed[statement.key] = None
                    pending.append(statement.key)
        return list(doomed)


def _shown(name: str, attribute: str | None) -> str:
    return name if attribute is None else f"{name}.{attribute}"


def _property(value: Any, name: str, attribute: str) -> Any:
    if not isinstance(value, dict) or attribute not in value:
        raise UnresolvedReferenceError(f"{name}.{attribute}", f"Property '{attribute}' not found")
    return value[attribute]
