"""What happens outside of runs, a little at a time and in any order: agents answer, senders deliver, time passes."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from afl.runtime.entities import RunDefinition, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.recovery.sweep import fire_timers, reclaim
from afl.runtime.signals import RunOver, signal
from afl.runtime.types import StepId, WorkflowId
from support.judging import Trial, signal_ids
from support.model_values import Problem

_SOON_MS = 1000  # times in these workflows are a millisecond, or much longer


class Outside:
    """The outside of the runs of one store."""

    def __init__(self, trial: Trial, evaluator: Evaluator, random: Random) -> None:
        self._trial = trial
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._random = random
        self._stored: set[tuple[str, str]] = set()  # signals that are known to be, by run and id

    def do_some(self, run: RunDefinition, *, tasks: bool = True) -> int:
        """Some of what a run waits for; `tasks`: by agents, too. How much was done."""
        found = self._store.get_tasks_by_workflow(WorkflowId(run.workflow_id))
        pending = [task for task in found if task.state == TaskState.PENDING]
        timers = [task for task in pending if task.hold == TaskHold.TIMER]
        late = [task for task in pending if self._ends_soon(task)]
        work = [task for task in pending if task not in timers and not task.via]
        choices: list[Callable[[], int]] = []
        if timers:
            choices.append(lambda: self._fire(timers))
        if late:
            choices.append(lambda: self._let_pass(late))
        if work and tasks:
            choices += [lambda: self._claim(run, work), lambda: self._answer(work)]
        if self._undelivered(run):
            choices.append(lambda: self.deliver(run))
        return self._random.choice(choices)() if choices else 0

    # -- time -------------------------------------------------------------------------------------------------

    def _ends_soon(self, task: TaskDefinition) -> bool:
        return bool(task.via and 0 < task.deadline < self._store.now() + _SOON_MS)

    def _fire(self, timers: list[TaskDefinition]) -> int:
        while fire_timers(self._evaluator) is not None:
            continue
        return len(timers)

    def _let_pass(self, late: list[TaskDefinition]) -> int:
        """Nothing has come in time."""
        while self._store.now() < max(task.deadline for task in late):
            continue
        reclaim(self._evaluator)
        return len(late)

    # -- agents -----------------------------------------------------------------------------------------------

    def _claim(self, run: RunDefinition, work: list[TaskDefinition]) -> int:
        """As workers do."""
        names = sorted({task.name for task in work})
        limit = self._random.randint(1, len(work))
        claimed = self._store.claim_tasks(names, run.task_list, limit=limit, workflow_id=run.workflow_id)
        self._store.start_tasks(claimed)
        self._random.shuffle(claimed)
        for task in claimed:
            assert self._finish(task, claim=task)
        return len(claimed)

    def _answer(self, work: list[TaskDefinition]) -> int:
        """As an operator does, without a claim."""
        chosen = self._random.sample(work, self._random.randint(1, len(work)))
        for task in chosen:
            assert self._finish(task)
        return len(chosen)

    def _finish(self, task: TaskDefinition, claim: TaskDefinition | None = None) -> bool:
        step_id = StepId(task.step_id)
        try:
            answer = self._trial.answer(task.name, task.params)
        except Problem as problem:
            return self._evaluator.fail_step(step_id, problem.text, task=claim)
        return self._evaluator.continue_step(step_id, answer, task=claim)

    # -- senders ----------------------------------------------------------------------------------------------

    def _undelivered(self, run: RunDefinition) -> list[str]:
        verdict = self._trial.verdict_of(run)
        if verdict is None or not verdict.signals:
            return []
        unknown = [id for id in signal_ids(verdict) if (run.workflow_id, id) not in self._stored]
        stored = {id for id in unknown if self._store.get_signal(WorkflowId(run.workflow_id), id)}
        self._stored |= {(run.workflow_id, id) for id in stored}
        return [id for id in unknown if id not in stored]

    def deliver(self, run: RunDefinition) -> int:
        """Some signals, whether steps wait for them or not yet; one of them again, which changes nothing."""
        undelivered = self._undelivered(run)
        chosen = self._random.sample(undelivered, min(len(undelivered), self._random.randint(1, 3)))
        for id in chosen:
            self._send(run, id, is_new=True)
        if chosen and self._random.random() < 0.3:
            self._send(run, chosen[0], is_new=False)
        return len(chosen)

    def _send(self, run: RunDefinition, id: str, *, is_new: bool) -> None:
        verdict = self._trial.verdict_of(run)
        assert verdict is not None
        meant = signal_ids(verdict)[id]
        value = self._trial.answer(meant.facet, {"signal": meant.name})
        try:
            assert signal(self._evaluator, run, meant.name, value, id).delivered is is_new
        except RunOver:
            assert "one more" in id or run.parent_step, "a run ended that still waits for signals"
