"""The calls of a step, by who answers them and when."""

from __future__ import annotations

from collections.abc import Sequence

from afl.kernel.database import Transaction
from afl.turns.cardbox.cards import NewCard
from afl.turns.message import Message
from afl.turns.model import Limits
from afl.turns.orchestration.forking import FORK_JOIN
from afl.turns.orchestration.performing import perform
from afl.turns.worker.scene import Scene
from afl.turns.worker.settling import Work, check_held, source_of
from afl.turns.worker.toolkit import Call, Route
from afl.turns.worker.writing import Writer


def is_late(call: Call) -> bool:
    """Whether its answer is waited for."""
    return call.route is Route.COMMAND or (call.route is Route.BUILTIN and call.name == FORK_JOIN)


def builtins_of(calls: Sequence[Call]) -> list[Call]:
    """Those that the step's transaction itself answers."""
    return [call for call in calls if call.route is Route.BUILTIN and call.name != FORK_JOIN]


def is_alone(work: Work, builtins: Sequence[Call]) -> bool:
    """Whether writing it is one statement."""
    return not builtins and all(call.route is Route.COMMAND for call in work.late)


def perform_all(
    tx: Transaction, scene: Scene, calls: Sequence[Call], step_id: str, limits: Limits
) -> tuple[list[NewCard], list[Message]]:
    """The built-ins of a step, in its transaction: their results, and what to publish after the commit."""
    writer = Writer(scene.head, step_id, limits)
    cards: list[NewCard] = []
    signals: list[Message] = []
    if calls:  # lock first: what is no longer ours must not set anybody to work
        check_held(tx, scene.head)
    for call in calls:
        performed = perform(tx, source_of(scene, call, step_id, limits), call.name, call.arguments)
        assert performed.outcome is not None
        cards.append(writer.result(call, performed.outcome))
        signals += performed.signals
    return cards, signals
