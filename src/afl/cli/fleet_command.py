"""`afl fleet`: the group, and what is asked of a principal that runs."""

from __future__ import annotations

from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.console import Table, duration, output, print_json, say, shortened
from afl.cli.fleet_display import COLORS, agent_state_text, ending_text, graph, status_text, summary
from afl.cli.fleet_run_command import logs, run
from afl.cli.fleet_service_command import agent, check, init, keys, principal, settings, ui
from afl.cli.operation_command import operation_command
from afl.cli.problems import file_problem
from afl.fleet.messages import AgentView, RunView, Status
from afl.fleet.workflow import Workflow
from afl.fleet.workflow import shown as shown_value
from afl.kernel.clock import wall_ms
from afl.operations.fleet import fleet as operations
from afl.operations.fleet.fleet import settings_for
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_view import run_data, workflow_data
from afl.operations.serialization import plain
from afl.operations.spans import ago, date, plural

_HELP = """Run DAGs of processes on a fleet of agents.

A [bold]principal[/bold] keeps workflow files, runs, statuses and log lines; [bold]agents[/bold], on this machine or on
others, fetch runs and start their processes. No line is lost when one of them goes away.

[bold]Examples[/bold]

  afl fleet init
  afl fleet principal --with-agent
  afl fleet run example --follow --param name=Ada
  afl fleet status
  afl fleet ui
"""

fleet = options.command_group(_HELP)
fleet.command("init")(init)
fleet.command("check")(check)
fleet.command("principal")(principal)
fleet.command("agent")(agent)
fleet.command("run")(run)


@fleet.command("list")
def list_(host: options.Host = None, port: options.Port = None, as_json: options.AsJson = False) -> None:
    """List the workflows, and the mistakes in invalid files.

    [bold]Examples[/bold]

      afl fleet list
      afl fleet list --json | jq '.problems'
    """
    with operations.connected(settings_for(host, port)) as client:
        problems = operations.problems(client)  # first: it makes the principal look at the files
        workflows = operations.workflows(client)
    if as_json:
        print_json(
            {
                "workflows": plain([workflow_data(each) for each in workflows]),
                "problems": plain(problems),
            }
        )
        return
    _print_workflows(workflows)
    for each in problems:
        say(file_problem(each.path, each.line, each.key, each.error))


@fleet.command("status")
def status(
    run_id: Annotated[
        str | None,
        typer.Argument(
            metavar="[RUN]", help="A run's id, or its first or last characters. Default: all runs."
        ),
    ] = None,
    workflow: Annotated[str, typer.Option("--workflow", "-w", metavar="ID", help="Only its runs.")] = "",
    statuses: Annotated[
        list[Status] | None, typer.Option("--status", "-s", help="Only runs with this status. Repeatable.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, max=100_000, help="How many runs.")] = 20,
    host: options.Host = None,
    port: options.Port = None,
    as_json: options.AsJson = False,
) -> None:
    """Show the runs and agents; or one run with its tasks: state, exit code, duration.

    [bold]Examples[/bold]

      afl fleet status
      afl fleet status --workflow etl.daily --status FAILED
      afl fleet status 01jd3v
      afl fleet status --json | jq '.runs[0].status'
    """
    with operations.connected(settings_for(host, port)) as client:
        if run_id is not None:
            found = operations.show_run(client, operations.find_run(client, run_id))
            _show_run(found, as_json)
            return
        if workflow:
            operations.check_workflow(client, workflow)
        wanted = statuses or []
        runs = operations.runs(client, workflow=workflow, statuses=wanted, limit=limit)
        agents = operations.agents(client)
    if as_json:
        print_json({"runs": plain(runs), "agents": plain(agents)})
        return
    _print_runs(runs)
    alive = sum(each.alive for each in agents)
    say(f"{alive} of {plural(len(agents), 'agent')} alive", "dim" if alive else "yellow")


@fleet.command("cancel")
@operation_command(
    operations.cancel,
    run_id="RUN",
    reason="--reason TEXT",
    examples='afl fleet cancel 01jd3v --reason "wrong table"',
)
def cancel(view: RunView) -> None:
    outcome = f"is {view.status.value}" if view.status.is_final else f"will be ended by agent {view.agent_id}"
    say(f"run {view.run_id} {outcome}")


@fleet.command("agents")
@operation_command(
    operations.agents,
    examples="""
        afl fleet agents
        afl fleet agents --json | jq '.\\[] | select(.alive)'
    """,
)
def agents_(found: list[AgentView]) -> None:
    shown = Table("AGENT", "STATE", "RUNNING", "SLOTS", "LAST SEEN")
    for each in found:
        shown.add(
            each.agent_id,
            agent_state_text(each),
            str(each.running),
            str(each.slots or ""),
            Text(ago(each.last_seen), "dim"),
        )
    shown.print(output()) if found else say("No agent has registered; `afl fleet agent` starts one")


fleet.command("logs")(logs)
fleet.command("keys")(keys)
fleet.command("settings")(settings)
fleet.command("ui")(ui)


def _print_workflows(workflows: list[Workflow]) -> None:
    if not workflows:
        say("No workflows; `afl fleet init` makes a first one")
        return
    shown = Table("ID", "NAME", "TASKS", "CRON", "PARAMS", "FILE", below=["FILE"])
    for each in workflows:
        params = ", ".join(name + ("" if row.required else "?") for name, row in each.params.items())
        name = shortened(each.name, 30)
        shown.add(each.id, name, str(len(each.tasks)), each.cron or "", params, Text(each.path, "dim"))
    shown.print(output())


def _show_run(found: RunStanding, as_json: bool) -> None:
    if as_json:
        print_json(plain(run_data(found)))
        return
    now, console = wall_ms(), output()
    console.print(summary(found, now), soft_wrap=True)
    for row in graph(found.tasks, now):
        console.print(row, soft_wrap=True)
    run = found.run
    facts = [f"run {run.run_id} of {run.workflow_id}", f"made {date(run.created_at)} by {_origin(run)}"]
    facts += [f"on {run.agent_id}"] if run.agent_id else []
    facts += [f"{name}={shown_value(value)}" for name, value in run.params.items()]
    console.print(Text(", ".join(facts), "dim"), soft_wrap=True)
    if run.waits:
        console.print(Text(f"waits: {run.waits}", "yellow"), soft_wrap=True)
    if run.cancel_reason is not None and run.status in (Status.RUNNING, Status.CANCELED):
        word = "canceled" if run.status.is_final else "is being canceled"
        asked = f"{word}: {run.cancel_reason or 'no reason given'}"
        console.print(Text(asked, COLORS[Status.CANCELED]), soft_wrap=True)
    elif reason := ending_text(run):
        console.print(reason, soft_wrap=True)


def _origin(run: RunView) -> str:
    return "a request" if run.trigger.isupper() else f"its {run.trigger}"


def _print_runs(runs: list[RunView]) -> None:
    if not runs:
        say("No runs")
        return
    now = wall_ms()
    shown = Table("RUN", "WORKFLOW", "STATUS", "CREATED", "TOOK", "AGENT", "REASON", below=["REASON"])
    for each in runs:
        took = None if each.started_at is None else (each.ended_at or now) - each.started_at
        reason = ending_text(each)
        shown.add(
            each.run_id,
            each.workflow_id,
            status_text(each.status),
            Text(ago(each.created_at), "dim"),
            "" if took is None else duration(max(0, took)),
            Text(each.agent_id, "dim"),
            Text(shortened(reason.plain), reason.style) if reason else Text(each.waits, "yellow"),
        )
    shown.print(output())
