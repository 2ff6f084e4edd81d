"""`afl approvals`: what waits for a person, and the answers."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli import options
from afl.cli.approval_text import print_approval, values_line
from afl.cli.approvals_bulk import Several, chosen_ids
from afl.cli.clients import client_for, looked_at
from afl.cli.console import Table, can_ask, output, print_json, say, shortened
from afl.cli.operation_command import operation_command, unless_subcommand
from afl.client.store_client import OperationsClient
from afl.kernel.clock import wall_ms
from afl.operations.people import approvals as operations
from afl.operations.people.approvals import Answered, Approval, ApprovalView
from afl.operations.people.forms import written
from afl.operations.spans import ago, left

_HELP = """Approvals: steps that wait for a person ([bold]with Human("finance")[/bold]), and tool calls of agents.

Without a command, the open ones are listed.

[bold]Examples[/bold]

  afl approvals                                  what waits for an answer
  afl approvals --group finance                  what waits for one group
  afl approvals show 01jd3v                      what is asked, and the form
  afl approvals approve 01jd3v --set amount=12   approve, with values
  afl approvals approve 01jd3v 01jd4w            approve several; they are shown first
  afl approvals reject 01jd3v --feedback "too much"
"""

approvals = options.command_group(_HELP, runs_without_command=True)

_Ids = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="[ID]...",
        help="The approvals' ids, or their first characters; or a run, if it waits for one answer.",
    ),
]
_Group = Annotated[str, typer.Option("--group", "-g", metavar="NAME", help="All that waits for this group.")]
_Run = Annotated[str, typer.Option("--run", metavar="RUN", help="All that this run waits for.")]
_Preview = Annotated[bool, typer.Option("--preview", help="Show what would be answered, and answer nothing.")]
_Yes = Annotated[
    bool, typer.Option("--yes", "-y", help="Do not ask for confirmation before answering several.")
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
def list_(found: list[Approval], *, group: str, store: str | None, server: str | None) -> None:
    columns = ("APPROVAL", "FOR", "WHAT", "RUN", "STEP", "ASKED", "EXPIRES", "VALUES")
    shown = Table(*columns, below=["WHAT", "RUN", "STEP", "VALUES"])
    for each in found:
        remaining = each.expires - wall_ms()
        shown.add(
            each.id,
            each.group,
            shortened(each.title),
            Text(each.run or each.turn, "dim"),
            Text(each.step, "dim"),
            ago(each.created),
            Text(f"in {left(remaining)}" if remaining > 0 else "now", "yellow") if each.expires else "",
            Text(values_line(each.given), "cyan"),
        )
    if found:
        shown.print(output())
    else:
        say(f"Nothing waits for {group or 'a person'} in {looked_at(store, server)}")


approvals.callback()(unless_subcommand(list_))


@approvals.command("show")
@operation_command(operations.show_approval, id="ID", examples="afl approvals show 01jd3v")
def show(view: ApprovalView) -> None:
    print_approval(view)


@approvals.command("approve")
def approve(
    ids: _Ids = None,
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
    group: _Group = "",
    run: _Run = "",
    preview: _Preview = False,
    yes: _Yes = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Approve: the step continues with the values in the form, and those you set.

    Several at once are shown first, and you are asked; those that cannot be answered are left out, and named.

    [bold]Examples[/bold]

      afl approvals approve 01jd3v
      afl approvals approve 01jd3v --set amount=12 --set payee.city=Bonn
      afl approvals approve 01jd3v 01jd4w 01jd5x
      afl approvals approve --group finance --preview
      afl approvals approve --group finance --yes
    """
    texts = dict(_pair(each) for each in given or [])
    with client_for(store, server) as client:
        chosen = chosen_ids(client, ids or [], group, run)
        if len(chosen) == 1 and ids and not preview:
            view = client.call(operations.show_approval, chosen[0])
            values = written(view.form, texts)
            answered = client.call(operations.answer, view.approval.id, values)
            _tell(answered, as_json)
            return
        several = Several(client, chosen, as_json)
        several.approve(texts, preview=preview, yes=yes, named=bool(ids))


@approvals.command("reject")
def reject(
    ids: _Ids = None,
    feedback: Annotated[
        str | None,
        typer.Option(
            "--feedback",
            "-m",
            metavar="TEXT",
            help="Why; the workflow can read it. Without it you are asked, on a terminal.",
        ),
    ] = None,
    group: _Group = "",
    run: _Run = "",
    preview: _Preview = False,
    yes: _Yes = False,
    store: options.Store = None,
    server: options.Server = None,
    as_json: options.AsJson = False,
) -> None:
    """Refuse: the step fails with the error type Rejected and your feedback; [bold]catch[/bold] can handle it.

    If the question is only yes or no, the answer is no, and the step continues with it.

    [bold]Examples[/bold]

      afl approvals reject 01jd3v --feedback "too much; ask again below 100"
      afl approvals reject --run 01jd2c --feedback "the trip was called off" --yes
    """
    with client_for(store, server) as client:
        chosen = chosen_ids(client, ids or [], group, run)
        if len(chosen) == 1 and ids and not preview:
            why = _feedback(client, chosen[0], as_json) if feedback is None else feedback
            _tell(client.call(operations.reject, chosen[0], why), as_json)
            return
        several = Several(client, chosen, as_json)
        several.reject(feedback or "", preview=preview, yes=yes, named=bool(ids))


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
    if done.turn:
        say(f"{verb} {done.step} of turn {done.turn}; the next worker continues it")
        return
    say(f"{verb} {done.step} of run {done.run}; the next server continues it (or: afl resume {done.run})")
