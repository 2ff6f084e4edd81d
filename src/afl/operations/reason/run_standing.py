"""Where a run stands by itself: over, paused, held, or due. None of these is about its steps."""

from __future__ import annotations

from afl.kernel.presence import Life
from afl.operations.reason.reasons import Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot, failure_words
from afl.operations.run.attempts import failed_attempts, last_failure
from afl.operations.spans import clock, span
from afl.runtime.entities import CANNOT_BE_EVALUATED, RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.types import WorkflowId

BUDGET = "budget"


def standing(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason | None:
    """The reason that the run itself is; None if it only waits for its steps."""
    if run.is_over:
        return _over(snapshot, run)
    if run.state == RunnerState.PAUSED:
        return _paused(run)
    if run.settled and not snapshot.store.get_marks(WorkflowId(run.workflow_id), limit=1):
        return None
    return _held(snapshot, run) if run.owner else _due(snapshot, run)


def _reason(code: str, run: RunDefinition, sentence: str, action: str) -> Reason:
    return Reason(code, "run", run.workflow_id, sentence, action)


def _over(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    at = clock(run.ended)
    if run.state == RunnerState.COMPLETED:
        sentence = f"it completed at {at}, after {span(run.ended - run.created)}."
        return _reason("run-completed", run, sentence, f"See its steps: afl show {run.workflow_id}")
    if run.state == RunnerState.CANCELLED:
        sentence = f"it was ended at {at}: {run.reason or 'cancelled'}."
        return _reason("run-cancelled", run, sentence, f"Take it up again: afl retry {run.workflow_id}")
    failure = StepFailure.from_dict(run.error or {"message": "no error was recorded"})
    attempts = failed_attempts(snapshot.store, run)
    sentence = f"it failed at {at}: {failure_words(failure, last_failure(attempts))}"
    action = f"Mend the cause, then: afl retry {run.workflow_id}"
    return Reason("run-failed", "run", run.workflow_id, sentence, action, attempts=attempts)


def _paused(run: RunDefinition) -> Reason:
    action = f"Let it go on: afl unpause {run.workflow_id}"
    if run.reason.startswith(BUDGET):
        unit = "tokens" if "tokens" in run.reason else "usd"  # what it lacks, or what can be counted
        return _reason("run-budget", run, f"it is paused: {run.reason}.", f"{action} --budget-{unit} N")
    if run.reason.startswith(CANNOT_BE_EVALUATED):
        action = (
            f"Mend the cause, then: afl unpause {run.workflow_id}; or end it: afl cancel {run.workflow_id}"
        )
    return _reason("run-paused", run, f"it is {run.reason or 'paused'}.", action)


def _held(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    owner, until = snapshot.owner(run.owner), snapshot.clock(run.lease_until)
    life = snapshot.life(run.owner)
    if life is Life.DEAD or run.lease_until < snapshot.now:
        gone = "died" if life is Life.DEAD else f"lost its lease at {until}"
        return _gone(snapshot, run, f"{owner}, which evaluated it, {gone}")
    if life is Life.UNKNOWN:
        sentence = f"{owner} evaluates it and cannot be seen from here; its lease runs until {until}."
        return _reason(
            "run-evaluator-silent", run, sentence, "Wait until then; another takes it over if need be."
        )
    return _reason("run-evaluated", run, f"{owner} evaluates it; its lease runs until {until}.", "Wait.")


def _gone(snapshot: DiagnosticSnapshot, run: RunDefinition, what: str) -> Reason:
    if snapshot.has_live_runner:
        return _reason(
            "run-evaluator-gone", run, f"{what}; a live runner takes it over in a moment.", "Wait."
        )
    return _reason(
        "run-no-evaluator", run, f"{what}, and no live runner is there to take it over.", _start(run)
    )


def _due(snapshot: DiagnosticSnapshot, run: RunDefinition) -> Reason:
    if snapshot.has_live_runner:
        return _reason("run-queued", run, "it is due, and a live runner takes it up in a moment.", "Wait.")
    runners = [server for server in snapshot.servers if server.evaluates]
    last = min(runners, key=lambda server: server.ping_age_ms, default=None)
    seen = f"; the last one was seen {span(last.ping_age_ms)} ago on {last.name}" if last is not None else ""
    sentence = f"it is due, and no live runner is there to evaluate it{seen}."
    return _reason("run-no-evaluator", run, sentence, _start(run))


def _start(run: RunDefinition) -> str:
    return f"Start one (afl agent MODULE, or afl runner), or go on here: afl resume {run.workflow_id}"
