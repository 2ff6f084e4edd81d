"""Flows: the sources that a store keeps, what they declare, and the compiled JSON that the runtime executes."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any

from afl.kernel import codec
from afl.kernel.errors import InputError, NotFoundError
from afl.language.diagnostics import Diagnostic
from afl.operations.parameters import Limit, about
from afl.operations.program.sources import WorkflowSignature, examine, from_text, signatures
from afl.runtime.entities import FlowDefinition
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.program import Program

_LISTED = 5


class UnknownFlow(NotFoundError, hint="`afl flows` lists the flows; check --store too."):
    """There is no such flow."""


@dataclass(frozen=True)
class FlowLine:
    """One flow. `stored` is when it was published last (ms), 0 if that is not known.

    `origin` is published, or run: a program that was stored with a run, and is listed nowhere.
    """

    id: str
    name: str
    stored: int
    workflows: int
    sources: int
    runs: int
    origin: str = "published"


@dataclass(frozen=True)
class FlowPage:
    """Flows, newest first; `next` is what to give as `before` for the page behind, empty on the last."""

    flows: list[FlowLine]
    next: str


@dataclass(frozen=True)
class FlowSource:
    """One source of a flow."""

    name: str
    content: str
    language: str = "afl"


@dataclass(frozen=True)
class FlowView:
    """A flow with its sources. `program` is the compiled JSON; None if it was not asked for or does not compile.

    `findings` is what the compiler says of the source today.
    """

    line: FlowLine
    sources: list[FlowSource]
    workflows: list[WorkflowSignature] = field(default_factory=list)
    findings: list[Diagnostic] = field(default_factory=list)
    program: dict[str, Any] | None = None


def list_flows(
    store: PersistenceAPI,
    *,
    limit: Limit = 20,
    before: Annotated[str, about("Only older ones than this.")] = "",
) -> FlowPage:
    """List the flows, newest first."""
    found = store.find_flows(before=before, limit=limit + 1)
    page = found[:limit]
    counted = store.count_runs_of_flows([flow.uuid for flow in page])
    lines = [_line(flow, counted.get(flow.uuid, 0)) for flow in page]
    return FlowPage(lines, page[-1].uuid if len(found) > limit else "")


def show_flow(
    store: PersistenceAPI,
    flow: Annotated[str, about("The flow's id, its first characters, or its name.")],
    *,
    with_program: Annotated[bool, about("With the compiled JSON, which is long.")] = True,
) -> FlowView:
    """Show a flow: its workflows, its source, its compiled JSON.

    The hash of a run's program is also an id.
    """
    kept = _find(store, flow)
    return _published(store, kept, with_program) if kept else _of_run(store, flow, with_program)


def _find(store: PersistenceAPI, name: str) -> FlowDefinition | None:
    exact = store.get_flow(name) or store.get_flow_by_name(name)
    if exact is not None:
        return exact
    matches = store.find_flows(prefix=name, limit=_LISTED + 1) if name else []
    if len(matches) > 1:
        shown = ", ".join(each.uuid for each in matches[:_LISTED])
        raise InputError(f"several flows start with {name}: {shown}; write more of the id")
    return matches[0] if matches else None


def _published(store: PersistenceAPI, flow: FlowDefinition, with_program: bool) -> FlowView:
    line = _line(flow, store.count_runs_of_flows([flow.uuid]).get(flow.uuid, 0))
    sources = [FlowSource(each.name, each.content, each.language) for each in flow.compiled_sources]
    if not sources:
        return FlowView(line, sources)
    report = examine(from_text(sources[0].content, sources[0].name))  # what a run of the flow executes
    if report.compiled is None:
        return FlowView(line, sources, findings=report.diagnostics)
    program = report.compiled.program
    declared = signatures(Program({"program": program}))
    return FlowView(line, sources, declared, report.diagnostics, program if with_program else None)


def _of_run(store: PersistenceAPI, program_hash: str, with_program: bool) -> FlowView:
    stored = store.get_program(program_hash)
    if stored is None:
        raise UnknownFlow(f"there is no flow {program_hash!r} in this store")
    compiled = codec.decode(stored)
    program = Program(compiled)
    sources = [FlowSource(program.source, program.source_text)] if program.source_text else []
    declared = signatures(program)
    name = program.source or program.workflow.name
    line = FlowLine(program_hash, name, 0, len(declared), len(sources), 0, "run")
    return FlowView(line, sources, declared, program=compiled.get("program") if with_program else None)


def _line(flow: FlowDefinition, runs: int) -> FlowLine:
    stored = max((each.date for each in flow.workflows), default=0)
    return FlowLine(flow.uuid, flow.name.name, stored, len(flow.workflows), len(flow.compiled_sources), runs)
