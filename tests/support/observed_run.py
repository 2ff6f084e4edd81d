"""A run of `primitives` in several processes, and a record of what happened in each of them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence

from afl.runtime.entities import TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import Outcome
from afl.runtime.recovery.sweep import fire_timers
from afl.runtime.runner import RunnerService
from afl.runtime.signals import signal
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.handler_context import HandlerContext
from afl.runtime.types import WorkflowId
from support.eventually import PATIENCE_SECONDS
from support.primitives import EARLY, LATE, Piece, answer

_CLOSED = (TaskState.COMPLETED, TaskState.FAILED)


class ObservedRun:
    """`calls` of handlers by idempotency key, `ends` that were stored for steps which wait outside (timers, signals,
    child runs), and `delivered` signals by id."""

    def __init__(self, piece: Piece, run: str) -> None:
        self.piece = piece
        self.run = WorkflowId(run)
        self.calls: Counter[str] = Counter()
        self.ends: Counter[str] = Counter()
        self.delivered: Counter[str] = Counter()
        self._settled: dict[str, int] = {}
        self._earlier: Counter[str] = Counter()

    def begin(self, store: PersistenceAPI) -> None:
        """The run is stored, if it is not."""
        if store.get_run(self.run) is None:
            program = self.piece.program(store.capabilities)
            Evaluator(store).submit(program, self.piece.inputs_of(self.run), workflow_id=self.run)

    def live(self, store: PersistenceAPI) -> None:
        """All that there is to do, as a runner does it; senders repeat what they do not know to have arrived."""
        self._record(store)
        self.begin(store)
        self.send(store, EARLY)
        handlers = Handlers.of({"t.Do": self._do})
        runner = RunnerService(store, Evaluator(store), handlers=handlers)
        until = time.monotonic() + PATIENCE_SECONDS
        while not self.piece.is_over(store, self.run):
            assert time.monotonic() < until, "the run does not come to its end"
            runner.run_once()
            if all(self._is_received(store, id) for id in EARLY):
                self.send(store, LATE)

    def await_note(self, store: PersistenceAPI) -> None:
        """The run is evaluated until a step waits for a signal."""
        evaluator = Evaluator(store)
        while not store.get_signal_tasks(self.run, "note"):
            evaluator.resume(self.run)
            fire_timers(evaluator)

    def send(self, store: PersistenceAPI, signals: dict[str, str]) -> None:
        """Deliver signals, whether or not that was done before."""
        run = store.get_run(self.run)
        assert run is not None
        for id, text in signals.items() if self.piece.has_signals and not run.is_over else ():
            self.delivered[id] += signal(Evaluator(store), run, "note", {"text": text}, id).delivered

    def died(self, store: PersistenceAPI) -> None:
        """Remember what was stored when a process died: nobody does it again."""
        self._check_life()
        self._earlier = self.calls.copy()
        runs = [WorkflowId(each.workflow_id) for each in self.piece.family(store, self.run).values()]
        tasks = [task for run in runs for task in store.get_tasks_by_workflow(run) if task.state in _CLOSED]
        self._settled = {task.step_id: self.calls[task.step_id] + self.ends[task.step_id] for task in tasks}

    def _check_life(self) -> None:
        """Nothing that was stored before was done again, and no handler was called twice."""
        done = {step: self.calls[step] + self.ends[step] for step in self._settled}
        assert done == self._settled
        assert max((self.calls - self._earlier).values(), default=0) <= 1

    def check(self, store: PersistenceAPI) -> None:
        """After the last life: the record is as it must be, and nothing that was stored was done again."""
        self.piece.check(store, self.run)
        self._check_life()
        assert set(self.ends.values()) <= {1}
        assert set(self.delivered.values()) <= {0, 1}

    def _record(self, store: PersistenceAPI) -> None:
        finish = store.finish

        def recorded(outcomes: Sequence[Outcome]) -> list[bool]:
            done = finish(outcomes)
            self.ends.update(each.step.id for each, stored in zip(outcomes, done, strict=True) if stored)
            return done

        store.finish = recorded  # type: ignore[method-assign]

    def _do(self, key: str, context: HandlerContext) -> dict[str, int]:
        self.calls[context.idempotency_key] += 1
        return answer(key)

    def _is_received(self, store: PersistenceAPI, id: str) -> bool:
        found = store.get_signal(self.run, id) if self.piece.has_signals else None
        return found is not None and found.task_id != ""
