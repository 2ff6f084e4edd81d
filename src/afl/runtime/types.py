"""Identifiers, object types and attribute values of the runtime."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, NewType

from afl.kernel.ids import random_id

StepId = NewType("StepId", str)
BlockId = NewType("BlockId", str)
EventId = NewType("EventId", str)
WorkflowId = NewType("WorkflowId", str)
StatementId = NewType("StatementId", str)


def generate_id() -> str:
    """A random id, as text."""
    return random_id()


def step_id() -> StepId:
    """A random step id; the evaluator itself derives step ids from their path in the run."""
    return StepId(random_id())


def block_id() -> BlockId:
    """A random block id."""
    return BlockId(random_id())


def event_id() -> EventId:
    """A random event id."""
    return EventId(random_id())


def workflow_id() -> WorkflowId:
    """A random id for a run of a workflow."""
    return WorkflowId(random_id())


class ObjectType:
    """What a step is."""

    VARIABLE_ASSIGNMENT = "VariableAssignment"
    YIELD_ASSIGNMENT = "YieldAssignment"
    SCHEMA_INSTANTIATION = "SchemaInstantiation"
    SYS_LOG = "SysLog"
    SYS_ASSERT = "SysAssert"
    WORKFLOW = "Workflow"
    FACET = "Facet"
    AND_THEN = "AndThen"
    AND_MAP = "AndMap"
    AND_REPEAT = "AndRepeat"
    AND_MATCH = "AndMatch"
    AND_WHEN = "AndWhen"
    AND_CATCH = "AndCatch"
    BLOCK = "Block"
    BEFORE = "Before"
    AFTER = "After"

    BLOCKS = frozenset({AND_THEN, AND_MAP, AND_REPEAT, AND_MATCH, AND_WHEN, AND_CATCH, BLOCK})
    _STATEMENTS = frozenset(
        {VARIABLE_ASSIGNMENT, YIELD_ASSIGNMENT, SCHEMA_INSTANTIATION, SYS_LOG, SYS_ASSERT}
    )

    @classmethod
    def is_block(cls, object_type: str) -> bool:
        """Whether steps of this type hold other steps."""
        return object_type in cls.BLOCKS

    @classmethod
    def is_statement(cls, object_type: str) -> bool:
        """Whether steps of this type stand for a statement of a block."""
        return object_type in cls._STATEMENTS


@dataclass(frozen=True)
class VersionInfo:
    """Versions a step was written with."""

    workflow_version: str = "1.0"
    step_schema_version: str = "1.0"
    runtime_version: str = "0.1.0"


_HINTS: dict[type, str] = {
    bool: "Boolean",
    int: "Long",
    float: "Double",
    str: "String",
    list: "List",
    dict: "Map",
}


def infer_type_hint(value: Any) -> str:
    """The type name of a plain value; "Any" for null and for what is not plain data."""
    return _HINTS.get(type(value), "Any")


@dataclass(slots=True)
class AttributeValue:
    """A named value; its type hint is inferred from the value unless given."""

    name: str
    value: Any
    type_hint: str = "Any"

    def __post_init__(self) -> None:
        if self.type_hint == "Any" and self.value is not None:
            self.type_hint = infer_type_hint(self.value)


@dataclass(slots=True)
class FacetAttributes:
    """Parameters and returns of a step, by name. Presence decides, never the value: null is a value."""

    params: dict[str, AttributeValue] = field(default_factory=dict)
    returns: dict[str, AttributeValue] = field(default_factory=dict)

    def get_param(self, name: str) -> Any:
        """The parameter's value; None when absent."""
        found = self.params.get(name)
        return found.value if found is not None else None

    def get_return(self, name: str) -> Any:
        """The return's value; None when absent."""
        found = self.returns.get(name)
        return found.value if found is not None else None

    def set_param(self, name: str, value: Any, type_hint: str = "Any") -> None:
        """Set a parameter."""
        self.params[name] = AttributeValue(name, value, type_hint)

    def set_return(self, name: str, value: Any, type_hint: str = "Any") -> None:
        """Set a return."""
        self.returns[name] = AttributeValue(name, value, type_hint)

    def merge(self, other: FacetAttributes) -> None:
        """Take over the other's parameters where absent here, and all of its returns."""
        for name, attribute in other.params.items():
            self.params.setdefault(name, attribute)
        self.returns.update(other.returns)
