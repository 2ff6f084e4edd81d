"""The worker: claims tasks, has their handlers called, stores what they answer, and goes on with the runs.

One thread at a time does all of that; handlers have threads of their own. It waits at the doorbell and looks into the
store at the poll interval, in case a ring was lost. The specification's pollers and runners are faces of this one core.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from afl.kernel import telemetry
from afl.kernel.doorbell import Ear
from afl.kernel.errors import StoreError
from afl.runtime.entities import TaskDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.handler import Handlers
from afl.runtime.log_writer import LogWriter
from afl.runtime.sweep import reclaim
from afl.runtime.topics import CANCEL_TOPIC, RUNS_TOPIC, tasks_topic
from afl.runtime.worker.chores import Chores
from afl.runtime.worker.evaluations import Evaluations
from afl.runtime.worker.hands import Hands
from afl.runtime.worker.intake import Intake
from afl.runtime.worker.leaders import Leaders
from afl.runtime.worker.retrying import RETRY, until_done
from afl.runtime.worker.stepless import Stepless
from afl.runtime.worker.stray_claims import StrayClaims
from afl.runtime.worker.task_in_hand import Done
from afl.runtime.worker.terms import Hooks, Terms
from afl.runtime.worker.thread_pool import Job, Threads
from afl.runtime.worker.workbench import Workbench

_log = logging.getLogger(__name__)

_DEATH_SECONDS = 0.5  # how often to look for the dead
_TIDY_SECONDS = 0.06  # how soon to let go of runs that nothing happens to


class Worker:
    """See the module. `threads` gives those of handlers, once it is asked."""

    def __init__(
        self,
        evaluator: Evaluator,
        handlers: Handlers,
        terms: Terms,
        threads: Callable[[], Threads],
        hooks: Hooks | None = None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self._handlers = handlers
        self._terms = terms
        self._topic = tasks_topic(terms.task_list)
        self._hooks = hooks or Hooks()
        self._threads = threads
        self._failures = 0
        self._stopping = threading.Event()
        self._ear: Ear | None = None
        self.abandoned = 0  # handlers that had not returned when `drain` ended
        self._logs = LogWriter(self._store)
        self._stepless = Stepless(self._store, self._count)
        self._look_for_runs = True
        self._polled = self._swept = -1e9
        self._chores = Chores(lambda: self._hooks.chores)
        self.bench = Workbench(
            self._store, handlers, threads, terms.slots, write=self._logs.write, rang=self.wake
        )
        self.evaluations = Evaluations(evaluator, self._keeps, self._expects, self._count)
        self._intake = Intake(
            self._store,
            handlers,
            self.bench,
            terms,
            self._hooks,
            lambda: self._hands.mind(),
        )
        self._hands = Hands(self._store, terms, self._intake, self.bench, self.evaluations, self._stepless)
        self._strays = StrayClaims(self._store, terms.task_list, self._claims)

    # -- the loop ---------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Work until `stop`."""
        topics = [self._topic, CANCEL_TOPIC, RUNS_TOPIC]
        with self._store.listen(topics, early=[self._topic]) as ear:
            self._ear = ear
            leaders = Leaders(self._threads, lambda: not self._stopping.is_set(), self._turn)
            try:
                leaders.run()
            finally:  # an interrupt ends the wait, not the work
                self.stop()
                leaders.join()

    def _turn(self) -> Job | None:
        """Wait for something to do, and do it; perhaps a job that this thread is to begin with at once."""
        assert self._ear is not None
        try:
            self._hands.mind()  # whoever led before may be at work on what he claimed
            self._heed(self._ear.wait(self._patience()))
            if not self._stopping.is_set():
                self.round()
            self._failures = 0
        except StoreError as error:
            self._failures += 1
            self._strays.suspect(self.evaluations.unheard())
            telemetry.count("afl.store.errors")
            _log.warning("the store fails, trying again: %s", error)
            self._stopping.wait(RETRY.delay(self._failures))
        return self._intake.take_job()

    def stop(self) -> None:
        """End `run` after the present round; from any thread."""
        self._stopping.set()
        self.wake()

    def wake(self) -> None:
        """Look up from waiting."""
        ear = self._ear
        if ear is not None:
            ear.wake()

    def _heed(self, rung: frozenset[str]) -> None:
        if CANCEL_TOPIC in rung and self.bench.running:
            self._hands.keeper.check_now()
        self._look_for_runs = self._look_for_runs or RUNS_TOPIC in rung
        self._intake.hear(self._topic in rung)

    def _patience(self) -> float:
        """How long there is nothing to do unless something happens."""
        if self._look_for_runs or self._intake.is_urgent:
            return 0.0
        now = time.monotonic()
        waits = [self._polled + self._terms.poll_seconds - now, self._swept + _DEATH_SECONDS - now]
        deadline = self.bench.next_deadline()
        if deadline is not None:
            waits.append(deadline)
        if self._intake.delayed is not None:
            waits.append(self._intake.delayed - now)
        if self.evaluations.busy and not self.bench.running:
            waits.append(_TIDY_SECONDS)
        return max(0.0, min(waits))

    def round(self) -> None:
        """One look at everything: what is done, what is due, what can be claimed."""
        now = time.monotonic()
        if now >= self._polled + self._terms.poll_seconds:
            self._polled = now
            self._look_for_runs = self._intake.wanted = True
            self._chores.fall_due(now)
        if self._intake.woken and self._intake.answer():
            return  # somebody waits for that, and nobody for anything else
        self._deliver()
        self._intake.do_system_tasks()
        self._intake.claim()
        self._sweep()
        if self._look_for_runs:
            self._go_on_with_runs()
        self.evaluations.tidy()
        self._intake.begin(self.evaluations.born())
        self._intake.mark_begun()
        self._logs.flush()

    def _go_on_with_runs(self) -> None:
        """Others answered for runs we hold, or left runs that nobody holds."""
        self._look_for_runs = False
        self._hands.keeper.want(True)  # a large batch may take longer than a lease
        self.evaluations.heed_marks()
        if self._terms.evaluates:
            self._look_for_runs = self.evaluations.evaluate_due() > 0  # there may be more
        self._intake.begin(self.evaluations.born())
        self._intake.claim()
        self._hands.mind()

    # -- tasks ------------------------------------------------------------------------------------------------

    def _deliver(self) -> None:
        done = self.bench.collect_now()
        if done or self.evaluations.undelivered or self._stepless:
            self._store_answers(done)
            self._intake.begin(self.evaluations.born())
            self._hands.mind()

    def _store_answers(self, done: list[Done]) -> None:
        """What was answered is kept until it is stored."""
        self._stepless.add(each for each in done if not each.task.step_id)
        self.evaluations.deliver([each for each in done if each.task.step_id])
        self._stepless.store()

    def _claims(self, name: str) -> bool:
        """Whether a task of this name may be claimed here."""
        return name in self._terms.system_tasks or self._handlers.serves(name)

    def _keeps(self, task: TaskDefinition) -> bool:
        """Whether a task born here stays here: only when nobody older waits for a slot."""
        return (
            not self._intake.wanted
            and not self._stopping.is_set()
            and task.task_list_name == self._terms.task_list
            and self.bench.serves(task)
        )

    def _expects(self, workflow_id: str) -> bool:
        """Whether more answers for a run are to come soon: its tasks are in hand, or the queue is not empty."""
        return self._intake.wanted or self.bench.works_for(workflow_id)

    def _count(self, done: Done, problem: str | None) -> None:
        if self._hooks.counted is not None:
            self._hooks.counted(done.task.name, problem is None)
        if self._hooks.told is not None:
            self._hooks.told(done, problem)

    # -- the rest ---------------------------------------------------------------------------------------------

    def _sweep(self) -> None:
        now = time.monotonic()
        if now >= self._swept + _DEATH_SECONDS:
            self._swept = now
            self._intake.wanted = True  # while awake: a lost ring costs no more than this
            if reclaim(self._evaluator):
                self._look_for_runs = True
            self._strays.give_back()
            self._hands.mind()
        answering = self.bench.is_quick and self.bench.running > 0
        self._chores.do(now, busy=self._intake.wanted or answering)

    # -- the end ----------------------------------------------------------------------------------------------

    def drain(self, seconds: float) -> None:
        """Claim no more, give back what has not begun, wait for the rest, and then give up what is not done.

        What is given up is fenced: another worker does it again, and a late answer is refused.
        """
        self._stopping.set()
        until = time.monotonic() + seconds
        unbegun = self._unbegun()
        try:
            self._hands.mind()
            until_done(lambda: self._store.return_tasks(unbegun), until)
            while self._unfinished and (left := until - time.monotonic()) > 0:
                self._store_last_answers(self.bench.collect(left) if self.bench.running else [])
            given_up = self.bench.give_up()
            self.abandoned = len(given_up)
            self._store.return_tasks(given_up, begun=True)
            self._logs.flush()
            self.evaluations.let_go_all()
        finally:
            self._hands.keeper.close()

    def _unbegun(self) -> list[TaskDefinition]:
        """What is in hand and has not begun. It is so no longer: nobody can begin with it while it is given back."""
        return [*self._intake.give_up(), *self.bench.unstarted(), *self.evaluations.born()]

    @property
    def _unfinished(self) -> bool:
        return bool(self.bench.running or self.evaluations.undelivered or self._stepless)

    def _store_last_answers(self, done: list[Done]) -> None:
        try:
            self._store_answers(done)
            self._logs.flush()
        except StoreError as error:
            _log.warning("the store fails, trying again: %s", error)
            time.sleep(RETRY.delay(1))
