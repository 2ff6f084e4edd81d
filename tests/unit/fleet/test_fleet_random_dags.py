"""Random DAGs of real processes against a simple model."""

from __future__ import annotations

import random

import pytest
from support.fleet_records import Report, run
from support.properties import EXPLORING

from afl.fleet.messages import Status, TaskRecord
from afl.fleet.workflow import Retries, Subprocess, Task, Workflow

GROUPS = 10
DAGS = 1_000 if EXPLORING else 400


def random_workflow(chance: random.Random) -> Workflow:
    """Up to eight tasks; each succeeds at a random attempt, which it may or may not live to see."""
    tasks: dict[str, Task] = {}
    for number in range(chance.randint(1, 8)):
        known = list(tasks)
        depends = tuple(chance.sample(known, chance.randint(0, min(3, len(known)))))
        attempts, needed = chance.choice((1, 1, 2)), chance.choice((1, 1, 1, 2, 9))
        simple = "true" if needed == 1 else "false" if needed == 9 else ""
        config = (
            Subprocess(simple) if simple else Subprocess("sh", ("-c", f"[ $AFL_TASK_ATTEMPT -ge {needed} ]"))
        )
        tasks[f"t{number}"] = Task(
            f"{needed}",
            config,
            depends=depends,
            retries=Retries(attempts=attempts, backoff=0),
            allow_failure=chance.random() < 0.2,
            always=bool(depends) and chance.random() < 0.2,
        )
    names = list(tasks)
    chance.shuffle(names)
    return Workflow("random", "Random", {name: tasks[name] for name in names})


def expected(flow: Workflow) -> dict[str, Status]:
    """What becomes of every task, by the rules alone."""
    ends: dict[str, Status] = {}
    for name in flow.dag.order:
        task = flow.tasks[name]
        passed = all(
            ends[other] is Status.COMPLETED
            or (ends[other] is Status.FAILED and flow.tasks[other].allow_failure)
            for other in task.depends
        )
        if not passed and not task.always:
            ends[name] = Status.SKIPPED
        else:
            ends[name] = Status.COMPLETED if int(task.name) <= task.retries.attempts else Status.FAILED
    return ends


def check(flow: Workflow, report: Report, limit: int) -> None:
    ended: dict[str, Status] = {}
    running: set[str] = set()
    for record in report.records:
        if not isinstance(record, TaskRecord):
            continue
        name, task = record.task_id, flow.tasks[record.task_id]
        assert name not in ended, f"{name} goes on after its end"
        if record.status is Status.RUNNING:
            assert all(other in ended for other in task.depends), (
                f"{name} started before its dependencies ended"
            )
            running.add(name)
            assert len(running) <= limit
        elif record.status.is_final:
            running.discard(name)
            if record.status is not Status.FAILED or record.attempt == task.retries.attempts:
                ended[name] = record.status
    assert ended == expected(flow)
    bad = any(
        end is Status.SKIPPED or (end is Status.FAILED and not flow.tasks[name].allow_failure)
        for name, end in ended.items()
    )
    assert report.run_statuses[-1] is (Status.FAILED if bad else Status.COMPLETED)


@pytest.mark.parametrize("group", range(GROUPS))
def test_every_task_ends_once_and_starts_after_its_dependencies(group: int) -> None:
    for number in range(DAGS // GROUPS):
        chance = random.Random(f"{group}/{number}")
        flow = random_workflow(chance)
        limit = chance.randint(1, 4)
        check(flow, run(flow, limit=limit), limit)
