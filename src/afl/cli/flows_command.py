"""`afl flows`: the sources that a store keeps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.clients import client_for, looked_at
from afl.cli.console import Table, output, print_json, say, write
from afl.cli.operation_command import operation_command, unless_subcommand
from afl.cli.problems import print_findings
from afl.cli.programs import compile_file
from afl.operations.program.flows import FlowPage, FlowView, list_flows, show_flow
from afl.operations.program.library import publish_source
from afl.operations.program.sources import SignatureField, read_file
from afl.operations.spans import date

_HELP = """Flows: sources that the store keeps, so that their workflows can be started by name.

Without a command, they are listed, newest first.

[bold]Examples[/bold]

  afl flows                              what the store keeps
  afl flows publish news.afl             keep a source
  afl flows show news.MorningPage        its workflows
  afl flows show 5b1e --source           its source
"""

flows = options.command_group(_HELP, runs_without_command=True)


@flows.command("list")
@operation_command(
    list_flows,
    limit="--limit -n",
    before="--before ID",
    examples="""
        afl flows list
        afl flows list --json
    """,
)
def list_(page: FlowPage, *, store: str | None, server: str | None) -> None:
    shown = Table("FLOW", "STORED", "WORKFLOWS", "RUNS", "ID")
    for each in page.flows:
        stored = Text(date(each.stored) if each.stored else "", "dim")
        shown.add(each.name, stored, f"{each.workflows:,}", f"{each.runs:,}", each.id)
    if page.flows:
        shown.print(output())
    else:
        say(f"No flows in {looked_at(store, server)}; `afl flows publish FILE` stores one")
    if page.next:
        say(f"More: the same command with --before {page.next}", "dim")


flows.callback()(unless_subcommand(list_))


@flows.command("show")
def show(
    flow: Annotated[
        str, typer.Argument(metavar="ID", help="The flow's id, its first characters, or its name.")
    ],
    source: Annotated[bool, typer.Option("--source", help="Print its source, and nothing else.")] = False,
    compiled: Annotated[
        bool, typer.Option("--compiled", help="Print the compiled program as JSON, and nothing else.")
    ] = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Show a flow: its workflows, its source, its compiled JSON.

    The hash of a run's program is also an id.

    [bold]Examples[/bold]

      afl flows show news.MorningPage
      afl flows show 5b1e --source > news.afl
      afl flows show 5b1e --compiled | jq .workflows
    """
    if source + compiled + as_json > 1:
        raise typer.BadParameter("give one of --source, --compiled and --json")
    with client_for(store, server) as client:
        view = client.call(show_flow, flow, with_program=compiled or as_json)
    if as_json:
        print_json(asdict(view))
    elif source:
        _print_source(view)
    elif compiled:
        _print_program(view)
    else:
        _print(view)


@flows.command("publish")
def publish(
    file: options.File,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="Its name. Default: its first workflow's.")
    ] = "",
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Keep a source in the store. One of the same name is replaced; runs that it started stay as they are.

    [bold]Examples[/bold]

      afl flows publish news.afl
      afl flows publish news.afl --name news
    """
    compile_file(file)
    text = read_file(file).text
    with client_for(store, server, create=True) as client:
        done = client.call(publish_source, text, name=name)
    if as_json:
        print_json(asdict(done))
    else:
        say(f"Published {done.name}: {', '.join(done.workflows)}")


def _print(view: FlowView) -> None:
    line, console = view.line, output()
    console.print(Text.assemble((line.name, "bold"), ("  " + line.id, "dim")))
    if line.stored:
        console.print(Text(f"stored {date(line.stored)}, {line.runs:,} run{'' if line.runs == 1 else 's'}"))
    shown = Table("WORKFLOW", "INPUTS", "OUTPUTS", below=["INPUTS", "OUTPUTS"])
    for each in view.workflows:
        shown.add(each.name, _fields(each.parameters), _fields(each.returns))
    if view.workflows:
        shown.print(console)
    print_findings(view.findings, {each.name: each.content for each in view.sources})


def _fields(fields: Sequence[SignatureField]) -> str:
    return ", ".join(f"{each.name}: {each.type}" for each in fields)


def _print_source(view: FlowView) -> None:
    if not view.sources:
        say("Only the compiled program was stored", "red")
        raise typer.Exit(1)
    for each in view.sources:
        write(each.content if each.content.endswith("\n") else f"{each.content}\n")


def _print_program(view: FlowView) -> None:
    if view.program is None:
        print_findings(view.findings, {each.name: each.content for each in view.sources})
        raise typer.Exit(1)
    print_json(view.program)
