"""The context of one invocation: what it finds, and that it shares nothing."""

from __future__ import annotations

import pytest
from engine_bench import Engine
from runtime_programs import NUMBER, compiled, giving, ref, step, workflow_of

from afl.runtime.evaluator import ExecutionContext
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.dependency import DependencyGraph
from afl.runtime.telemetry import Telemetry
from afl.runtime.types import StepId, WorkflowId

PROGRAM = {
    "declarations": [
        {"type": "Namespace", "name": "ns", "declarations": [{"type": "EventFacetDecl", "name": "Count"}]},
        {"type": "FacetDecl", "name": "Value", "body": {"steps": [step("inner", "Count")]}},
    ]
}
WORKFLOW = {
    "name": "W",
    "body": {
        "steps": [step("a", "Value"), {**step("b", "Value"), "body": {"steps": [step("own", "Count")]}}],
        "yield": giving("W", o=ref("a", "x")),
    },
}


def make(store: MemoryStore, run: str = "run") -> ExecutionContext:
    return ExecutionContext(
        persistence=store,
        telemetry=Telemetry(enabled=False),
        changes=IterationChanges(),
        workflow_id=WorkflowId(run),
        workflow_ast=WORKFLOW,
        program_ast=PROGRAM,
    )


@pytest.fixture
def context(store: MemoryStore) -> ExecutionContext:
    return make(store)


def test_defaults(store: MemoryStore) -> None:
    changes = IterationChanges()
    made = ExecutionContext(store, Telemetry(), changes, WorkflowId("run"))
    assert (made.workflow_ast, made.workflow_defaults, made.program_ast, made.runner_id) == (
        None,
        {},
        None,
        "",
    )
    assert made.changes is changes


def test_contexts_share_nothing(store: MemoryStore) -> None:
    first, second = make(store), make(store)
    first.create_step(StepId("run"), "Workflow")
    assert second.changes.created_steps == []
    assert second.step(StepId("run")) is None
    assert len(first.changes.created_steps) == 1


def test_facets_by_short_and_by_qualified_name(context: ExecutionContext) -> None:
    for name in ("Count", "ns.Count"):
        found = context.get_facet_definition(name)
        assert found is not None
        assert (found["type"], found["name"]) == ("EventFacetDecl", "Count")
    assert context.get_facet_definition("Nothing") is None
    assert context.get_facet_definition("other.Count") is None


def test_names_are_completed(context: ExecutionContext) -> None:
    assert context.resolve_qualified_name("Count") == "ns.Count"
    assert context.resolve_qualified_name("Value") == "Value"
    assert context.resolve_qualified_name("Nothing") == "Nothing"


def test_the_workflow(context: ExecutionContext) -> None:
    assert context.get_workflow_ast() == WORKFLOW
    assert context.get_workflow_root() is None
    root = context.create_step(StepId("run"), "Workflow")
    assert context.get_workflow_root() is root
    assert context.get_statement_definition(root) is None


def test_a_step_that_the_program_does_not_have_has_no_statement_and_no_block(
    context: ExecutionContext,
) -> None:
    for path, kind in (("run/0/nope", "VariableAssignment"), ("run/7", "AndThen")):
        unknown = context.create_step(StepId(path), kind)
        assert context.get_statement_definition(unknown) is None
        assert context.get_block_ast(unknown) is None


def test_block_asts_root_then_inline_then_facet(context: ExecutionContext) -> None:
    root = context.create_step(StepId("run"), "Workflow", facet_name="W")
    blocks = {
        path: context.create_step(StepId(path), "AndThen", owner_id=root.id)
        for path in ("run/0", "run/0/a/0", "run/0/b/0")
    }
    for path, name in (("run/0/a", "a"), ("run/0/b", "b")):
        statement = context.program.place(f"0/{name}").statement
        context.create_step(
            StepId(path), "VariableAssignment", statement=statement, owner_id=root.id, facet_name="Value"
        )
    assert context.get_block_ast(blocks["run/0"]) == WORKFLOW["body"]
    assert context.get_block_ast(blocks["run/0/a/0"]) == {"steps": [step("inner", "Count")]}
    assert context.get_block_ast(blocks["run/0/b/0"]) == {"steps": [step("own", "Count")]}


def test_block_graphs_can_be_read_and_set(context: ExecutionContext) -> None:
    context.create_step(StepId("run"), "Workflow", facet_name="W")
    assert list(context.get_block_graph(StepId("run/0")).by_key)[:2] == ["a", "b"]
    graph = DependencyGraph.from_ast({"steps": [step("z", "Value")]}, set())
    context.set_block_graph(StepId("run/0"), graph)
    assert context.get_block_graph(StepId("run/0")) is graph


def test_completed_steps_by_name(engine: Engine) -> None:
    source = NUMBER + "workflow W() andThen { a = N(n = 1)\n b = N(n = a.n) }"
    engine.run(source)
    program = compiled(source)
    context = ExecutionContext(
        engine.store,
        Telemetry(),
        IterationChanges(),
        engine.run_id,
        workflow_ast=workflow_of(program),
        program_ast=program,
    )
    block = StepId(f"{engine.run_id}/0")
    found = context.get_completed_step_by_name("a", block)
    assert found is not None
    assert found.attributes.get_param("n") == 1
    assert context.get_completed_step_by_name("nope", block) is None


def test_caches_can_be_dropped_at_any_time(engine: Engine) -> None:
    engine.run(NUMBER + "workflow W() andThen { a = N(n = 1) }")
    context = make(engine.store, engine.run_id)
    before = context.step(StepId(engine.run_id))
    context.clear_caches()
    after = context.step(StepId(engine.run_id))
    assert before == after
    assert before is not after
