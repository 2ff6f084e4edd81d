"""An approval as people read it: what is asked, what is to be known, and what may be answered."""

from __future__ import annotations

import json
from typing import Any

from rich.text import Text

from afl.cli.console import output, shortened
from afl.kernel.clock import wall_ms
from afl.operations.people.approvals import Approval, ApprovalView
from afl.operations.people.forms import FormField
from afl.operations.spans import ago, date, left

_LONGEST = 2_000


def print_approval(view: ApprovalView) -> None:
    """All of it, on standard output."""
    output().print(approval_text(view), soft_wrap=True)


def approval_text(view: ApprovalView, *, with_commands: bool = True) -> Text:
    """The question, and how to answer it."""
    approval = view.approval
    text = Text.assemble((approval.title, "bold"), (f"  {approval.state}", _COLORS.get(approval.state, "")))
    _line(text, "for", approval.group + (f" (after {', '.join(approval.asked)})" if approval.asked else ""))
    if approval.turn:
        _line(text, "turn", f"{approval.turn} of {approval.agent}, tool {approval.step}")
    else:
        _line(text, "run", f"{approval.run} of {approval.workflow}, step {approval.step}")
    _line(text, "asked", f"{ago(approval.created)}{_limits(approval)}")
    if approval.answered_by:
        _line(text, "by", f"{approval.answered_by} at {date(approval.answered_at)}")
    if approval.feedback:
        _line(text, "said", approval.feedback)
    if view.form.description:
        text.append(f"\n\n{view.form.description}")
    _values(text, "Given", view.given)
    if view.answer:
        _values(text, "Answer", view.answer)
    if approval.state == "open" and with_commands:
        _how(text, view)
    return text


_COLORS = {"open": "yellow", "answered": "green", "rejected": "red", "expired": "red", "canceled": "dim"}


def _line(text: Text, label: str, value: str) -> None:
    text.append(f"\n  {label:<6} ", "bold").append(value)


def _limits(approval: Approval) -> str:
    if approval.state != "open":
        return ""
    now, parts = wall_ms(), []
    if approval.escalates:
        parts.append(f"{approval.escalate_to} is asked in {left(approval.escalates - now)}")
    if approval.expires:
        parts.append(f"expires in {left(approval.expires - now)}")
    return "".join(f"; {part}" for part in parts)


def _values(text: Text, heading: str, values: dict[str, Any]) -> None:
    if values:
        text.append(f"\n\n{heading}", "bold")
    for name, value in values.items():
        text.append(f"\n  {name}: ").append(_shown(value))


def _shown(value: Any) -> str:
    shown = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    cut = shown if len(shown) <= _LONGEST else f"{shown[:_LONGEST]}…"
    return cut.replace("\n", "\n    ")


def values_line(values: dict[str, Any]) -> str:
    """Values on one line, as a list shows them: `amount=120 payee=Ada Ltd`."""
    parts = (f"{name}={_shown(value)}" for name, value in values.items())
    return "  ".join(shortened(" ".join(part.split()), 40) for part in parts)


def _how(text: Text, view: ApprovalView) -> None:
    fields = view.form.every_field if not view.approval.plain else ()
    if fields:
        text.append("\n\nAnswer", "bold")
    for field in fields:
        text.append(f"\n  {field.name}: ").append(_field(field), "dim")
    words = "".join(f" --set {field.name}=…" for field in fields if field.required and field.default is None)
    text.append(f"\n\n  afl approvals approve {view.approval.id}{words}")
    text.append(f"\n  afl approvals reject {view.approval.id} --feedback …")


def _field(field: FormField) -> str:
    parts = [field.type]
    if field.default is not None:
        parts.append(
            f"now {_shown(field.default)}" if field.required else f"{_shown(field.default)} if left out"
        )
    elif not field.required:
        parts.append("may be left out")
    return ", ".join(parts) + (f" — {field.help}" if field.help else "")
