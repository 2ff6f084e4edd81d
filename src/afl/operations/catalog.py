"""Every operation in one table: its name, its function, who may call it, and its place in the HTTP API.

The API's routes, plain commands, the tools of MCP, the HTTP client and the audit log are made from it. A function is
named by module and name and imported when it is called, so that listing runs does not import Redis.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache, partial
from typing import Any

from afl.operations.operation import Needs, Operation
from afl.operations.roles import Role

API = "/api/v1"
NOTHING = "-"
"""What stands in a path for an empty name: of most things, the latest."""
LOOK, ACT, RULE, WORK = Role.VIEWER, Role.OPERATOR, Role.ADMIN, Role.WORKER


def _row(name: str, target: str, place: str, role: Role, summary: str, **more: Any) -> Operation:
    method, _, route = place.partition(" ")
    path = route.replace(":path", "")
    tag = path.removeprefix("/").partition("/")[0]
    named = re.search(r"{(\w+)}", path)  # what a path is about is what it names
    about = {"subject": named.group(1) if named else "", "slashes": path != route, **more}
    return Operation(name, target, method, path, role, tag, summary, **about)


_turns = partial(_row, needs=Needs.TURNS)
_fleet = partial(_row, needs=Needs.FLEET)
_redis = partial(_row, needs=Needs.REDIS)

# fmt: off
OPERATIONS: tuple[Operation, ...] = (
    # the runtime
    _row("list_runs", "run.run_list:list_runs", "GET /runs", LOOK, "List runs"),
    _row("count_states", "run.run_counts:count_states", "GET /states", LOOK, "Count runs by state"),
    _row("show_run", "run.run_view:show_run", "GET /runs/{run}", LOOK, "Show a run and its steps"),
    _row("read_log", "run.run_log:read_page", "GET /runs/{run}/logs", LOOK, "Read what a run logged", waits=True),
    _row("read_events", "run.run_events:read_events", "GET /runs/{run}/events", LOOK, "Read what happened in a run", waits=True),
    _row("wait_for_run", "run.waiting:wait_a_while", "GET /runs/{run}/wait", LOOK, "Wait for the end of a run", waits=True),
    _row("wait_for_any", "run.waiting:wait_for_any", "POST /runs/wait", LOOK, "Wait for the end of some runs", waits=True),
    _row("submit_program", "program.submission:submit", "", ACT, "Start a compiled program", subject="run"),
    _row("submit_run", "program.submission:submit_source", "POST /runs", ACT, "Start a source's workflow", subject="run"),
    _row("run_graph", "run.run_graph:run_graph", "GET /runs/{run}/graph", LOOK, "Draw a run as a graph"),
    _row("run_timeline", "run.run_timeline:run_timeline", "GET /runs/{run}/timeline", LOOK, "Draw a run over time"),
    _row("run_summary", "run.run_summary:run_summary", "GET /runs/{run}/summary", LOOK, "Show a run at a glance"),
    _row("show_step", "run.step_view:show_step", "GET /steps/{step:path}", LOOK, "Show a step: data, attempts, log, error"),
    _row("compare_runs", "run.compare:compare_runs", "GET /compare", LOOK, "Compare two runs"),
    _row("query_run", "run.query:query", "GET /runs/{run}/query", LOOK, "Read values that a run has published"),
    _row("cancel_run", "run.control:cancel", "POST /runs/{run}/cancel", ACT, "End a run"),
    _row("pause_run", "run.control:pause", "POST /runs/{run}/pause", ACT, "Pause a run"),
    _row("unpause_run", "run.control:unpause", "POST /runs/{run}/unpause", ACT, "Continue a paused run"),
    _row("retry", "run.control:retry", "POST /retry", ACT, "Try failed steps again", subject="name"),
    _row("rerun", "run.rerun:rerun", "POST /runs/{run}/rerun", ACT, "Start a run again, with the same or other inputs"),
    _row("fork", "run.fork:fork", "POST /runs/{run}/fork", ACT, "Start a run again from a step"),
    _row("rerun_form", "run.rerun:rerun_form", "GET /runs/{run}/rerun/form", LOOK, "Show the inputs of a run as a form"),
    _row("fork_form", "run.fork:fork_form", "GET /runs/{run}/fork/form", LOOK, "Show what a fork would do, and its form"),
    _row("continue_step", "run.control:continue_step", "POST /continue", ACT, "Supply the result of a step", subject="step"),
    _row("send_signal", "run.signaling:send_signal", "POST /runs/{run}/signals", ACT, "Deliver a signal to a run"),
    _row("list_signals", "run.signaling:list_signals", "GET /runs/{run}/signals", LOOK, "List signals a run waits for or keeps"),
    _row("signal_form", "run.signaling:signal_form", "GET /runs/{run}/signals/form", LOOK, "Show the form of a signal's value"),
    _row("why", "reason.why:why", "GET /why", LOOK, "Explain why something is stuck"),
    _row("prune_runs", "run.control:prune", "POST /prune", RULE, "Remove old runs", local=("batch", "progress")),
    _row("preview_bulk", "run.bulk:preview_bulk", "GET /bulk/{action}", LOOK, "Show what a bulk action would hit"),
    _row("bulk_prune", "run.bulk:bulk_prune", "POST /bulk-prune", RULE, "Remove the ended runs that filters find", subject="summary"),
    _row("bulk_runs", "run.bulk:bulk_runs", "POST /bulk/{action}", ACT, "Retry, rerun, cancel, pause or unpause runs by filters", subject="summary"),
    _row("show_place", "run.place_view:show_place", "GET /runs/{run}/place", LOOK, "List the steps of one place"),
    _row("overview", "run.overview:overview", "GET /overview", LOOK, "Show the figures of a period"),
    _row("badges", "run.run_summary:badges", "GET /badges", LOOK, "Count open work"),
    _row("search", "search:search_store", "GET /search", LOOK, "Find runs, tasks, servers"),
    _row("compile", "program.sources:compile_source", "POST /compile", LOOK, "Look for mistakes in a source"),
    _row("list_workflows", "program.library:list_workflows", "GET /workflows", LOOK, "List known workflows"),
    _row("show_workflow", "program.library:show_workflow", "GET /workflows/{workflow}", LOOK, "Show a workflow"),
    _row("publish_workflows", "program.library:publish_source", "POST /workflows", ACT, "Keep a source", subject="name"),
    _row("start_workflow", "program.submission:start_workflow", "POST /workflows/{workflow}/start", ACT, "Start one by name"),
    _row("source_form", "program.library:source_form", "POST /forms", LOOK, "Show the start form of a source"),
    _row("workflow_form", "program.library:workflow_form", "GET /workflows/{workflow}/form", LOOK, "Show its start form"),
    _row("list_flows", "program.flows:list_flows", "GET /flows", LOOK, "List stored flows"),
    _row("show_flow", "program.flows:show_flow", "GET /flows/{flow:path}", LOOK, "Show a flow: source, compiled JSON"),
    _row("show_task", "work.task_queue:show_task", "GET /tasks/{task}", LOOK, "Show a task"),
    _row("list_tasks", "work.task_queue:list_tasks", "GET /tasks", LOOK, "List tasks"),
    _row(
        *("claim_work", "work.remote_work:claim_work", "POST /work/claim", WORK, "Claim tasks to work on"),
        waits=True,
        local=("gone",),
        subject="worker",
    ),
    _row("heartbeat_work", "work.remote_work:heartbeat_work", "POST /work/heartbeat", WORK, "Keep claimed tasks", subject="worker"),
    _row("complete_work", "work.remote_work:complete_work", "POST /work/{task}/complete", WORK, "Give the result of a task"),
    _row("fail_work", "work.remote_work:fail_work", "POST /work/{task}/fail", WORK, "Say that a task failed"),
    _row("stop_work", "work.remote_work:stop_work", "POST /work/stop", WORK, "End a worker, and give its tasks back", subject="worker"),
    _row("list_servers", "work.workers:servers", "GET /servers", LOOK, "List servers"),
    _row("store_lock", "work.workers:store_lock", "GET /lock", LOOK, "Show who keeps others from writing"),
    _row("list_schedules", "work.timetable:schedules", "GET /schedules", LOOK, "List schedules"),
    _row("add_schedule", "work.timetable:add_source", "POST /schedules", ACT, "Add a schedule", subject="name"),
    _row(
        *("schedule_workflow", "work.timetable:schedule_workflow", "POST /workflows/{workflow}/schedule", ACT),
        "Schedule a known workflow",
        subject="workflow",
    ),
    _row("pause_schedule", "work.timetable:pause", "POST /schedules/{name:path}/pause", ACT, "Pause one, or unpause it"),
    _row("remove_schedule", "work.timetable:remove", "DELETE /schedules/{name:path}", ACT, "Forget one"),
    _row("list_approvals", "people.approvals:list_approvals", "GET /approvals", LOOK, "List pending approvals"),
    _row("list_answered", "people.approvals:list_answered", "GET /answered", LOOK, "List answered approvals"),
    _row("show_approval", "people.approvals:show_approval", "GET /approvals/{id}", LOOK, "Show a question and its form"),
    _row("preview_answers", "people.answer_preview:preview_answers", "POST /approvals/preview", LOOK, "Preview several answers"),
    _row("answer_approval", "people.approvals:answer", "POST /approvals/{id}/answer", ACT, "Approve, with its values"),
    _row("reject_approval", "people.approvals:reject", "POST /approvals/{id}/reject", ACT, "Refuse, and say why"),
    _row("read_audit", "audit:read_audit", "GET /audit", RULE, "Read the audit log"),
    # turns
    _turns("list_agents", "turn.turns:agents", "GET /agents", LOOK, "List agents that converse"),
    _turns("list_turns", "turn.turns:turns", "GET /turns", LOOK, "List turns"),
    _turns("show_turn", "turn.turn_view:show", "GET /turns/{name}", LOOK, "Show a turn as a transcript"),
    _turns("read_turn_file", "turn.turn_files:read_file", "GET /cards/{card}/files/{number}", LOOK, "Read a file of a turn"),
    _turns("why_turn", "turn.turn_reasons:why", "GET /turns/{name}/why", LOOK, "Explain why a turn is stuck"),
    _turns("wait_for_turn", "turn.turn_wait:wait", "GET /turns/{turn}/wait", LOOK, "Wait for a turn's end", waits=True),
    _turns("turn_events", "turn.turn_event_pages:read_turn_events", "GET /turns/{turn}/events", LOOK, "Read what happened in a turn", waits=True),
    _turns("send_turn", "turn.turns:send", "POST /turns", ACT, "Ask an agent for a turn", subject="agent"),
    _turns("chat_turn", "turn.turn_chat:chat", "", ACT, "Ask an agent for a turn with what was said before", subject="agent"),
    _turns("stop_turn", "turn.turns:stop", "POST /turns/{name}/stop", ACT, "End a turn"),
    _turns("list_sessions", "turn.sessions:list_sessions", "GET /sessions", LOOK, "List sessions"),
    _turns("show_session", "turn.sessions:show_session", "GET /sessions/{session:path}", LOOK, "Show a session as one transcript"),
    _turns("send_to_session", "turn.sessions:send_to_session", "POST /sessions/turns", ACT, "Ask for the next turn of a session", subject="session"),
    _turns("fork_session", "turn.sessions:fork_session", "POST /sessions/fork", ACT, "Continue a session from a turn, as a new one", subject="session"),
    _turns("delete_session", "turn.sessions:delete_session", "DELETE /sessions/{session:path}", ACT, "Delete a session and its content"),
    _turns("search_turns", "search:search_turns", "GET /search/turns", LOOK, "Find turns and agents"),
    # the fleet
    _fleet("fleet_workflows", "fleet.fleet_view:list_workflows", "GET /fleet/workflows", LOOK, "List its workflows"),
    _fleet("fleet_problems", "fleet.fleet:problems", "GET /fleet/problems", LOOK, "Mistakes in workflow files"),
    _fleet("fleet_runs", "fleet.fleet:runs", "GET /fleet/runs", LOOK, "List runs of the fleet"),
    _fleet("fleet_run", "fleet.fleet_view:show", "GET /fleet/runs/{run_id}", LOOK, "Show a run of the fleet"),
    _fleet("fleet_agents", "fleet.fleet:agents", "GET /fleet/agents", LOOK, "List agents of the fleet"),
    _fleet("fleet_log", "fleet.fleet_view:last_lines", "GET /fleet/runs/{run_id}/logs", LOOK, "Its last log lines"),
    _fleet("fleet_start", "fleet.fleet_view:start_run", "POST /fleet/runs", ACT, "Start one", subject="workflow_id"),
    _fleet("fleet_cancel", "fleet.fleet:cancel", "POST /fleet/runs/{run_id}/cancel", ACT, "End a run of the fleet"),
    _fleet("search_fleet", "fleet.fleet_view:search_fleet", "GET /search/fleet", LOOK, "Find runs of the fleet"),
    # messages
    _redis("list_queues", "message.queues:queues", "GET /messages/queues", LOOK, "List queues"),
    _redis("list_registered", "message.coordination:agents", "GET /messages/agents", LOOK, "List registered agents"),
    _redis("list_breakers", "message.coordination:breakers", "GET /breakers", LOOK, "List breakers"),
    _redis("change_breaker", "message.coordination:change_breaker", "POST /breakers/{name}/{action}", RULE, "Change a breaker"),
    _redis("list_dead", "message.queues:dead_letters", "GET /messages/dead", LOOK, "List dead letters"),
    _redis("show_dead", "message.queues:dead_letter", "GET /messages/dead/{agent}/{dead_id}", LOOK, "Show one"),
    _redis("requeue_dead", "message.queues:requeue", "POST /messages/requeue", ACT, "Requeue dead letters", subject="agent"),
    _redis("purge_dead", "message.queues:purge", "POST /messages/purge", RULE, "Delete dead letters", subject="agent"),
    _redis("search_messages", "message.queues:search_messages", "GET /search/messages", LOOK, "Find queues"),
)
# fmt: on

PUBLIC = tuple(each for each in OPERATIONS if each.path)
"""Those that the HTTP API has."""


@cache
def by_target() -> dict[str, Operation]:
    """The table by function."""
    return {f"afl.operations.{each.target}": each for each in OPERATIONS}


def operation_of(function: Callable[..., Any]) -> Operation:
    """The row of a function; KeyError for one that is not in the table."""
    return by_target()[f"{function.__module__}:{function.__qualname__}"]


def named(name: str) -> Operation:
    """The row of a name; StopIteration for one that is not in the table."""
    return next(each for each in OPERATIONS if each.name == name)
