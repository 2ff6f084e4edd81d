"""A turn in the hands of a worker: from step to step, until it waits for others or is over.

Cards are written first, then the state, in one transaction; events follow its commit. What comes next is read off the
cards (`next_move`), so a turn that was taken over, resumed or just begun goes the same way.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from afl.kernel.database import Transaction
from afl.kernel.errors import InputError
from afl.models import ModelError, Reply
from afl.models.messages import StopReason
from afl.turns.cardbox.cards import NewCard
from afl.turns.errors import ProtocolViolation
from afl.turns.message import Message
from afl.turns.model import Head, L0Result
from afl.turns.protocol.events import state_event
from afl.turns.protocol.subjects import tool_subject
from afl.turns.statuses import Activity, AfterExecution, StepStatus, TaskStatus
from afl.turns.store import heads, inbox
from afl.turns.store.heads import Ending
from afl.turns.store.steps import StepEnd
from afl.turns.tools.local import ToolCall
from afl.turns.tools.outcome import Outcome, failed
from afl.turns.tools.submit import accepted_fields
from afl.turns.worker import tracing
from afl.turns.worker.calls import builtins_of, is_alone, is_late, perform_all
from afl.turns.worker.desk import Desk
from afl.turns.worker.moves import Conclude, Execute, next_move
from afl.turns.worker.scene import Scene
from afl.turns.worker.settling import (
    INVALID_RESULT,
    Ended,
    Sent,
    Settled,
    Waiting,
    Work,
    action_end,
    exhausted,
    finish,
    send,
    settle,
)
from afl.turns.worker.telling import begun, events_of
from afl.turns.worker.thinking import think, usage_metadata
from afl.turns.worker.toolkit import Call, Route, full_arguments
from afl.turns.worker.writing import Writer


class TurnRun:
    """Runs one turn that this worker has entered, resumed or taken over."""

    def __init__(self, desk: Desk, scene: Scene) -> None:
        self._desk = desk
        self._scene = scene
        self.ended: L0Result | None = None

    @property
    def scene(self) -> Scene:
        return self._scene

    async def run(self) -> None:
        """Go on until the turn waits or is over; FencedError when it is no longer this worker's."""
        self._tell(*begun(self._scene))
        while not await self._move():
            continue

    async def _move(self) -> bool:
        """One move; whether it was the last one here."""
        with tracing.stepping(self._scene.head, self._scene.step_id):
            return await self._made()

    async def _made(self) -> bool:
        scene = self._scene
        move = next_move(scene.output, scene.turn_id)
        if isinstance(move, Execute):
            return await self._execute(move)
        step = StepEnd(scene.step_id)
        if isinstance(move, Conclude):
            return await self._settle(Work((), step))
        if scene.is_action:
            return await self._act(step)
        if self._desk.limits.steps_left(scene.head.steps - 1) == 0:
            return await self._finish(exhausted(scene, self._writer(), step))
        return await self._think()

    # -- the model --------------------------------------------------------------------------------------------

    async def _think(self) -> bool:
        scene = self._scene
        try:
            reply = await think(self._desk, scene)
        except ModelError as error:
            return await self._fail("model_error", str(error))
        thought = self._writer().thought(reply)
        end = StepEnd(scene.step_id, metadata=usage_metadata(reply, self._desk.prices))
        if thought.tool_calls:
            return await self._called(thought, end)
        if reply.stop_reason == StopReason.PAUSE_TURN:
            return await self._settle(Work([thought], end))
        return await self._said(reply, thought, end)

    async def _said(self, reply: Reply, thought: NewCard, end: StepEnd) -> bool:
        """Words alone: they are the deliverable, unless fields were asked for, or the profile asks for another end."""
        required, tools = self._scene.toolkit.required, self._scene.profile.must_end_with
        if required:
            note = self._writer().must_have(required, "words alone are no result here")
            return await self._settle(Work([thought, note], end))
        if tools:
            return await self._settle(Work([thought, self._writer().must_end_with(tools)], end))
        deliverable = self._writer().answer(reply.text)
        return await self._finish(Ending(TaskStatus.SUCCESS, deliverable, cards=[thought], step=end))

    # -- its calls --------------------------------------------------------------------------------------------

    async def _called(self, thought: NewCard, end: StepEnd) -> bool:
        """Put the calls on the record; those that others answer are sent with it, whatever is called here."""
        calls = self._routed(thought.tool_calls)
        end = replace(end, tool_call_ids=[call.tool_call_id for call in calls])
        if calls[0].route is Route.SUBMIT:
            return await self._submitted(thought, calls[0], end)
        written = [thought, *(self._call_card(call) for call in calls)]
        written += [self._writer().result(call, call.refusal) for call in calls if call.refusal is not None]
        late = [call for call in calls if is_late(call)]
        if not any(call.route is Route.LOCAL for call in calls):
            return await self._settle(Work(written, end, late), builtins_of(calls))
        noted = replace(end, status=StepStatus.TOOL_DISPATCHED)
        await self._note(Work(written, noted, late), builtins_of(calls))
        return False

    async def _submitted(self, thought: NewCard, call: Call, end: StepEnd) -> bool:
        writer = self._writer()
        cards = [thought, self._call_card(call)]
        try:
            fields = accepted_fields(call.arguments, self._scene.toolkit.required or ())
        except InputError as error:
            refusal = writer.result(call, failed(INVALID_RESULT, str(error)))
            return await self._settle(Work([*cards, refusal], end))
        result = writer.result(call, Outcome("success", "accepted", after_execution=AfterExecution.TERMINATE))
        ending = Ending(
            TaskStatus.SUCCESS,
            writer.fields(fields),
            cards=[*cards, result],
            tool_result_card_id=result.card_id,
            step=end,
        )
        return await self._finish(ending)

    async def _execute(self, move: Execute) -> bool:
        """Call the functions of this process, all at once; what others answer is on its way meanwhile."""
        awaited = self._scene.awaited
        calls = self._routed([call for call in move.calls if call["id"] not in awaited])
        local = [call for call in calls if call.route is Route.LOCAL]
        if local:
            names = ", ".join(call.name for call in local)
            self._tell(state_event(self._scene.head, activity=Activity.EXECUTING_TOOL, current_tool=names))
        outcomes = await asyncio.gather(*(self._call(call) for call in local))
        writer = self._writer(move.step_id)
        cards = [writer.result(call, outcome) for call, outcome in zip(local, outcomes, strict=True)]
        cards += [writer.result(call, call.refusal) for call in calls if call.refusal is not None]
        end = self._step_end(move.step_id)
        return await self._settle(
            Work(cards, end, [call for call in calls if is_late(call)]), builtins_of(calls)
        )

    async def _call(self, call: Call) -> Any:
        assert call.local is not None
        head = self._scene.head
        about = ToolCall(
            call.tool_call_id, call.name, head.project_id, head.agent_id, head.active_agent_turn_id or ""
        )
        return await self._desk.caller.call(call.local, about, call.arguments)

    async def _act(self, step: StepEnd) -> bool:
        """A person called a tool: its call stands in the message that began the turn."""
        scene = self._scene
        if scene.own:
            return await self._finish(action_end(self._writer(), scene.own, step))
        row = await self._desk.engine.database.run(
            "read", lambda tx: inbox.turn_row(tx, scene.head.project_id, scene.turn_id)
        )
        assert row is not None  # a turn has the message that began it
        wish = self._writer().wish(row.payload["tool_name"], row.payload.get("args") or {})
        return await self._called(wish, step)

    def _routed(self, calls: Sequence[Mapping[str, Any]]) -> list[Call]:
        """Who answers; a tool whose subject cannot be made is answered by nobody."""
        found = []
        for call in self._scene.toolkit.routed(calls):
            try:
                self._subject(call)
            except ProtocolViolation as error:
                call = replace(call, route=Route.REFUSED, refusal=failed(str(error.code), str(error)))
            found.append(call)
        return found

    def _subject(self, call: Call) -> str | None:
        head = self._scene.head
        if call.route is not Route.COMMAND or call.remote is None:
            return None
        return tool_subject(
            call.remote.target_subject, head.project_id, head.active_channel_id or "", head.agent_id
        )

    def _call_card(self, call: Call) -> NewCard:
        arguments = None if call.remote is None else full_arguments(call.remote, call.arguments)
        return self._writer().call(call, arguments, self._subject(call))

    # -- what is written --------------------------------------------------------------------------------------

    async def _note(self, work: Work, builtins: Sequence[Call]) -> None:
        """running -> running: what is called is on the record before it is called."""
        scene, limits, bounds = self._scene, self._desk.engine.limits, self._desk.limits

        def transition(tx: Transaction) -> tuple[Head, Sent]:
            answered, signals = perform_all(tx, scene, builtins, work.end.step_id, limits)
            full = replace(work, cards=[*work.cards, *answered])
            sent = send(tx, scene, full, limits, bounds)
            head = heads.note(
                tx,
                scene.head,
                cards=sent.cards,
                step=work.end,
                waits=sent.waits,
                lease_ms=limits.lease_ms,
                limits=limits,
            )
            return head, replace(sent, signals=(*signals, *sent.signals))

        head, sent = await self._desk.transition(transition, alone=is_alone(work, builtins))
        scene.ends[work.end.step_id] = work.end
        scene.moved(head, sent.cards)
        scene.awaited = {wait.tool_call_id for wait in sent.waits}
        self._tell(*sent.signals)
        if sent.waits:
            self._desk.engine.relay.poke()

    async def _settle(self, work: Work, builtins: Sequence[Call] = ()) -> bool:
        """Write what the step came to; whether the turn is out of this worker's hands."""
        scene, engine = self._scene, self._desk.engine

        def transition(tx: Transaction) -> tuple[Settled, list[Message]]:
            answered, signals = perform_all(tx, scene, builtins, work.end.step_id, engine.limits)
            full = replace(work, cards=[*work.cards, *answered])
            return settle(tx, scene, full, engine.limits, self._desk.limits), signals

        alone = is_alone(work, builtins) and not scene.awaited
        settled, signals = await self._desk.transition(transition, alone=alone)
        self._tell(*signals)
        return self._settled(settled)

    async def _finish(self, ending: Ending) -> bool:
        limits = self._desk.engine.limits
        return self._settled(
            await self._desk.transition(lambda tx: finish(tx, self._scene, ending, limits), alone=True)
        )

    async def _fail(self, code: str, why: str) -> bool:
        """The turn fails with what there is by now."""
        scene = self._scene
        content = heads.fallback_content(TaskStatus.FAILED, why, code, scene.diagnostics)
        step = StepEnd(scene.step_id, StepStatus.FAILED, error=why)
        deliverable = self._writer().deliverable(content)
        return await self._finish(
            Ending(TaskStatus.FAILED, deliverable, error=why, error_code=code, step=step)
        )

    # -- what is told -----------------------------------------------------------------------------------------

    def _settled(self, settled: Settled) -> bool:
        """After the commit: tell of it; whether the turn is out of this worker's hands."""
        scene = self._scene
        if isinstance(settled, Ended):
            self.ended = settled.result
            self._desk.engine.publish(settled.result)  # the relay first: many may wait for what it publishes
            asyncio.get_running_loop().call_soon(lambda: self._tell(*events_of(scene, settled)))
            return True
        self._tell(*events_of(scene, settled))
        if isinstance(settled, Waiting):
            scene.moved(settled.head, settled.cards)
            self._desk.engine.relay.poke()
            return True
        scene.moved(settled.head, [*settled.early, *settled.cards], settled.step_id)
        scene.awaited.clear()
        self._tell(*begun(scene))
        return False

    def _tell(self, *messages: Message) -> None:
        self._desk.engine.tell(*messages)

    def _writer(self, step_id: str | None = None) -> Writer:
        return Writer(self._scene.head, step_id or self._scene.step_id, self._desk.engine.limits)

    def _step_end(self, step_id: str) -> StepEnd:
        """The end of a step whose calls were put on the record before."""
        return replace(self._scene.ends.get(step_id, StepEnd(step_id)), status=StepStatus.COMPLETED)
