"""Tools of another process: it consumes `cmd.tool.*`, calls a function, and reports its outcome.

    service = ToolService(engine, "main", [search])
    await service.register()
    await service.start()

A command may arrive more than once. The first result card of a call is its result: a call that has one is not made
again, only reported again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

from afl.kernel.bounds import cut, is_name
from afl.kernel.database import Transaction
from afl.models import PythonTool
from afl.turns.bus import Subscription
from afl.turns.bus.base import checked_concurrency
from afl.turns.cardbox.card_store import find_cards, result_card_of, save_result
from afl.turns.cardbox.cards import Card, NewCard
from afl.turns.context import TurnContext, context_of_headers
from afl.turns.engine import L0Engine
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import ReportIntent
from afl.turns.message import Message
from afl.turns.model import L0Result, TurnRef
from afl.turns.outages import across_outages
from afl.turns.protocol.ids import new_id
from afl.turns.protocol.subjects import PREFIX
from afl.turns.resources import Tool as ToolRow
from afl.turns.resources import put_tool
from afl.turns.statuses import AfterExecution, CardType, HeadStatus
from afl.turns.store import heads
from afl.turns.store.edges import Q
from afl.turns.tools.dependencies import Dependencies
from afl.turns.tools.local import THREADS, LocalTool, Toolbox, ToolCall, ToolCaller, near
from afl.turns.tools.outcome import Outcome, failed, result_card
from afl.turns.transitions import extend_wait

CONCURRENCY = 10
_SLACK_MS = 1000  # a command is on its way for a moment
_log = logging.getLogger("afl.turns")


class ToolService:
    """Serves tools of one project under the name `target`; processes of one name share the commands.

    Up to `concurrency` calls run at once. The others stay on the bus, and their timeout has not begun.
    """

    def __init__(
        self,
        engine: L0Engine,
        project: str,
        tools: Iterable[Callable[..., Any] | PythonTool | LocalTool],
        *,
        target: str = "python",
        concurrency: int = CONCURRENCY,
        deps: Any = None,
    ) -> None:
        self._engine = engine
        self._project = project
        self._toolbox = Toolbox(tools)
        self._target = target
        self._concurrency = checked_concurrency(concurrency)
        self._deps = Dependencies(deps)
        self._caller = ToolCaller(max(THREADS, concurrency), self._deps, engine.content)
        self._subscription: Subscription | None = None

    async def register(self) -> None:
        """Enter the tools into `resource.tools`, so that agents can call them."""
        rows = [self._row(tool) for tool in self._toolbox]

        def work(tx: Transaction) -> None:
            for row in rows:
                put_tool(tx, row)

        await self._engine.database.run("write", work)

    async def start(self) -> None:
        await self._deps.open()
        pattern = f"{PREFIX}.{self._project}.*.cmd.tool.{self._target}.>"
        self._subscription = await self._engine.bus.consume(
            f"tool_{self._target}_{self._project}", [pattern], self.handle, concurrency=self._concurrency
        )

    async def stop(self) -> None:
        if self._subscription is not None:
            await self._subscription.close()
        self._caller.close()
        await self._deps.close()

    async def handle(self, command: Message) -> None:
        """One command: call the function unless the call has a result, then report."""
        try:
            context = context_of_headers(command.headers, subject=command.subject)
        except ProtocolViolation as error:  # a retry would fail as well
            _log.warning("command %s is skipped: %s", cut(command.subject, 200), error)
            return
        found = await self._engine.database.run("read", lambda tx: self._look(tx, context, command))
        call, result = found
        if call is None:
            _log.warning("command %s: there is no card of call %s", command.subject, context.tool_call_id)
            return
        if result is None:
            outcome = await self._outcome(context, call)
            card = result_card(partial(_result, context, call), outcome, self._engine.limits)
            await self._report(context, card)
        else:
            await self._report(context, result)

    async def _outcome(self, context: TurnContext, call: Card) -> Outcome:
        tool = self._toolbox.find(call.function_name)
        if tool is None:
            known = near(call.function_name, [tool.name for tool in self._toolbox])
            return failed("unknown_tool", f"{self._target} has no tool {call.function_name!r}; {known}")
        about = ToolCall(
            context.tool_call_id, tool.name, context.project_id, context.agent_id, context.agent_turn_id
        )
        await self._begin(context, tool)
        given = call.content.get("arguments") or {}
        return await self._caller.call(tool, about, given, within=context.traceparent)

    async def _begin(self, context: TurnContext, tool: LocalTool) -> None:
        """Extend the deadline of the call: the timeout of the tool counts from now, however long the command waited."""
        wanted_ms = int(tool.timeout * 1000)
        call = {
            "project": context.project_id,
            "agent": context.agent_id,
            "turn": context.agent_turn_id,
            "call": context.tool_call_id,
        }
        if await self._engine.database.fetch(Q.ends_sooner, **call, ms=wanted_ms - _SLACK_MS):
            await self._engine.database.run("write", lambda tx: self._extend(tx, context, wanted_ms))

    def _extend(self, tx: Transaction, context: TurnContext, wanted_ms: int) -> None:
        head = heads.read_head(tx, context.project_id, context.agent_id, lock=True)
        if head is None or head.status is not HeadStatus.SUSPENDED:
            return  # a running turn does not check deadlines
        if head.active_agent_turn_id == context.agent_turn_id:
            extend_wait(tx, head, tool_call_id=context.tool_call_id, deadline_ms=wanted_ms)

    async def _report(self, context: TurnContext, card: NewCard) -> None:
        """Save the card unless the call has a result, and report the stored one."""
        turn = TurnRef(context.project_id, context.agent_id, context.agent_turn_id)

        def work(tx: Transaction) -> L0Result:
            told = save_result(tx, context.project_id, card, self._engine.limits)
            payload = {
                "status": told.content["status"],
                "after_execution": told.content["after_execution"],
                "tool_result_card_id": told.card_id,
            }
            source = context.acting_as(told.author_id)
            return self._engine.report(tx, source, ReportIntent(turn, payload, context.tool_call_id))

        what = f"the result of call {context.tool_call_id}"
        result = await across_outages(what, lambda: self._engine.run(work))
        if not result.accepted:
            _log.warning("report of call %s was refused: %s", context.tool_call_id, result.error)

    def _look(
        self, tx: Transaction, context: TurnContext, command: Message
    ) -> tuple[Card | None, Card | None]:
        named = command.payload.get("tool_call_card_id")
        if not isinstance(named, str) or not is_name(named):
            return None, None
        card = find_cards(tx, context.project_id, [named]).get(named)
        if card is None or card.type != CardType.TOOL_CALL or card.tool_call_id != context.tool_call_id:
            return None, None
        return card, result_card_of(tx, context.project_id, context.tool_call_id)

    def _row(self, tool: LocalTool) -> ToolRow:
        subject = f"{PREFIX}.{{project_id}}.{{channel_id}}.cmd.tool.{self._target}.{tool.name}"
        seen = tool.tool
        return ToolRow(
            self._project,
            tool.name,
            seen.description,
            dict(seen.input_schema),
            subject,
            AfterExecution(tool.after_execution),
            {"timeout_seconds": tool.timeout, **(tool.approval.stored() if tool.approval else {})},
        )


def _result(context: TurnContext, call: Card, outcome: Outcome) -> NewCard:
    return NewCard(
        CardType.TOOL_RESULT,
        outcome.content(),
        f"tool.{call.function_name}",
        agent_turn_id=context.agent_turn_id,
        step_id=context.step_id,
        tool_call_id=context.tool_call_id,
        function_name=call.function_name,
        card_id=outcome.card_id or new_id("card"),
    )
