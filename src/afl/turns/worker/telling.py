"""What those who watch are told of a turn in hand; after the commit, and best effort."""

from __future__ import annotations

from afl.turns.message import Message
from afl.turns.protocol.events import state_event, step_event
from afl.turns.statuses import Activity, StepPhase, TaskStatus
from afl.turns.worker.scene import Scene
from afl.turns.worker.settling import Ended, Settled, Stepped


def begun(scene: Scene) -> list[Message]:
    """A step begins."""
    return [
        step_event(scene.head, scene.step_id, StepPhase.STARTED),
        state_event(scene.head, activity=Activity.THINKING),
    ]


def events_of(scene: Scene, settled: Settled) -> list[Message]:
    """A step ended; the scene is as it was before."""
    ids = [card.card_id for card in settled.cards]
    if isinstance(settled, Ended):
        return _ended(scene, settled, ids)
    step = step_event(scene.head, scene.step_id, StepPhase.COMPLETED, new_card_ids=ids)
    if isinstance(settled, Stepped):
        return [*settled.signals, step]
    waits = state_event(settled.head, activity=Activity.AWAITING_TOOL_RESULT, waiting=settled.calls)
    return [*settled.signals, step, waits]


def _ended(scene: Scene, settled: Ended, ids: list[str]) -> list[Message]:
    well = settled.ending.status is TaskStatus.SUCCESS
    phase = StepPhase.COMPLETED if well else StepPhase.FAILED
    return [step_event(scene.head, scene.step_id, phase, new_card_ids=ids)]
