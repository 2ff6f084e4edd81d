"""Three runners, 500 tasks, fifty kill -9 of a runner with tasks in flight: nothing is lost, nothing is done twice."""

from __future__ import annotations

from collections import Counter, deque
from pathlib import Path
from random import Random

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmProcesses
from support.workshop import Workshop, opened

from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.persistence import TaskFilter
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.states import EventState, StepState
from afl.runtime.types import WorkflowId

RUNNERS = 3
KILLS = 51
RUNS = 10
TASKS_OF_A_RUN = 50
MAX_DELIVERIES = 20
SLOTS = 3


class Massacre:
    """Runners that are killed one after another, each with work in its hands, and replaced."""

    def __init__(self, workshop: Workshop, random: Random) -> None:
        self._workshop = workshop
        self._random = random
        self._left = KILLS
        self.runners = deque(self._started() for _ in range(RUNNERS))
        self.hits: Counter[str] = Counter()  # how often a task was held in the hands of one that was killed
        self.dead: set[str] = set()
        self.kills = 0

    def _started(self) -> Warm:
        """The next runner: one that holds its handlers after some calls, as long as there are kills to come."""
        hold = self._random.randint(1, 6) if self._left > 0 else 0
        self._left -= 1
        settings = {"AFL_MAX_DELIVERIES": str(MAX_DELIVERIES), "HOLD_FROM": str(hold)}
        return self._workshop.runner("--concurrency", str(SLOTS), **settings)

    def kill_next(self) -> None:
        """Kill the oldest runner, once a handler of it is held, and put another in its place."""
        victim = self.runners.popleft()
        self._workshop.wait_held(victim)
        held = self._workshop.held_by(victim)  # first: more may come, but none of these can go
        in_flight = {task.uuid: task for task in self._workshop.in_hand_of(victim)}
        assert held and in_flight.keys() >= set(held), f"kill {self.kills} would hit nothing"
        victim.kill()
        self.kills += 1
        self.hits.update(held)
        self.dead.update(task.owner for task in in_flight.values())
        self.runners.append(self._started())

    def wait_taken_over(self) -> None:
        """Until the living have taken up everything that the dead had."""
        store = self._workshop.store

        def left() -> bool:
            running = store.find_tasks(TaskFilter(state=TaskState.RUNNING, limit=10_000))
            return any(task.owner in self.dead for task in running)

        eventually(lambda: not left(), lambda: store.find_tasks(TaskFilter(state=TaskState.RUNNING)))


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_every_run_completes_however_often_runners_are_killed(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest, warm: WarmProcesses
) -> None:
    url = (
        request.getfixturevalue("postgres_database")
        if kind == "postgres"
        else f"sqlite:///{tmp_path / 'afl.db'}"
    )
    with opened(tmp_path, url, warm) as workshop:
        runs = {
            workshop.submit("t.Fan", list=numbers): numbers
            for first in range(RUNS)
            if (numbers := [first * 1000 + n for n in range(TASKS_OF_A_RUN)])
        }
        massacre = Massacre(workshop, Random(7))
        while massacre.kills < KILLS:
            massacre.kill_next()
            if massacre.kills % 10 == 0:
                massacre.wait_taken_over()
        for run, numbers in runs.items():
            outputs = workshop.wait_completed(run)
            assert outputs["all"] == [n * 2 for n in numbers]
        assert [runner.terminate() for runner in massacre.runners] == [0] * RUNNERS
        assert massacre.kills == KILLS >= 50
        number = Counter(call.task for call in workshop.calls())
        returns = {call.stamp for call in workshop.returns()}
        for run in runs:
            check_record(workshop, run, massacre.hits, number, returns)


def check_record(
    workshop: Workshop, run: WorkflowId, hits: Counter[str], number: Counter[str], returns: set[str]
) -> None:
    """Each step has one task with one result, which is that of one of its calls; the deaths it saw are counted."""
    store, record = workshop.store, workshop.run(run)
    assert (record.state, record.owner) == (RunnerState.COMPLETED, "")
    tasks = workshop.tasks(run)
    assert len(tasks) == len({task.step_id for task in tasks}) == TASKS_OF_A_RUN
    assert Counter(task.state for task in tasks) == {TaskState.COMPLETED: TASKS_OF_A_RUN}
    assert (store.get_open_steps(run), store.get_marks(run)) == ([], [])
    events = [event for event in store.get_events_by_workflow(run) if event.event_type != STEP_CONTINUE]
    assert Counter(event.state for event in events) == {EventState.COMPLETED: TASKS_OF_A_RUN}
    steps = {str(step.id): step for step in store.get_steps_by_workflow(run)}
    for task in tasks:
        assert task.result is not None
        stamp = task.result["stamp"]
        assert stamp in returns and stamp.startswith(f"{task.uuid} ")
        step = steps[task.step_id]
        assert step.state == StepState.STATEMENT_COMPLETE
        assert step.attributes.returns["stamp"].value == stamp
        assert hits[task.uuid] <= task.deaths <= task.deliveries - 1
        assert task.deaths < MAX_DELIVERIES
        assert 1 + hits[task.uuid] <= number[task.uuid] <= task.deliveries
    assert record.outputs["stamps"] == [task.result["stamp"] for task in by_number(tasks) if task.result]


def by_number(tasks: list[TaskDefinition]) -> list[TaskDefinition]:
    return sorted(tasks, key=lambda task: int((task.data or {})["n"]))
