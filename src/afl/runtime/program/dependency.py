"""The dependency graph of a block: its statements, who waits for whom, and what it needs from outside."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.runtime.program.block import CHILD_RUN, MixinUse, StatementDefinition
from afl.runtime.program.expression import Evaluate, compile_expression, references
from afl.runtime.program.names import DeclaredNames
from afl.runtime.types import ObjectType, StatementId

Names = frozenset[str]

_STATEMENT_TYPES = {"SysLogStmt": ObjectType.SYS_LOG, "SysAssertStmt": ObjectType.SYS_ASSERT}


@dataclass(slots=True)
class WhenCase:
    """One case of a when: its condition (None for the default) and its block."""

    condition: Evaluate | None
    graph: DependencyGraph


@dataclass(slots=True)
class DependencyGraph:
    """A block, prepared for evaluation.

    `dependents` lists, by key, the statements that refer to a sibling. `outer` are names that the block takes from
    enclosing blocks; it begins only when those steps are complete. `body_needs` says which inline bodies of this
    block's steps wait for one of its steps. `yields_up` tells how many owners above its own a yield in here reaches.
    A foreach has a `variable` and an `iterable`, a repeat a `variable`, an `until` and maybe a `limit`.
    """

    dependencies: dict[StatementId, set[StatementId]] = field(default_factory=dict)
    name_to_id: dict[str, StatementId] = field(default_factory=dict)
    statements: dict[StatementId, StatementDefinition] = field(default_factory=dict)
    by_key: dict[str, StatementDefinition] = field(default_factory=dict)
    dependents: dict[str, list[StatementDefinition]] = field(default_factory=dict)
    body_needs: dict[str, list[tuple[str, str]]] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    object_type: str = ObjectType.AND_THEN
    variable: str | None = None
    iterable: Evaluate | None = None
    until: Evaluate | None = None
    limit: Evaluate | None = None
    collect: str | None = None
    cases: list[WhenCase] = field(default_factory=list)
    yields_up: int = -1
    location: dict[str, Any] | None = None
    inline: bool = False
    ast: dict[str, Any] = field(default_factory=dict)

    @property
    def loop(self) -> str:
        """A loop in words, `foreach x` or `repeat x`; empty for any other block."""
        if self.variable is None:
            return ""
        return f"{'repeat' if self.until is not None else 'foreach'} {self.variable}"

    @classmethod
    def from_ast(
        cls,
        block_ast: dict[str, Any] | None,
        workflow_inputs: set[str] | None = None,
        program_ast: dict[str, Any] | None = None,
    ) -> DependencyGraph:
        """The graph of a block's compiled JSON; facet names are completed with the program's, if given."""
        resolve = DeclaredNames(program_ast).full_name if program_ast else _as_it_is
        return GraphBuilder(resolve).block(block_ast or {}, (frozenset(),))

    def can_create(self, statement_id: StatementId, completed: set[StatementId]) -> bool:
        """Whether everything the statement refers to is complete."""
        return self.dependencies.get(statement_id, set()) <= completed

    def get_ready_statements(self, completed: set[StatementId]) -> list[StatementDefinition]:
        """Statements not complete themselves whose dependencies are."""
        return [
            statement
            for statement in self.statements.values()
            if statement.id not in completed and self.can_create(statement.id, completed)
        ]

    def get_statement(self, statement_id: StatementId) -> StatementDefinition | None:
        """The statement, or None."""
        return self.statements.get(statement_id)

    def get_all_statements(self) -> list[StatementDefinition]:
        """The statements in program order."""
        return list(self.statements.values())

    def every_statement(self) -> Iterator[StatementDefinition]:
        """The statements of the block, and those of all blocks within."""
        for statement in self.statements.values():
            yield statement
            for body in (*statement.bodies, *filter(None, [statement.catch])):
                yield from body.every_statement()
        for case in self.cases:
            yield from case.graph.every_statement()

    def topological_order(self) -> list[StatementId]:
        """Ids such that each comes after what it refers to; ids on a cycle are left out."""
        order: list[StatementId] = []
        missing = {key: len(statement.needs) for key, statement in self.by_key.items()}
        ready = [key for key, count in missing.items() if count == 0]
        for key in ready:
            order.append(self.by_key[key].id)
            for statement in self.dependents.get(key, ()):
                missing[statement.key] -= 1
                if missing[statement.key] == 0:
                    ready.append(statement.key)
        return order


class GraphBuilder:
    """Builds graphs from compiled JSON; `resolve` turns a facet name into its full name."""

    def __init__(self, resolve: Any, namespace: str = "") -> None:
        self._resolve = resolve
        self._namespace = namespace

    def bodies(
        self, body: Any, owners: Sequence[Names], *, inline: bool = False
    ) -> tuple[DependencyGraph, ...]:
        """The graphs of a body: nothing, one block or a list of blocks."""
        if not body:
            blocks: list[dict[str, Any]] = [] if body is None or isinstance(body, list) else [body]
        else:
            blocks = body if isinstance(body, list) else [body]
        return tuple(
            self.block(block, owners, inline=inline) for block in blocks if block.get("type") != "PromptBlock"
        )

    def block(self, ast: dict[str, Any], owners: Sequence[Names], *, inline: bool = False) -> DependencyGraph:
        """The graph of one block. `owners` are the names a yield may give, innermost owner first."""
        graph = DependencyGraph(location=ast.get("location"), inline=inline, ast=ast)
        if ast.get("when"):
            self._when(graph, ast["when"], owners, inline)
            return graph
        foreach = ast.get("foreach")
        if foreach:
            graph.object_type = ObjectType.AND_MAP
            graph.variable = foreach["variable"]
            graph.iterable = compile_expression(foreach["iterable"])
            graph.limit = compile_expression(foreach["limit"]) if "limit" in foreach else None
            graph.collect = foreach.get("collect")
            used = (foreach["iterable"], foreach.get("limit"))
            graph.outer.update(path[0] for each in used for path in references(each) if path)
        if ast.get("repeat"):
            self._repeat(graph, ast["repeat"])
        for order, statement in enumerate(self._statements(ast, owners)):
            statement.order = order
            graph.statements[statement.id] = statement
            graph.by_key[statement.key] = statement
            if statement.name:
                graph.name_to_id[statement.name] = statement.id
        for statement in graph.by_key.values():
            self._connect(graph, statement)
        return graph

    def _repeat(self, graph: DependencyGraph, repeat: dict[str, Any]) -> None:
        graph.object_type = ObjectType.AND_REPEAT
        graph.variable = repeat["variable"]
        graph.until = compile_expression(repeat["until"])
        graph.limit = compile_expression(repeat["limit"]) if "limit" in repeat else None
        graph.outer.update(path[0] for path in references(repeat["until"]) if path)
        graph.outer.discard(repeat["variable"])
        graph.outer.update(path[0] for path in references(repeat.get("limit")) if path)

    def catch(self, ast: dict[str, Any] | None, owners: Sequence[Names]) -> DependencyGraph | None:
        """The graph of a catch clause, if there is one."""
        if not ast:
            return None
        graph = self.block(ast, owners, inline=True)
        if not graph.cases:
            graph.object_type = ObjectType.AND_CATCH
        return graph

    def _when(
        self, graph: DependencyGraph, when: dict[str, Any], owners: Sequence[Names], inline: bool
    ) -> None:
        graph.object_type = ObjectType.AND_WHEN
        for case in when.get("cases", []):
            condition = case.get("condition")
            block = self.block(case, owners, inline=inline)
            graph.cases.append(WhenCase(None if condition is None else compile_expression(condition), block))
            graph.outer.update(path[0] for path in references(condition) if path)
            graph.outer.update(block.outer)
            graph.yields_up = max(graph.yields_up, block.yields_up)

    def _statements(self, ast: dict[str, Any], owners: Sequence[Names]) -> Iterable[StatementDefinition]:
        nameless = 0
        for node in ast.get("steps") or []:
            kind = _STATEMENT_TYPES.get(node.get("type", ""))
            if kind is None:
                yield self._step(node, owners)
            else:
                yield self._system(node, kind, nameless)
                nameless += 1
        yields = ast.get("yields") or ([ast["yield"]] if ast.get("yield") else [])
        for position, node in enumerate(yields):
            yield self._yield(node, position, owners)

    def _step(self, node: dict[str, Any], owners: Sequence[Names]) -> StatementDefinition:
        call = node.get("call") or {}
        target = self._resolve(call.get("target", ""), self._namespace)
        inner = (self._owner_names(target, call), *owners)
        mixins = tuple(self.mixin(mixin) for mixin in call.get("mixins") or [])
        return StatementDefinition(
            id=StatementId(node.get("id") or node["name"]),
            name=node["name"],
            key=node["name"],
            object_type=ObjectType.VARIABLE_ASSIGNMENT,
            facet_name=target,
            args=call.get("args") or [],
            bindings=bind(call.get("args")),
            mixins=mixins,
            child_run=next((mixin for mixin in mixins if mixin.target == CHILD_RUN), None),
            bodies=self.bodies(node.get("body"), inner, inline=True),
            catch=self.catch(node.get("catch"), inner),
            location=node.get("location"),
        )

    def _owner_names(self, target: str, call: dict[str, Any]) -> Names:
        mixins = call.get("mixins") or []
        names = {
            target,
            *(mixin["target"] for mixin in mixins),
            *(m["alias"] for m in mixins if m.get("alias")),
        }
        return frozenset(names | {name.rpartition(".")[2] for name in names})

    def _system(self, node: dict[str, Any], kind: str, position: int) -> StatementDefinition:
        condition = node.get("condition")
        return StatementDefinition(
            id=StatementId(node.get("id") or f"~{position}"),
            name="",
            key=f"~{position}",
            object_type=kind,
            facet_name="sys.log" if kind == ObjectType.SYS_LOG else "sys.assert",
            args=node.get("args")
            or ([{"name": "condition", "value": condition}] if condition is not None else []),
            bindings=bind(node.get("args")),
            condition=None if condition is None else compile_expression(condition),
            location=node.get("location"),
        )

    def _yield(self, node: dict[str, Any], position: int, owners: Sequence[Names]) -> StatementDefinition:
        call = node.get("call") or {}
        target = call.get("target", "")
        short = target.rpartition(".")[2]
        statement_id = StatementId(node.get("id") or f"yield-{position}")
        level = next((i for i, names in enumerate(owners) if target in names or short in names), 0)
        return StatementDefinition(
            id=statement_id,
            name=f"_yield_{statement_id}",
            key=f">{position}",
            object_type=ObjectType.YIELD_ASSIGNMENT,
            facet_name=target,
            args=call.get("args") or [],
            bindings=bind(call.get("args")),
            is_yield=True,
            level=level,
            location=node.get("location"),
        )

    def mixin(self, node: dict[str, Any]) -> MixinUse:
        """A mixin of a call or a signature."""
        target = self._resolve(node.get("target", ""), self._namespace, mixin=True)
        return MixinUse(target, bind(node.get("args")), node.get("alias"), node)

    def _connect(self, graph: DependencyGraph, statement: StatementDefinition) -> None:
        used = {path[0] for path in references(statement.args) if path}
        used.update(path[0] for mixin in statement.mixins for path in references(mixin.ast) if path)
        used.discard(graph.variable or "")
        statement.needs = (
            tuple(name for name in graph.by_key if name in used)
            if len(used) > 8
            else tuple(sorted(name for name in used if name in graph.by_key))
        )
        statement.dependencies = {graph.by_key[name].id for name in statement.needs}
        graph.dependencies[statement.id] = statement.dependencies
        for name in statement.needs:
            graph.dependents.setdefault(name, []).append(statement)
        graph.outer |= used - set(statement.needs)
        if statement.is_yield:
            graph.yields_up = max(graph.yields_up, statement.level)
        self._connect_bodies(graph, statement)

    def _connect_bodies(self, graph: DependencyGraph, statement: StatementDefinition) -> None:
        bodies = [(str(i), body) for i, body in enumerate(statement.bodies)]
        if statement.catch is not None:
            bodies.append(("!", statement.catch))
        for segment, body in bodies:
            body.outer.discard(statement.name)
            body.outer.discard(graph.variable or "")
            graph.yields_up = max(graph.yields_up, body.yields_up - 1)
            for name in body.outer:
                if name in graph.by_key:
                    graph.body_needs.setdefault(name, []).append((statement.key, segment))
                else:
                    graph.outer.add(name)


def _as_it_is(name: str, namespace: str = "", *, mixin: bool = False) -> str:
    return name


def bind(args: Iterable[dict[str, Any]] | None) -> tuple[tuple[str, Evaluate], ...]:
    """Arguments ready to be evaluated."""
    return tuple((arg["name"], compile_expression(arg["value"])) for arg in args or ())
