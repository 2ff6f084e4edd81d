"""Tool calls of turns that wait for a person's approval, as people see and answer them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from weakref import WeakSet

from afl.kernel.clock import wall_ms
from afl.kernel.database import Database, Transaction
from afl.kernel.database.migration import is_made
from afl.kernel.errors import InputError
from afl.kernel.notify import open_notifier
from afl.models.result_type import schema_problems
from afl.operations.people.form_fields import FieldKind, Form, FormError, FormField
from afl.operations.people.form_values import complete
from afl.operations.people.questions import Approval, closed
from afl.operations.run.cut_values import cut
from afl.runtime.persistence import PersistenceAPI
from afl.turns.resources import get_agent
from afl.turns.store import approvals as stored
from afl.turns.store.approvals import OpenCount, ToolApproval
from afl.turns.store.inbox import topic
from afl.turns.store.tables import APPROVALS
from afl.turns.tools.answering import AnsweredCall, approve_call, reject_call
from afl.turns.tools.questions import INPUT, OUTPUT

_KINDS = {
    "string": FieldKind.TEXT,
    "integer": FieldKind.INTEGER,
    "number": FieldKind.NUMBER,
    "boolean": FieldKind.BOOLEAN,
    "object": FieldKind.MAP,
}
_STATES = {"approved": "answered"}
_ASKS = {
    INPUT: "was asked what a check wants approved",
    OUTPUT: "gives an answer that a check wants approved",
}
_NEWEST = 1000  # answered approvals that are looked through for those of a turn
_known: WeakSet[Database] = WeakSet()  # databases that have the table


@dataclass(frozen=True)
class ToolCalls:
    """The questions of one store; none where it keeps no turns."""

    database: Database | None

    @classmethod
    def of(cls, store: PersistenceAPI) -> ToolCalls:
        database = getattr(store, "database", None)
        if not isinstance(database, Database):
            return cls(None)
        if database not in _known:
            if not is_made(database, APPROVALS):
                return cls(None)
            _known.add(database)
        return cls(database)

    def waiting(self, *, group: str = "", after: str = "", limit: int = 50) -> list[Approval]:
        """Those that can be answered, the oldest first."""
        return self._shown(
            self._read(lambda tx: stored.open_approvals(tx, group=group, after=after, limit=limit))
        )

    def counts(self) -> list[OpenCount]:
        """How many can be answered, by group."""
        return [] if self.database is None else self.database.read(stored.count_open)

    def waiting_of_turn(self, turn: str, group: str = "") -> list[Approval]:
        """Those of one turn that can be answered."""
        return [each for each in self.waiting(group=group, limit=10_000) if each.turn == turn]

    def closed(self, *, group: str = "", limit: int = 50) -> list[Approval]:
        """Those that were answered, expired or canceled."""
        return self._shown(self._read(lambda tx: stored.closed_approvals(tx, group=group, limit=limit)))

    def named(self, id: str) -> list[ToolApproval]:
        """Up to two whose id begins so; or the one that a turn waits for, else its last one, if that is recent."""
        found = self._read(lambda tx: stored.approvals_named(tx, id))
        if found or not id.startswith("turn_"):
            return found
        waits = self.waiting_of_turn(id)
        if not waits:
            newest = self._read(lambda tx: stored.closed_approvals(tx, limit=_NEWEST))
            return [call for call in newest if call.agent_turn_id == id][:1]
        return [] if len(waits) != 1 else self.named(waits[0].id)

    def shown(self, call: ToolApproval) -> Approval:
        """The question as people see it."""
        return self._shown([call])[0]

    def approve(self, call: ToolApproval, given: Mapping[str, Any], by: str) -> dict[str, Any]:
        """Let the call be made: the arguments it is made with. FormError, ApprovalClosed."""
        arguments = checked_arguments(call, given)
        self._answer(call, lambda tx: approve_call(tx, call, arguments, by))
        return arguments

    def reject(self, call: ToolApproval, feedback: str, by: str) -> None:
        """Refuse the call; ApprovalClosed if somebody was faster."""
        self._answer(call, lambda tx: reject_call(tx, call, feedback, by))

    def check_open(self, call: ToolApproval) -> None:
        """ApprovalClosed if it cannot be answered any more."""
        if call.status != "open":
            raise closed(self.shown(call))

    def _answer(self, call: ToolApproval, work: Callable[[Transaction], AnsweredCall]) -> None:
        assert self.database is not None
        answered = self.database.write(work)
        if not answered.counts:
            raise closed(self.shown(answered.approval))
        self._wake(call)

    def _wake(self, call: ToolApproval) -> None:
        """Notify the workers of the agent; those on NATS find the answer by polling."""
        assert self.database is not None
        agent = self.database.read(lambda tx: get_agent(tx, call.project_id, call.agent_id))
        if agent is None:
            return
        notifier = open_notifier(self.database)
        try:
            notifier.notify(topic(agent.worker_target))
        finally:
            notifier.close()

    def _read(self, work: Callable[[Transaction], list[ToolApproval]]) -> list[ToolApproval]:
        return [] if self.database is None else self.database.read(work)

    def _shown(self, calls: list[ToolApproval]) -> list[Approval]:
        if not calls or self.database is None:
            return []
        ahead = wall_ms() - self.database.now()
        return [_approval(call, ahead) for call in calls]


def _approval(call: ToolApproval, ahead: int) -> Approval:
    return Approval(
        id=call.approval_id,
        group=call.group_name,
        title=f"{call.agent_id} {_ASKS.get(call.tool_name, f'asks to call {call.tool_name}')}",
        state=_STATES.get(call.status, call.status),
        facet=call.tool_name,
        run="",
        workflow=call.agent_id,
        step=call.tool_name,
        step_id="",
        plain=not call.parameters.get("properties"),
        created=call.created_at + ahead,
        expires=call.deadline + ahead if call.deadline else 0,
        escalates=0,
        escalate_to="",
        asked=[],
        answered_by=call.answered_by,
        answered_at=call.answered_at + ahead if call.answered_at else 0,
        feedback=call.feedback,
        given={name: cut(value) for name, value in call.arguments.items()},
        turn=call.agent_turn_id,
        agent=call.agent_id,
    )


def call_form(call: ToolApproval) -> Form:
    """The arguments of the call, to be edited; one field for each parameter of the tool."""
    required = call.parameters.get("required") or ()
    fields = [
        _field(
            name, schema if isinstance(schema, Mapping) else {}, name in required, call.arguments.get(name)
        )
        for name, schema in (call.parameters.get("properties") or {}).items()
    ]
    return Form(call.tool_name, call.description, tuple(fields))


def _field(name: str, schema: Mapping[str, Any], required: bool, value: Any) -> FormField:
    kind = _KINDS.get(str(schema.get("type")), FieldKind.JSON)
    items = schema.get("items")
    if schema.get("type") == "array" and isinstance(items, Mapping) and items.get("type") == "string":
        kind = FieldKind.LIST
    label = name.replace("_", " ")
    shown = str(schema.get("type") or "any")
    about = str(schema.get("description") or "")
    return FormField(name, label[:1].upper() + label[1:], kind, shown, required, value, about)


def checked_arguments(call: ToolApproval, given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of the call with those that a person gave; FormError if they do not fit the tool's parameters."""
    values = complete(call_form(call), given)
    kept = {name: value for name, value in call.arguments.items() if name not in given}
    arguments = {**values, **kept, **{name: values[name] for name in given if name in values}}
    try:
        problems = schema_problems(call.parameters, arguments)
    except (
        InputError
    ):  # of the schema, which may be a stranger's; the tool itself checks what it is called with
        problems = {}
    if problems:
        raise FormError(f"{call.tool_name}: {'; '.join(problems.values())}", problems)
    return arguments
