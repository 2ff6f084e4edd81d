"""Agents for Python programs: define them, talk to them, await what they deliver.

async with open_agents(model=ClaudeModel()) as agents:
    await agents.define("guide", "You help travelers.", tools=[weather, book])
    print((await agents.ask("guide", "Is it warm in Oslo?")).text)
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any

from afl.kernel.codec import encode_canonical
from afl.kernel.database import Database, Transaction, connect
from afl.models import Model, PythonTool
from afl.turns.bus import open_bus, outbox
from afl.turns.bus.event_listener import EventListener
from afl.turns.cardbox import cards as contents
from afl.turns.cardbox.boxes import create_box, open_boxes, read_box
from afl.turns.cardbox.card_store import find_cards, save_cards
from afl.turns.cardbox.cards import NewCard
from afl.turns.cardbox.deliverable import Delivered
from afl.turns.context import TurnContext
from afl.turns.engine import L0Engine
from afl.turns.errors import ProtocolViolation
from afl.turns.intents import AddressIntent, SpawnIntent
from afl.turns.model import L0Result, Limits, TurnRef, accepted
from afl.turns.primitives.send import refusal
from afl.turns.resources import Agent, find_profile, put_agent, put_profile
from afl.turns.statuses import BoxKind, CardType, MessageType
from afl.turns.store import inbox
from afl.turns.tools.local import LocalTool, Toolbox, local_tool
from afl.turns.worker.services import WorkerLimits
from afl.turns.worker.worker import TARGET, Worker

USER = "sys.user"
_POLL_SECONDS = 1.0  # the event of an end may be lost

AnyTool = Callable[..., Any] | PythonTool | LocalTool


@asynccontextmanager
async def open_agents(
    store: str | Database = "sqlite:///.afl/afl.db",
    *,
    model: Model | None = None,
    bus: str | None = None,
    project: str = "main",
    tools: Iterable[AnyTool] = (),
    limits: Limits | None = None,
    worker_limits: WorkerLimits | None = None,
    models: Mapping[str, Model] | None = None,
) -> AsyncIterator[Agents]:
    """Agents on a store. With a model a worker of this process runs their turns; without one, other workers do.

    `bus` is `local` (the default: no server is needed) or the address of a NATS server.
    """
    database = store if isinstance(store, Database) else await asyncio.to_thread(connect, store)
    engine = L0Engine(database, open_bus(database, bus), limits)
    toolbox = Toolbox(tools)
    await engine.start()
    worker = None
    if model is not None:
        worker = Worker(engine, model, tools=toolbox, limits=worker_limits, models=models)
        await worker.start()
    agents = Agents(engine, project, toolbox)
    await agents.listen()
    try:
        yield agents
    finally:
        await agents.close()
        if worker is not None:
            await worker.stop()
        await engine.close()
        if database is not store:
            await asyncio.to_thread(database.close)


class Agents:
    """The agents of one project."""

    def __init__(self, engine: L0Engine, project: str, toolbox: Toolbox | None = None) -> None:
        self.engine = engine
        self.project = project
        self.toolbox = toolbox if toolbox is not None else Toolbox()
        self._listener = EventListener(engine, project)

    async def listen(self) -> None:
        """Subscribe to the ends of turns; before anything is sent."""
        await self._listener.start(words=False)

    async def close(self) -> None:
        await self._listener.close()

    async def define(
        self,
        agent_id: str,
        prompt: str = "",
        *,
        tools: Iterable[AnyTool | str] | None = (),
        worker_target: str = TARGET,
        tags: Sequence[str] = (),
        **profile: Any,
    ) -> Agent:
        """An agent and its profile; the same again changes nothing.

        `tools`: functions of this process, or names; None: all there are.
        What else a profile may have is given by name: must_end_with, llm_config, delegation_policy ...
        """
        data: dict[str, Any] = {
            "name": agent_id,
            "system_prompt_template": prompt,
            "worker_target": worker_target,
            "tags": list(tags),
            "allowed_tools": None if tools is None else [self._named(tool) for tool in tools],
            **profile,
        }

        def work(tx: Transaction) -> Agent:
            known = find_profile(tx, self.project, agent_id)
            same = known is not None and encode_canonical(dict(known.profile)) == encode_canonical(data)
            profile = known if known is not None and same else put_profile(tx, self.project, data)
            agent = Agent(
                self.project, agent_id, profile.profile_box_id, worker_target, tuple(tags), agent_id
            )
            put_agent(tx, agent)
            return agent

        return await self.engine.database.run("write", work)

    async def send(
        self,
        agent_id: str,
        text: str,
        *,
        fields: Mapping[str, str] | None = None,
        history: Sequence[str] = (),
        correlation_id: str | None = None,
        channel: str = "public",
        traceparent: str = "",
    ) -> TurnRef:
        """Ask an agent for one turn. Its result must have `fields` (name: description).

        It reads what is in the boxes of `history` before what it is told.
        The same `correlation_id` again is the same turn. `traceparent` is what it is done for, in a trace.
        """
        given = [NewCard(CardType.TASK_INSTRUCTION, contents.text(text), USER)]
        if fields is not None:
            asked = [{"name": name, "description": about} for name, about in fields.items()]
            given.append(NewCard(CardType.RESULT_FIELDS, contents.fields_schema(asked), USER))
        context = TurnContext.root(self.project, USER, channel)
        if traceparent:
            context = replace(context, traceparent=traceparent)

        def work(tx: Transaction) -> L0Result:
            known = self._known(tx, agent_id, correlation_id)
            if known is not None:
                return known
            boxes = self._boxes(tx, given, history)
            sent = self.engine.enqueue(
                tx, context, SpawnIntent(agent_id, boxes, correlation_id=correlation_id)
            )
            if not sent.accepted:
                raise refusal(sent)  # with it go the cards and boxes
            return sent

        if correlation_id is None and not history:
            return self._turn(agent_id, await self.engine.send(context, agent_id, given))
        try:
            return self._turn(agent_id, await self.engine.run(work))
        except ProtocolViolation:  # another process may have sent the same
            known = await self.engine.database.run(
                "read", lambda tx: self._known(tx, agent_id, correlation_id)
            )
            if known is None:
                raise
            return self._turn(agent_id, known)

    def _boxes(self, tx: Transaction, given: Sequence[NewCard], history: Sequence[str]) -> dict[str, str]:
        """The boxes of a new turn: the cards of `history` and then `given`; and an empty output box."""
        if not history:
            context, output = open_boxes(tx, self.project, given, self.engine.limits)
            return {"context_box_id": context, "output_box_id": output}
        save_cards(tx, self.project, given, self.engine.limits)
        read = [card.card_id for box in history for _, card in read_box(tx, self.project, box)]
        ids = list(dict.fromkeys([*read, *(card.card_id for card in given)]))
        return {
            "context_box_id": create_box(tx, self.project, BoxKind.CONTEXT, ids),
            "output_box_id": create_box(tx, self.project, BoxKind.OUTPUT),
        }

    async def act(
        self, agent_id: str, tool_name: str, args: Mapping[str, Any] | None = None, *, action_id: str
    ) -> TurnRef | None:
        """A person calls one of the agent's tools (`ui_action`). None: the agent is busy, and nothing was written."""
        payload = {"action_id": action_id, "tool_name": tool_name, "args": dict(args or {})}
        intent = SpawnIntent(agent_id, payload, MessageType.UI_ACTION, action_id)
        context = TurnContext.root(self.project, USER)
        result = await self.engine.run(lambda tx: self.engine.enqueue(tx, context, intent))
        return None if result.status == "busy" else self._turn(agent_id, result)

    async def wait(self, turn: TurnRef) -> Delivered:
        """What a turn delivers, once it is over."""
        with self._listener.end_of(turn.agent_turn_id) as received:
            while True:
                found = await self.engine.database.run("read", lambda tx: self._delivered(tx, turn))
                if found is not None:
                    return found
                await asyncio.wait([received()], timeout=_POLL_SECONDS)

    async def ask(
        self, agent_id: str, text: str, *, on_text: Callable[[str], None] | None = None, **options: Any
    ) -> Delivered:
        """`send`, then `wait`; `on_text` is called with the agent's text while it is streamed."""
        async with self.words(agent_id, on_text):
            return await self.wait(await self.send(agent_id, text, **options))

    @asynccontextmanager
    async def words(self, agent_id: str, on_text: Callable[[str], None] | None) -> AsyncIterator[None]:
        """Call a function with the streamed text of an agent while the block lasts."""
        if on_text is not None:
            await self._listener.subscribe_text()
        with self._listener.text_of(agent_id, on_text):
            yield

    async def stop(self, turn: TurnRef, reason: str = "stopped") -> L0Result:
        """Stop a turn, and all turns that it enqueued."""
        intent = AddressIntent(turn, MessageType.STOP, {"reason": reason})
        context = TurnContext.root(self.project, USER)
        return await self.engine.run(lambda tx: self.engine.stop(tx, context, intent))

    def conversation(self, agent_id: str, *, after: TurnRef | None = None) -> Conversation:
        """Turns that read the earlier ones of the conversation; `after`: continue after this turn."""
        return Conversation(self, agent_id, after)

    def _named(self, tool: AnyTool | str) -> str:
        return tool if isinstance(tool, str) else self.toolbox.add(local_tool(tool)).name

    def _known(self, tx: Transaction, agent_id: str, correlation_id: str | None) -> L0Result | None:
        """The turn that was sent with this correlation_id to this agent before."""
        if correlation_id is None:
            return None
        row = tx.one(
            inbox.Q.enqueued_row, project=self.project, type=str(MessageType.TURN), correlation=correlation_id
        )
        if row is None or row["agent_id"] != agent_id:
            return None
        return accepted({"agent_turn_id": row["agent_turn_id"], "duplicate": True})

    def _turn(self, agent_id: str, result: L0Result) -> TurnRef:
        if not result.accepted:
            raise refusal(result)
        return TurnRef(self.project, agent_id, result.payload["agent_turn_id"])

    def _delivered(self, tx: Transaction, turn: TurnRef) -> Delivered | None:
        row = outbox.task_of_turn(tx, turn.project_id, turn.agent_turn_id)
        if row is None:
            return None
        card = row.message.payload["deliverable_card_id"]
        return Delivered.of(row.message.payload, find_cards(tx, turn.project_id, [card])[card])


class Conversation:
    """Turns with one agent: each reads the cards that the last one read and wrote."""

    def __init__(self, agents: Agents, agent_id: str, last: TurnRef | None) -> None:
        self._agents = agents
        self._agent_id = agent_id
        self._last = last

    async def say(
        self, text: str, *, on_text: Callable[[str], None] | None = None, **options: Any
    ) -> Delivered:
        """The agent's answer."""
        agents, history = self._agents, await self._history()
        async with agents.words(self._agent_id, on_text):
            self._last = await agents.send(self._agent_id, text, history=history, **options)
            return await agents.wait(self._last)

    async def _history(self) -> list[str]:
        last = self._last
        if last is None:
            return []

        def boxes(tx: Transaction) -> list[str]:
            row = inbox.turn_row(tx, last.project_id, last.agent_turn_id)
            end = outbox.task_of_turn(tx, last.project_id, last.agent_turn_id)
            read = [] if row is None else [row.payload["context_box_id"]]
            return read if end is None else [*read, end.message.payload["output_box_id"]]

        return await self._agents.engine.database.run("read", boxes)
