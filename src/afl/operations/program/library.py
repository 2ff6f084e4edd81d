"""Workflows that can be started by name, and their start forms."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from afl.kernel.bounds import check_name
from afl.kernel.clock import wall_ms
from afl.kernel.errors import InputError, NotFoundError
from afl.kernel.ids import random_id
from afl.kernel.near_names import near_name
from afl.language.diagnostics import Diagnostic
from afl.operations.parameters import Source, SourceName, Workflow, about
from afl.operations.people.forms import Form, start_form
from afl.operations.program.sources import (
    WorkflowSignature,
    choose_workflow,
    compile_source,
    compile_sources,
    from_text,
    program_of,
    signature,
)
from afl.runtime.entities import FlowDefinition, FlowIdentity, SourceText, WorkflowDefinition
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.program.cache import ProgramCache
from afl.runtime.program.program import Program
from afl.runtime.types import WorkflowId

RECENT = 200  # workflows of so many of the newest runs are known


@dataclass(frozen=True)
class KnownWorkflow:
    """A workflow that can be started by its name. `origin` is published, or run: then that of its latest run.

    `flow` is the id of the flow that it was published in.
    """

    name: str
    origin: str
    run: str = ""
    published: int = 0
    flow: str = ""


@dataclass(frozen=True)
class WorkflowView:
    """A workflow with what it takes and gives; `source` is its text, if it was published."""

    workflow: KnownWorkflow
    signature: WorkflowSignature
    source: str = ""


@dataclass(frozen=True)
class Published:
    """What was published: the names that can be started now."""

    name: str
    workflows: list[str]


def list_workflows(store: PersistenceAPI) -> list[KnownWorkflow]:
    """List the workflows that can be started by name: published ones, and those that ran recently."""
    return sorted(_known(store).values(), key=lambda each: each.name)


def show_workflow(store: PersistenceAPI, workflow: Workflow) -> WorkflowView:
    """Show what a workflow takes and gives, and its source if it was published."""
    known = find_workflow(store, workflow)
    program = load_workflow(store, known)
    source = _text_of(store, known).content if known.origin == "published" else ""
    return WorkflowView(known, signature(program.workflow), source)


def find_workflow(store: PersistenceAPI, workflow: str) -> KnownWorkflow:
    """The workflow of a name; NotFoundError if nobody published it or ran it recently."""
    known = _known(store)
    if workflow in known:
        return known[workflow]
    near = near_name(workflow, known)
    hint = f"did you mean {near!r}?" if near else f"there are {', '.join(sorted(known)[:10]) or 'none'}"
    raise NotFoundError(f"no workflow {workflow!r} was published or ran recently; {hint}")


def load_workflow(store: PersistenceAPI, known: KnownWorkflow) -> Program:
    """The program that runs of it execute."""
    if known.origin == "run":
        run = store.get_run(WorkflowId(known.run))
        if run is None:
            raise NotFoundError(f"run {known.run} is no longer in this store")
        return ProgramCache(store).load(run.program_hash)
    text = _text_of(store, known)
    compiled = compile_sources(from_text(text.content, text.name))
    return choose_workflow(compiled, known.name, source=text.name)


def program_named(store: PersistenceAPI, workflow: str) -> Program:
    """The program of a workflow; NotFoundError for a name that nobody published or ran recently."""
    return load_workflow(store, find_workflow(store, workflow))


def workflow_form(store: PersistenceAPI, workflow: str) -> Form:
    """The form that starts a workflow: its parameters, with their defaults."""
    return start_form(program_named(store, workflow))


def publish_source(
    store: PersistenceAPI,
    source: Source,
    *,
    name: Annotated[SourceName, about("The name to keep it under; that of its first workflow.")] = "",
) -> Published:
    """Keep a source in the store, so that its workflows can be started by name. One of that name is replaced."""
    if name:
        check_name(name, "the name of the source")
    known = Program({"program": compile_sources(from_text(source, name or "<source>")).program}).workflows()
    if not known:
        raise InputError("the source declares no workflow; there is nothing to publish")
    called = name or known[0]
    kept = store.get_flow_by_name(called)
    uuid = kept.uuid if kept is not None else random_id()
    now = wall_ms()
    workflows = [
        WorkflowDefinition(f"{uuid}:{each}", each, "", "", uuid, "", "1", date=now) for each in known
    ]
    store.save_flow(
        FlowDefinition(
            uuid,
            FlowIdentity(called, called, uuid),
            workflows=workflows,
            compiled_sources=[SourceText(called, source)],
        )
    )
    for workflow in workflows:
        store.save_workflow(workflow)
    return Published(called, known)


def _known(store: PersistenceAPI) -> dict[str, KnownWorkflow]:
    found = {
        run.workflow_name: KnownWorkflow(run.workflow_name, "run", run.workflow_id)
        for run in reversed(store.find_runs(RunFilter(limit=RECENT)))
    }
    for flow in store.get_all_flows():
        for each in flow.workflows if flow.compiled_sources else ():
            found[each.name] = KnownWorkflow(each.name, "published", published=each.date, flow=flow.uuid)
    return found


def _text_of(store: PersistenceAPI, known: KnownWorkflow) -> SourceText:
    flow = store.get_flow(known.flow)
    if flow is None or not flow.compiled_sources:
        raise NotFoundError(f"the workflow {known.name!r} is no longer published")
    return flow.compiled_sources[0]


@dataclass(frozen=True)
class SourceForm:
    """What the compiler found, the workflows of the source, and the form of the one chosen (or the only one)."""

    findings: list[Diagnostic]
    workflows: list[str] = field(default_factory=list)
    workflow: str = ""
    form: Form | None = None


def source_form(store: PersistenceAPI, source: Source, *, workflow: str = "") -> SourceForm:
    """The form that starts a workflow of a source; nothing is stored."""
    found = compile_source(store, source)
    names = [each.name for each in found.workflows]
    chosen = workflow if workflow in names else names[0] if len(names) == 1 else ""
    if not found.valid or not chosen:
        return SourceForm(found.findings, names)
    return SourceForm(found.findings, names, chosen, start_form(program_of(source, chosen)))
