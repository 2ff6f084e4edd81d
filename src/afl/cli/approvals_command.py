"""`afl approvals`: what waits for a person, and the answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated, Any

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.approval_text import print_approval
from afl.cli.clients import client_for
from afl.cli.console import Table, can_ask, output, print_json, say, shortened
from afl.cli.operation_command import operation_command, unless_subcommand
from afl.client.store_client import OperationsClient
from afl.kernel.clock import wall_ms
from afl.operations.people import approvals as operations
from afl.operations.people.approvals import Answered, Approval, ApprovalView
from afl.operations.people.forms import parse
from afl.operations.spans import ago, left

_HELP = """Approvals: steps that wait for a person ([bold]with Human("finance")[/bold]).

Without a command, the open ones are listed.

[bold]Examples[/bold]

  afl approvals                                  what waits for an answer
  afl approvals --group finance                  what waits for one group
  afl approvals show 01jd3v                      what is asked, and the form
  afl approvals approve 01jd3v --set amount=12   approve, with values
  afl approvals reject 01jd3v --feedback "too much"
"""

approvals = options.command_group(_HELP, runs_without_command=True)

_Id = Annotated[
    str,
    typer.Argument(
        metavar="ID",
        help="The approval's id, or its first characters; or the run, if it waits for one answer.",
    ),
]


@approvals.command("list")
@operation_command(
    operations.list_approvals,
    group="--group -g NAME",
    limit="--limit -n",
    after="--after ID",
    examples="""
        afl approvals list
        afl approvals list --group finance --json
    """,
)
def list_(found: list[Approval], *, group: str) -> None:
    shown = Table("APPROVAL", "FOR", "WHAT", "RUN", "STEP", "ASKED", "EXPIRES", below=["RUN", "STEP"])
    for each in found:
        remaining = each.expires - wall_ms()
        shown.add(
            each.id,
            each.group,
            shortened(each.title),
            Text(each.run, "dim"),
            Text(each.step, "dim"),
            ago(each.created),
            Text(f"in {left(remaining)}" if remaining > 0 else "now", "yellow") if each.expires else "",
        )
    shown.print(output()) if found else say(f"Nothing waits for {group or 'a person'}")


approvals.callback()(unless_subcommand(list_))


@approvals.command("show")
@operation_command(operations.show_approval, id="ID", examples="afl approvals show 01jd3v")
def show(view: ApprovalView) -> None:
    print_approval(view)


@approvals.command("approve")
def approve(
    id: _Id,
    given: Annotated[
        list[str] | None,
        typer.Option(
            "--set",
            "-s",
            metavar="FIELD=VALUE",
            callback=options.checked_pairs,
            help="Set a field of the form. Repeatable; the others keep the values shown.",
        ),
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Approve: the step goes on with what the form has, and what you set.

    [bold]Examples[/bold]

      afl approvals approve 01jd3v
      afl approvals approve 01jd3v --set amount=12 --set payee.city=Bonn
    """
    with client_for(store, server) as client:
        view = client.call(operations.show_approval, id)
        values = _values(view, given or [])
        done = client.call(operations.answer, view.approval.id, values)
    _tell(done, as_json)


@approvals.command("reject")
def reject(
    id: _Id,
    feedback: Annotated[
        str | None,
        typer.Option(
            "--feedback",
            "-m",
            metavar="TEXT",
            help="Why; the workflow can read it. Without it you are asked, on a terminal.",
        ),
    ] = None,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Refuse: the step fails with the error type Rejected and your feedback; [bold]catch[/bold] can handle it.

    Where nothing but a yes or no is asked for, the answer is no, and the step goes on with it.

    [bold]Examples[/bold]

      afl approvals reject 01jd3v --feedback "too much; ask again below 100"
    """
    with client_for(store, server) as client:
        why = _feedback(client, id, as_json) if feedback is None else feedback
        done = client.call(operations.reject, id, why)
    _tell(done, as_json)


def _values(view: ApprovalView, given: list[str]) -> dict[str, Any] | None:
    if view.approval.plain and not given:
        return None
    verdict = {field.name: "yes" for field in view.form.fields if view.approval.plain}
    return parse(view.form, verdict | dict(_pair(each) for each in given))


def _pair(text: str) -> tuple[str, str]:
    name, _, value = text.partition("=")
    return name, value


def _feedback(client: OperationsClient, id: str, as_json: bool) -> str:
    """Asked for once, where somebody is at a terminal; that there is such an approval is looked up before."""
    if as_json or not can_ask():
        return ""
    title = shortened(client.call(operations.show_approval, id).approval.title)
    given: str = typer.prompt(
        f"Why is it rejected: {title} (may be empty)", default="", show_default=False, err=True
    )
    return given.strip()


def _tell(done: Answered, as_json: bool) -> None:
    if as_json:
        print_json(asdict(done))
        return
    verb = "Rejected" if done.rejected else "Approved"
    say(f"{verb} {done.step} of run {done.run}; the next server continues it (or: afl resume {done.run})")
