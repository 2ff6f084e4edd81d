"""A compiled program as an immutable index: declarations by full name, statements by their path in a run."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from afl.kernel import codec
from afl.kernel.errors import InputError
from afl.runtime.program.block import CHILD_RUN, MixinUse, StatementDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.dependency import DependencyGraph, bind
from afl.runtime.program.expression import Evaluate
from afl.runtime.program.names import DeclaredNames
from afl.runtime.program.values import TypeSpec, unknown_name
from afl.runtime.types import ObjectType, StatementId

_ELEMENT = re.compile(r"#[^/]*")  # a segment of an element of a foreach


@dataclass(frozen=True, slots=True)
class Place:
    """What a path of a run leads to: a statement (None for blocks) and the graph of the block it is or stands in."""

    statement: StatementDefinition | None
    graph: DependencyGraph | None


class Program:
    """The index over `{"program": <compiled program>, "workflow": <workflow node or name>}`; never changed."""

    def __init__(self, compiled: Mapping[str, Any]) -> None:
        self.compiled = compiled
        self.source = str(compiled.get("source") or "")
        self.source_text = str(compiled.get("text") or "")  # for people: the line that an error names
        self._names = DeclaredNames(compiled.get("program") or {})
        self.declarations = {
            name: Declaration(name, namespace, node, self)
            for name, (namespace, node) in self._names.declared.items()
        }
        self._supplied: dict[str, tuple[tuple[str, Evaluate], ...]] = {}
        self._places: dict[str, Place] = {}
        self._of_workflows: dict[str, Program] = {}
        self.workflow = self._entry(compiled.get("workflow"))

    @cached_property
    def text(self) -> str:
        """Canonical JSON, as stored."""
        return codec.encode_canonical(self.compiled).decode()

    @cached_property
    def hash(self) -> str:
        """What the program is stored under; equal programs have equal hashes."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    def of_workflow(self, name: str) -> Program:
        """The same declarations as the program of another workflow."""
        found = self._of_workflows.get(name)
        if found is None:
            found = self._of_workflows[name] = Program({**self.compiled, "workflow": name})
        return found

    @cached_property
    def may_start_runs(self) -> bool:
        """Whether a step may start a child run."""
        return any(f'"{name}"' in self.text for name in (CHILD_RUN, CHILD_RUN.rpartition(".")[2]))

    @property
    def is_known(self) -> bool:
        """Whether there are declarations to check names against; hand-made workflows may have none."""
        return bool(self.declarations)

    @cached_property
    def schemas(self) -> dict[str, dict[str, TypeSpec]]:
        """Field types by schema name."""
        return {d.name: {f.name: f.type for f in d.params} for d in self.declarations.values() if d.is_schema}

    def uses_of(self, mixin: str, *, in_children: bool = False) -> list[tuple[str, MixinUse]]:
        """Where a run of the workflow meets a built-in mixin ("Signal"): the facets that have it, each with its use.

        It may stand in the signature or at the call. Child runs are runs of their own, looked into on demand.
        """
        if f'{mixin}"' not in self.text:
            return []
        found: list[tuple[str, MixinUse]] = []
        called, seen = [self.workflow], {self.workflow.name}
        while called:
            declared = called.pop()
            graphs = (*declared.bodies, *filter(None, [declared.catch]))
            statements = [each for graph in graphs for each in graph.every_statement()]
            uses = [(declared.name, use) for use in declared.mixins]
            uses += [(each.facet_name, use) for each in statements for use in each.mixins]
            names = {use.target for _, use in uses}
            names |= {each.facet_name for each in statements if in_children or each.child_run is None}
            called += filter(None, map(self.declarations.get, names - seen))
            seen |= names
            found += uses
        return [(facet, use) for facet, use in found if use.target == f"sys.{mixin}"]

    @cached_property
    def signals(self) -> dict[str, set[str | None]]:
        """The names of the signals that event facets wait for, by facet; None among them is one worked out later."""
        names: dict[str, set[str | None]] = {}
        for facet, use in self.uses_of("Signal"):
            called = self.declarations.get(facet)
            if called is not None and called.is_event:
                names.setdefault(facet, set()).add(use.constant_name)
        return names

    def workflows(self) -> list[str]:
        """Full names of all workflows."""
        return [d.name for d in self.declarations.values() if d.kind == "WorkflowDecl"]

    def full_name(self, name: str, namespace: str = "", *, mixin: bool = False) -> str:
        """The full name of a facet as seen from a namespace: declared, else built in, else the name itself."""
        return self._names.full_name(name, namespace, mixin=mixin)

    def declaration(self, name: str) -> Declaration | None:
        """The declaration of that full (or unambiguous short) name, or None."""
        found = self.declarations.get(name)
        return found if found is not None else self.declarations.get(self.full_name(name))

    def supplied(self, target: str) -> tuple[tuple[str, Evaluate], ...]:
        """Arguments that implicits supply to a facet."""
        if target not in self._supplied:
            self._supplied[target] = bind(
                arg
                for namespace, call in self._names.implicits
                if self.full_name(call.get("target", ""), namespace) == target
                for arg in call.get("args") or ()
            )
        return self._supplied[target]

    def place(self, path: str) -> Place:
        """What a step's path (its id without the run's) leads to; indices of foreach elements do not matter."""
        found = self._places.get(path)
        if found is None:
            key = _ELEMENT.sub("#", path)
            found = self._places.get(key)
            if found is None:
                found = self._places[key] = self._locate(key.split("/") if key else [])
        return found

    def _locate(self, segments: list[str]) -> Place:
        if not segments:
            return Place(None, None)
        parent = self.place("/".join(segments[:-1]))
        segment = segments[-1]
        if segment == "#":
            return Place(None, parent.graph)
        if segment.startswith("?") and parent.graph is not None:
            return Place(None, parent.graph.cases[int(segment[1:])].graph)
        if segment == "!":
            return Place(None, self.catch_of(parent.statement))
        if segment.startswith("@"):
            return Place(self._mixin_statement(parent.statement, segment[1:]), None)
        if segment.isdigit():
            return Place(None, self.bodies_of(parent.statement)[int(segment)])
        if parent.graph is None:
            raise KeyError(segment)
        return Place(parent.graph.by_key[segment], parent.graph)

    def repeats_around(self, path: str) -> Iterator[tuple[str, DependencyGraph, int]]:
        """The repeats that a path leads into, innermost first: their paths, and the number of the iteration."""
        while "/#" in path:
            path, _, rest = path.rpartition("/#")
            graph, number = self.place(path).graph, rest.partition("/")[0]
            if graph is not None and graph.until is not None and number.isdigit():
                yield path, graph, int(number)

    def bodies_of(self, statement: StatementDefinition | None) -> tuple[DependencyGraph, ...]:
        """The blocks a step of the statement runs (None: the workflow itself); an inline body wins.

        Those of a workflow that is a run of its own are run there.
        """
        if statement is None:
            return self.workflow.bodies
        if statement.bodies or statement.object_type == ObjectType.YIELD_ASSIGNMENT or statement.child_run:
            return statement.bodies
        called = self.declarations.get(statement.facet_name)
        return called.bodies if called is not None else ()

    def phases(self, statement: StatementDefinition | None, called: Declaration | None) -> tuple[bool, bool]:
        """Whether a step runs mixins, and whether it runs blocks (a catch block too) or fills in returns."""
        blocks = bool(self.bodies_of(statement)) or self.catch_of(statement) is not None
        if statement is not None and statement.child_run is not None:
            return False, blocks
        mixins = called is not None and called.has_aliases
        return mixins, blocks or (called is not None and called.has_return_defaults)

    def catch_of(self, statement: StatementDefinition | None) -> DependencyGraph | None:
        """The catch block of a statement's step (None: of the workflow): its own, else its facet's."""
        if statement is None:
            return self.workflow.catch
        called = self.declarations.get(statement.facet_name) if statement.child_run is None else None
        return statement.catch or (called.catch if called is not None else None)

    def _mixin_statement(self, owner: StatementDefinition | None, alias: str) -> StatementDefinition:
        declaration = self.workflow if owner is None else self.declarations[owner.facet_name]
        order, use = next((i, mixin) for i, mixin in enumerate(declaration.mixins) if mixin.alias == alias)
        return StatementDefinition(
            id=StatementId(f"{declaration.name}@{alias}"),
            name=alias,
            key=f"@{alias}",
            object_type=ObjectType.FACET,
            facet_name=use.target,
            bindings=use.bindings,
            order=order,
        )

    def _entry(self, workflow: Any) -> Declaration:
        if isinstance(workflow, Mapping):
            name = str(workflow.get("name", ""))
            known = self.declarations.get(name)
            return (
                known
                if known is not None and known.ast is workflow
                else Declaration(name, "", workflow, self)
            )
        names = self.workflows()
        if workflow is None:
            return self.declarations[names[0]] if len(names) == 1 else Declaration("", "", {}, self)
        full = self.full_name(str(workflow))
        if full not in names:
            raise InputError(unknown_name("workflow", str(workflow), names))
        return self.declarations[full]
