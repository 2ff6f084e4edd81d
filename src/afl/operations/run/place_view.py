"""The steps that stand at one place of the program: the elements of a foreach, one line each."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.kernel.errors import NotFoundError
from afl.operations.parameters import Limit, Position
from afl.operations.reason.snapshot import first_line
from afl.operations.run import run_store
from afl.operations.run.cut_values import cut
from afl.operations.run.run_graph import place_of, step_word
from afl.operations.run.run_programs import program_cache
from afl.operations.run.run_tree import Counts
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.program.block import StatementDefinition
from afl.runtime.program.program import Program
from afl.runtime.step import StepDefinition, StepLine
from afl.runtime.types import ObjectType, StepId, WorkflowId

_INDEX = re.compile(r"#(\d+)")
_DEEPEST = 300
_LONGEST = 200
_PIECE = 500  # steps whose data is read at a time


class UnknownPlace(NotFoundError, hint="`afl show` and the graph of the run show what there is."):
    """A path that leads nowhere in the program of the run."""


@dataclass(frozen=True)
class Element:
    """One step. `path` is its own inside the run; `error` the first line of what went wrong; `values` what it got,
    with long ones cut."""

    path: str
    shown: str
    facet: str
    state: str
    started: int
    ended: int
    duration_ms: int
    error: str = ""
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def place(self) -> str:
        """Where it stands with all other elements: `0/desk/0/#/story`."""
        return _INDEX.sub("#", self.path)


@dataclass(frozen=True)
class PlaceView:
    """Some of the steps of a place, failed ones first, then in the order of their elements.

    `next` is where to read on, 0 at the end.
    """

    run: str
    workflow: str
    path: str
    facet: str
    line: int | None
    counts: Counts
    elements: list[Element]
    next: int = 0


def show_place(
    store: PersistenceAPI,
    run: str,
    path: str,
    *,
    state: str = "",
    text: str = "",
    after: Position = 0,
    limit: Limit = 100,
    below: bool = False,
) -> PlaceView:
    """The steps at a place such as `0/desk/0/#/story`; with `below`, those in the bodies of the step at that path.

    With `text`, those that have it in a value that they got or returned, or in their error; case does not matter.
    """
    found = run_store.find(store, run)
    workflow_id = WorkflowId(found.workflow_id)
    whole = StepId(f"{workflow_id}/{path}") if below and path else None
    lines = store.get_step_lines(workflow_id, whole)
    mine = [line for line in lines if _belongs(line, workflow_id, path, below)]
    places: dict[str, int] = {}  # in the order in which they began
    for line in mine:
        places.setdefault(place_of(line.id, workflow_id), len(places))
    mine.sort(key=lambda line: (places[place_of(line.id, workflow_id)], _numbers(line.id)))
    words = _words(store, found, lines, mine)
    counts = Counts()
    for word in words.values():
        if word != "canceled":
            setattr(counts, word, getattr(counts, word) + 1)
    chosen = [line for line in mine if not state or words[line.id] == state]
    chosen.sort(key=lambda line: words[line.id] != "failed")
    if text:
        page, following = _search(store, chosen, text, after, limit)
    else:
        page = chosen[after : after + limit]
        following = after + limit if len(chosen) > after + limit else 0
    statement = _statement(program_cache(store).load(found.program_hash), path) if not below else None
    location = (statement.location if statement is not None else None) or {}
    return PlaceView(
        run=workflow_id,
        workflow=found.workflow_name,
        path=path,
        facet=statement.facet_name if statement is not None else "",
        line=location.get("line"),
        counts=counts,
        elements=_elements(store, workflow_id, page, words),
        next=following,
    )


def _search(
    store: PersistenceAPI, lines: Sequence[StepLine], text: str, after: int, limit: int
) -> tuple[list[StepLine], int]:
    """The next steps that have a text, and where to read on; their data is read in pieces, only as far as needed."""
    found: list[StepLine] = []
    wanted = text.casefold()
    for start in range(after, len(lines), _PIECE):
        piece = lines[start : start + _PIECE]
        steps = {step.id: step for step in store.get_steps([line.id for line in piece])}
        for number, line in enumerate(piece, start):
            step = steps.get(line.id)
            if step is not None and wanted in _searched(step).casefold():
                if len(found) == limit:
                    return found, number
                found.append(line)
    return found, 0


def _searched(step: StepDefinition) -> str:
    values = [*step.attributes.params.values(), *step.attributes.returns.values()]
    parts = (each.value if isinstance(each.value, str) else codec.encode(each.value) for each in values)
    return "\n".join([*parts, _error(step.transition.error)])


def _statement(program: Program, path: str) -> StatementDefinition | None:
    """What the program says there; UnknownPlace for a path that leads nowhere."""
    try:
        if path.count("/") > _DEEPEST:
            raise KeyError(path)
        return program.place(path).statement
    except (LookupError, ValueError, StopIteration) as error:
        raise UnknownPlace(f"the program has no place {path[:_LONGEST]!r}") from error


def _belongs(line: StepLine, workflow_id: WorkflowId, path: str, below: bool) -> bool:
    if not below:
        return place_of(line.id, workflow_id) == path
    rest = paths.relative(line.id, workflow_id)
    if path and not rest.startswith(f"{path}/"):
        return False
    segments = rest[len(path) + 1 if path else 0 :].split("/")
    own = [each for each in segments if not paths.is_block(each)]
    return len(own) == 1 and bool(rest) and segments[-1] == own[0] and own[0][0] not in ">~"


def _numbers(step_id: str) -> list[int]:
    """The indices of the elements it stands in: their order, where an id as text has 10 before 2."""
    return [int(each) for each in _INDEX.findall(step_id)]


def _words(
    store: PersistenceAPI, run: RunDefinition, lines: list[StepLine], mine: list[StepLine]
) -> dict[str, str]:
    at_work = store.get_running_steps(WorkflowId(run.workflow_id)) if not run.is_over else set()
    catchers = {paths.parent(line.id) for line in lines if line.object_type == ObjectType.AND_CATCH}
    words = {}
    for line in mine:
        word = step_word(line.state, is_worked_on=line.id in at_work, catches=line.id in catchers)
        left_open = word in ("waiting", "running") and run.state == RunnerState.CANCELED
        words[str(line.id)] = "canceled" if left_open else word
    return words


def _elements(
    store: PersistenceAPI,
    workflow_id: WorkflowId,
    page: list[StepLine],
    words: dict[str, str],
) -> list[Element]:
    read = store.get_steps([line.id for line in page])
    errors = {step.id: step.transition.error for step in read if words[step.id] == "failed"}
    values = {step.id: _values(step) for step in read}
    return [
        Element(
            path=paths.relative(line.id, workflow_id),
            shown=paths.shown(line.id, workflow_id),
            facet=line.facet_name,
            state=words[line.id],
            started=line.started,
            ended=line.ended,
            duration_ms=max(0, (line.ended or wall_ms()) - line.started),
            error=_error(errors.get(line.id)),
            values=values.get(line.id, {}),
        )
        for line in page
    ]


def _values(step: StepDefinition) -> dict[str, Any]:
    return {name: cut(each.value) for name, each in step.attributes.params.items()}


def _error(error: Exception | None) -> str:
    message = error.text if isinstance(error, StepFailure) else str(error or "")
    return first_line(message) if message else ""
