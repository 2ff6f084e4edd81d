"""Why a task is stuck, here or at the bridge that has it."""

from __future__ import annotations

from afl.kernel.clock import wall_ms
from afl.kernel.presence import Life
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.snapshot import DiagnosticSnapshot, first_line, raised_words
from afl.operations.reason.staffing import staffing
from afl.operations.run.attempts import last_failure, step_attempts
from afl.operations.run.run_log import log_line
from afl.operations.run.signal_hint import how_to_deliver
from afl.operations.spans import clock, left, span
from afl.operations.work.workers import Liveness
from afl.runtime.entities import TaskDefinition, TaskHold, TaskState, child_of
from afl.runtime.persistence import TaskFilter
from afl.runtime.program import paths
from afl.runtime.recovery.lost_attempts import what_was_lost
from afl.runtime.types import WorkflowId

_PLACES = {"agent": "agent", "fleet": "the fleet's workflow", "message": "a message to"}
_KINDS = {"agent": "agents", "fleet": "the fleet", "message": "messages"}


def elsewhere_reason(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    """The reason of a task that is with somebody else."""
    kind, _, name = task.via.partition(":")
    if kind == "human":
        sentence = f"waiting for someone in {name}{_limits(snapshot, task)}."
        return _at_bridge("task-human", task, sentence, f"Answer it: afl approvals show {task.uuid}")
    if child_of(task):
        sentence = f"the run {name} does it{_limits(snapshot, task)}."
        return _at_bridge("task-child-run", task, sentence, f"See what that waits for: afl why {name}")
    if kind == "signal":
        sentence = f"it waits for the signal {name}{_limits(snapshot, task)}."
        return _at_bridge("task-signal", task, sentence, f"Deliver it with: {how_to_deliver(task)}")
    place = f"{_PLACES.get(kind, kind)} {name}"
    waits, queued = (_said(snapshot, task, key) for key in ("waits", "queued"))
    hosts = [server for server in snapshot.servers if server.is_live and kind in server.bridges]
    if hosts and waits:
        sentence = f"{place} is unavailable{_limits(snapshot, task)}: {waits}."
        return _at_bridge(
            "task-not-begun", task, sentence, "Start or repair the other side; it will be tried again."
        )
    host = hosts[0].title if hosts else _owner(snapshot, task)
    if host and queued:
        sentence = f"handed to {place} by {host}{_limits(snapshot, task)}; {queued}."
        return _at_bridge(
            "task-queued-elsewhere", task, sentence, "Start an agent that can run it: afl fleet agent"
        )
    if host:
        sentence = f"handed to {place} by {host}{_limits(snapshot, task)}."
        return _at_bridge("task-elsewhere", task, sentence, "Wait for its answer.")
    sentence = (
        f"handed to {place}; no live server bridges to {_KINDS.get(kind, kind)}{_limits(snapshot, task)}."
    )
    action = f"Start one: afl runner; or continue it here: afl resume {task.workflow_id}"
    return _at_bridge("task-no-bridge", task, sentence, action)


def _owner(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    """The process that runs the workflow, in words, if it lives."""
    run = snapshot.run(task.workflow_id)
    if run is None or not run.owner or snapshot.life(run.owner) is not Life.ALIVE:
        return ""
    return f"{snapshot.owner(run.owner)}, which runs the workflow"


def _said(snapshot: DiagnosticSnapshot, task: TaskDefinition, key: str) -> str:
    """What a bridge last said of a task: `waits`, it could not begin it; `queued`, nobody takes it up over there."""
    said = snapshot.last_log(task.workflow_id, task.step_id)
    if said is None or said.object_id != task.uuid:
        return ""
    return first_line(str(said.details.get(key, "")))


def _limits(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    """How long it may take, in words, with a leading semicolon."""
    parts = []
    if task.lease_until:
        to = (task.bridge or {}).get("escalate_to", "")
        parts.append(f"{to} is asked {_when(snapshot, task.lease_until)}")
    if task.deadline:
        parts.append(f"expires {_when(snapshot, task.deadline)}")
    return "".join(f"; {part}" for part in parts)


def _when(snapshot: DiagnosticSnapshot, moment: int) -> str:
    if moment > snapshot.now:
        return f"in {left(moment - snapshot.now)}"
    return (
        "at the next sweep"
        if snapshot.has_live_server
        else "when a server is started: none is alive to see to it"
    )


def _at_bridge(code: str, task: TaskDefinition, sentence: str, action: str) -> Reason:
    return Reason(code, "task", task.uuid, sentence, action)


_KEY_TASKS = 10_000
_HOLDERS_SHOWN = 3
_LONG_MS = 60_000  # a handler that runs longer is asked about


def task_reason(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    """The reason of one task."""
    if task.state == TaskState.RUNNING:
        return _running(snapshot, task)
    if task.state != TaskState.PENDING:
        return _over(snapshot, task)
    if task.hold == TaskHold.ELSEWHERE:
        return _delayed(snapshot, task) or elsewhere_reason(snapshot, task)
    if task.hold:
        return _held(snapshot, task)
    return (
        _rated(snapshot, task)
        or _delayed(snapshot, task)
        or _locked(snapshot, task)
        or _behind(snapshot, task)
        or staffing(snapshot, task)
    )


def _reason(
    code: str,
    task: TaskDefinition,
    sentence: str,
    action: str,
    because: Reason | None = None,
    stands: bool = False,
) -> Reason:
    return Reason(code, "task", task.uuid, sentence, action, because, stands=stands)


def _over(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    at = clock(task.updated)
    if task.state == TaskState.COMPLETED:
        return _reason("task-completed", task, f"{task.name} was done at {at}.", "Nothing to do.")
    if task.state == TaskState.FAILED:
        cause = first_line(str((task.error or {}).get("message", "no error was recorded")))
        action = f"Fix the cause, then: afl retry {task.step_id}" if task.step_id else "Fix the cause."
        attempts = step_attempts(snapshot.store, [task])
        sentence = f"{task.name} failed at {at}: {cause}{raised_words(last_failure(attempts))}"
        return Reason("task-failed", "task", task.uuid, sentence, action, attempts=attempts)
    if task.state == TaskState.IGNORED:
        sentence = f"{task.name} was no longer needed at {at}: its run ended, or its step moved on."
        return _reason("task-ignored", task, sentence, "Nothing to do.")
    return _reason("task-canceled", task, f"{task.name} was canceled at {at}.", "Nothing to do.")


def _held(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    if task.hold == TaskHold.CONCURRENCY and task.per_minute:
        return _delayed(snapshot, task) or _waits_its_turn(snapshot, task)
    if task.hold == TaskHold.CONCURRENCY:
        return _reason(
            "task-concurrency", task, _slots(snapshot, task), "Wait, or see why those do not end: afl tasks."
        )
    if task.hold == TaskHold.TIMER:
        return _sleeping(snapshot, task)
    if task.hold == TaskHold.PAUSED:
        run = snapshot.run(task.workflow_id)
        reason = f": {run.reason}" if run is not None and run.reason else ""
        return _reason(
            "task-paused",
            task,
            f"its run is paused{reason}.",
            f"Continue it: afl unpause {task.workflow_id}",
        )
    soon = (
        "at the next sweep"
        if snapshot.has_live_server
        else "when a server is started: none is alive to do it"
    )
    if task.hold == TaskHold.POISONED:
        last = f", the last was {snapshot.owner(task.last_owner)}" if task.last_owner else ""
        sentence = f"{task.name} is given up, since {what_was_lost(task)}{last}; its step fails {soon}."
        action = "Find out what kills the workers, then retry the step."
        return _reason("task-poisoned", task, sentence, action, stands=not snapshot.has_live_server)
    took = "was not answered within its" if task.via else "ran longer than its"
    sentence = f"{task.name} {took} {span(task.timeout_ms)}; it is tried again or fails {soon}."
    action = "Raise its Timeout, or make the handler faster."
    return _reason("task-timeout", task, sentence, action, stands=not snapshot.has_live_server)


def _sleeping(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    until = f"{task.name} sleeps until {snapshot.clock(task.deadline)}"
    if task.deadline > snapshot.now:
        rest = f", another {left(task.deadline - snapshot.now)}"
        return _reason("task-timer", task, f"{until}{rest}.", "Wait.")
    return _reason("task-timer", task, f"{until}; it continues {_when(snapshot, task.deadline)}.", "Wait.")


def _rated(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason | None:
    """The next task of a rate has its slot; one that is tried again may have to wait longer than for that."""
    if not task.per_minute or task.not_before <= snapshot.now:
        return None
    return _waits_for_rate(task, f"; it may start at {snapshot.clock(task.not_before)}")


def _waits_its_turn(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    """Tasks of a rate start one after another: those of a facet that nobody serves wait, whose turn it ever is."""
    same = snapshot.store.find_tasks(
        TaskFilter(state=TaskState.PENDING, key=task.concurrency_key, name=task.name, limit=_KEY_TASKS)
    )
    first = next((each for each in same if not each.hold and each.not_before <= snapshot.now), None)
    because = None if first is None else task_reason(snapshot, first)
    if first is None or because is None or because.outlook is not Outlook.STANDS:
        return _waits_for_rate(task, "; tasks before it come first")
    return _waits_for_rate(task, f"; it is the turn of {_place(first)}, which nobody starts", because)


def _waits_for_rate(task: TaskDefinition, until: str, because: Reason | None = None) -> Reason:
    sentence = f"{task.name} waits for the rate limit {task.rate_key} ({task.per_minute} per minute){until}."
    return _reason("task-rate", task, sentence, "Wait." if because is None else because.action, because)


def _place(task: TaskDefinition) -> str:
    """The step of a task, and its run."""
    return f"{paths.shown(task.step_id, WorkflowId(task.workflow_id))} of run {task.workflow_id}"


def _slots(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> str:
    same = snapshot.store.find_tasks(TaskFilter(key=task.concurrency_key, limit=_KEY_TASKS))
    open_states = (TaskState.PENDING, TaskState.RUNNING)
    used = [each for each in same if each.state in open_states and each.hold != TaskHold.CONCURRENCY]
    held = f", held by {_some([_place(each) for each in used])}" if used else ""
    return f"Concurrency({task.concurrency_key}) is at {len(used)} of {task.concurrency_limit}{held}."


def _some(words: list[str]) -> str:
    more = f" and {len(words) - _HOLDERS_SHOWN:,} more" if len(words) > _HOLDERS_SHOWN else ""
    return f"{', '.join(words[:_HOLDERS_SHOWN])}{more}"


def _delayed(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason | None:
    if task.not_before <= snapshot.now:
        return None
    tried = f" (attempt {task.failures + 1} of {task.retry['attempts']})" if task.retry else ""
    cause = first_line(str((task.error or {}).get("message", "")))
    sentence = f"{task.name} is tried again at {snapshot.clock(task.not_before)}{tried}"
    attempts = step_attempts(snapshot.store, [task])
    why = f"; it failed with: {cause}{raised_words(last_failure(attempts))}" if cause else "."
    return Reason("task-delayed", "task", task.uuid, f"{sentence}{why}", "Wait.", attempts=attempts)


def _locked(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason | None:
    lock = snapshot.store.check_lock(f"runner:task:{task.uuid}")
    if lock is None:
        return None
    who = f" by {snapshot.owner(lock.owner)}" if lock.owner else ""
    sentence = f"its lock is held{who} until {snapshot.clock(lock.expires_at)}."
    return _reason("task-locked", task, sentence, "Wait until then, or have the holder release it.")


def _behind(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason | None:
    """Tasks of one step are served one at a time, the oldest first."""
    if not task.step_id:
        return None
    same = [
        each
        for each in snapshot.store.get_tasks_by_workflow(WorkflowId(task.workflow_id))
        if _rivals(each, task)
    ]
    first = next((each for each in same if each.state == TaskState.RUNNING), same[0] if same else task)
    if first.uuid == task.uuid:
        return None
    return _reason(
        "task-behind",
        task,
        "another task of its step comes first.",
        "See its cause.",
        task_reason(snapshot, first),
    )


def _rivals(other: TaskDefinition, task: TaskDefinition) -> bool:
    return other.step_id == task.step_id and other.state in (TaskState.PENDING, TaskState.RUNNING)


def _running(snapshot: DiagnosticSnapshot, task: TaskDefinition) -> Reason:
    owner = snapshot.owner(task.owner)
    swept = snapshot.has_live_server or bool(_owner(snapshot, task))
    again = "within seconds" if swept else "when a server is started: none is alive now"
    if snapshot.life(task.owner) is Life.DEAD:
        sentence = f"{owner}, which had it, died; it is delivered again {again}."
        return _taken_back("task-owner-dead", snapshot, task, sentence, swept)
    if 0 < task.deadline < snapshot.now:
        sentence = (
            f"it is past its deadline of {snapshot.clock(task.deadline)}; it is taken from {owner} {again}."
        )
        return _taken_back("task-overdue", snapshot, task, sentence, swept)
    if 0 < task.lease_until < snapshot.now:
        sentence = f"the lease of {owner} ended at {snapshot.clock(task.lease_until)}; it is delivered again {again}."
        return _taken_back("task-lease-ended", snapshot, task, sentence, swept)
    server = snapshot.server_of(task.owner)
    hangs = server is not None and server.liveness is Liveness.HANGING
    action = (
        f"See what that process does, or restart it: afl why {server.id}" if server and hangs else "Wait."
    )
    return _reason("task-running", task, _work(snapshot, task, owner, hangs), action)


def _taken_back(
    code: str, snapshot: DiagnosticSnapshot, task: TaskDefinition, sentence: str, swept: bool
) -> Reason:
    """A task that is taken from its owner and offered again, if anybody is there to do so and to take it."""
    if not swept:
        action = f"Start a server (afl agent MODULE), or continue it here: afl resume {task.workflow_id} --agent MODULE"
        return _reason(code, task, sentence, action, stands=True)
    offered = staffing(snapshot, task)
    return _reason(code, task, sentence, "Wait.", offered if offered.outlook is Outlook.STANDS else None)


def _work(snapshot: DiagnosticSnapshot, task: TaskDefinition, owner: str, hangs: bool) -> str:
    """Who works on it, until when, how far it is, and what is missing if it takes long."""
    until = f" until {snapshot.clock(task.lease_until)}" if task.lease_until else ""
    stopped = ", whose process is alive but does not ping: it is blocked or stopped" if hangs else ""
    parts = [f"lease held by {owner}{until}{stopped}"]
    took = wall_ms() - task.started if task.started else 0
    if took >= _LONG_MS:
        parts.append(f"it has been running for {span(took)}")
    log = snapshot.last_log(task.workflow_id, task.step_id) if task.step_id else None
    if log is not None:
        line = log_line(log)
        said = first_line(line.text)
        silent = wall_ms() - log.time
        ago = f" ({span(silent)} ago)" if took >= _LONG_MS and silent >= _LONG_MS else ""
        parts.append((said if line.progress is not None else f"it says: {said}") + ago)
    elif took >= _LONG_MS:
        parts.append("it has reported no progress")
    if task.deadline:
        parts.append(f"deadline {snapshot.clock(task.deadline)}")
    elif took >= _LONG_MS:
        parts.append("it has no Timeout")
    if task.deliveries > 1:
        parts.append(f"attempt {task.deliveries}")
    return "; ".join(parts) + "."
