"""Questions to people in a terminal: what a run waits for, answered at once or later."""

from __future__ import annotations

from typing import Any

import typer

from afl.cli.approval_text import approval_text
from afl.cli.console import say
from afl.operations.people import approvals
from afl.operations.people.approvals import ApprovalClosed, ApprovalView
from afl.operations.people.forms import FormError, FormField, parse
from afl.runtime.persistence import PersistenceAPI


def ask_people(store: PersistenceAPI, run: str) -> bool:
    """Ask what a run waits for; whether anything was answered."""
    answered = False
    try:
        for each in approvals.list_approvals(store, run=run):
            answered = _ask(store, approvals.show_approval(store, each.id)) or answered
    except typer.Abort:  # Ctrl+C or Ctrl+D: the question stays open
        say("")
    return answered


def _ask(store: PersistenceAPI, view: ApprovalView) -> bool:
    say(approval_text(view, with_commands=False))
    while True:
        word = typer.prompt("\n(a)pprove, (r)eject or (l)ater", default="l", err=True).strip().lower()
        if word in ("l", "later"):
            return False
        if word in ("a", "approve", "r", "reject"):
            break
    try:
        if word[0] == "a":
            approvals.answer(store, view.approval.id, _values(view))
        else:
            feedback = typer.prompt("Why", default="", show_default=False, err=True)
            approvals.reject(store, view.approval.id, feedback)
    except ApprovalClosed as closed:
        say(str(closed), "yellow")  # somebody was faster; that answer is as good
    return True


def _values(view: ApprovalView) -> dict[str, Any] | None:
    """What is written into the form, asked for again until it fits."""
    if view.approval.plain:
        return None
    written: dict[str, str] = {}
    asked = view.form.every_field
    while True:
        for field in asked:
            written[field.name] = _written(field, written.get(field.name, field.text))
        try:
            return parse(view.form, written)
        except FormError as error:
            for name, problem in error.problems.items():
                say(f"{name}: {problem}", "red")
            asked = tuple(field for field in asked if field.name in error.problems)


def _written(field: FormField, text: str) -> str:
    about = f" ({field.help})" if field.help else ""
    written: str = typer.prompt(
        f"{field.name}: {field.type}{about}", default=text, show_default=bool(text), err=True
    )
    return written
