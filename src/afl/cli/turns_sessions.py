"""`afl turns sessions` and its siblings: conversations with ids."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer
from rich.text import Text

from afl.cli.console import Table, output, say
from afl.cli.operation_command import operation_command
from afl.cli.turns_transcript import print_transcript
from afl.operations.spans import date
from afl.operations.turn import sessions as operations
from afl.operations.turn.sessions import SessionLine, SessionView
from afl.turns.sessions.removal import Removed


@operation_command(
    operations.list_sessions,
    agent="[AGENT]",
    limit="--limit -n",
    examples="""
        afl turns sessions
        afl turns sessions guide --json
    """,
)
def sessions(found: list[SessionLine]) -> None:
    shown = Table("SESSION", "AGENT", "TURNS", "CHANGED", "FORK OF", below=[])
    for each in found:
        changed = Text(date(each.changed), "dim")
        shown.add(each.session, each.agent, str(each.turns), changed, each.forked_from)
    shown.print(output()) if found else say(
        "No sessions yet; `afl turns send AGENT TEXT --session ID` makes one"
    )


@operation_command(
    operations.show_session,
    session="SESSION",
    limit="--limit -n",
    data=asdict,
    examples="""
        afl turns session user-42
        afl turns session user-42 --limit 3 --json
    """,
)
def session(view: SessionView) -> None:
    about, console = view.session, output()
    fork = f", a fork of {about.forked_from}" if about.forked_from else ""
    console.print(Text(f"session {about.session} of {about.agent}: {about.turns} turns{fork}", "bold"))
    for turn in view.turns:
        print_transcript(turn, console)


@operation_command(
    operations.fork_session,
    session="SESSION",
    after="--after TURN",
    name="--name ID",
    examples="""
        afl turns fork user-42
        afl turns fork user-42 --after 01k9z --name another-try
    """,
)
def fork(made: SessionLine) -> None:
    print(made.session)
    say(f"It has {made.turns} turns of {made.forked_from}")


@operation_command(
    operations.delete_session,
    session="SESSION",
    examples="""
        afl turns forget user-42
    """,
)
def forget(removed: Removed) -> None:
    say(f"Session {removed.session} is deleted, with {removed.turns} turns and {removed.cards} cards")


SessionOption = Annotated[
    str,
    typer.Option("--session", metavar="ID", help="The next turn of this session; a new id makes a session."),
]
