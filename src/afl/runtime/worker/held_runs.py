"""The runs that one worker evaluates: results of tasks go in, the runs advance, and all of it is committed together.

A run is taken when there is a result or a mark for it, and held from one result to the next while tasks of it are in
flight here. One round trip takes all runs that have something to do, one reads the steps they need, one commits. A run
that another evaluator holds gets its results as StepContinue marks, which that evaluator consumes.
"""

from __future__ import annotations

import logging
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from copy import copy
from itertools import islice
from typing import Any

from afl.kernel import crashpoint, telemetry
from afl.kernel.errors import (
    AgentFlowError,
    FencedError,
    PayloadError,
    StoreUnavailable,
)
from afl.runtime.entities import CANNOT_BE_EVALUATED, RunDefinition, TaskDefinition
from afl.runtime.evaluation.session import Session
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence.changes import EventDefinition, Outcome
from afl.runtime.persistence.held_claims import claiming
from afl.runtime.program import paths
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.results import Report, ResultsWithoutRun, Stored, TaskResult

_log = logging.getLogger(__name__)

_RUNS_PER_COMMIT = 100
_MOST_HELD = 256
_EXPECTED_SECONDS = 1.0
_IDLE_SECONDS = 0.05

Marks = Mapping[str, list[EventDefinition]]
Work = Mapping[str, list[Report]]


class HeldRuns:
    """For one thread; only `run_ids` and `unstored_tasks` may be read by others.

    `serves` says which new tasks are claimed at their creation, `expects` whether tasks of a run are in flight here or
    soon will be. `stored` is told of each result once it is stored, and of what was wrong with it.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        serves: Callable[[TaskDefinition], bool] | None = None,
        expects: Callable[[str], bool] = lambda workflow_id: False,
        stored: Stored = lambda result, problem: None,
    ) -> None:
        self._evaluator = evaluator
        self._store = evaluator.persistence
        self.serves = serves
        self._expects = expects
        self._sessions: dict[str, tuple[Session, float]] = {}  # by run, with the time of the last change
        self._to_release: list[RunDefinition] = []
        self._reports: dict[str, list[Report]] = {}  # by run; what is not stored yet, as far as is known
        self._without_run = ResultsWithoutRun(evaluator.persistence, evaluator.programs, stored)
        self._delivered: dict[str, list[tuple[Report, Outcome]]] = {}  # by run; what the next commit stores
        self._evaluating: frozenset[str] = frozenset()
        self._asked: list[WorkflowId] = []
        self.claimed: list[
            TaskDefinition
        ] = []  # tasks that were claimed at their creation, and not taken up yet
        self.timer_due: float | None = None  # when the next known timer is over, on the monotonic clock
        self.reporting: TaskResult | None = None  # the result that the next report is about
        self.follows_children = False  # whether somebody takes the child runs that are started here
        self.children: list[WorkflowId] = []  # which nobody has taken yet

    # -- what others may read ---------------------------------------------------------------------------------

    @property
    def run_ids(self) -> frozenset[str]:
        """The runs that are held; from any thread."""
        return self._evaluating | frozenset(list(self._sessions))

    def unstored_tasks(self) -> list[TaskDefinition]:
        """Tasks whose results are not stored, as far as is known, and those claimed at creation; from any thread."""
        groups = list(self._reports.values())
        return [*self.claimed, *(report.result.task for group in groups for report in list(group))]

    @property
    def holds_anything(self) -> bool:
        """Whether there are runs to be renewed or released, or results to be stored."""
        return bool(self._sessions or self._to_release or self._reports)

    @property
    def has_unstored(self) -> bool:
        """Whether there are results that are not stored; `store` stores them."""
        return bool(self._reports)

    @property
    def held(self) -> list[RunDefinition]:
        """The runs that are held."""
        return [session.run for session, _ in self._sessions.values()]

    def take_claimed(self) -> list[TaskDefinition]:
        """The tasks that were claimed at their creation; the caller has them now."""
        claimed, self.claimed = self.claimed, []
        return claimed

    def take_unanswered(self) -> list[WorkflowId]:
        """The runs that the store was asked for without an answer: they may be ours unknown to us."""
        asked, self._asked = self._asked, []
        return asked

    # -- results ----------------------------------------------------------------------------------------------

    def report(self, value: Any = None, *, failure: str | None = None, error_type: str = "") -> None:
        """For the evaluator, within `batch`: what is to become of the result that is being reported."""
        result = self.reporting
        assert result is not None, "a worker says which result it reports"
        known = result.error_type if result.error is not None else "AgentError"
        report = Report(result, value, None if failure is None else (failure, error_type or known))
        self._reports.setdefault(result.task.workflow_id, []).append(report)

    def store(self) -> None:
        """Store all reported results and advance their runs. What could not be stored is kept for the next call."""
        while self._reports:
            batch = {run: [*group] for run, group in islice(self._reports.items(), _RUNS_PER_COMMIT)}
            for run in self._advance(batch):
                self._remove(run, batch.pop(run))
            for run, group in batch.items():
                self._without_run.store(run, group)
                self._remove(run, group)
            self._advance({run: [] for run in batch})  # if its holder has released it meanwhile

    def _remove(self, run: str, group: list[Report]) -> None:
        """These are stored. Others may have come for the same run meanwhile, and stand behind them."""
        rest = self._reports.pop(run)[len(group) :]
        if rest:
            self._reports[run] = rest

    # -- holding -------------------------------------------------------------------------------------------------

    def hold(self, session: Session) -> None:
        """Hold a run that the caller has taken or begun."""
        self._sessions[session.run.workflow_id] = session, time.monotonic()

    def holds(self, session: Session) -> bool:
        """Whether the run is still held by this session: it is not over, and nobody took it away."""
        return self._sessions.get(session.run.workflow_id, (None, 0.0))[0] is session

    # -- runs without results ---------------------------------------------------------------------------------

    def advance(self, workflow_id: str) -> bool:
        """Advance one run; False if another evaluator has it."""
        return workflow_id in self._advance({workflow_id: []})

    def follow(self, room: int) -> bool:
        """Advance up to so many child runs that were started here, or else held runs whose children have ended.

        False if there was nothing to do. Tasks of more children than there is room for would be claimed one by one.
        """
        room = max(0, room)
        batch, self.children = self.children[:room], self.children[room:]
        self._advance({run: [] for run in batch})
        return bool(batch) or (len(self._sessions) > 1 and self.advance_marked() > 0)

    def advance_due(self) -> int:
        """Advance runs that need an evaluator and have none; how many were found."""
        due = self._store.get_due_runs(_RUNS_PER_COMMIT)
        self._advance({run: [] for run in due})
        return len(due)

    def advance_marked(self) -> int:
        """Advance held runs that others have stored results for; how many there were."""
        held = [WorkflowId(run) for run in self._sessions]
        marked = {mark.workflow_id for mark in self._store.get_marks_of(held)} if held else set()
        self._advance({run: [] for run in marked})
        return len(marked)

    # -- advancing --------------------------------------------------------------------------------------------

    def _advance(self, work: Work) -> set[str]:
        """Evaluate runs, each with the reports for it, and commit; which of them could be taken and stored."""
        stored, again = self._advance_once(work)
        while again:  # what came for them in the meantime
            _, again = self._advance_once({run: [] for run in again})
        return stored

    def _advance_once(self, work: Work) -> tuple[set[str], list[str]]:
        """As `_advance`; and the runs that something has come for in the meantime."""
        if not work:
            return set(), []
        self._release_pending()
        held = {run: self._sessions[run][0] for run in work if run in self._sessions}
        sessions = {**held, **self._take([WorkflowId(run) for run in work if run not in held])}
        self._evaluating = frozenset(sessions)
        try:
            # Whoever leaves a mark for a held run notifies, so with results at hand those are not asked for.
            marks = self._marks_of([s for run, s in sessions.items() if run not in held or not work[run]])
            self._read_steps(sessions, work, marks)
            evaluated = [s for run, s in sessions.items() if self._evaluate(s, work[run], marks.get(run, []))]
            stored, committed = self._commit(evaluated)
        except BaseException:
            for session in sessions.values():
                self._discard(session)
            raise
        finally:
            self._evaluating = frozenset()
        self._evaluator.settle_child_runs(committed)
        return stored, self._to_advance_again(committed)

    def _take(self, runs: list[WorkflowId]) -> dict[str, Session]:
        sessions = {}
        self._asked = runs
        taken = self._evaluator.take_all(runs)
        self._asked = []
        for run in taken:
            try:
                sessions[run.workflow_id] = self._evaluator.session(run, self.serves)
            except StoreUnavailable:
                self._to_release.append(run)
                raise
            except Exception as error:
                self._to_release.append(run)
                self._pause(run.workflow_id, error)
        self._release_pending()
        return sessions

    def _marks_of(self, sessions: list[Session]) -> Marks:
        """What others have stored for these runs."""
        marks: dict[str, list[EventDefinition]] = defaultdict(list)
        waiting = [WorkflowId(session.run.workflow_id) for session in sessions if session.run.waiting > 0]
        for mark in self._store.get_marks_of(waiting) if waiting else []:
            marks[mark.workflow_id].append(mark)
        return marks

    def _read_steps(self, sessions: Mapping[str, Session], work: Work, marks: Marks) -> None:
        """Bring the steps that have results, and all that are above them, into memory in one round trip."""
        wanted: dict[StepId, Session] = {}
        for run, session in sessions.items():
            marked = {mark.step_id for mark in marks.get(run, [])}
            session.context.forget_waiting(list(marked))
            for step_id in {*marked, *(report.result.task.step_id for report in work[run])}:
                for each in _not_in_memory(session, step_id):
                    if each in wanted:
                        break
                    wanted[each] = session
        for step in self._store.get_steps(list(wanted)) if wanted else []:
            if not step.unreadable:  # found again when it is needed, which concerns its run alone
                wanted[step.id].context.adopt(step)

    def _evaluate(self, session: Session, group: list[Report], marks: list[EventDefinition]) -> bool:
        """Evaluate one run in memory; False if that failed."""
        try:
            self._deliver(session, group)
            if marks:
                session.consume(marks, fresh=True)
                self._leave_children({mark.step_id for mark in marks})
            self._evaluator.telemetry.log_resume(session.run.workflow_id)
            session.advance()
            return True
        except FencedError:
            self._drop(session)
        except PayloadError as error:  # of a commit within the evaluation
            self._fail_unstorable(session, error)
        except StoreUnavailable:
            raise
        except Exception as error:
            self._drop(session)
            self._pause(session.run.workflow_id, error)
        return False

    def _leave_children(self, ended: set[StepId]) -> None:
        """The steps have ended: child runs of theirs that still go on are waited for no more."""
        if self.follows_children:
            for session, _ in self._sessions.values():
                if session.run.parent_step in ended:
                    session.run.parent_told = 1

    def _deliver(self, session: Session, group: list[Report]) -> None:
        delivered = self._delivered[session.run.workflow_id] = []
        for report in group:
            step_id = StepId(report.result.task.step_id)
            if session.context.was_removed(step_id):
                self._without_run.ignore(report)
                continue
            step = session.context.require_step(step_id)
            if step.state != StepState.EVENT_TRANSMIT:
                self._without_run.ignore(report)
            else:
                delivered.append((report, report.outcome(session.context.program, step)))
        if delivered:
            crashpoint.reach("deliver.before")
            session.deliver([outcome for _, outcome in delivered])

    def _commit(self, sessions: list[Session]) -> tuple[set[str], list[Session]]:
        """Commit what was evaluated, and hold on to runs that have work here. The runs stored, and their sessions."""
        kept = {session.run.workflow_id for session in sessions if self._is_kept(session)}
        changes = [session.conclude(keep=session.run.workflow_id in kept) for session in sessions]
        crashpoint.reach("commit.before")
        begun = time.monotonic()
        with claiming():
            problems = self._store.commit_all(changes) if changes else []
        telemetry.record("afl.commit.seconds", time.monotonic() - begun)
        crashpoint.reach("commit.after")
        committed, refused = [], []
        for session, problem in zip(sessions, problems, strict=True):
            if (
                problem is None
            ):  # nothing here asks the store: tasks claimed in the commit must be known first
                self._committed(session, keep=session.run.workflow_id in kept)
                committed.append(session)
            else:
                refused.append((session, problem))
        stored = {session.run.workflow_id for session in committed}
        stored |= {session.run.workflow_id for session, problem in refused if self._refused(session, problem)}
        return stored, committed

    def expect_timer(self, wait_ms: int | None) -> None:
        """There is a timer that is over in so many milliseconds; None: there is none."""
        if wait_ms is not None:
            due = time.monotonic() + wait_ms / 1000
            self.timer_due = due if self.timer_due is None else min(self.timer_due, due)

    def _is_kept(self, session: Session) -> bool:
        if session.context.claimed:
            return True
        return session.run.waiting > 0 and self._expects(session.run.workflow_id)

    def _committed(self, session: Session, *, keep: bool) -> None:
        run = session.run.workflow_id
        session.stored()
        self.expect_timer(session.context.take_timer())
        self.claimed += session.tasks
        children = session.children
        if self.follows_children:
            self.children += children
        for report, outcome in self._delivered.pop(run, []):
            self._without_run.tell(report, outcome)
        self._sessions.pop(run, None)
        if keep and not session.run.is_over:
            self._sessions[run] = session, time.monotonic()  # the last: the order is that of the last change

    def _to_advance_again(self, sessions: list[Session]) -> list[str]:
        """The runs for which something has come in the meantime: signals for new tasks, or results that another worker
        stored while the run was still held here.
        """
        signaled = {session.run.workflow_id for session in sessions if session.receive_signals()}
        waiting = [session.run for session in sessions if not session.run.is_over and session.run.waiting > 0]
        released = [WorkflowId(run.workflow_id) for run in waiting if run.workflow_id not in self._sessions]
        marks = self._store.get_marks_of(released) if released else []
        return list(signaled | {mark.workflow_id for mark in marks})

    # -- what goes wrong --------------------------------------------------------------------------------------

    def _refused(self, session: Session, problem: AgentFlowError) -> bool:
        """What becomes of a run that could not be committed; True if that itself is stored."""
        if isinstance(problem, PayloadError):
            return self._fail_unstorable(session, problem)
        self._drop(session)
        if not isinstance(problem, FencedError):
            self._pause(session.run.workflow_id, problem)
        return False

    def _pause(self, workflow_id: str, problem: Exception) -> None:
        """The run cannot be evaluated, and trying again would not help: somebody must look at it."""
        known = isinstance(problem, AgentFlowError)
        reason = str(problem) if known else f"{type(problem).__name__}: {problem}"
        _log.error("run %s cannot be evaluated and is paused: %s", workflow_id, reason, exc_info=problem)
        self._store.pause_run(WorkflowId(workflow_id), f"{CANNOT_BE_EVALUATED}: {reason}")

    def _fail_unstorable(self, session: Session, error: PayloadError) -> bool:
        """A value cannot be stored, so the run fails; True if that could be stored."""
        try:
            session.fail_unstorable(error)
        except FencedError:
            self._drop(session)
            return False
        self._sessions.pop(session.run.workflow_id, None)
        return True

    def _drop(self, session: Session) -> None:
        """Discard a session, and release its run."""
        self._discard(session)
        self._release_pending()

    def _discard(self, session: Session) -> None:
        """What the session has in memory is of no use any more. Its run is to be released; its results are unstored."""
        self._delivered.pop(session.run.workflow_id, None)
        self._sessions.pop(session.run.workflow_id, None)
        session.context.forget_all()
        held = copy(session.run)
        held.owner = self._store.owner_id
        self._to_release.append(held)

    # -- releasing --------------------------------------------------------------------------------------------

    def release_idle(self) -> None:
        """Release runs that did not change for a while, and the oldest if there are many."""
        self._release_pending()
        now = time.monotonic()
        idle = [
            run
            for run, (_, changed) in self._sessions.items()
            if now - changed > (_EXPECTED_SECONDS if self._expects(run) else _IDLE_SECONDS)
        ]
        surplus = list(self._sessions)[: max(0, len(self._sessions) - _MOST_HELD)]
        for run in dict.fromkeys([*idle, *surplus]):
            self.release(run)

    def release_all(self) -> None:
        """Release every run."""
        self._release_pending()
        for run in list(self._sessions):
            self.release(run)

    def release(self, workflow_id: str) -> None:
        """Release a run, if it is held."""
        session, _ = self._sessions.pop(workflow_id, (None, 0.0))
        if session is not None:
            session.context.forget_all()
            self._to_release.append(session.run)
            self._release_pending()
            if self._store.get_marks(WorkflowId(workflow_id), limit=1):
                self.advance(workflow_id)

    def _release_pending(self) -> None:
        """Release runs that are ours without a session. When the store fails, the others are still to be released."""
        while self._to_release:
            self._store.release_run(self._to_release[-1])
            self._to_release.pop()


def _not_in_memory(session: Session, step_id: str) -> Iterator[StepId]:
    """A step and those above it, up to the first that is in memory."""
    above = StepId(step_id)
    while above and session.context.cached(above) is None:
        yield above
        above = paths.parent(above)
