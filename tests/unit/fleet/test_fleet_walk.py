"""The way of a run through its DAG, with real processes."""

from __future__ import annotations

import asyncio
from typing import cast

import msgspec
import pytest
from support.fleet_records import ListSpool, Report, command, fetched, run, shell, workflow

from afl.fleet import task_attempt, task_manager
from afl.fleet.messages import Record, RunRecord, Status, TaskRecord
from afl.fleet.spool import Spool
from afl.fleet.task_attempt import TaskResources
from afl.fleet.task_manager import TaskManager
from afl.fleet.workflow import Retries, Workflow


def finals(report: Report, flow: Workflow) -> dict[str, Status]:
    """The final status of each task; there is exactly one."""
    ends = {}
    for name in flow.tasks:
        last_attempt = report.last(name).attempt
        final = [
            record
            for record in report.task(name)
            if record.status.is_final and record.attempt == last_attempt
        ]
        assert len(final) == 1, name
        ends[name] = final[0].status
    return ends


def test_a_run_is_pending_then_running_then_completed() -> None:
    report = run(workflow(only=command("true")))
    assert report.run_statuses == [Status.PENDING, Status.RUNNING, Status.COMPLETED]
    assert [record.status for record in report.task("only")] == [
        Status.PENDING,
        Status.RUNNING,
        Status.COMPLETED,
    ]
    assert report.last("only").exit_code == 0


def test_a_fan_in_runs_once_and_after_all_it_depends_on() -> None:
    flow = workflow(
        a=command("true"),
        b=shell("sleep 0.1"),
        c=command("true"),
        merge=command("true", depends=("a", "b", "c")),
    )
    report = run(flow)
    assert [record.status for record in report.task("merge")] == [
        Status.PENDING,
        Status.RUNNING,
        Status.COMPLETED,
    ]
    begin = report.position("merge", Status.PENDING)
    assert all(report.position(name, Status.COMPLETED) < begin for name in "abc")


def test_a_diamond_ends_once() -> None:
    flow = workflow(
        top=command("true"),
        left=command("true", depends=("top",)),
        right=command("true", depends=("top",)),
        bottom=command("true", depends=("left", "right")),
    )
    report = run(flow)
    assert set(finals(report, flow).values()) == {Status.COMPLETED}
    assert report.run_statuses[-1] is Status.COMPLETED


def test_a_double_diamond_below_a_failure_is_skipped_and_nothing_else() -> None:
    flow = workflow(
        top=command("false"),
        left=command("true", depends=("top",)),
        right=command("true", depends=("top",)),
        middle=command("true", depends=("left", "right")),
        low_left=command("true", depends=("middle",)),
        low_right=command("true", depends=("middle", "free")),
        bottom=command("true", depends=("low_left", "low_right")),
        free=command("true"),
        after_free=command("true", depends=("free",)),
    )
    report = run(flow)
    ends = finals(report, flow)
    assert ends.pop("top") is Status.FAILED
    assert (ends.pop("free"), ends.pop("after_free")) == (Status.COMPLETED, Status.COMPLETED)
    assert set(ends.values()) == {Status.SKIPPED}
    assert report.run_statuses[-1] is Status.FAILED
    assert report.error == "top: exit code 1"


def test_a_task_that_may_fail_holds_nothing_up() -> None:
    flow = workflow(lint=command("false", allow_failure=True), build=command("true", depends=("lint",)))
    report = run(flow)
    assert finals(report, flow) == {"lint": Status.FAILED, "build": Status.COMPLETED}
    assert report.run_statuses[-1] is Status.COMPLETED


def test_the_reason_of_a_failed_run_does_not_name_a_task_that_may_fail() -> None:
    flow = workflow(
        lint=command("false", allow_failure=True),
        build=shell("exit 2", depends=("lint",)),
        test=shell("exit 3"),
    )
    report = run(flow)
    assert report.run_statuses[-1] is Status.FAILED
    assert sorted(report.error.split("; ")) == ["build: exit code 2", "test: exit code 3"]


def test_when_always_runs_after_a_failure() -> None:
    flow = workflow(work=command("false"), clean=command("true", depends=("work",), always=True))
    report = run(flow)
    assert finals(report, flow) == {"work": Status.FAILED, "clean": Status.COMPLETED}
    assert report.run_statuses[-1] is Status.FAILED


def test_a_retried_task_has_an_instance_per_attempt() -> None:
    flow = workflow(
        flaky=shell('[ "$AFL_TASK_ATTEMPT" = 3 ]', retries=Retries(attempts=3, backoff=0.001)),
        after=command("true", depends=("flaky",)),
    )
    report = run(flow)
    ends = [record for record in report.task("flaky") if record.status.is_final]
    assert [(end.attempt, end.status, end.exit_code) for end in ends] == [
        (1, Status.FAILED, 1),
        (2, Status.FAILED, 1),
        (3, Status.COMPLETED, 0),
    ]
    assert len({end.task_instance_id for end in ends}) == 3
    assert report.last("after").status is Status.COMPLETED


def test_attempts_that_are_used_up_fail_the_task() -> None:
    report = run(workflow(bad=command("false", retries=Retries(attempts=2, backoff=0))))
    assert [record.attempt for record in report.task("bad") if record.status is Status.FAILED] == [1, 2]
    assert report.run_statuses[-1] is Status.FAILED


def test_a_task_that_waits_for_its_next_attempt_holds_no_slot() -> None:
    flow = workflow(
        flaky=shell('[ "$AFL_TASK_ATTEMPT" = 2 ]', retries=Retries(attempts=2, backoff=0.2)),
        other=command("true"),
    )
    report = run(flow, limit=1)
    assert report.position("other", Status.COMPLETED) < report.position("flaky", Status.RUNNING, attempt=2)


def most_at_once(report: Report) -> int:
    running: set[str] = set()
    most = 0
    for record in report.records:
        if isinstance(record, TaskRecord):
            if record.status is Status.RUNNING:
                running.add(record.task_id)
            elif record.status.is_final:
                running.discard(record.task_id)
            most = max(most, len(running))
    return most


def test_the_agents_limit_bounds_the_tasks_of_a_run_and_so_does_the_workflows_own() -> None:
    tasks = {f"t{number}": shell("sleep 0.02") for number in range(9)}
    assert most_at_once(run(workflow(**tasks), limit=3)) == 3
    narrow = Workflow("narrow", "Narrow", tasks, max_parallel=2)
    assert most_at_once(run(narrow, limit=3)) == 2


def test_cancel_ends_what_runs_and_starts_nothing_more() -> None:
    flow = workflow(
        first=command("sleep", "60"),
        beside=command("sleep", "60"),
        next=command("true", depends=("first",)),
        always=command("true", depends=("first",), always=True),
    )

    def receive(record: Record, manager: TaskManager) -> None:
        if isinstance(record, TaskRecord) and record.task_id == "beside" and record.status is Status.RUNNING:
            asyncio.get_running_loop().call_soon(manager.stop, "run", Status.CANCELED, "no longer wanted")

    report = run(flow, receive=receive)
    assert finals(report, flow) == {
        "first": Status.CANCELED,
        "beside": Status.CANCELED,
        "next": Status.SKIPPED,
        "always": Status.SKIPPED,
    }
    assert report.run_statuses[-1] is Status.CANCELED
    assert report.error == "no longer wanted"


def test_cancel_ends_a_task_that_waits_for_its_next_attempt() -> None:
    flow = workflow(flaky=command("false", retries=Retries(attempts=5, backoff=60)))

    def receive(record: Record, manager: TaskManager) -> None:
        if isinstance(record, TaskRecord) and record.attempt == 2 and record.status is Status.PENDING:
            asyncio.get_running_loop().call_soon(manager.stop, "run", Status.CANCELED, "enough")

    report = run(flow, receive=receive)
    assert report.last("flaky").status is Status.CANCELED
    assert report.last("flaky").attempt == 2


def test_parameters_are_checked_before_anything_starts() -> None:
    report = run(workflow(only=command("true")), params={"unknown": 1})
    assert report.run_statuses == [Status.FAILED]
    assert "no parameter 'unknown'" in report.error


def test_a_run_that_is_given_again_ends_its_earlier_self_first() -> None:
    async def running() -> list[Record]:
        spool = ListSpool()
        manager = TaskManager(cast(Spool, spool), 2, TaskResources(grace=0.5))
        begun = asyncio.Event()
        spool.received.append(lambda record: begun.set() if record.seq == 4 else None)
        first = asyncio.create_task(manager.run(fetched(workflow(a=command("sleep", "600")))))
        await begun.wait()
        again = msgspec.structs.replace(fetched(workflow(a=command("true"))), epoch=2)
        assert await manager.run(again) is Status.COMPLETED
        assert await first is Status.CANCELED
        assert dict(manager.held) == {"run": 2}
        return spool.records

    runs = [record for record in asyncio.run(running()) if isinstance(record, RunRecord)]
    assert [(record.epoch, record.status) for record in runs] == [
        (1, Status.PENDING),
        (1, Status.RUNNING),
        (1, Status.CANCELED),
        (2, Status.PENDING),
        (2, Status.RUNNING),
        (2, Status.COMPLETED),
    ]


def test_a_run_that_is_given_again_twice_meanwhile_runs_once() -> None:
    async def running() -> list[Record]:
        spool = ListSpool()
        manager = TaskManager(cast(Spool, spool), 2, TaskResources(grace=0.5))
        begun = asyncio.Event()
        spool.received.append(lambda record: begun.set() if record.seq == 4 else None)
        first = asyncio.create_task(manager.run(fetched(workflow(a=command("sleep", "600")))))
        await begun.wait()
        again = fetched(workflow(a=command("true")))
        later = [manager.run(msgspec.structs.replace(again, epoch=epoch)) for epoch in (2, 3)]
        assert await asyncio.gather(first, *later) == [Status.CANCELED, Status.CANCELED, Status.COMPLETED]
        assert dict(manager.held) == {"run": 3}
        return spool.records

    runs = [record for record in asyncio.run(running()) if isinstance(record, RunRecord)]
    assert {record.epoch for record in runs} == {1, 3}


def test_a_defect_of_the_agent_ends_the_run(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def broken(*_: object) -> None:
        raise RuntimeError("a defect")

    monkeypatch.setattr(task_manager, "rendered", broken)
    report = run(workflow(a=command("true")))
    assert report.run_statuses[-1] is Status.FAILED
    assert "RuntimeError('a defect')" in report.error
    monkeypatch.undo()
    monkeypatch.setattr(task_attempt, "command_of", broken)
    report = run(workflow(a=command("true"), b=command("true", depends=("a",))))
    assert (report.last("a").status, report.last("b").status) == (Status.FAILED, Status.SKIPPED)
    assert "a defect" in caplog.text
