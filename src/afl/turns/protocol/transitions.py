"""The transitions of a turn as a table: what code checks, tests drive and the documentation draws."""

from __future__ import annotations

from dataclasses import dataclass

from afl.turns.statuses import HeadStatus

NONE = "(none)"  # a turn that does not exist yet
QUEUED = "queued"
IDLE, DISPATCHED = HeadStatus.IDLE.value, HeadStatus.DISPATCHED.value
RUNNING, SUSPENDED = HeadStatus.RUNNING.value, HeadStatus.SUSPENDED.value


@dataclass(frozen=True, slots=True)
class Transition:
    """One row of the table. `bump` is what it adds to the epoch; the revision grows with every head write."""

    name: str
    sources: tuple[str, ...]
    target: str
    actor: str
    function: str
    guard: str
    effects: tuple[str, ...]
    after: tuple[str, ...] = ()
    bump: int = 0
    ends: bool = False


_END = (
    "task.deliverable in the output box",
    "wait set deleted",
    "last_output pointer",
    "evt.task in the outbox",
    "dispatch_next",
)

TRANSITIONS: tuple[Transition, ...] = (
    Transition(
        "T1",
        (NONE,),
        QUEUED,
        "L0",
        "enqueue",
        "source known, target active, boxes there, depth below the limit",
        ("inbox queued", "edge enqueue/request"),
    ),
    Transition(
        "T2",
        (IDLE,),
        DISPATCHED,
        "L0",
        "dispatch_next",
        "idle, oldest queued turn",
        (
            "inbox queued -> pending with turn and epoch",
            "output box held, or forked when another turn holds it",
        ),
        ("wakeup",),
        bump=1,
    ),
    Transition(
        "T2u",
        (IDLE,),
        DISPATCHED,
        "L0",
        "enqueue",
        "ui_action and idle, else busy and nothing written",
        ("inbox pending", "edge enqueue/request", "output box made"),
        ("wakeup",),
        bump=1,
    ),
    Transition(
        "T3",
        (DISPATCHED,),
        RUNNING,
        "worker",
        "enter_running",
        "turn, epoch, revision",
        ("inbox turn consumed", "step opened", "lease"),
        ("evt.step started", "evt.state running"),
    ),
    Transition(
        "T4",
        (RUNNING,),
        RUNNING,
        "worker",
        "next_step, note, apply_early",
        "turn, epoch, revision",
        ("cards in the output box", "step closed and opened", "calls sent, and results applied, on the way"),
        ("evt.state", "evt.step"),
    ),
    Transition(
        "T5",
        (RUNNING,),
        SUSPENDED,
        "worker",
        "suspend",
        "turn, epoch, revision; tool call ids never used before",
        ("cards in the output box", "edges tool_call/request", "wait set", "cmd.* in the outbox", "deadline"),
        ("evt.state suspended", "evt.step completed"),
    ),
    Transition(
        "T6",
        (SUSPENDED,),
        SUSPENDED,
        "worker",
        "apply_result, extend_wait, record_timeouts",
        "turn, epoch, revision; the call is waited for",
        ("wait row applied", "tool.result in the output box", "inbox consumed", "deadline of the rest"),
        ("evt.state suspended",),
    ),
    Transition(
        "T7",
        (SUSPENDED,),
        RUNNING,
        "worker",
        "resume",
        "turn, epoch, revision; nothing is waited for",
        ("step opened", "lease"),
        ("evt.state running",),
    ),
    Transition(
        "T8",
        (SUSPENDED,),
        IDLE,
        "worker",
        "finish",
        "turn, epoch, revision; a result asks to terminate",
        _END,
        ("evt.state idle", "evt.step"),
        ends=True,
    ),
    Transition(
        "T9",
        (RUNNING,),
        IDLE,
        "worker",
        "finish",
        "turn, epoch, revision",
        _END,
        ("evt.state idle", "evt.step"),
        ends=True,
    ),
    Transition(
        "T10",
        (DISPATCHED, RUNNING, SUSPENDED),
        IDLE,
        "worker",
        "stop_turn",
        "turn, epoch, revision",
        ("agent.error in the output box", *_END),
        ("evt.state idle",),
        bump=1,
        ends=True,
    ),
    Transition(
        "T11",
        (DISPATCHED,),
        IDLE,
        "watchdog",
        "fail_turn",
        "turn, epoch, revision; its message can no longer be read",
        _END,
        ("evt.state idle",),
        bump=1,
        ends=True,
    ),
    Transition(
        "T12",
        (RUNNING,),
        RUNNING,
        "L0",
        "takeover",
        "lease ended or worker proven dead; too often: fail_turn",
        ("lease of another worker", "open steps closed"),
        ("evt.state running",),
        bump=1,
    ),
    Transition(
        "T13",
        (SUSPENDED,),
        IDLE,
        "worker",
        "fail_turn, finish",
        "turn, epoch, revision; a report that breaks the protocol",
        _END,
        ("evt.state idle",),
        bump=1,
        ends=True,
    ),
    Transition(
        "T14",
        (QUEUED,),
        NONE,
        "L0",
        "cancel",
        "still queued",
        ("inbox skipped", "task.deliverable in the output box", "evt.task in the outbox"),
        ends=True,
    ),
)

BY_NAME = {transition.name: transition for transition in TRANSITIONS}


def head_moves() -> frozenset[tuple[str, str]]:
    """(from, to) of everything a head may do; the schema refuses the rest."""
    statuses = {status.value for status in HeadStatus}
    return frozenset(
        (source, transition.target)
        for transition in TRANSITIONS
        for source in transition.sources
        if source in statuses and transition.target in statuses
    )


def diagram() -> str:
    """The table as a Mermaid state diagram, for the documentation."""
    lines = ["stateDiagram-v2"]
    for transition in TRANSITIONS:
        for source in transition.sources:
            start, end = (_dot(name) for name in (source, transition.target))
            lines.append(f"    {start} --> {end}: {transition.name} {transition.function}")
    return "\n".join(lines)


def _dot(name: str) -> str:
    return "[*]" if name == NONE else name
