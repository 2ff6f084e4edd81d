"""Reasons: why something is stuck, in a form that a person can act on.

Each has a stable code. A reason may rest on another (a run waits for a step, the step for its task): the last one of
that chain is the cause, and what it advises is what helps.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import StrEnum

from afl.operations.run.attempts import AttemptView


class Outlook(StrEnum):
    """What happens if nobody does anything."""

    MOVES = "moves"  # it continues by itself
    STANDS = "stands"  # someone must act
    OVER = "over"  # there is nothing left to happen


@dataclass(frozen=True)
class Code:
    """One kind of reason: what it means, what becomes of it, and what to do."""

    meaning: str
    outlook: Outlook
    action: str


_M, _S, _O = Outlook.MOVES, Outlook.STANDS, Outlook.OVER
_REST = "nothing to do"
_WAIT = "wait"

CODES: dict[str, Code] = {
    "run-completed": Code("The run completed.", _O, "`afl show RUN` shows its steps"),
    "run-failed": Code("The run failed; the step, its line and the cause are named.", _O, "`afl retry RUN`"),
    "run-canceled": Code("Someone canceled the run.", _O, "`afl retry RUN` runs it again"),
    "run-paused": Code(
        "The run is paused; the text says by whom, or why it cannot be evaluated.", _S, "`afl unpause RUN`"
    ),
    "run-budget": Code("The run reached its budget and paused.", _S, "`afl unpause RUN --budget-usd N`"),
    "run-evaluated": Code("A live process evaluates the run right now.", _M, _WAIT),
    "run-evaluator-silent": Code(
        "The process that evaluates the run cannot be checked from here; its lease decides.",
        _M,
        "wait for the lease to end",
    ),
    "run-evaluator-gone": Code(
        "The process that evaluated the run died; a live runner takes the run over.", _M, _WAIT
    ),
    "run-queued": Code("The run is due; a live runner will pick it up.", _M, _WAIT),
    "run-no-evaluator": Code(
        "The run is due, but no live runner can evaluate it.",
        _S,
        "start `afl agent MODULE` or `afl runner`, or `afl resume RUN`",
    ),
    "run-waits": Code(
        "The run is waiting for steps; the reason of one of them follows.", _M, "see its cause"
    ),
    "run-stalled": Code("The run has nothing to wait for and is not over.", _S, "`afl resume RUN`"),
    "step-completed": Code("The step completed.", _O, _REST),
    "step-failed": Code("The step failed; its line and the cause are named.", _O, "`afl retry STEP`"),
    "step-collected": Code(
        "The step failed in a foreach that collects its failures; the run continues without it.", _O, _REST
    ),
    "step-skipped": Code(
        "The step will not run: it depends on one that failed.", _O, "`afl retry` the failed step"
    ),
    "step-removed": Code(
        "The step ended in an iteration of a `repeat` so long ago that it was removed.",
        _O,
        "what it did is in the log of the run",
    ),
    "step-run-over": Code("The step's run ended before it did.", _O, _REST),
    "step-not-reached": Code(
        "The step's block has not started; what it waits for follows.", _M, "see its cause"
    ),
    "step-waits-for-step": Code("The step waits for another step's result.", _M, "see its cause"),
    "step-waits-inside": Code("The step waits for the steps in its body.", _M, "see its cause"),
    "step-waits-for-agent": Code(
        "The step waits for an agent; its task's reason follows.", _M, "see its cause"
    ),
    "step-sleeps": Code("The step sleeps; until when follows.", _M, "see its cause"),
    "step-waits-for-person": Code("The step waits for a person; who is asked follows.", _M, "see its cause"),
    "step-waits-for-signal": Code(
        "The step waits for a signal; how it is delivered follows.", _M, "see its cause"
    ),
    "step-waits-for-run": Code(
        "The step waits for its child run; what that waits for follows.", _M, "see its cause"
    ),
    "step-evaluating": Code("The step is next when its run is evaluated.", _M, "see its cause"),
    "step-without-task": Code(
        "The step waits for an agent, but has no open task; a runner's sweep makes a new one.",
        _S,
        "keep `afl runner` running",
    ),
    "task-completed": Code("The task was done.", _O, _REST),
    "task-failed": Code("The task failed; the error is named.", _O, "`afl retry STEP`"),
    "task-ignored": Code("Its run ended or its step moved on before the task was done.", _O, _REST),
    "task-canceled": Code("The task was canceled with its run, or by an operator.", _O, _REST),
    "task-unserved": Code(
        "No live server serves the facet; the text says which one did last, and when.",
        _S,
        "start an agent: `afl agent MODULE`",
    ),
    "task-other-list": Code(
        "Servers that serve the facet serve other task lists.", _S, "start one with the task's `--task-list`"
    ),
    "task-servers-full": Code(
        "Every live server that serves the facet is full.",
        _M,
        "wait, start another, or raise `--concurrency`",
    ),
    "task-ready": Code("A live server with free capacity will claim it.", _M, _WAIT),
    "task-local": Code("The process that runs the workflow takes it when it has free capacity.", _M, _WAIT),
    "task-delayed": Code("A retry is due at the given time.", _M, _WAIT),
    "task-timer": Code("It sleeps until the given time.", _M, _WAIT),
    "task-concurrency": Code(
        "As many tasks with its key are in progress as `Concurrency` allows.",
        _M,
        "wait, or see why those do not end",
    ),
    "task-rate": Code(
        "As many tasks with its key have started as `Rate` allows; the text says when the next may start, or which "
        "task it waits for.",
        _M,
        _WAIT,
    ),
    "task-paused": Code("The task's run is paused.", _S, "`afl unpause RUN`"),
    "task-poisoned": Code(
        "Too many workers died on it; a sweep is about to fail its step.",
        _M,
        "find out what kills the workers",
    ),
    "task-timeout": Code(
        "It timed out; a sweep is about to retry it or fail its step.",
        _M,
        "raise `Timeout`, or fix the handler",
    ),
    "task-human": Code(
        "Someone has to answer; the text says until when, and who is asked next.",
        _S,
        "`afl approvals show ID`",
    ),
    "task-signal": Code(
        "A signal has to be delivered; the text says until when, and with which command.",
        _S,
        "`afl signal RUN NAME`",
    ),
    "task-elsewhere": Code(
        "It was handed to an agent, the fleet or a message, and continues when that has answered.", _M, _WAIT
    ),
    "task-child-run": Code("It is a child run, which continues by itself.", _M, "`afl why RUN`"),
    "task-not-begun": Code(
        "An agent, the fleet or a message cannot take it yet; the text says why.",
        _S,
        "start or repair the other side",
    ),
    "task-queued-elsewhere": Code(
        "The fleet has it in its queue, but no connected agent can run it; the text says what it needs.",
        _S,
        "start `afl fleet agent`",
    ),
    "task-no-bridge": Code(
        "It is to be done by an agent, the fleet or a message, but no live server hosts that bridge.",
        _S,
        "start `afl runner`",
    ),
    "task-locked": Code(
        "Someone holds the task's lock, so nobody claims it.", _M, "wait for the lock to end"
    ),
    "task-behind": Code("Another task of the same step comes first.", _M, "see its cause"),
    "task-running": Code(
        "An owner is working on it; the text names lease, progress and deadline, and says if its process hangs.",
        _M,
        _WAIT,
    ),
    "task-owner-dead": Code(
        "Its owner died; it is delivered again within seconds if a server is alive.",
        _M,
        "keep a server running",
    ),
    "task-lease-ended": Code(
        "Its owner's lease ended; it is delivered again if a server is alive.", _M, "keep a server running"
    ),
    "task-overdue": Code(
        "It is past its deadline; a sweep takes it from its owner if a server is alive.",
        _M,
        "keep a server running",
    ),
    "server-working": Code("The server is alive and has free capacity.", _M, _REST),
    "server-full": Code(
        "The server is working on as many tasks as it accepts.", _M, "wait, or raise its `--concurrency`"
    ),
    "server-starting": Code("The server has registered and is about to claim.", _M, _WAIT),
    "server-hanging": Code(
        "The process is alive but does not ping: it is blocked or stopped.",
        _S,
        "look at its stack, or restart it",
    ),
    "server-silent": Code(
        "The server does not ping, and its process cannot be checked from here.", _S, "look at its host"
    ),
    "server-dead": Code("The server's process died; others take its work.", _S, "start it again"),
    "server-stopping": Code(
        "The server was shut down, claims no more and finishes what it works on.", _M, _WAIT
    ),
    "server-stopped": Code("The server was shut down.", _O, "start it again if it is needed"),
    "server-failed": Code("The server gave up with the given error.", _S, "fix that, then start it again"),
    "store-locked": Code(
        "A process that is stopped, or does not release it, holds the write lock of the SQLite file: nobody can write.",
        _S,
        "let that process continue, or end it",
    ),
}


@dataclass(frozen=True)
class Reason:
    """Why one thing is where it is. `kind` is run, step, task, server or store; `because` is what this one rests on.

    `attempts` are those of the work that failed. `stands`: its code continues, but nobody is there to continue it.
    """

    code: str
    kind: str
    id: str
    sentence: str
    action: str
    because: Reason | None = None
    attempts: list[AttemptView] = field(default_factory=list)
    stands: bool = False

    def __post_init__(self) -> None:
        assert self.code in CODES, self.code

    @property
    def outlook(self) -> Outlook:
        """What happens if nobody does anything: decided by the cause, unless this is over."""
        own = Outlook.STANDS if self.stands else CODES[self.code].outlook
        return own if own is not Outlook.MOVES or self.because is None else self.because.outlook

    @property
    def cause(self) -> Reason:
        """The last reason of the chain: the one to act on."""
        return self if self.because is None else self.because.cause

    @property
    def chain(self) -> Iterator[Reason]:
        """This reason and those it rests on."""
        yield self
        if self.because is not None:
            yield from self.because.chain

    def __str__(self) -> str:
        """As `afl why` prints it: the chain of reasons, and what to do."""
        lines = [
            f"{'  ' * depth}{each.kind} {each.id}: {each.sentence}" for depth, each in enumerate(self.chain)
        ]
        return "\n".join([*lines, f"-> {self.cause.action}  [{self.cause.code}]"])
