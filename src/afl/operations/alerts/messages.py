"""What alerts say: one message for what is new, in full if it is one thing, else a line for each of the first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

from afl.kernel import codec
from afl.kernel.bounds import cut
from afl.kernel.clock import wall_ms
from afl.operations.people.questions import Approval
from afl.operations.spans import left
from afl.runtime.entities import RunDefinition, RunnerState

_LISTED = 10
_LINE = 200
_ERROR = 1_000
_VALUES = 20


@dataclass(frozen=True)
class Message:
    """A text for people, without any markup."""

    title: str
    body: str
    is_failure: bool = False


@dataclass(frozen=True)
class Links:
    """Where a message leads: pages of the dashboard, or commands if its address is not known."""

    dashboard: str = ""

    def approval(self, id: str) -> str:
        """Where the question can be answered."""
        return self._page(f"approvals/{quote(id, safe='')}") or f"afl approvals show {id}"

    def approvals(self) -> str:
        """All that can be answered."""
        return self._page("approvals") or "afl approvals"

    def run(self, id: str) -> str:
        """What became of the run."""
        return self._page(f"runs/{quote(id, safe='')}") or f"afl show {id}"

    def runs(self) -> str:
        """All of them."""
        return self._page("runs") or "afl list"

    def failed_runs(self) -> str:
        """All that failed."""
        return self._page("runs?state=failed") or "afl list --state failed"

    def _page(self, path: str) -> str:
        return f"{self.dashboard.rstrip('/')}/{path}" if self.dashboard else ""


def approvals_message(approvals: Sequence[Approval], links: Links) -> Message:
    """Of questions that wait for an answer."""
    if len(approvals) == 1:
        one = approvals[0]
        return Message(f"Approval for {one.group}: {one.title}", _approval_text(one, links))
    groups = {each.group for each in approvals}
    whom = f"for {groups.pop()} " if len(groups) == 1 else ""
    lines = [
        f"{each.title} (for {each.group}), {_place(each)}: {links.approval(each.id)}" for each in approvals
    ]
    return Message(f"{len(approvals)} approvals {whom}are waiting", _listed(lines, links.approvals()))


def stopped_message(runs: Sequence[RunDefinition], links: Links) -> Message:
    """Of runs that failed, or are paused since their budget is used up."""
    paused = any(run.state == RunnerState.PAUSED for run in runs)
    if len(runs) == 1:
        run, error = runs[0], runs[0].error or {}
        step = f", step {error['step']}" if error.get("step") else ""
        lines = [_error(run, _ERROR), f"Run {run.workflow_id} of {run.workflow_name}{step}"]
        lines += [f"{key}: {value}" for key, value in run.tags.items()]
        if paused:
            lines.append(f"To continue it: afl unpause {run.workflow_id} --budget-usd N")
        text = "\n".join([*lines, links.run(run.workflow_id)])
        return Message(f"Run {'paused' if paused else 'failed'}: {_called(run)}", text, is_failure=True)
    lines = [f"{_called(each)}: {_error(each, _LINE)} ({links.run(each.workflow_id)})" for each in runs]
    what, rest = ("failed or paused", links.runs()) if paused else ("failed", links.failed_runs())
    return Message(f"{len(runs)} runs {what}", _listed(lines, rest), is_failure=True)


def _approval_text(approval: Approval, links: Links) -> str:
    place = _place(approval)
    lines = [place[:1].upper() + place[1:]]
    lines += [f"{name}: {_shown(value)}" for name, value in list(approval.given.items())[:_VALUES]]
    if approval.expires:
        lines.append(f"Expires in {left(approval.expires - wall_ms())}")
    return "\n".join([*lines, links.approval(approval.id)])


def _place(approval: Approval) -> str:
    if approval.turn:
        return f"agent {approval.agent}, turn {approval.turn}"
    return f"run {approval.run} of {approval.workflow}, step {approval.step}"


def _shown(value: Any) -> str:
    return cut(value if isinstance(value, str) else codec.encode(value), _LINE)


def _called(run: RunDefinition) -> str:
    return run.name or run.workflow_name


def _error(run: RunDefinition, length: int) -> str:
    if run.state == RunnerState.PAUSED:
        return cut(f"The {run.reason}", length)
    error = run.error or {}
    return cut(f"{error.get('error_type', 'Error')}: {error.get('message', 'unknown')}", length)


def _listed(lines: Sequence[str], rest: str) -> str:
    more = len(lines) - _LISTED
    end = [f"and {more} more: {rest}"] if more > 0 else []
    return "\n".join([*lines[:_LISTED], *end])
