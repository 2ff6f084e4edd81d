"""Runs and their forks, driven to their ends by agents that a path decides on; and what is recorded of them."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from afl.runtime.entities import TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluation.fork_steps import ForkEdits
from afl.runtime.evaluation.forking import NO_EDITS, Fork, fork_run, store_fork
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program import paths
from afl.runtime.recovery.sweep import fire_timers
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId
from support.case import Case
from support.judging import Trial
from support.model_values import Problem

SOURCE, FORK, AFRESH = WorkflowId("source"), WorkflowId("fork"), WorkflowId("afresh")
_MOST_ROUNDS = 1000


def start(trial: Trial, evaluator: Evaluator, run: WorkflowId) -> None:
    evaluator.submit(trial.program, trial.case.inputs, workflow_id=run)


def finish(trial: Trial, evaluator: Evaluator, run: WorkflowId, other: str = "") -> None:
    """Let a run come to its end; the agent of the step `other`, a path, gives another answer than usual."""
    store = evaluator.persistence
    for _ in range(_MOST_ROUNDS):
        evaluator.resume(run)
        found = store.get_run(run)
        assert found is not None
        if found.is_over:
            return
        for task in store.get_tasks_by_workflow(run):
            if task.state == TaskState.PENDING and task.hold != TaskHold.TIMER:
                _answer(trial, evaluator, task, is_other=paths.relative(task.step_id, run) == other)
        fire_timers(evaluator)
    raise AssertionError("the run does not come to an end")


def _answer(trial: Trial, evaluator: Evaluator, task: TaskDefinition, *, is_other: bool) -> None:
    params = {**task.params, "other": True} if is_other else task.params
    try:
        answer = trial.answer(task.name, params)
    except Problem as problem:
        evaluator.fail_step(StepId(task.step_id), problem.text)
    else:
        evaluator.continue_step(StepId(task.step_id), answer)


def fork_at(
    trial: Trial,
    store: PersistenceAPI,
    path: str,
    edits: ForkEdits = NO_EDITS,
    *,
    id: str = FORK,
    source: WorkflowId = SOURCE,
) -> Fork:
    """A stored fork of the source at the step of a path."""
    found = store.get_run(source)
    assert found is not None
    made = fork_run(store, found, path, id=id, program=trial.program, edits=edits)
    store_fork(store, made)
    return made


def record(store: PersistenceAPI, run: WorkflowId) -> dict[str, Any]:
    """All that a run came to, without its id and times."""
    found = store.get_run(run)
    assert found is not None
    published = {each.name for each in store.get_published(run)}
    steps = {
        paths.relative(step.id, run): _step(step, run)
        for step in store.get_steps_by_workflow(run)
        if "/#" not in step.id or step.object_type != "AndRepeat"
    }
    return {
        "state": found.state,
        "outputs": found.outputs,
        "error": found.error,
        "waiting": found.waiting,
        "published": published,
        "steps": steps,
    }


def _step(step: StepDefinition, run: WorkflowId) -> str:
    values = (step.attributes.params, step.attributes.returns)
    shown = [{name: each.value for name, each in sorted(side.items())} for side in values]
    ids = (step.container_id, step.block_id, step.root_id, step.container_type)
    text = f"{step.state} {step.object_type} {step.facet_name} {step.statement_id} {shown} {ids}"
    text += f" {step.transition.error} {step.progress and (step.progress.total, step.progress.opened)}"
    return text.replace(run, "RUN")


def tasks_of(store: PersistenceAPI, run: WorkflowId) -> set[str]:
    """The paths of the steps that agents worked on."""
    return {paths.relative(task.step_id, run) for task in store.get_tasks_by_workflow(run)}


def other_answers(trial: Trial, store: PersistenceAPI) -> dict[str, dict[str, Any]]:
    """For each step of the source that an agent did, and that has no blocks: what the agent could have answered."""
    found: dict[str, dict[str, Any]] = {}
    steps = store.get_steps_by_workflow(SOURCE)
    above = {paths.parent(step.id) for step in steps}
    worked = tasks_of(store, SOURCE)
    for step in steps:
        path = paths.relative(step.id, SOURCE)
        if (
            path in worked
            and step.is_complete
            and step.id not in above
            and step.facet_name.startswith("lib.")
        ):
            params = {name: each.value for name, each in step.attributes.params.items()}
            with suppress(Problem):
                found[path] = trial.answer(step.facet_name, {**params, "other": True})
    return found


def check_fork(store: PersistenceAPI, made: Fork, expected: dict[str, Any]) -> None:
    """A fork that is over came to what is expected, and no agent did again what it keeps."""
    run = WorkflowId(made.run.workflow_id)
    assert record(store, run) == expected
    kept = {paths.relative(step.id, run) for step in made.changes.created_steps if step.is_terminal}
    tasks = [task.step_id for task in store.get_tasks_by_workflow(run)]
    assert kept.isdisjoint(tasks_of(store, run))
    assert len(set(tasks)) == len(tasks)


# One of each: a chain, implicits, a mixin, a foreach, a when, inline bodies that wait for steps around them, a catch.
MIXTURE = Case(
    """
namespace lib {
    event facet Echo(p: Long, tag: String) => (u: Long)
    event facet Refuse(p: Long) => (u: Long)
    implicit usual = lib.Echo(tag = "usual")
    facet Mixed(m: Long) => (s: Long) with lib.Echo(p = $.m + 1, tag = "mixin") as first andThen {
        inner = lib.Echo(p = $.first.u)
        yield lib.Mixed(s = $.first.u + inner.u)
    }
    facet Careful(m: Long) => (s: Long, why: String) andThen {
        bad = lib.Refuse(p = $.m)
        yield lib.Careful(s = bad.u)
    } catch {
        rescue = lib.Echo(p = $.m)
        yield lib.Careful(s = rescue.u, why = $.error)
    }
    facet Each(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
        one = lib.Echo(p = n)
        yield lib.Each(all = [one.u * 10])
    }
    facet Choice(n: Long) => (r: Long) andThen when {
        case $.n > 1 => {
            big = lib.Echo(p = $.n)
            yield lib.Choice(r = big.u)
        }
        case _ => { yield lib.Choice(r = 0) }
    }
}
namespace main {
    workflow W(list: [Long]) => (x: [Long], y: Long, why: String) andThen {
        a = lib.Echo(p = 1)
        b = lib.Echo(p = 2, tag = "own")
        each = lib.Each(list = $.list)
        mixed = lib.Mixed(m = a.u)
        careful = lib.Careful(m = b.u)
        choice = lib.Choice(n = a.u + b.u)
        body = lib.Echo(p = 5) andThen {
            wait = lib.Echo(p = a.u)
            yield main.W(y = wait.u + body.u + choice.r)
        }
        yield main.W(x = each.all ++ [mixed.s, careful.s], why = careful.why)
    }
}
""",
    {"list": [1, 2, 3]},
)
