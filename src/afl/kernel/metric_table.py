"""Every figure that is exported, in one table: what it is called, of which kind, what it is told by, what it means.

Docs/observability.md and the Grafana dashboard name these and no others. Seconds are seconds; ages are counted from the
oldest that waits.
"""

from __future__ import annotations

from dataclasses import dataclass

GAUGE, COUNTER, HISTOGRAM = "gauge", "counter", "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One family."""

    name: str
    kind: str
    labels: tuple[str, ...]
    meaning: str


def _row(name: str, kind: str, labels: str, meaning: str) -> Metric:
    return Metric(name, kind, tuple(labels.split()), meaning)


# What a process counts while it works; each process has its own.
PROCESS = (
    _row("afl_claims_total", COUNTER, "list", "Tasks claimed."),
    _row("afl_claim_wait_seconds", HISTOGRAM, "list", "From the creation of a task to its claim."),
    _row(
        "afl_doorbell_lag_seconds", HISTOGRAM, "list", "The same, of tasks for which a free worker was woken."
    ),
    _row("afl_handler_seconds", HISTOGRAM, "facet", "How long handlers worked, well or not."),
    _row("afl_evaluation_seconds", HISTOGRAM, "", "How long it took to evaluate a run once."),
    _row("afl_commit_seconds", HISTOGRAM, "", "How long it took to store what came of evaluations."),
    _row("afl_runs_ended_total", COUNTER, "state", "Runs that this process brought to their end."),
    _row("afl_store_errors_total", COUNTER, "", "Times that the store failed and was tried again."),
    _row("afl_model_seconds", HISTOGRAM, "model", "How long calls to models took."),
    _row("afl_model_tokens_total", COUNTER, "model kind", "Tokens of models; the kind is input or output."),
    _row("afl_tool_seconds", HISTOGRAM, "tool", "How long tools of turns worked, well or not."),
    _row("afl_turns_ended_total", COUNTER, "status", "Turns that this process brought to their end."),
    _row("afl_turn_seconds", HISTOGRAM, "", "From the request of a turn to its end."),
    _row("afl_breaker_changes_total", COUNTER, "breaker state", "Changes of circuit breakers seen here."),
)

# What a runner tells of itself.
RUNNER = (
    _row("afl_runner_up", GAUGE, "", "Whether the runner works."),
    _row("afl_runner_uptime_seconds", GAUGE, "", "How long it has been working."),
    _row("afl_runner_active_tasks", GAUGE, "", "Tasks in hand."),
    _row("afl_runner_capacity", GAUGE, "", "How many handlers may work at a time."),
    _row("afl_runner_tasks_total", COUNTER, "facet outcome", "Tasks worked on, by facet and outcome."),
)

# What the store holds; the same whoever is asked.
STORE = (
    _row(
        "afl_tasks",
        GAUGE,
        "list facet state hold",
        "Open tasks; a hold says why a pending one waits.",
    ),
    _row("afl_oldest_task_seconds", GAUGE, "list", "Age of the oldest task that can be claimed."),
    _row("afl_runs", GAUGE, "state", "Runs by state."),
    _row("afl_approvals_waiting", GAUGE, "group", "Approvals that wait for a person."),
    _row("afl_oldest_approval_seconds", GAUGE, "group", "Age of the oldest approval that waits."),
    _row("afl_elsewhere_tasks", GAUGE, "via", "Tasks that are done elsewhere: agent, fleet, message, human."),
    _row("afl_servers", GAUGE, "liveness", "Servers that registered, by what is known of them."),
)

TURNS = (
    _row("afl_turn_inbox", GAUGE, "project status", "Messages that agents have not dealt with."),
    _row("afl_turn_inbox_oldest_seconds", GAUGE, "project", "Age of the oldest of them."),
    _row("afl_turns_active", GAUGE, "project status", "Agents in a turn: dispatched, running or suspended."),
    _row("afl_turn_waits", GAUGE, "project", "Tool calls that turns wait for."),
    _row("afl_turn_outbox", GAUGE, "project", "Messages that are stored and not published yet."),
    _row("afl_turn_outbox_lag_seconds", GAUGE, "project", "Age of the oldest of them."),
)

FLEET = (
    _row("afl_fleet_runs", GAUGE, "status", "Runs of the fleet that are not over."),
    _row("afl_fleet_agents", GAUGE, "alive", "Agents of the fleet that were seen of late."),
)

MESSAGES = (
    _row(
        "afl_queue_messages",
        GAUGE,
        "agent state",
        "Messages for an agent: ready, delayed, in_flight or dead.",
    ),
    _row("afl_queue_oldest_seconds", GAUGE, "agent", "How long the oldest ready message has been ready."),
    _row("afl_breakers", GAUGE, "state", "Circuit breakers by state."),
)

PARTS = (_row("afl_part_up", GAUGE, "part", "Whether a part could be asked for its figures."),)

METRICS: tuple[Metric, ...] = (*PROCESS, *RUNNER, *STORE, *TURNS, *FLEET, *MESSAGES, *PARTS)
BY_NAME = {each.name: each for each in METRICS}
