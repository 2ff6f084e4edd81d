"""What a program declares: facets, event facets, workflows and schemas, with their fields and bodies."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from afl.kernel.errors import InputError
from afl.runtime.entities import FACET_INFO
from afl.runtime.program.block import MixinUse
from afl.runtime.program.dependency import DependencyGraph, GraphBuilder
from afl.runtime.program.expression import Evaluate, EvaluationContext, compile_expression
from afl.runtime.program.values import TypeSpec, type_text

if TYPE_CHECKING:
    from afl.runtime.program.program import Program


@dataclass(frozen=True, slots=True)
class Field:
    """A parameter, a return or a schema field."""

    name: str
    type: TypeSpec
    default: Evaluate | None = None


def _fields(nodes: Iterable[Mapping[str, Any]] | None) -> tuple[Field, ...]:
    return tuple(
        Field(
            node["name"],
            node.get("type", "Any"),
            compile_expression(node["default"]) if "default" in node else None,
        )
        for node in nodes or ()
    )


@dataclass
class Declaration:
    """A facet, event facet, workflow or schema, with its body prepared on first use."""

    name: str
    namespace: str
    ast: Mapping[str, Any]
    program: Program = field(repr=False)

    @property
    def kind(self) -> str:
        """The declaration's node type, such as "EventFacetDecl"."""
        return str(self.ast.get("type", ""))

    @cached_property
    def is_event(self) -> bool:
        """Whether agents do its work."""
        return self.kind == "EventFacetDecl"

    @cached_property
    def is_workflow(self) -> bool:
        """Whether it can be a run."""
        return self.kind == "WorkflowDecl"

    @cached_property
    def is_schema(self) -> bool:
        """Whether calling it makes a value."""
        return self.kind == "SchemaDecl"

    @cached_property
    def params(self) -> tuple[Field, ...]:
        """Its parameters; a schema's are its fields."""
        return _fields(self.ast.get("fields") if self.is_schema else self.ast.get("params"))

    @cached_property
    def returns(self) -> tuple[Field, ...] | None:
        """Its returns; None without a return clause."""
        return _fields(self.ast["returns"]) if "returns" in self.ast else None

    def task_data(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """The data of the task of a call: its parameters, and what the facet is."""
        info = {
            "name": self.name,
            "params": {each.name: type_text(each.type) for each in self.params},
            "returns": {each.name: type_text(each.type) for each in self.returns or ()},
        }
        return {FACET_INFO: info, **params}

    @cached_property
    def defaults(self) -> tuple[tuple[str, Evaluate], ...]:
        """Parameters with a default."""
        return tuple((f.name, f.default) for f in self.params if f.default is not None)

    @cached_property
    def mixins(self) -> tuple[MixinUse, ...]:
        """Mixins of its signature."""
        return tuple(self._builder.mixin(node) for node in self.ast.get("mixins") or [])

    @cached_property
    def bodies(self) -> tuple[DependencyGraph, ...]:
        """Its andThen blocks."""
        return self._builder.bodies(self.ast.get("body"), (self._yield_names,))

    @cached_property
    def catch(self) -> DependencyGraph | None:
        """Its catch clause."""
        return self._builder.catch(self.ast.get("catch"), (self._yield_names,))

    @cached_property
    def has_aliases(self) -> bool:
        """Whether mixins run as steps of their own."""
        return any(mixin.alias for mixin in self.mixins)

    @cached_property
    def has_return_defaults(self) -> bool:
        """Whether a return that nobody gives has a value."""
        return any(field.default is not None for field in self.returns or ())

    @property
    def _builder(self) -> GraphBuilder:
        return GraphBuilder(self.program.full_name, self.namespace)

    @cached_property
    def _yield_names(self) -> frozenset[str]:
        mixins = self.ast.get("mixins") or []
        names = {self.name, *(m["target"] for m in mixins), *(m["alias"] for m in mixins if m.get("alias"))}
        return frozenset(names | {name.rpartition(".")[2] for name in names})


def _no_steps(step: str, attribute: str | None) -> Any:
    raise InputError(f"a default value cannot refer to the step '{step}'")


def constant_context(inputs: Mapping[str, Any]) -> EvaluationContext:
    """A context without steps, for defaults and implicits."""
    return EvaluationContext(inputs, _no_steps)
