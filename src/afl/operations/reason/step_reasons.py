"""Why a run or a step is stuck."""

from __future__ import annotations

from afl.kernel.presence import Life
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.snapshot import (
    DiagnosticSnapshot,
    failure_words,
    first_line,
    iteration_words,
    line_words,
    step_words,
)
from afl.operations.reason.subjects import StepPlace
from afl.operations.reason.task_reasons import task_reason
from afl.operations.run.attempts import cause_attempts, failed_attempts, last_failure
from afl.operations.spans import clock, span
from afl.runtime.entities import (
    CANNOT_BE_EVALUATED,
    RunDefinition,
    RunnerState,
    TaskDefinition,
    TaskHold,
    TaskState,
    child_of,
)
from afl.runtime.errors import StepFailure
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import ObjectType, StepId, WorkflowId

BUDGET = "budget"


def standing(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason | None:
    """The reason that the run itself is; None if it only waits for its steps."""
    if run.is_over:
        return _ended(snapshot, run)
    if run.state == RunnerState.PAUSED:
        return _paused(run)
    if run.settled and not snapshot.store.get_marks(WorkflowId(run.workflow_id), limit=1):
        return None
    return _held(snapshot, run) if run.owner else _due(snapshot, run)


def _of_run(code: str, run: RunDefinition, sentence: str, action: str) -> Reason:
    return Reason(code, "run", run.workflow_id, sentence, action)


def _ended(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    at = clock(run.ended)
    if run.state == RunnerState.COMPLETED:
        sentence = f"it completed at {at}, after {span(run.ended - run.created)}."
        return _of_run("run-completed", run, sentence, f"See its steps: afl show {run.workflow_id}")
    if run.state == RunnerState.CANCELED:
        sentence = f"it was ended at {at}: {run.reason or 'canceled'}."
        return _of_run("run-canceled", run, sentence, f"Run it again: afl retry {run.workflow_id}")
    failure = StepFailure.from_dict(run.error or {"message": "no error was recorded"})
    attempts = failed_attempts(snapshot.store, run)
    sentence = f"it failed at {at}: {failure_words(failure, last_failure(attempts))}"
    action = f"Fix the cause, then: afl retry {run.workflow_id}"
    return Reason("run-failed", "run", run.workflow_id, sentence, action, attempts=attempts)


def _paused(run: RunDefinition) -> Reason:
    action = f"Continue it: afl unpause {run.workflow_id}"
    if run.reason.startswith(BUDGET):
        unit = "tokens" if "tokens" in run.reason else "usd"  # what it lacks, or what can be counted
        return _of_run("run-budget", run, f"it is paused: {run.reason}.", f"{action} --budget-{unit} N")
    if run.reason.startswith(CANNOT_BE_EVALUATED):
        action = (
            f"Fix the cause, then: afl unpause {run.workflow_id}; or end it: afl cancel {run.workflow_id}"
        )
    return _of_run("run-paused", run, f"it is {run.reason or 'paused'}.", action)


def _held(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    owner, until = snapshot.owner(run.owner), snapshot.clock(run.lease_until)
    life = snapshot.life(run.owner)
    if life is Life.DEAD or run.lease_until < snapshot.now:
        gone = "died" if life is Life.DEAD else f"lost its lease at {until}"
        return _gone(snapshot, run, f"{owner}, which evaluated it, {gone}")
    if life is Life.UNKNOWN:
        sentence = f"{owner} evaluates it and cannot be seen from here; its lease runs until {until}."
        return _of_run(
            "run-evaluator-silent",
            run,
            sentence,
            "Wait until then; if necessary, another runner takes it over.",
        )
    return _of_run("run-evaluated", run, f"{owner} evaluates it; its lease runs until {until}.", "Wait.")


def _gone(snapshot: DiagnosticSnapshot, run: RunDefinition, what: str) -> Reason:
    if snapshot.has_live_runner:
        return _of_run(
            "run-evaluator-gone", run, f"{what}; a live runner will take it over in a moment.", "Wait."
        )
    return _of_run(
        "run-no-evaluator", run, f"{what}, and there is no live runner to take it over.", _start(run)
    )


def _due(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    if snapshot.has_live_runner:
        return _of_run("run-queued", run, "it is due; a live runner will pick it up in a moment.", "Wait.")
    runners = [server for server in snapshot.servers if server.evaluates]
    last = min(runners, key=lambda server: server.ping_age_ms, default=None)
    seen = f"; the last one was seen {span(last.ping_age_ms)} ago on {last.name}" if last is not None else ""
    sentence = f"it is due, but no live runner can evaluate it{seen}."
    return _of_run("run-no-evaluator", run, sentence, _start(run))


def _start(run: RunDefinition) -> str:
    return f"Start one (afl agent MODULE, or afl runner), or continue it here: afl resume {run.workflow_id}"


def run_reason(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    """The reason of a run: its own, or that of a step it waits for."""
    own = standing(snapshot, run)
    if own is not None:
        return own
    steps = snapshot.store.get_open_steps(WorkflowId(run.workflow_id))
    waiting = [step for step in steps if step.state == StepState.EVENT_TRANSMIT]
    if not waiting:
        sentence = "it waits for nothing and is not over; this should not be."
        return Reason(
            "run-stalled", "run", run.workflow_id, sentence, f"Wake it: afl resume {run.workflow_id}"
        )
    reason = most_telling(snapshot, run, waiting)
    count = "one step" if len(waiting) == 1 else f"{len(waiting):,} steps, among them"
    named = step_words(reason.id, run) + iteration_words(reason.id, run, snapshot.program(run))
    sentence = f"it waits for {count}{':' if len(waiting) == 1 else ''} {named}."
    return Reason("run-waits", "run", run.workflow_id, sentence, "See its cause.", reason)


_KINDS_LOOKED_AT = 20
_CAUSE = "See its cause."
_OPEN = (TaskState.PENDING, TaskState.RUNNING)
_WITH_CHILDREN = frozenset(
    {
        StepState.MIXIN_BLOCKS_CONTINUE,
        StepState.STATEMENT_BLOCKS_CONTINUE,
        StepState.STATEMENT_CATCH_CONTINUE,
        StepState.BLOCK_EXECUTION_CONTINUE,
    }
)


def step_reason(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason:
    """The reason of one step."""
    step, run = place.step, place.run
    if step is None:
        return _not_begun(snapshot, place)
    if step.is_terminal:
        return _over(snapshot, step, run)
    if run.is_over:
        return _run_over(snapshot, place)
    if step.state == StepState.EVENT_TRANSMIT:
        task = snapshot.store.get_task_by_step(step.id)
        return agent_reason(snapshot, run, step, task)
    if step.state in _WITH_CHILDREN:
        return _inside(snapshot, place)
    if step.state == StepState.BLOCK_EXECUTION_BEGIN:
        return _waits_outside(snapshot, place) or _evaluating(snapshot, place)
    return _evaluating(snapshot, place)


def agent_reason(
    snapshot: DiagnosticSnapshot, run: RunDefinition, step: StepDefinition, task: TaskDefinition | None
) -> Reason:
    """The reason of a step that asked for an agent."""
    place = StepPlace(run, step.id, step)
    if task is None or task.state not in _OPEN:
        lost = "has no task" if task is None else f"its task is {task.state}"
        sentence = f"it waits for an agent, but {lost}; a runner's sweep makes a new one."
        action = "Keep a runner running: afl runner"
        return _reason("step-without-task", place, sentence, action)
    kind, _, name = task.via.partition(":")
    if child_of(task):
        return _waits_for_run(snapshot, place, task)
    if kind == "human":
        sentence = f"it waits for someone in {name} to answer {step.facet_name}."
        return _reason("step-waits-for-person", place, sentence, _CAUSE, task_reason(snapshot, task))
    if task.hold == TaskHold.TIMER:
        return _reason("step-sleeps", place, "it sleeps.", _CAUSE, task_reason(snapshot, task))
    if kind == "signal":
        sentence = f"it waits for the signal {name}, whose value {step.facet_name} returns."
        return _reason("step-waits-for-signal", place, sentence, _CAUSE, task_reason(snapshot, task))
    sentence = f"it waits for an agent that does {step.facet_name}."
    return _reason("step-waits-for-agent", place, sentence, _CAUSE, task_reason(snapshot, task))


def _waits_for_run(snapshot: DiagnosticSnapshot, place: StepPlace, task: TaskDefinition) -> Reason:
    name = child_of(task)
    child = snapshot.run(name)
    if child is None or child.is_over or task.hold != TaskHold.ELSEWHERE:
        ended = f", which is {child.state}; a sweep tells it" if child is not None and child.is_over else ""
        sentence = f"it waits for the run {name}{ended}."
        return _reason("step-waits-for-run", place, sentence, _CAUSE, task_reason(snapshot, task))
    sentence = f"it waits for the run {name} of {child.workflow_name}."
    return _reason("step-waits-for-run", place, sentence, _CAUSE, run_reason(snapshot, child))


def most_telling(snapshot: DiagnosticSnapshot, run: RunDefinition, waiting: list[StepDefinition]) -> Reason:
    """Of steps that wait for agents the reason of the first that needs a person; else of the first."""
    tasks = {task.step_id: task for task in snapshot.store.get_tasks_by_workflow(WorkflowId(run.workflow_id))}
    kinds: dict[tuple[str, ...], StepDefinition] = {}
    for step in waiting:
        task = tasks.get(step.id)
        about = (task.state, task.hold, task.task_list_name, task.owner, task.via) if task is not None else ()
        kinds.setdefault((step.facet_name, *about), step)
    first: Reason | None = None
    for step in list(kinds.values())[:_KINDS_LOOKED_AT]:
        reason = agent_reason(snapshot, run, step, tasks.get(step.id))
        if reason.outlook is Outlook.STANDS:
            return reason
        first = first or reason
    assert first is not None  # callers have at least one step
    return first


def _reason(code: str, place: StepPlace, sentence: str, action: str, because: Reason | None = None) -> Reason:
    return Reason(code, "step", place.id, sentence, action, because)


def _over(snapshot: DiagnosticSnapshot, step: StepDefinition, run: RunDefinition) -> Reason:
    place = StepPlace(run, step.id, step)
    if step.is_complete:
        return _reason("step-completed", place, "it completed.", "Nothing to do.")
    attempts = cause_attempts(snapshot.store, snapshot.store.get_tasks_by_step(step.id))
    sentence = f"it failed: {failure_words(_failure(step, run), last_failure(attempts))}"
    collected = _collects(snapshot, step, run)
    if collected:
        action = f"Nothing to do: its foreach collects failures, in '{collected}'."
        return Reason("step-collected", "step", place.id, sentence, action, attempts=attempts)
    return Reason("step-failed", "step", place.id, sentence, _again(step, run), attempts=attempts)


def _collects(snapshot: DiagnosticSnapshot, step: StepDefinition, run: RunDefinition) -> str | None:
    """The return in which the failure of a step ends; None if it fails what is around."""
    workflow_id = WorkflowId(run.workflow_id)
    for path in reversed(paths.prefixes(paths.relative(step.id, workflow_id))):
        graph = snapshot.program(run).place(path).graph
        if paths.key(path).startswith("#") and graph is not None and graph.collect:
            return graph.collect
    return None


def _again(step: StepDefinition, run: RunDefinition) -> str:
    when = "" if run.is_over else ", when its run is over"
    return f"Fix the cause, then{when}: afl retry {step.id}"


def _failure(step: StepDefinition, run: RunDefinition) -> StepFailure:
    error = step.transition.error
    if isinstance(error, StepFailure):
        return error
    return StepFailure(
        str(error or "no error was recorded"), "Error", step_words(step.id, run), step.facet_name
    )


def _evaluating(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason:
    sentence = "it is next when its run is evaluated."
    return _reason("step-evaluating", place, sentence, _CAUSE, standing(snapshot, place.run))


def _inside(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason:
    """What keeps a step with a body, or a block."""
    below = f"{place.id}/"
    steps = snapshot.store.get_open_steps(WorkflowId(place.run.workflow_id))
    waiting = [step for step in steps if step.id.startswith(below) and step.state == StepState.EVENT_TRANSMIT]
    if not waiting:
        return _evaluating(snapshot, place)
    reason = most_telling(snapshot, place.run, waiting)
    sentence = (
        f"it waits for {_count(len(waiting))} in it: {step_words(reason.id, place.run)}{_unopened(place)}."
    )
    return _reason("step-waits-inside", place, sentence, _CAUSE, reason)


def _unopened(place: StepPlace) -> str:
    """How many elements of a foreach wait for those before them, with a leading semicolon."""
    progress = place.step.progress if place.step is not None else None
    if progress is None or place.step is None or place.step.object_type != ObjectType.AND_MAP:
        return ""
    left = progress.total - progress.opened
    return f"; {left:,} of {progress.total:,} elements start when others end" if left else ""


def _count(number: int) -> str:
    return "one step" if number == 1 else f"{number:,} steps"


def _waits_outside(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason | None:
    """A body in the text of a step waits for those steps around it that it refers to."""
    workflow_id = WorkflowId(place.run.workflow_id)
    graph = snapshot.program(place.run).place(paths.relative(place.id, workflow_id)).graph
    outside = paths.parent(paths.owner(place.id, workflow_id))
    names = sorted(graph.outer) if graph is not None and graph.inline else []
    return _waits(snapshot, place, [paths.child(outside, name) for name in names])


def _not_begun(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason:
    workflow_id = WorkflowId(place.run.workflow_id)
    removed = _removed(snapshot, place)
    if removed is not None:
        return removed
    block = snapshot.store.get_step(paths.parent(place.id))
    if block is None:
        return _not_reached(snapshot, place, paths.owner(paths.parent(place.id), workflow_id))
    statement = snapshot.program(place.run).place(paths.relative(place.id, workflow_id)).statement
    needs = statement.needs if statement is not None else ()
    waits = _waits(snapshot, place, [paths.child(block.id, need) for need in needs])
    if place.run.is_over and (waits is None or waits.code != "step-skipped"):
        return _run_over(snapshot, place)
    return waits or _evaluating(snapshot, place)


def _removed(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason | None:
    """Of a step in an iteration that is no longer kept."""
    workflow_id = WorkflowId(place.run.workflow_id)
    around = snapshot.program(place.run).repeats_around(paths.relative(place.id, workflow_id))
    for path, graph, number in around:
        repeat = snapshot.store.get_step(paths.child(workflow_id, path))
        if repeat is not None and repeat.progress is not None and number < repeat.progress.kept.start:
            sentence = (
                f"iteration {number:,} of `{graph.loop}` ended and was removed; "
                f"those from {repeat.progress.kept.start:,} on are kept."
            )
            action = f"See what the run logged: afl logs {workflow_id}"
            return _reason("step-removed", place, sentence, action)
    return None


def _not_reached(snapshot: DiagnosticSnapshot, place: StepPlace, owner: StepId) -> Reason:
    above = step_reason(snapshot, StepPlace(place.run, owner, snapshot.store.get_step(owner)))
    if above.code == "step-run-over":
        return _run_over(snapshot, place)
    code = "step-skipped" if above.outlook is Outlook.OVER else "step-not-reached"
    return _reason(code, place, f"step {step_words(owner, place.run)} has not reached it.", _CAUSE, above)


def _run_over(snapshot: DiagnosticSnapshot, place: StepPlace) -> Reason:
    return _reason(
        "step-run-over", place, "its run is over.", "Nothing to do.", standing(snapshot, place.run)
    )


def _waits(snapshot: DiagnosticSnapshot, place: StepPlace, needs: list[StepId]) -> Reason | None:
    """The first of the needed steps that failed, else the first that is not done; None if all are."""
    found: Reason | None = None
    for need in needs:
        step = snapshot.store.get_step(need)
        if step is not None and step.is_complete:
            continue
        if step is not None and step.is_error:
            return _skipped(place, step)
        because = step_reason(snapshot, StepPlace(place.run, need, step))
        if because.code == "step-skipped":
            sentence = f"it waits for step {step_words(need, place.run)}, which will not run."
            return _reason("step-skipped", place, sentence, because.action, because)
        sentence = f"it waits for step {step_words(need, place.run)}."
        found = found or _reason("step-waits-for-step", place, sentence, _CAUSE, because)
    return found


def _skipped(place: StepPlace, failed: StepDefinition) -> Reason:
    failure = _failure(failed, place.run)
    sentence = (
        f"it waits for step {step_words(failed.id, place.run)}, which failed{line_words(failure)}: "
        f"{first_line(failure.message)}"
    )
    return _reason("step-skipped", place, sentence, _again(failed, place.run))
