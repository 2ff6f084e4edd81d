"""Flows: what a store keeps of sources, with their workflows, runs and compiled JSON."""

from __future__ import annotations

import pytest
from operated_store import CHAIN, program_of

from afl.kernel.errors import InputError
from afl.operations.program.flows import UnknownFlow, list_flows, show_flow
from afl.operations.program.library import publish_source, show_workflow
from afl.operations.program.submission import start_workflow, submit
from afl.operations.run.run_summary import run_summary
from afl.runtime.entities import FlowDefinition, FlowIdentity, SourceText
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import RunFilter
from afl.runtime.types import WorkflowId

OTHER = CHAIN.replace("namespace t", "namespace other")


def test_flows_are_listed_newest_first_with_their_runs(store: MemoryStore) -> None:
    publish_source(store, CHAIN, name="chain")
    publish_source(store, OTHER, name="other")
    started = start_workflow(store, "t.Chain", {"n": 3})
    submit(store, program_of(CHAIN), {"n": 3})
    page = list_flows(store)
    assert [(each.name, each.workflows, each.runs) for each in page.flows] == [
        ("other", 1, 0),
        ("chain", 1, 1),
    ]
    assert all(each.stored > 0 for each in page.flows)
    chain = page.flows[1].id
    assert run_summary(store, started.run).flow == chain
    assert store.find_runs(RunFilter(limit=1))[0].flow_id == ""


@pytest.mark.parametrize("name", ["a\nb", "\0", "\x1b[2J", "x" * 513])
def test_a_name_that_would_break_a_list_is_refused(store: MemoryStore, name: str) -> None:
    with pytest.raises(InputError, match=r"the name of the source is .*no control characters"):
        publish_source(store, CHAIN, name=name)
    with pytest.raises(InputError, match=r"the task list is .*no control characters"):
        submit(store, program_of(CHAIN), {"n": 3}, task_list=name)
    assert list_flows(store).flows == []


def test_a_page_of_flows_leads_to_the_next(store: MemoryStore) -> None:
    for number in range(5):
        publish_source(store, CHAIN, name=f"flow-{number}")
    first = list_flows(store, limit=3)
    rest = list_flows(store, limit=3, before=first.next)
    assert [each.name for each in (*first.flows, *rest.flows)] == [f"flow-{n}" for n in range(4, -1, -1)]
    assert rest.next == ""


def test_a_flow_is_found_by_id_beginning_and_name(store: MemoryStore) -> None:
    publish_source(store, CHAIN, name="folder/chain")
    line = list_flows(store).flows[0]
    for name in (line.id, line.id[:6], "folder/chain"):
        view = show_flow(store, name)
        assert (view.line, view.sources[0].content) == (line, CHAIN)
    assert [each.name for each in view.workflows] == ["t.Chain"]
    assert view.program is not None
    assert view.program["type"] == "Program"
    assert show_flow(store, line.id, with_program=False).program is None
    with pytest.raises(UnknownFlow, match="there is no flow 'nope'"):
        show_flow(store, "nope")


def test_a_beginning_that_several_flows_have_is_refused(store: MemoryStore) -> None:
    for uuid in ("ab1", "ab2"):
        store.save_flow(FlowDefinition(uuid, FlowIdentity(uuid, uuid, uuid)))
    with pytest.raises(InputError, match="several flows start with ab: ab2, ab1"):
        show_flow(store, "ab")
    assert show_flow(store, "ab1").sources == []


def test_the_program_of_a_run_is_shown_by_its_hash(store: MemoryStore) -> None:
    run = submit(store, program_of(CHAIN), {"n": 3}).run
    kept = store.get_run(WorkflowId(run))
    assert kept is not None
    summary = run_summary(store, run)
    assert (summary.program, summary.flow) == (kept.program_hash, "")
    view = show_flow(store, summary.program)
    assert (view.line.origin, [each.content for each in view.sources]) == ("run", [CHAIN])
    assert view.program is not None
    assert list_flows(store).flows == []


def test_a_source_that_no_longer_compiles_is_shown_with_its_findings(store: MemoryStore) -> None:
    broken = SourceText("broken.afl", "workflow {")
    store.save_flow(FlowDefinition("f", FlowIdentity("broken", "", "f"), compiled_sources=[broken]))
    view = show_flow(store, "broken")
    assert (view.program, view.workflows) == (None, [])
    assert view.findings[0].severity == "error"
    assert view.sources[0].content == "workflow {"


def test_of_two_flows_with_one_workflow_the_newest_counts(store: MemoryStore) -> None:
    publish_source(store, CHAIN, name="old")
    publish_source(store, f"// newer\n{CHAIN}", name="new")
    assert show_workflow(store, "t.Chain").source.startswith("// newer")
    newest = list_flows(store).flows[0]
    assert show_workflow(store, "t.Chain").workflow.flow == newest.id
