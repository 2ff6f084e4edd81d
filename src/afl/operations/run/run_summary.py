"""Figures of runs: a run at a glance, what its models cost, what is open in the store; lines of source."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from afl.operations.run import run_store
from afl.operations.run.lineage import Lineage, lineage
from afl.operations.run.run_list import RunLine, run_line
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_status import statuses
from afl.runtime.entities import RunnerState, TaskHold
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI, TaskFilter
from afl.runtime.persistence.usage import Budget, ModelCall, UsageRecord, UsageTotal, check_limits, total
from afl.runtime.program.program import Program
from afl.runtime.stores.usage_store import budget_store, usage_store

_AROUND = 2
_MOST_CALLS = 500


@dataclass(frozen=True)
class ExcerptLine:
    """One line; `caret` is the blank before the caret, on the line that is meant."""

    number: int
    text: str
    is_hit: bool = False
    caret: str = ""


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source."""

    source: str
    line: int
    lines: list[ExcerptLine]


def excerpt(program: Program, line: int | None, column: int | None = None) -> Excerpt | None:
    """The lines around a place; None if the source was not stored with the program."""
    if line is None or not program.source_text:
        return None
    text = program.source_text.split("\n")
    if not 0 < line <= len(text):
        return None
    first, last = max(1, line - _AROUND), min(len(text), line + _AROUND)
    shown = []
    for number in range(first, last + 1):
        content = text[number - 1].rstrip("\r")
        hit = number == line
        # Tabs stay tabs so that the caret stands under its character whatever the tab width.
        lead = "".join("\t" if each == "\t" else " " for each in content[: (column or 1) - 1])
        shown.append(ExcerptLine(number, content, hit, lead if hit and column is not None else ""))
    return Excerpt(program.source, line, shown)


_MOST = 100  # nobody reads a larger number beside a menu


@dataclass(frozen=True)
class Badges:
    """Open runs, and approvals that wait for a person (at most 100 are counted)."""

    runs: int = 0
    approvals: int = 0


def badges(store: PersistenceAPI) -> Badges:
    """The numbers as of now."""
    from afl.operations.people.tool_calls import ToolCalls  # noqa: PLC0415  most commands count nothing

    waiting = store.find_tasks(TaskFilter(hold=TaskHold.ELSEWHERE, via="human", limit=_MOST))
    calls = ToolCalls.of(store).waiting(limit=_MOST)
    return Badges(store.count_open_runs(), len(waiting) + len(calls))


def get_usage(store: PersistenceAPI, run: str) -> list[UsageRecord]:
    """The calls to models in a run; none where the store keeps no record of them."""
    kept = usage_store(store)
    return kept.get_usage(run) if kept is not None else []


def get_calls(store: PersistenceAPI, run: str, step: str) -> list[ModelCall]:
    """The calls to models for a step, with what was said in them where that is kept."""
    kept = usage_store(store)
    return kept.get_calls(run, step, _MOST_CALLS) if kept is not None else []


def usage_by(records: Iterable[UsageRecord], places: Mapping[str, str]) -> dict[str, UsageTotal]:
    """Use by place of the program; `places` says where each step stands."""
    found: dict[str, UsageTotal] = {}
    for record in records:
        place = places.get(record.step_id)
        if place is not None:
            found[place] = found.get(place, UsageTotal()).adding(record)
    return found


def get_budget(store: PersistenceAPI, run: str) -> Budget | None:
    """The budget of a run, if it has one."""
    return budget_store(store).get_budget(run) if "budgets" in store.capabilities else None


def set_budget(
    store: PersistenceAPI, run: str, *, usd: float | None = None, tokens: int | None = None
) -> None:
    """Give a run a budget, or another one. InputError for limits that are none."""
    check_limits(usd, tokens)
    budget_store(store).set_budget(run, usd=usd, tokens=tokens)


@dataclass(frozen=True)
class RunSummary:
    """A run without its steps. `excerpt` is the source around the line that failed, where it is known.

    `program` is what it executes, and `flow` the stored flow that it was started from, if any: `show_flow` takes both.
    A flow may have been published anew since. `takes_signals`: its workflow has steps that wait for some.
    """

    line: RunLine
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    failure: dict[str, Any] | None
    excerpt: Excerpt | None
    usage: UsageTotal | None
    budget: Budget | None
    source: str
    is_over: bool
    program: str = ""
    flow: str = ""
    takes_signals: bool = False
    lineage: Lineage = field(default_factory=Lineage)


def run_summary(store: PersistenceAPI, run: str) -> RunSummary:
    """A run at a glance."""
    found = run_store.find(store, run)
    program = program_cache(store).load(found.program_hash)
    failure = (
        StepFailure.from_dict(found.error) if found.error and found.state == RunnerState.FAILED else None
    )
    records = get_usage(store, found.workflow_id)
    return RunSummary(
        line=run_line(found, statuses(store, [found])[found.workflow_id]),
        inputs=found.inputs,
        outputs=found.outputs,
        failure=failure.to_dict() if failure is not None else None,
        excerpt=excerpt(program, failure.line, failure.column) if failure is not None else None,
        usage=total(records) if records else None,
        budget=get_budget(store, found.workflow_id),
        source=program.source,
        is_over=found.is_over,
        program=found.program_hash,
        flow=found.flow_id,
        takes_signals=bool(program.signals),
        lineage=lineage(store, found),
    )
