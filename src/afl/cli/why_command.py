"""`afl why`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.console import Group
from rich.padding import Padding
from rich.text import Text

from afl.cli.console import output
from afl.cli.operation_command import operation_command
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.why import why as reason_of

_COLORS = {Outlook.MOVES: "cyan", Outlook.STANDS: "yellow", Outlook.OVER: ""}


def _plain(reason: Reason) -> dict[str, Any]:
    cause = reason.cause
    return {
        "kind": reason.kind,
        "id": reason.id,
        "code": cause.code,
        "outlook": reason.outlook.value,
        "sentence": cause.sentence,
        "action": cause.action,
        "chain": [
            {"code": each.code, "kind": each.kind, "id": each.id, "sentence": each.sentence}
            for each in reason.chain
        ],
        "attempts": [asdict(each) for each in cause.attempts],
    }


@operation_command(
    reason_of,
    name="ID",
    data=_plain,
    examples="""
        afl why                       the latest run
        afl why 01jd3v                a run, a task or a server
        afl why 01jd3v/desk.story     a step, whether it has started or not
    """,
)
def why(reason: Reason) -> None:
    output().print(render(reason))


def render(reason: Reason) -> Group:
    """The chain of reasons, each below the one that rests on it, and what to do."""
    cause = reason.cause
    lines = []
    for depth, each in enumerate(reason.chain):
        text = Text.assemble((f"{each.kind} {each.id}: ", "dim"))
        text.append(each.sentence, f"bold {_COLORS[reason.outlook]}" if each is cause else "")
        lines.append(Padding.indent(text, 2 * depth))
    action = Text.assemble("-> ", cause.action, (f"  [{cause.code}]", "dim"))
    return Group(*lines, action)
