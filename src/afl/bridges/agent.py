"""Errands for conversational agents: an errand is one turn, and the turn's correlation is the errand's id.

What the turn is told is the facet's prompt with the step's parameters; its result must have the fields of the return
clause. The deliverable's fields are text, and read as the clause's types.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

from afl.bridges.bridge import Bridge, Ending, Errand, Host, NotReady, Refused, chosen, described, typed
from afl.kernel import codec
from afl.kernel.database import Database, Row, Transaction
from afl.kernel.errors import AgentFlowError, PayloadError
from afl.runtime.monitoring.tracing import traceparent_of_task
from afl.runtime.task_handlers.facet_prompt import facet_prompt
from afl.turns.agents import Agents
from afl.turns.bus import Subscription, open_bus, outbox
from afl.turns.bus.local import LocalBus
from afl.turns.cardbox.card_store import find_cards
from afl.turns.cardbox.delivered import Delivered
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
class TurnsPlace:
    """Where the turns are: the store's own database, the bus, and the project of the agents."""

    database: Database
    bus: str = "local"
    project: str = "main"
    limits: Limits | None = None


class AgentBridge(Bridge):
    """`with Agent("researcher")`."""

    kind = "agent"

    def __init__(self, host: Host, place: TurnsPlace) -> None:
        self._host = host
        self._place = place
        self._agents: Agents | None = None
        self._opening = asyncio.Lock()
        self._hearing: Subscription | None = None
        self._turns: dict[str, str] = {}  # errands by the turns that are known to work on them
        self._telling: set[asyncio.Task[None]] = set()

    async def begin(self, errand: Errand) -> None:
        agents = await self._open()
        text = _instruction(errand)
        try:
            turn = await agents.send(
                errand.to,
                text,
                fields=described(errand),
                correlation_id=errand.id,
                channel=(errand.task.bridge or {}).get("channel") or "public",
                traceparent=traceparent_of_task(errand.task),
            )
        except ProtocolViolation as violation:
            if violation.code is ErrorCode.UNKNOWN_AGENT:
                raise NotReady(
                    f"{violation}; a worker that has this agent in its module brings it (`afl turns worker MODULE`)"
                ) from violation
            raise Refused(str(violation), str(violation.code)) from violation
        self._turns[turn.agent_turn_id] = errand.id

    async def look(self, errands: Sequence[Errand]) -> list[Ending]:
        agents = await self._open()
        endings: list[Ending] = []
        for start in range(0, len(errands), _READ_AT_ONCE):
            page = errands[start : start + _READ_AT_ONCE]
            found = await agents.engine.database.run("read", partial(self._found, errands=page))
            for errand, turn_id, delivered in found:
                self._turns[turn_id] = errand.id
                if delivered is not None:
                    endings.append(_ending(errand, delivered))
        return endings

    async def keep(self, errands: Sequence[Errand]) -> None:
        wanted = {errand.id for errand in errands}
        self._turns = {turn: errand_id for turn, errand_id in self._turns.items() if errand_id in wanted}

    async def cancel(self, errand_id: str, to: str) -> bool:
        agents = await self._open()
        row = await agents.engine.database.run("read", lambda tx: self._row(tx, errand_id))
        if row is None:
            return False
        await agents.stop(TurnRef(self._place.project, row["agent_id"], row["agent_turn_id"]), _STOPPED)
        return True

    async def close(self) -> None:
        for task in self._telling:
            task.cancel()
        if self._hearing is not None:
            await self._hearing.close()
        if self._agents is not None:
            await self._agents.engine.close()

    async def _open(self) -> Agents:
        async with self._opening:
            if self._agents is None:
                place = self._place
                engine = await asyncio.to_thread(
                    lambda: L0Engine(place.database, open_bus(place.database, place.bus), place.limits)
                )
                self._agents = Agents(await _started(engine), place.project)
                subject = event_subject(place.project, "*", "*", "task")
                self._hearing = await self._agents.engine.bus.subscribe([subject], self._receive)
                self._host.wake()  # what ended before we listened
            return self._agents

    async def _receive(self, message: Message) -> None:
        """The end of some turn; one that we do not know is found by looking."""
        turn_id = message.payload.get("agent_turn_id")
        errand_id = self._turns.get(turn_id) if isinstance(turn_id, str) else None
        if errand_id is not None:
            task = asyncio.ensure_future(self._tell(errand_id))
            self._telling.add(task)
            task.add_done_callback(self._telling.discard)

    async def _tell(self, errand_id: str) -> None:
        try:
            errand = await self._host.errand(errand_id)
            for ending in [] if errand is None else await self._ending_of(errand):
                await self._host.settle(ending)
        except AgentFlowError as error:
            _log.debug("the end of %s is found by looking: %s", errand_id, error)

    async def _ending_of(self, errand: Errand) -> list[Ending]:
        agents = await self._open()
        found = await agents.engine.database.run("read", lambda tx: self._found(tx, [errand]))
        return [_ending(errand, delivered) for errand, _, delivered in found if delivered is not None]

    def _found(
        self, tx: Transaction, errands: Sequence[Errand]
    ) -> list[tuple[Errand, str, Delivered | None]]:
        """Those that have a turn, with the turn and what it delivered, if it did."""
        found = []
        for errand in errands:
            row = self._row(tx, errand.id)
            if row is not None:
                turn_id = row["agent_turn_id"]
                found.append((errand, turn_id, self._delivered(tx, turn_id)))
        return found

    def _row(self, tx: Transaction, errand_id: str) -> Row | None:
        return tx.one(
            inbox.Q.enqueued_row,
            project=self._place.project,
            type=str(MessageType.TURN),
            correlation=errand_id,
        )

    def _delivered(self, tx: Transaction, turn_id: str) -> Delivered | None:
        end = outbox.task_of_turn(tx, self._place.project, turn_id)
        if end is None:
            return None
        card = end.message.payload["deliverable_card_id"]
        return Delivered.of(end.message.payload, find_cards(tx, self._place.project, [card])[card])


async def _started(engine: L0Engine) -> L0Engine:
    """A bus that is away costs latency only."""
    try:
        await engine.start(relay=False)
        return engine
    except BusUnavailable as error:
        _log.warning("%s; ends of turns are found by looking", error)
        await engine.close()
        alone = L0Engine(engine.database, LocalBus(engine.database), engine.limits)
        await alone.start(relay=False)
        return alone


def _instruction(errand: Errand) -> str:
    try:
        if errand.facet is None:
            return codec.encode(errand.parameters, what="the parameters")
        prompt = facet_prompt(errand.facet, errand.parameters, system=" ")
    except PayloadError as error:
        raise Refused(str(error), "PayloadError") from error
    told = str((errand.task.bridge or {}).get("instructions") or "")
    return "\n\n".join(part for part in (told, prompt.system.strip(), prompt.text) if part)


def _ending(errand: Errand, delivered: Delivered) -> Ending:
    if not delivered.succeeded:
        why = delivered.error or delivered.text
        kind = delivered.error_code or str(delivered.status)
        return Ending(errand.id, error=f"the turn of agent {errand.to} {delivered.status}: {why}", kind=kind)
    return Ending(errand.id, result=typed(errand, chosen(errand, dict(delivered.fields))))
