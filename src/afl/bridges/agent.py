"""External tasks for conversational agents: a task is one turn, whose correlation id is the id of the task.

The instruction of the turn is the facet's prompt with the step's parameters; its result must fit the return clause. A
worker that does not know such results delivers fields of text, which are parsed as the types of the clause.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from afl.bridges.bridge import (
    Bridge,
    ExternalTask,
    Host,
    NotReady,
    Outcome,
    Refused,
    declared_values,
    field_descriptions,
    typed_values,
)
from afl.kernel import codec
from afl.kernel.database import Database, Row, Transaction
from afl.kernel.errors import AgentFlowError, PayloadError
from afl.runtime.monitoring.tracing import traceparent_of_task
from afl.runtime.task_handlers.facet_prompt import facet_prompt
from afl.runtime.task_handlers.tool_definition import returns_schema
from afl.turns.agents import Agents
from afl.turns.bus import Subscription, open_bus, outbox
from afl.turns.bus.local import LocalBus
from afl.turns.cardbox.card_store import find_cards
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.engine import L0Engine
from afl.turns.errors import BusUnavailable, ErrorCode, ProtocolViolation
from afl.turns.message import Message
from afl.turns.model import Limits, TurnRef
from afl.turns.protocol.subjects import event_subject
from afl.turns.statuses import MessageType
from afl.turns.store import inbox

_log = logging.getLogger(__name__)

_READ_AT_ONCE = 200
_STOPPED = "nobody waits for it any more"


@dataclass(frozen=True)
class TurnsConnection:
    """The database, the bus and the project of the turns."""

    database: Database
    bus: str = "local"
    project: str = "main"
    limits: Limits | None = None


class AgentBridge(Bridge):
    """`with Agent("researcher")`."""

    kind = "agent"

    def __init__(self, host: Host, place: TurnsConnection) -> None:
        self._host = host
        self._place = place
        self._agents: Agents | None = None
        self._open_lock = asyncio.Lock()
        self._subscription: Subscription | None = None
        self._turns: dict[str, str] = {}  # ids of external tasks by the id of their turn
        self._settling: set[asyncio.Task[None]] = set()

    async def start(self, external: ExternalTask) -> None:
        agents = await self._open()
        text = _instruction(external)
        try:
            turn = await agents.send(
                external.to,
                text,
                fields=field_descriptions(external),
                result=_returns(external),
                correlation_id=external.id,
                channel=(external.task.bridge or {}).get("channel") or "public",
                traceparent=traceparent_of_task(external.task),
            )
        except ProtocolViolation as violation:
            if violation.code is ErrorCode.UNKNOWN_AGENT:
                raise NotReady(
                    f"{violation}; a worker that has this agent in its module brings it (`afl turns worker MODULE`)"
                ) from violation
            raise Refused(str(violation), str(violation.code)) from violation
        self._turns[turn.agent_turn_id] = external.id

    async def poll(self, externals: Sequence[ExternalTask]) -> list[Outcome]:
        agents = await self._open()
        outcomes: list[Outcome] = []
        for start in range(0, len(externals), _READ_AT_ONCE):
            page = externals[start : start + _READ_AT_ONCE]
            found = await agents.engine.database.run("read", partial(self._found, externals=page))
            for external, turn_id, delivered in found:
                self._turns[turn_id] = external.id
                if delivered is not None:
                    outcomes.append(_outcome(external, delivered))
        return outcomes

    async def retain(self, externals: Sequence[ExternalTask]) -> None:
        wanted = {external.id for external in externals}
        self._turns = {
            turn: external_id for turn, external_id in self._turns.items() if external_id in wanted
        }

    async def cancel(self, external_id: str, to: str) -> bool:
        agents = await self._open()
        row = await agents.engine.database.run("read", lambda tx: self._row(tx, external_id))
        if row is None:
            return False
        await agents.stop(TurnRef(self._place.project, row["agent_id"], row["agent_turn_id"]), _STOPPED)
        return True

    async def close(self) -> None:
        for task in self._settling:
            task.cancel()
        if self._subscription is not None:
            await self._subscription.close()
        if self._agents is not None:
            await self._agents.engine.close()

    async def _open(self) -> Agents:
        async with self._open_lock:
            if self._agents is None:
                place = self._place
                engine = await asyncio.to_thread(
                    lambda: L0Engine(place.database, open_bus(place.database, place.bus), place.limits)
                )
                self._agents = Agents(await _started(engine), place.project)
                subject = event_subject(place.project, "*", "*", "task")
                self._subscription = await self._agents.engine.bus.subscribe([subject], self._receive)
                self._host.wake()  # some turns may have ended before the subscription
            return self._agents

    async def _receive(self, message: Message) -> None:
        """Handle the end of a turn; polling finds those of unknown turns."""
        turn_id = message.payload.get("agent_turn_id")
        external_id = self._turns.get(turn_id) if isinstance(turn_id, str) else None
        if external_id is not None:
            task = asyncio.ensure_future(self._settle_turn(external_id))
            self._settling.add(task)
            task.add_done_callback(self._settling.discard)

    async def _settle_turn(self, external_id: str) -> None:
        try:
            external = await self._host.find(external_id)
            for outcome in [] if external is None else await self._outcome_of(external):
                await self._host.settle(outcome)
        except AgentFlowError as error:
            _log.debug("the end of %s is left to polling: %s", external_id, error)

    async def _outcome_of(self, external: ExternalTask) -> list[Outcome]:
        agents = await self._open()
        found = await agents.engine.database.run("read", lambda tx: self._found(tx, [external]))
        return [_outcome(external, delivered) for external, _, delivered in found if delivered is not None]

    def _found(
        self, tx: Transaction, externals: Sequence[ExternalTask]
    ) -> list[tuple[ExternalTask, str, Delivered | None]]:
        """The tasks that have a turn, each with its turn and what the turn delivered."""
        found = []
        for external in externals:
            row = self._row(tx, external.id)
            if row is not None:
                turn_id = row["agent_turn_id"]
                found.append((external, turn_id, self._delivered(tx, turn_id)))
        return found

    def _row(self, tx: Transaction, external_id: str) -> Row | None:
        return tx.one(
            inbox.Q.enqueued_row,
            project=self._place.project,
            type=str(MessageType.TURN),
            correlation=external_id,
        )

    def _delivered(self, tx: Transaction, turn_id: str) -> Delivered | None:
        end = outbox.task_of_turn(tx, self._place.project, turn_id)
        if end is None:
            return None
        card = end.message.payload["deliverable_card_id"]
        return Delivered.of(end.message.payload, find_cards(tx, self._place.project, [card])[card])


async def _started(engine: L0Engine) -> L0Engine:
    """Start the engine; without its bus, on a local one, which costs latency only."""
    try:
        await engine.start(relay=False)
        return engine
    except BusUnavailable as error:
        _log.warning("%s; ends of turns are found by polling", error)
        await engine.close()
        local = L0Engine(engine.database, LocalBus(engine.database), engine.limits)
        await local.start(relay=False)
        return local


def _instruction(external: ExternalTask) -> str:
    try:
        if external.facet is None:
            return codec.encode(external.parameters, what="the parameters")
        prompt = facet_prompt(external.facet, external.parameters, system=" ")
    except PayloadError as error:
        raise Refused(str(error), "PayloadError") from error
    told = str((external.task.bridge or {}).get("instructions") or "")
    return "\n\n".join(part for part in (told, prompt.system.strip(), prompt.text) if part)


def _outcome(external: ExternalTask, delivered: Delivered) -> Outcome:
    if not delivered.succeeded:
        why = delivered.error or delivered.text
        kind = delivered.error_code or str(delivered.status)
        return Outcome(
            external.id, error=f"the turn of agent {external.to} {delivered.status}: {why}", kind=kind
        )
    if isinstance(delivered.data, Mapping):  # the values of the return clause, as the worker checked them
        return Outcome(external.id, result=declared_values(external, dict(delivered.data)))
    return Outcome(
        external.id, result=typed_values(external, declared_values(external, dict(delivered.fields)))
    )


def _returns(external: ExternalTask) -> dict[str, Any] | None:
    """The schema of the return clause; None without one, or with an empty one."""
    if external.facet is None or not external.returns:
        return None
    return {**returns_schema(external.facet), "title": external.facet.name}
