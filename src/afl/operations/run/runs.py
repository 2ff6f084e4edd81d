"""Runs: start one, take one up again, find one."""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from afl.kernel import codec
from afl.kernel.errors import AgentFlowError, InputError, NotFoundError, StoreUnavailable
from afl.kernel.ids import sortable_id
from afl.kernel.settings import Settings, load_settings
from afl.language.compiler import Compiled
from afl.operations.program.sources import shown_name
from afl.operations.run.spending import set_budget
from afl.runtime.entities import RunDefinition, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator, ExecutionResult
from afl.runtime.handler import Handlers
from afl.runtime.inputs import check_inputs
from afl.runtime.local_runner import LocalRunner, Observer
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import Program
from afl.runtime.session import Pace
from afl.runtime.store import open_store
from afl.runtime.types import WorkflowId

if TYPE_CHECKING:
    from afl.bridges.service import BridgeService

DEFAULT_CONCURRENCY = 8
_LISTED_RUNS = 5
_LONGEST_SOURCE = 256 * 1024


@dataclass(frozen=True)
class Waiting:
    """Steps that wait for somebody. `near` is a handler of almost that name, if this process has one.

    `via` says who does their work where that is no handler (`human:finance`), `why` what keeps it from being begun.
    """

    facet: str
    steps: int
    near: str = ""
    via: str = ""
    why: str = ""


@dataclass(frozen=True)
class RunReport:
    """What a run came to. `status` is COMPLETED, PAUSED or ERROR; `reason` says who or what paused it."""

    run: str
    workflow: str
    status: str
    outputs: dict[str, Any] = field(default_factory=dict)
    error: StepFailure | None = None
    waiting_for: list[Waiting] = field(default_factory=list)
    duration_ms: int = 0
    reason: str = ""


class RunFailed(AgentFlowError, hint="Mend the cause, then `afl retry RUN`."):
    """A run ended in an error; `report` tells which step, where and why."""

    def __init__(self, report: RunReport) -> None:
        super().__init__(f"run {report.run} of {report.workflow} failed: {report.error}")
        self.report = report


class RunPaused(
    AgentFlowError, hint="Start an agent for the facets that are named, or `afl resume RUN --agent MODULE`."
):
    """A run waits for agents that this process does not have; `report` tells for which."""

    def __init__(self, report: RunReport) -> None:
        facets = ", ".join(each.facet for each in report.waiting_for) or "an operator"
        super().__init__(f"run {report.run} of {report.workflow} waits for {facets}")
        self.report = report


class UnknownRun(NotFoundError, hint="`afl list` lists the runs; check --store too."):
    """There is no such run; `latest` are those one may have meant."""

    def __init__(self, name: str, latest: list[RunDefinition]) -> None:
        super().__init__(f"there is no run {name} in this store")
        self.name = name
        self.latest = latest


@contextmanager
def opened(settings: Settings, *, create: bool = True) -> Iterator[PersistenceAPI]:
    """The store of the settings, for a while; without `create` a file that is not there is an error."""
    path = unquote(settings.store.removeprefix("sqlite:///"))
    if not create and path != settings.store and not Path(path).exists():
        raise StoreUnavailable(
            f"there is no store {path} yet; `afl run` or `afl submit` makes it, or name another with --store"
        )
    codec.set_payload_limit(settings.max_payload_bytes)
    store = open_store(
        settings.store,
        lease_ms=settings.lease_ms,
        max_deliveries=settings.max_deliveries,
        doorbell=settings.doorbell,
    )
    try:
        yield store
    finally:
        store.close()


def choose_workflow(compiled: Compiled, name: str | None = None, *, source: str = "") -> Program:
    """The program with the named workflow as its entry, or with its only one."""
    shown = source or next((shown_name(each) for each in compiled.sources), "")
    known = Program({"program": compiled.program}).workflows()
    if name is None and len(known) != 1:
        if not known:
            raise InputError(f"{shown} declares no workflow; there is nothing to run")
        raise InputError(f"{shown} declares several workflows: {', '.join(known)}; name the one to run")
    # The compiled program does not say which of several sources a line is in; naming one might name the wrong one.
    place = {"source": shown, **_text(compiled)} if len(compiled.sources) == 1 else {}
    try:
        return Program({"program": compiled.program, "workflow": name or known[0], **place})
    except InputError as error:
        raise InputError(f"{shown}: {error}") from error


def _text(compiled: Compiled) -> dict[str, str]:
    """The source itself, kept with the program so that people can be shown the line that an error names."""
    text = next(iter(compiled.sources.values()))
    return {"text": text} if len(text) <= _LONGEST_SOURCE else {}


def start(
    store: PersistenceAPI,
    program: Program,
    inputs: Mapping[str, Any] | None = None,
    *,
    handlers: Handlers,
    settings: Settings | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    observer: Observer | None = None,
    bridges: BridgeService | None = None,
    budget_usd: float | None = None,
    budget_tokens: int | None = None,
) -> RunReport:
    """Run a workflow until it ends, or until only others can go on. InputError before anything is stored.

    What goes on elsewhere is waited for where this process hosts the bridge to it.
    """
    settings = settings or load_settings()
    run = WorkflowId(sortable_id())
    if budget_usd is not None or budget_tokens is not None:
        check_inputs(program, inputs or {})
        set_budget(store, run, usd=budget_usd, tokens=budget_tokens)
    with _runner(store, handlers, settings, concurrency, observer, bridges) as runner:
        result = runner.run(program, inputs, task_list=settings.task_list, workflow_id=run)
    return _report(store, result, handlers, bridges)


def resume(
    store: PersistenceAPI,
    run: str,
    *,
    handlers: Handlers,
    settings: Settings | None = None,
    concurrency: int = DEFAULT_CONCURRENCY,
    observer: Observer | None = None,
    bridges: BridgeService | None = None,
) -> RunReport:
    """Go on with a run wherever it stopped. HeldError if a live process works on it."""
    found = find(store, run)
    with _runner(store, handlers, settings or load_settings(), concurrency, observer, bridges) as runner:
        result = runner.resume(WorkflowId(found.workflow_id))
    return _report(store, result, handlers, bridges)


def find(store: PersistenceAPI, name: str | None = None) -> RunDefinition:
    """The run of an id, or of a prefix that only it has; without a name the latest one."""
    if name is None:
        latest = store.get_runs(limit=1)
        if not latest:
            raise InputError("there is no run in this store yet")
        return latest[0]
    exact = store.get_run(WorkflowId(name))
    if exact is not None:
        return exact
    matches = store.find_runs(prefix=name, limit=_LISTED_RUNS + 1) if name else []
    if not matches:
        raise UnknownRun(name, store.find_runs(limit=_LISTED_RUNS))
    if len(matches) > 1:
        count = len(matches) if len(matches) <= _LISTED_RUNS else f"more than {_LISTED_RUNS}"
        shown = ", ".join(each.workflow_id for each in matches[:_LISTED_RUNS])
        raise InputError(f"{count} runs begin with {name}: {shown}; write more of the id")
    found = store.get_run(WorkflowId(matches[0].workflow_id))  # with its inputs
    if found is None:
        raise UnknownRun(name, [])
    return found


def _runner(
    store: PersistenceAPI,
    handlers: Handlers,
    settings: Settings,
    concurrency: int,
    observer: Observer | None,
    bridges: BridgeService | None,
) -> LocalRunner:
    pace = Pace(settings.commit_steps, settings.commit_ms / 1000, settings.foreach_window)
    return LocalRunner(
        Evaluator(store, pace=pace),
        handlers,
        concurrency=concurrency,
        observer=observer,
        awaits=bridges.looks_after if bridges is not None else None,
    )


def _report(
    store: PersistenceAPI, result: ExecutionResult, handlers: Handlers, bridges: BridgeService | None
) -> RunReport:
    record = store.get_run(result.workflow_id)
    assert record is not None  # it was just committed
    error = result.error
    if error is not None and not isinstance(error, StepFailure):
        error = StepFailure(str(error), type(error).__name__)
    facets = Counter(event.event_type for event in result.pending_events)
    tasks = store.get_tasks_by_workflow(result.workflow_id) if facets else []
    elsewhere = {task.name: task for task in tasks if task.via and task.state == TaskState.PENDING}
    return RunReport(
        run=result.workflow_id,
        workflow=record.workflow_name,
        status=result.status,
        outputs=result.outputs,
        error=error,
        waiting_for=[_waiting(facet, steps, handlers, elsewhere, bridges) for facet, steps in facets.items()],
        reason=record.reason,
        duration_ms=(record.ended or record.updated) - record.created,
    )


def _waiting(
    facet: str,
    steps: int,
    handlers: Handlers,
    elsewhere: Mapping[str, TaskDefinition],
    bridges: BridgeService | None,
) -> Waiting:
    task = elsewhere.get(facet)
    if task is None:
        return Waiting(facet, steps, _near(facet, handlers))
    return Waiting(facet, steps, via=task.via, why=bridges.reason(task) if bridges is not None else "")


def _near(facet: str, handlers: Handlers) -> str:
    return next(iter(difflib.get_close_matches(facet, handlers.names, n=1)), "")
