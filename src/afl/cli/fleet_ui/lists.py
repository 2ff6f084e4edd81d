"""What the lists show: workflows, runs, agents, and the line at the top."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rich.text import Text

from afl.cli.console import duration
from afl.cli.fleet_graph import COLOURS, status_text
from afl.cli.fleet_ui.rows import Row
from afl.cli.tables import shortened
from afl.fleet.messages import RunView
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms
from afl.operations.fleet.fleet_overview import Overview
from afl.operations.spans import ago, span

_LETTERS = 8  # the end of an id: its beginning is the time, which runs of one day share


def workflow_rows(overview: Overview, pattern: str = "") -> list[Row]:
    """Workflows whose id or name fits, each with a dot in the colour of its newest run."""
    rows: list[Row] = []
    for each in overview.workflows:
        if fits(pattern, each.id, each.name):
            status = overview.last_status(each.id)
            dot = Text("●", COLOURS[status]) if status is not None else Text("·", "dim")
            rows.append((each.id, (dot, Text(each.id), Text(shortened(each.name, 30), "dim"))))
    return rows


def run_rows(runs: Sequence[RunView]) -> list[Row]:
    now = wall_ms()
    rows: list[Row] = []
    for run in runs:
        took = None if run.started_at is None else max(0, (run.ended_at or now) - run.started_at)
        cells = (
            Text(run.run_id[-_LETTERS:]),
            Text(run.workflow_id),
            status_text(run.status),
            Text(ago(run.created_at), "dim"),
            Text("" if took is None else duration(took)),
        )
        rows.append((run.run_id, cells))
    return rows


def agent_rows(overview: Overview) -> list[Row]:
    rows: list[Row] = []
    for agent in overview.agents:
        if not agent.alive:
            state = Text("LOST", "red")
        else:
            state = Text("RUNNING", "cyan") if agent.running else Text("READY", "green")
        use = f"{agent.running}/{agent.slots}" if agent.slots else str(agent.running)
        rows.append((agent.agent_id, (Text(agent.agent_id), state, use, Text(ago(agent.last_seen), "dim"))))
    return rows


def top_line(settings: FleetSettings, overview: Overview, away_since: int | None) -> Text:
    """Whether the principal answers, and the sums."""
    text = Text.assemble(("AgentFlow fleet  ", "bold"), settings.address(settings.principal_port), "  ")
    if away_since is not None:
        return text.append(f"● no answer for {span(wall_ms() - away_since)}", "bold red")
    text.append("● connected", "green")
    text.append(f"  {_counted(len(overview.workflows), 'workflow')}, ", "dim")
    text.append(f"{_counted(overview.open_runs, 'open run')}, ", "dim")
    text.append(_counted(overview.live_agents, "agent"), "dim" if overview.live_agents else "yellow")
    if overview.problems:
        text.append(f"  {_counted(len(overview.problems), 'problem')} in files", "bold yellow")
    return text


def _counted(number: int, what: str) -> str:
    return f"{number} {what}{'' if number == 1 else 's'}"


def fits(pattern: str, *texts: str) -> bool:
    """Whether a regular expression fits one of the texts; what is none is looked for as it stands."""
    try:
        found = re.compile(pattern, re.IGNORECASE)
    except re.error:
        found = re.compile(re.escape(pattern), re.IGNORECASE)
    return any(found.search(text) for text in texts)
