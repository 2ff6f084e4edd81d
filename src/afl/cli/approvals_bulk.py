"""Several approvals answered at once: shown first, then one by one, each with an audit entry of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

import typer
from rich.text import Text

from afl.cli.approval_text import values_line
from afl.cli.console import Table, can_ask, output, print_json, say, shortened
from afl.cli.problems import problem
from afl.client.store_client import OperationsClient
from afl.kernel.errors import AgentFlowError, InputError
from afl.operations import serialization
from afl.operations.people import approvals as operations
from afl.operations.people.answer_preview import MOST, PlannedAnswer, preview_answers
from afl.operations.people.approvals import Answered
from afl.operations.people.forms import written


def chosen_ids(client: OperationsClient, ids: Sequence[str], group: str, run: str) -> list[str]:
    """The approvals that are meant: by their ids, or all that a group is asked or a run waits for."""
    if bool(ids) == bool(group or run):
        raise InputError("name approvals by their ids, or all of a group or a run (--group, --run)")
    if ids:
        return list(dict.fromkeys(ids))
    return [each.id for each in client.call(operations.list_approvals, group=group, run=run, limit=MOST)]


class Several:
    """Approvals that are answered together."""

    def __init__(self, client: OperationsClient, ids: Sequence[str], as_json: bool) -> None:
        self._client = client
        self._ids = ids
        self._as_json = as_json

    def approve(self, texts: Mapping[str, str], *, preview: bool, yes: bool, named: bool) -> None:
        """Each with what its form has, and with the texts that are set."""
        values = self._values(texts)
        planned = self._client.call(preview_answers, list(self._ids), values)
        if self._goes_on(planned, "Approve", preview, yes or named):
            self._answer(planned, lambda id: self._client.call(operations.answer, id, values))

    def reject(self, feedback: str, *, preview: bool, yes: bool, named: bool) -> None:
        """Each for the same reason."""
        found = self._client.call(preview_answers, list(self._ids), None)
        planned = [_refusable(each) for each in found]
        if self._goes_on(planned, "Reject", preview, yes or named):
            self._answer(planned, lambda id: self._client.call(operations.reject, id, feedback))

    def _values(self, texts: Mapping[str, str]) -> dict[str, Any]:
        """What the texts mean in the form of the first; the others check it again."""
        if not texts or not self._ids:
            return {}
        return written(self._client.call(operations.show_approval, self._ids[0]).form, texts)

    def _goes_on(self, planned: Sequence[PlannedAnswer], verb: str, preview: bool, yes: bool) -> bool:
        open_ones = [each for each in planned if not each.problem]
        if preview and self._as_json:
            print_json(serialization.plain(list(planned)))
        elif not self._as_json:
            _print(planned, verb)
        if preview or not planned:
            return False
        if not yes and open_ones and can_ask():
            return bool(typer.confirm(f"{verb} {len(open_ones)}?", err=True))
        if not yes and open_ones:
            raise InputError(
                f"{len(open_ones)} approvals are meant; say --yes to answer them without a terminal"
            )
        return True

    def _answer(self, planned: Sequence[PlannedAnswer], send: Callable[[str], Answered]) -> None:
        answered: list[Answered] = []
        refused = [{"id": each.id, "problem": each.problem} for each in planned if each.problem]
        for each in planned:
            if not each.problem:
                try:
                    answered.append(send(each.id))
                except AgentFlowError as error:  # somebody was faster
                    refused.append({"id": each.id, "problem": str(error)})
        self._tell(answered, refused)

    def _tell(self, answered: Sequence[Answered], refused: Sequence[Mapping[str, str]]) -> None:
        if self._as_json:
            print_json({"answered": [asdict(each) for each in answered], "refused": list(refused)})
        else:
            verb = "Rejected" if answered and answered[0].rejected else "Approved"
            say(
                f"{verb} {len(answered)} of {len(answered) + len(refused)}; the next server continues their runs"
            )
        if refused:
            said = "; ".join(each["problem"] for each in refused[:3])
            problem(f"{len(refused)} were not answered: {said}", code="refused")
            raise typer.Exit(1)


def _refusable(planned: PlannedAnswer) -> PlannedAnswer:
    """A question that is open can be refused, whatever its form lacks."""
    is_open = planned.approval is not None and planned.approval.state == "open"
    return PlannedAnswer(planned.id, planned.approval) if is_open else planned


def _print(planned: Sequence[PlannedAnswer], verb: str) -> None:
    if not planned:
        say("Nothing waits for an answer")
        return
    shown = Table("APPROVAL", "FOR", "WHAT", "VALUES", "ANSWER", below=["VALUES", "ANSWER"])
    for each in planned:
        asked = each.approval
        answer = (
            Text(shortened(each.problem, 100), "red") if each.problem else Text(_answer(each, verb), "green")
        )
        shown.add(
            each.id,
            asked.group if asked is not None else "",
            shortened(asked.title) if asked is not None else "",
            Text(values_line(asked.given) if asked is not None else "", "cyan"),
            answer,
        )
    shown.print(output())


def _answer(planned: PlannedAnswer, verb: str) -> str:
    if verb == "Reject":
        return "rejected"
    return values_line(planned.values) or "approved"
