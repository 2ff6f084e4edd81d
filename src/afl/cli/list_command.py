"""`afl list` and `afl states`."""

from __future__ import annotations

from rich.text import Text

from afl.cli.clients import looked_at
from afl.cli.console import COLORS, Table, duration, output, say, shortened
from afl.cli.operation_command import operation_command
from afl.operations.run.run_counts import StateCount, count_states
from afl.operations.run.run_list import RunLine, RunPage, list_runs
from afl.operations.run.run_status import WAITS_FOR
from afl.operations.spans import date
from afl.runtime.entities import RunnerState, labels


@operation_command(
    list_runs,
    state="--state",
    workflow="--workflow NAME",
    tags="--tag KEY=VALUE",
    text="--text TEXT",
    within="--within SPAN",
    longer_than="--longer-than SPAN",
    shorter_than="--shorter-than SPAN",
    min_cost="--min-cost USD",
    max_cost="--max-cost USD",
    limit="--limit -n",
    before="--before RUN",
    examples="""
        afl list
        afl list --state failed --workflow news.MorningPage
        afl list --state waiting:person
        afl list --tag team=data --text "morning berlin"
        afl list --within 24h --longer-than 10m --min-cost 0.50
        afl list --before 01jd3v      the page behind
    """,
)
def list_(page: RunPage, *, store: str | None, server: str | None) -> None:
    labeled = any(each.name or each.tags for each in page.runs)
    about = ["NAME", ""] if labeled else [""]
    shown = Table("RUN", "STARTED", "STATE", "TOOK", "WORKFLOW", *about, below=["TOOK", "WORKFLOW", *about])
    for each in page.runs:
        shown.add(
            each.run,
            Text(date(each.created), "dim"),
            Text(each.status_words, _color(each)),
            duration(each.duration_ms),
            each.workflow,
            *([" ".join(filter(None, (each.name, *labels(each.tags))))] if labeled else []),
            _about(each),
        )
    shown.print(output()) if page.runs else say(f"No runs in {looked_at(store, server)}")
    if page.next:
        say(f"More: the same command with --before {page.next}", "dim")


def _color(line: RunLine) -> str:
    """Yellow where somebody must act."""
    if line.attention:
        return "yellow"
    return "cyan" if line.status in ("retrying", "waiting") else COLORS.get(line.status, "")


def _about(line: RunLine) -> Text:
    if line.error and line.state == RunnerState.FAILED:
        return Text(shortened(line.error), "red")
    if line.names:
        return Text(shortened(line.names), "yellow" if line.attention else "dim")
    if line.state == RunnerState.CREATED:
        return Text("not started", "yellow")
    about = line.reason or line.inputs or (f"child of {line.parent}" if line.parent else "")
    return Text(shortened(about), "dim")


@operation_command(
    count_states,
    examples="""
        afl states
        afl states --json | jq '.[] | select(.state == "waiting:person").count'
    """,
)
def states(counts: list[StateCount], *, store: str | None, server: str | None) -> None:
    shown = Table("STATE", "RUNS")
    for each in counts:
        if each.count:
            state, _, kind = each.state.partition(":")
            words = f"  for {WAITS_FOR[kind]}" if kind else state
            shown.add(Text(words, COLORS.get(state, "")), f"{each.count:,}{'+' if each.more else ''}")
    found = any(each.count for each in counts)
    shown.print(output()) if found else say(f"No runs in {looked_at(store, server)}")
