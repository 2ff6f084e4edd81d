"""Steps: what goes in comes out, as a copy, oldest first."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import RUN, a_mark, a_step, a_step_with, a_task, a_waiting_step, begin, stored_step

from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.events import step_continue
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.states import StepState
from afl.runtime.step import BlockProgress, StepDefinition
from afl.runtime.types import BlockId, ObjectType, StatementId, StepId, VersionInfo, WorkflowId


def ids(steps: list[StepDefinition]) -> list[str]:
    return [step.id for step in steps]


def test_a_plain_step_comes_back(store: PersistenceAPI) -> None:
    assert stored_step(store, a_step()) == a_step()


def test_every_field_of_a_step_comes_back(store: PersistenceAPI) -> None:
    step = a_step(
        state=StepState.STATEMENT_BLOCKS_CONTINUE,
        object_type=ObjectType.AND_THEN,
        statement_id=StatementId("statement"),
        container_type=ObjectType.WORKFLOW,
        container_id=StepId("container"),
        block_id=BlockId("block"),
        root_id=StepId("root"),
        facet_name="ns.Fäcet",
        version=VersionInfo("2.0", "3.0", "4.0"),
        timestamp=1234,
        progress=BlockProgress(9, 8, 7, 6, 5),
        started=11,
        ended=22,
    )
    step.attributes.set_param("n", 1, "Int")
    step.attributes.set_param("nothing", None)
    step.attributes.set_param("typed nothing", None, "String")
    step.attributes.set_return("out", [1], "[Long]")
    assert stored_step(store, step) == step


def test_a_request_to_go_on_comes_back(store: PersistenceAPI) -> None:
    """It decides whether a step that waits may go on, so it must survive the process that made it."""
    step = a_step(state=StepState.EVENT_TRANSMIT)
    step.request_state_change(True)
    assert stored_step(store, step).is_requesting_state_change
    step.request_state_change(False)
    assert not stored_step(store, step).is_requesting_state_change


@pytest.mark.parametrize(
    "failure",
    [
        StepFailure("no such file"),
        StepFailure("bäd\x00 text", "ValueError", "a.b", "ns.F", 3, 4, "file.afl"),
    ],
)
def test_a_failure_comes_back_with_its_place(store: PersistenceAPI, failure: StepFailure) -> None:
    step = a_step()
    step.mark_error(failure)
    found = stored_step(store, step)
    assert found.is_error
    error = found.transition.error
    assert isinstance(error, StepFailure)
    assert error.to_dict() == failure.to_dict()


def test_another_error_comes_back_as_a_failure_of_that_name(store: PersistenceAPI) -> None:
    step = a_step()
    step.mark_error(KeyError("missing"))
    error = stored_step(store, step).transition.error
    assert isinstance(error, StepFailure)
    assert (error.message, error.error_type) == ("'missing'", "KeyError")


def test_copies_go_in_and_copies_come_out(store: PersistenceAPI) -> None:
    step = a_step_with({"list": [1]})
    store.save_step(step)
    step.attributes.params["v"].value["list"].append(2)
    step.change_state(StepState.STATEMENT_END)
    first = store.get_step(step.id)
    assert first is not None
    first.attributes.params["v"].value["list"].append(3)
    first.set_attribute("other", 1)
    second = store.get_step(step.id)
    assert second is not None
    assert second.state == StepState.CREATED
    assert {name: each.value for name, each in second.attributes.params.items()} == {"v": {"list": [1]}}


def test_saving_again_replaces_every_field(store: PersistenceAPI) -> None:
    old = a_step_with(1)
    old.progress, old.timestamp = BlockProgress(1), 5
    old.mark_error(StepFailure("gone"))
    store.save_step(old)
    new = a_step(
        "s",
        "run-2",
        StepState.STATEMENT_END,
        object_type=ObjectType.BLOCK,
        block_id=BlockId("b"),
        facet_name="G",
    )
    assert stored_step(store, new) == new
    assert store.get_steps_by_workflow(RUN) == []


def test_a_step_that_is_not_there(store: PersistenceAPI) -> None:
    missing = StepId("missing")
    assert store.get_step(missing) is None
    assert store.get_steps([missing]) == []
    assert store.get_workflow_root(RUN) is None
    assert store.get_steps_by_block(missing) == []


def test_several_steps_at_once(store: PersistenceAPI) -> None:
    for number in range(5):
        store.save_step(a_step(f"s{number}"))
    found = store.get_steps([StepId("s3"), StepId("missing"), StepId("s0")])
    assert sorted(ids(found)) == ["s0", "s3"]
    assert store.get_steps([]) == []
    many = [StepId(f"s{number}") for number in range(5000)]
    assert sorted(ids(store.get_steps(many))) == ["s0", "s1", "s2", "s3", "s4"]


def test_open_steps_are_those_that_are_not_over(store: PersistenceAPI) -> None:
    for number, state in enumerate(
        [
            StepState.CREATED,
            StepState.STATEMENT_COMPLETE,
            StepState.EVENT_TRANSMIT,
            StepState.STATEMENT_ERROR,
            StepState.STATEMENT_END,
        ]
    ):
        store.save_step(a_step(f"s{number}", state=state))
    store.save_step(a_step("other", "run-2"))
    assert sorted(ids(store.get_open_steps(RUN))) == ["s0", "s2", "s4"]


def test_steps_are_found_by_where_they_stand(store: PersistenceAPI) -> None:
    root = a_step("root", object_type=ObjectType.WORKFLOW, state=StepState.STATEMENT_BLOCKS_CONTINUE)
    block = a_step(
        "block", object_type=ObjectType.AND_THEN, container_id=StepId("root"), root_id=StepId("root")
    )
    statement = a_step(
        "statement",
        container_id=StepId("root"),
        root_id=StepId("root"),
        block_id=BlockId("block"),
        statement_id=StatementId("a"),
    )
    loose = a_step("loose", "run-2", statement_id=StatementId("b"), container_id=StepId("elsewhere"))
    for step in (root, block, statement, loose):
        store.save_step(step)
    assert store.get_workflow_root(RUN) == root
    assert store.get_workflow_root(WorkflowId("run-2")) is None
    assert store.get_steps_by_block(BlockId("block")) == [statement]
    assert sorted(ids(store.get_steps_by_container(StepId("root")))) == ["block", "statement"]
    assert store.get_blocks_by_step(StepId("root")) == [block]
    assert store.get_steps_by_state(StepState.STATEMENT_BLOCKS_CONTINUE) == [root]
    assert sorted(ids(store.get_steps_by_state(StepState.CREATED))) == ["block", "loose", "statement"]
    assert store.step_exists("a", BlockId("block"))
    assert not store.step_exists("a", None)
    assert not store.step_exists("b", BlockId("block"))
    assert store.step_exists("b", None)


def test_lists_come_oldest_first(store: PersistenceAPI) -> None:
    """By when a step started; steps of one millisecond by id. Saving a step again does not move it."""
    names = [f"s{(7 * number) % 10}" for number in range(10)]
    place: dict[str, Any] = {"block_id": BlockId("b"), "container_id": StepId("c"), "root_id": StepId("r")}
    for started, name in enumerate(names):
        store.save_step(a_step(name, started=started // 2, **place))
    for started, name in enumerate(names[:4]):
        store.save_step(a_step(name, facet_name="again", started=started // 2, **place))
    expected = [name for first in range(0, 10, 2) for name in sorted(names[first : first + 2])]
    assert ids(store.get_steps_by_workflow(RUN)) == expected
    assert ids(store.get_steps_by_block(BlockId("b"))) == expected
    assert ids(store.get_steps_by_container(StepId("c"))) == expected
    assert ids(store.get_steps_by_state(StepState.CREATED)) == expected
    assert ids(store.get_open_steps(RUN)) == expected


def test_lost_steps_are_those_that_nobody_will_continue(store: PersistenceAPI) -> None:
    """Their task is gone or over without a result: without a sweep their run would wait forever."""
    begin(store, owner="", settled=True)
    for state in (TaskState.PENDING, TaskState.RUNNING, TaskState.CANCELED, TaskState.COMPLETED):
        store.save_step(a_waiting_step(state))
        store.save_task(a_task(f"task-{state}", step_id=state, state=state))
    for step_id in ("told", "by-hand", "taskless"):
        store.save_step(a_waiting_step(step_id))
    store.save_event(step_continue(StepId("told"), RUN))
    store.save_event(a_mark("a-mark-by-hand", step_id="by-hand"))
    store.save_step(a_step("elsewhere", state=StepState.STATEMENT_BLOCKS_CONTINUE))
    lost = [TaskState.CANCELED, TaskState.COMPLETED, "taskless"]
    assert sorted(ids(store.get_lost_steps())) == sorted(lost)
    assert len(store.get_lost_steps(limit=2)) == 2
    assert store.get_lost_steps(limit=0) == []


@pytest.mark.parametrize(
    "fields",
    [
        {"owner": "somebody"},
        {"owner": "", "state": RunnerState.PAUSED},
        {"owner": "", "state": RunnerState.CANCELED},
        {"owner": "", "state": RunnerState.COMPLETED},
    ],
    ids=lambda fields: "-".join(fields.values()),
)
def test_steps_of_a_run_that_is_held_or_stands_still_are_not_lost(
    store: PersistenceAPI, fields: dict[str, Any]
) -> None:
    begin(store, **fields)
    store.save_step(a_waiting_step())
    store.save_step(a_waiting_step("of-no-run", "missing"))
    assert store.get_lost_steps() == []
