"""Workflows with all that a run can wait for, and what their records must be, however often their processes died."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from afl.language import compile_source
from afl.runtime.entities import RunDefinition, RunnerState, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.program.program import Program
from afl.runtime.states import EventState
from afl.runtime.types import WorkflowId

_SOURCE = """namespace t {
    event facet Do(key: String) => (n: Long)
    event facet Note(n: Long) => (text: String) with Signal("note")
    event facet Never(n: Long) => (text: String) with Signal("never") with Timeout(ms = 1)

    workflow Mail() => (texts: String, why: String) andThen {
        nap = sys.Sleep(ms = 1)
        past = sys.Until("2020-01-01T00:00:00Z")
        first = Note(n = 1) with After(nap) with After(past)
        second = Note(n = 2) with After(nap) with After(past)
        third = Note(n = 3) with After(first) with After(second)
        never = Never(n = 4) catch {
            yield Never(text = never.error_type)
        }
        told = sys.Publish(name = "texts", value = first.text ++ second.text)
        yield Mail(texts = first.text ++ second.text ++ third.text, why = never.text)
    }
    workflow Loop(until: Long) => (n: Long = 0, seen: [Long] = []) andThen repeat last {
        nap = sys.Sleep(ms = 1)
        done = Do(key = "loop-" ++ last.n) with After(nap) <CONCURRENCY>
        told = sys.Publish(name = "n", value = last.n + 1)
        yield Loop(n = last.n + 1, seen = last.seen ++ [done.n])
    } until last.n >= $.until

    workflow Waits() => (text: String) andThen {
        note = Note(n = 0)
        yield Waits(text = note.text)
    }
    workflow Part(key: String) => (n: Long) andThen {
        done = Do(key = $.key)
        yield Part(n = done.n)
    }
    workflow Parts(run: String) => (n: Long) andThen {
        awaited = Part(key = "awaited") with Run(id = $.run ++ "-awaited")
        ended = Waits() with Run(id = $.run ++ "-ended", wait = false)
        free = Part(key = "free") with Run(id = $.run ++ "-free", onParentClose = "detach", wait = false)
        yield Parts(n = awaited.n)
    }
    workflow Fan(list: [Long]) => (done: [Long], lost: [sys.Failure])
    andThen foreach x in $.list limit 2 collect lost {
        done = Do(key = "element-" ++ x) <RATE>
        yield Fan(done = [done.n])
    }
    workflow All(run: String, until: Long, list: [Long])
        => (texts: String, why: String, n: Long, seen: [Long], done: [Long], lost: [sys.Failure])
    andThen {
        mail = Mail()
        parts = Parts(run = $.run)
        loop = Loop(until = $.until)
        fan = Fan(list = $.list)
        yield All(texts = mail.texts, why = mail.why, n = parts.n, seen = loop.seen, done = fan.done, lost = fan.lost)
    }
}
"""
_LIMITS = {
    "<CONCURRENCY>": 'with Concurrency("one", limit = 1)',
    "<RATE>": 'with Rate("api", perMinute = 60000)',
}
_KEPT = 11  # of a loop the last iteration and the ten before it
REFUSED = "element-2"
EARLY = {"early-1": "a", "early-2": "b"}
LATE = {"late-3": "c"}
SIGNALS = {**EARLY, **LATE}


@cache
def source(capabilities: frozenset[str]) -> str:
    """The program, with limits where a store has them."""
    text = _SOURCE
    for place, policy in _LIMITS.items():
        text = text.replace(place, policy if "concurrency" in capabilities else "")
    return text


@cache
def compiled(capabilities: frozenset[str]) -> dict[str, Any]:
    program: dict[str, Any] = compile_source(source(capabilities)).program
    return program


def answer(key: str) -> dict[str, Any]:
    """What the agent says to a key; one is refused."""
    if key == REFUSED:
        raise ValueError("refused")
    return {"n": len(key)}


Ends = dict[tuple[str, str], int]


@dataclass(frozen=True)
class Piece:
    """A workflow, and what comes of it: outputs (failures as their elements), and its tasks by name and state.

    `children` are the states and tasks of its child runs, by the ends of their ids.
    """

    workflow: str
    inputs: dict[str, Any]
    outputs: dict[str, Any]
    tasks: Ends
    published: dict[str, Any] = field(default_factory=dict)
    has_signals: bool = False
    children: dict[str, tuple[str, Ends]] = field(default_factory=dict)

    def program(self, capabilities: frozenset[str]) -> Program:
        return Program({"program": compiled(capabilities), "workflow": self.workflow})

    def inputs_of(self, run: str) -> dict[str, Any]:
        return {**self.inputs, "run": run} if self.children else self.inputs

    def family(self, store: PersistenceAPI, run: str) -> dict[str, RunDefinition]:
        """The run and its children, by the ends of their ids."""
        found = [store.get_run(WorkflowId(run)), *store.get_children(run)]
        return {each.workflow_id.removeprefix(run): each for each in found if each is not None}

    def is_over(self, store: PersistenceAPI, run: str) -> bool:
        runs = self.family(store, run)
        return len(runs) == 1 + len(self.children) and all(each.is_over for each in runs.values())

    def check(self, store: PersistenceAPI, run: str) -> None:
        """The record is that of a run that nothing happened to: every timer and signal is there once."""
        runs = self.family(store, run)
        end = runs[""].outputs
        assert {**end, **_elements(end)} == self.outputs
        assert {name: each.state for name, each in runs.items()} == {
            "": RunnerState.COMPLETED,
            **{name: state for name, (state, _) in self.children.items()},
        }
        assert {each.owner for each in runs.values()} == {""}
        assert all(each.parent_told for name, each in runs.items() if name)
        assert {value.name: value.value for value in store.get_published(WorkflowId(run))} == self.published
        for name, tasks in {
            "": self.tasks,
            **{name: tasks for name, (_, tasks) in self.children.items()},
        }.items():
            _check_tasks(store, runs[name], tasks)
        if self.has_signals:
            _check_signals(store, WorkflowId(run))


def _elements(end: dict[str, Any]) -> dict[str, Any]:
    """The elements that failures were collected of."""
    return {"lost": [each["element"] for each in end["lost"]]} if "lost" in end else {}


def _check_tasks(store: PersistenceAPI, run: RunDefinition, expected: Ends) -> None:
    """Each step has one task, each task one event, and all of them have ended."""
    run_id = WorkflowId(run.workflow_id)
    assert store.get_marks(run_id) == []
    assert run.state != RunnerState.COMPLETED or store.get_open_steps(run_id) == []
    tasks = store.get_tasks_by_workflow(run_id)
    found = Counter((task.name, task.state) for task in tasks)
    assert found == expected or (run.state == RunnerState.CANCELED and not tasks)
    assert len({task.step_id for task in tasks}) == len(tasks)
    events = [event for event in store.get_events_by_workflow(run_id) if event.event_type != STEP_CONTINUE]
    assert Counter(event.id for event in events) == Counter(task.uuid for task in tasks)
    completed = {task.uuid for task in tasks if task.state == TaskState.COMPLETED}
    assert {event.id for event in events if event.state == EventState.COMPLETED} == completed


def _check_signals(store: PersistenceAPI, run: WorkflowId) -> None:
    """Each was received by a task of its own, in the order of delivery."""
    received = [store.get_signal(run, id) for id in SIGNALS]
    notes = [task for task in store.get_tasks_by_workflow(run) if task.name == "t.Note"]
    assert [each.task_id for each in received if each is not None] == [task.uuid for task in notes]
    assert [(task.result or {}).get("text") for task in notes] == list(SIGNALS.values())
    assert store.get_signals(run) == []


_DONE = TaskState.COMPLETED


def loop(until: int) -> Piece:
    """A loop with a timer and work in each iteration."""
    seen, kept = [len(f"loop-{number}") for number in range(until)], min(until, _KEPT)
    tasks = {("sys.Sleep", _DONE): kept, ("t.Do", _DONE): kept}
    return Piece("t.Loop", {"until": until}, {"n": until, "seen": seen}, tasks, {"n": until})


MAIL = Piece(
    "t.Mail",
    {},
    {"texts": "abc", "why": "Timeout"},
    {
        ("sys.Sleep", _DONE): 1,
        ("sys.Until", _DONE): 1,
        ("t.Note", _DONE): 3,
        ("t.Never", TaskState.FAILED): 1,
    },
    {"texts": "ab"},
    has_signals=True,
)
PARTS = Piece(
    "t.Parts",
    {},
    {"n": len("awaited")},
    {("t.Part", _DONE): 1},
    children={
        "-awaited": (RunnerState.COMPLETED, {("t.Do", _DONE): 1}),
        "-ended": (RunnerState.CANCELED, {("t.Note", TaskState.CANCELED): 1}),
        "-free": (RunnerState.COMPLETED, {("t.Do", _DONE): 1}),
    },
)
FAN = Piece(
    "t.Fan",
    {"list": [1, 2, 3]},
    {"done": [9, 9], "lost": [2]},
    {("t.Do", _DONE): 2, ("t.Do", TaskState.FAILED): 1},
)


def everything(until: int) -> Piece:
    """All of them as one run."""
    inputs: dict[str, Any] = {}
    outputs: dict[str, Any] = {}
    published: dict[str, Any] = {}
    tasks: Counter[tuple[str, str]] = Counter()
    for piece in (loop(until), MAIL, PARTS, FAN):
        inputs |= piece.inputs
        outputs |= piece.outputs
        published |= piece.published
        tasks.update(piece.tasks)
    return Piece("t.All", inputs, outputs, dict(tasks), published, has_signals=True, children=PARTS.children)
