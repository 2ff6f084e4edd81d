"""A small project on one database: agents, boxes and turns at any point of their lives."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any, TypeVar

from afl.kernel.database import Database, Query, Transaction
from afl.turns.cardbox.boxes import open_boxes
from afl.turns.cardbox.card_store import save_result
from afl.turns.cardbox.cards import NewCard, text, tool_result_content
from afl.turns.cardbox.deliverable import Ending
from afl.turns.context import TurnContext, context_of_head
from afl.turns.intents import ReportIntent, SpawnIntent, ToolWait
from afl.turns.model import Head, L0Result, TurnRef
from afl.turns.primitives.enqueue import enqueue
from afl.turns.primitives.report import report
from afl.turns.protocol.ids import new_id
from afl.turns.resources import Agent, Tool, put_agent, put_profile, put_tool
from afl.turns.statuses import CardType, MessageType, TaskStatus
from afl.turns.store import inbox
from afl.turns.store.heads import read_head
from afl.turns.store.tables import ensure_tables
from afl.turns.transitions import enter_running, suspend

T = TypeVar("T")
OWNER = "worker-1"
query = cache(Query.of)  # of the same text again and again: to read the text takes longer than to run it
TABLES = (
    "cardbox.cards",
    "cardbox.card_boxes",
    "cardbox.box_cards",
    "state.agent_state_head",
    "state.agent_inbox",
    "state.execution_edges",
    "state.turn_waiting_tools",
    "state.agent_state_pointers",
    "state.agent_steps",
    "state.outbox",
    "resource.project_agents",
    "resource.tools",
    "resource.profiles",
)


class House:
    """Everything of one project; tests change it through transactions of their own."""

    def __init__(self, database: Database, project: str = "p1") -> None:
        self.database = database
        self.project = project
        self.user = TurnContext.root(project, "sys.test")
        ensure_tables(database)
        self.profile = self.write(lambda tx: put_profile(tx, project, {"name": "plain"})).profile_box_id
        self.hire("ada")
        self.hire("bob")
        tool = Tool(project, "search", "looks", {"type": "object", "properties": {"q": {"type": "string"}}})
        self.write(lambda tx: put_tool(tx, replace(tool, target_subject=self.subject("{channel_id}"))))

    def write(self, work: Callable[[Transaction], T]) -> T:
        return self.database.write(work)

    def read(self, work: Callable[[Transaction], T]) -> T:
        return self.database.read(work)

    def hire(self, agent: str, target: str = "generic") -> None:
        self.write(lambda tx: put_agent(tx, Agent(self.project, agent, self.profile, target)))

    def subject(self, channel: str = "public") -> str:
        return f"cg.v1r4.{self.project}.{channel}.cmd.tool.search.execute"

    def dump(self) -> dict[str, list[tuple[Any, ...]]]:
        """Everything in every table, to compare."""
        return self.read(lambda tx: {table: _rows(tx, table, self.database) for table in TABLES})

    def count(self, table: str, where: str = "true") -> int:
        """How many rows; the condition is text of the test's own."""
        name = _name(table, self.database)
        row = self.read(lambda tx: tx.one(query(f"select count(*) as n from {name} where {where}")))
        assert row is not None
        return int(row["n"])

    # Turns ----------------------------------------------------------------------------------------------

    def boxes(self, tx: Transaction, instruction: str = "do it") -> dict[str, str]:
        card = NewCard(CardType.TASK_INSTRUCTION, text(instruction), "sys.test")
        context, output = open_boxes(tx, self.project, [card])
        return {"context_box_id": context, "output_box_id": output}

    def enqueue(
        self,
        agent: str = "ada",
        *,
        context: TurnContext | None = None,
        boxes: dict[str, str] | None = None,
        **options: Any,
    ) -> L0Result:
        def work(tx: Transaction) -> L0Result:
            payload = boxes or self.boxes(tx)
            return enqueue(tx, context or self.user, SpawnIntent(agent, payload, **options))

        return self.write(work)

    def act(self, agent: str = "ada", action: str = "a1", **options: Any) -> L0Result:
        """A UI action."""
        payload = {"action_id": action, "tool_name": "search", "args": {}}
        intent = SpawnIntent(agent, payload, MessageType.UI_ACTION, correlation_id=action, **options)
        return self.write(lambda tx: enqueue(tx, self.user, intent))

    def head(self, agent: str = "ada") -> Head:
        head = self.read(lambda tx: read_head(tx, self.project, agent))
        assert head is not None
        return head

    def dispatched(self, agent: str = "ada") -> Head:
        assert self.enqueue(agent).accepted
        return self.head(agent)

    def running(self, agent: str = "ada", owner: str = OWNER, lease_ms: int = 60_000) -> Head:
        head = self.dispatched(agent)
        rows = self.write(
            lambda tx: inbox.claim_due(tx, targets=[], owner=owner, project=self.project, agent=agent)
        )
        assert head.active_inbox_id in {row.inbox_id for row in rows}
        return self.write(
            lambda tx: enter_running(
                tx,
                head,
                inbox_id=head.active_inbox_id or "",
                owner=owner,
                step_id=new_id("step"),
                lease_ms=lease_ms,
            )
        )

    def waits(
        self, count: int = 2, *, subject: str | None = None, deadline_ms: int = 60_000
    ) -> list[ToolWait]:
        step = new_id("step")
        payload = {"tool_name": "search", "after_execution": "suspend", "tool_call_card_id": "card_x"}
        return [
            ToolWait(new_id("call"), "search", step, deadline_ms, subject, payload if subject else {})
            for _ in range(count)
        ]

    def suspended(
        self, agent: str = "ada", waits: list[ToolWait] | None = None
    ) -> tuple[Head, list[ToolWait]]:
        head, calls = self.running(agent), waits or self.waits(subject=self.subject())
        return self.write(lambda tx: suspend(tx, head, waits=calls)).head, calls

    def card(
        self, head: Head, type: CardType = CardType.AGENT_THOUGHT, words: str = "hm", **more: Any
    ) -> NewCard:
        return NewCard(
            type, text(words), head.agent_id, agent_turn_id=head.active_agent_turn_id or "", **more
        )

    def result_card(self, head: Head, wait: ToolWait, author: str = "tool.search") -> NewCard:
        return NewCard(
            CardType.TOOL_RESULT,
            tool_result_content("success", result={"found": 1}),
            author,
            agent_turn_id=head.active_agent_turn_id or "",
            step_id=wait.step_id,
            tool_call_id=wait.tool_call_id,
            function_name=wait.tool_name,
        )

    def ref(self, head: Head) -> TurnRef:
        return TurnRef(head.project_id, head.agent_id, head.active_agent_turn_id or "", head.turn_epoch)

    def tool_context(self, head: Head, author: str = "tool.search") -> TurnContext:
        return context_of_head(head).acting_as(author)

    def report(self, head: Head, wait: ToolWait, author: str = "tool.search", **more: Any) -> L0Result:
        """What a tool does: the result card, and the report of it."""

        def work(tx: Transaction) -> L0Result:
            card = save_result(tx, self.project, self.result_card(head, wait, author))
            payload = {"status": "success", "after_execution": "suspend", "tool_result_card_id": card.card_id}
            intent = ReportIntent(self.ref(head), payload, wait.tool_call_id, **more)
            return report(tx, self.tool_context(head, author), intent)

        return self.write(work)

    def ending(self, head: Head, status: TaskStatus = TaskStatus.SUCCESS, **more: Any) -> Ending:
        return Ending(status, self.card(head, CardType.TASK_DELIVERABLE, "done"), **more)


def _name(table: str, database: Database) -> str:
    return table if database.dialect == "postgres" else table.replace(".", "_", 1)


def _rows(tx: Transaction, table: str, database: Database) -> list[tuple[Any, ...]]:
    rows = tx.all(query(f"select * from {_name(table, database)}"))
    found = [tuple(row[name] for name in row.keys()) for row in rows]  # noqa: SIM118
    return sorted(found, key=repr)
