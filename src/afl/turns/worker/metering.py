"""Calls of a model within the budgets of a turn. A turn without any calls it directly: nothing is written for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TypeVar

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.models import ModelError, Reply, Request, Usage
from afl.models.content import Content, estimated_tokens
from afl.models.messages import Block, ToolResult, files_in
from afl.models.model import OnText
from afl.turns.budgets.accounts import BudgetSpent, reserve, settle
from afl.turns.budgets.limits import Account, AgentBudget, Used, billionths, read_limits
from afl.turns.worker.services import WorkerServices
from afl.turns.worker.turn_state import TurnState

T = TypeVar("T")
BUDGET_EXCEEDED = "budget_exceeded"
_BYTES_PER_TOKEN = 3  # on the safe side: English has four letters to a token, and JSON fewer


async def metered(
    services: WorkerServices, state: TurnState, request: Request, on_text: OnText | None, what: str = ""
) -> Reply:
    """The model's reply. BudgetSpent if the turn, its session, its agent or the day has nothing left for it."""
    accounts = accounts_of(state)
    if not accounts:
        return await services.complete(request, on_text)
    call = _Call(services, state, accounts, request, f"{state.step_id}{what}")
    left = await call.reserve()
    begun, used = time.monotonic(), Usage()
    try:
        async with asyncio.timeout(None if left is None else left / 1000):
            reply = await services.complete(request, on_text)
        used = reply.usage
        return reply
    except TimeoutError as error:
        used = Usage(call.most.input_tokens)  # it was abandoned, and nobody knows what it used
        raise BudgetSpent(_first_out_of_time(accounts)) from error
    except ModelError as error:
        used = error.usage
        raise
    finally:
        await call.settle(used, int((time.monotonic() - begun) * 1000))


async def timed(services: WorkerServices, state: TurnState, work: Awaitable[T]) -> T:
    """What other work than a model's gives; its time is counted where a budget has seconds."""
    accounts = [each for each in accounts_of(state) if each.limits.seconds is not None]
    begun = time.monotonic()
    result = await work
    if accounts:
        used = Used(ms=int((time.monotonic() - begun) * 1000))
        project = state.head.project_id
        await services.store(state.turn_id, lambda tx: settle(tx, project, accounts, "-", used))
    return result


@dataclass(frozen=True)
class _Call:
    services: WorkerServices
    state: TurnState
    accounts: Sequence[Account]
    request: Request
    entry: str

    @property
    def model(self) -> str:
        model, name = self.services.chosen(self.request)
        return model.resolve(name)

    @property
    def most(self) -> Usage:
        """What the request may use at most: about its own length, and all that it lets the model say."""
        said = [self.request.system, self.request.tools, self._blocks()]
        text = codec.encode(said, what="a request to a model", limit=1 << 40)
        files = sum(map(estimated_tokens, files_in(self.request)))
        return Usage(len(text.encode()) // _BYTES_PER_TOKEN + 1 + files, self.request.max_tokens)

    def _blocks(self) -> list[Block]:
        """All that is said in text."""
        blocks = [block for message in self.request.messages for block in message.content]
        return [
            replace(block, files=()) if isinstance(block, ToolResult) else block
            for block in blocks
            if not isinstance(block, Content)
        ]

    async def reserve(self) -> int | None:
        wanted = self._used(self.most, 0)
        project = self.state.head.project_id
        return await self.services.write(
            lambda tx: reserve(tx, project, self.accounts, self.entry, self.model, wanted)
        )

    async def settle(self, usage: Usage, ms: int) -> None:
        used, project = self._used(usage, ms), self.state.head.project_id
        await self.services.store(
            self.state.turn_id, lambda tx: settle(tx, project, self.accounts, self.entry, used)
        )

    def _used(self, usage: Usage, ms: int) -> Used:
        cost = self.services.prices.cost(self.model, usage)
        return Used(None if cost is None else billionths(cost), usage.total_tokens, 1, ms)


def accounts_of(state: TurnState) -> list[Account]:
    """The accounts that a turn's calls are counted on: those that its profile or its session has limits for."""
    budget = state.profile.budget or AgentBudget()
    name, session = state.profile.name, state.session
    found = []
    if budget.turn is not None:
        found.append(Account(f"turn:{state.turn_id}", "of a turn", budget.turn))
    limits = read_limits(session["budget"]) if session.get("budget") else budget.session
    if limits is not None and session:
        title = f"of session {session['session_id']}"
        found.append(Account(f"session:{session['session_id']}", title, limits))
    if budget.agent is not None:
        found.append(Account(f"agent:{name}", f"of agent {name}", budget.agent))
    if budget.day is not None:
        day = datetime.fromtimestamp(wall_ms() / 1000, UTC).date().isoformat()
        found.append(Account(f"day:{name}:{day}", f"of agent {name} for {day}", budget.day))
    return found


def _first_out_of_time(accounts: Sequence[Account]) -> str:
    shortest = min(
        (each for each in accounts if each.limits.seconds is not None),
        key=lambda each: each.limits.seconds or 0,
    )
    return shortest.out_of_time
