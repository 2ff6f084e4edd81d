"""Documents and indexes of the MongoDB store, as agents of other languages see them."""

from __future__ import annotations

from threading import Barrier, Thread
from typing import Any

import pytest
from pymongo.errors import BulkWriteError, OperationFailure

from afl.kernel.errors import PayloadError, StoreError
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.mongo_store import MongoStore
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.stores.mongo.collections import INDEXES
from afl.runtime.types import StepId, WorkflowId

Database = Any
RUN = WorkflowId("run")


def a_step(step_id: str = "s") -> StepDefinition:
    return StepDefinition(StepId(step_id), "VariableAssignment", RUN, state=StepState.EVENT_TRANSMIT)


def a_task(uuid: str, **fields: Any) -> TaskDefinition:
    return TaskDefinition(uuid, "ns.F", "r", RUN, "f", fields.pop("step_id", ""), **fields)


def test_a_step_is_a_document_that_other_languages_can_read(store: MongoStore, database: Database) -> None:
    step = a_step()
    step.set_attribute("n", 3)
    step.set_attribute("names", ["a", {"b": None}], is_return=True)
    step.mark_error(StepFailure("no", "AgentError", line=4))
    store.save_step(step)
    found = database.steps.find_one({"uuid": "s"})
    assert found["attributes"] == {
        "params": {"n": {"name": "n", "value": 3, "type_hint": "Long"}},
        "returns": {"names": {"name": "names", "value": ["a", {"b": None}], "type_hint": "List"}},
    }
    assert found["version"] == {
        "workflow_version": "1.0",
        "step_schema_version": "1.0",
        "runtime_version": "0.1.0",
    }
    assert (found["workflow_id"], found["object_type"], found["state"]) == (
        "run",
        "VariableAssignment",
        StepState.STATEMENT_ERROR,
    )
    assert (found["facet_name"], found["is_block"], found["error"]) == (None, False, "no")


def test_what_bson_cannot_hold_is_json_text_and_says_so(store: MongoStore, database: Database) -> None:
    step = a_step()
    step.set_attribute("odd", {"a.b": 1})
    step.set_attribute("big", 2**64)
    step.set_attribute("dotted.name", 1)
    store.save_step(step)
    params = database.steps.find_one({"uuid": "s"})["attributes"]["params"]
    assert params["odd"] == {"name": "odd", "value": '{"a.b":1}', "type_hint": "Map", "encoding": "json"}
    assert params["big"]["value"] == "18446744073709551616"
    assert params["dotted%2Ename"] == {"name": "dotted.name", "value": 1, "type_hint": "Long"}
    store.save_task(a_task("plain", data={"n": 1}))
    store.save_task(a_task("odd", data={"": 1}))
    assert database.tasks.find_one({"uuid": "plain"})["data"] == {"n": 1}
    assert database.tasks.find_one({"uuid": "odd"})["data"] == '{"":1}'


def test_returns_that_another_language_writes_are_read(store: MongoStore, database: Database) -> None:
    store.save_step(a_step())
    returned = {"attributes.returns.o": {"name": "o", "value": 7, "type_hint": "Long"}}
    database.steps.update_one({"uuid": "s"}, {"$set": returned})
    found = store.get_step(StepId("s"))
    assert found is not None
    assert found.attributes.get_return("o") == 7
    assert type(found.attributes.get_return("o")) is int


def test_documents_with_nothing_but_the_old_fields_are_served(store: MongoStore, database: Database) -> None:
    database.tasks.insert_one(
        {
            "uuid": "t",
            "name": "afl:resume",
            "runner_id": "",
            "workflow_id": RUN,
            "flow_id": "",
            "step_id": "s",
            "state": "pending",
            "created": 1,
            "updated": 1,
            "error": None,
            "task_list_name": "default",
            "data_type": "resume",
            "data": {"step_id": "s"},
        }
    )
    claimed = store.claim_task(["afl:resume"])
    assert claimed is not None
    assert (claimed.uuid, claimed.epoch, claimed.deliveries) == ("t", 1, 1)
    database.steps.insert_one(
        {
            "uuid": "s",
            "workflow_id": RUN,
            "object_type": "Workflow",
            "state": StepState.STATEMENT_ERROR,
            "error": "no",
        }
    )
    step = store.get_step(StepId("s"))
    assert step is not None
    assert str(step.transition.error) == "no"
    root = store.get_workflow_root(RUN)
    assert root is not None
    assert root.id == step.id


def test_what_others_wrote_without_saying_when_it_ended_is_not_taken_for_old(
    store: MongoStore, database: Database
) -> None:
    lines = [{"uuid": "l1", "runner_id": ""}, {"uuid": "l2", "runner_id": "", "time": None}]
    database.logs.insert_many([*lines, {"uuid": "l3", "runner_id": "", "time": 1}])
    old = {"step_id": "", "updated": 1}
    tasks = [{"uuid": "t1", **old}, {"uuid": "t2", **old, "state": "waiting"}, {"uuid": "t3", "step_id": ""}]
    database.tasks.insert_many([*tasks, {"uuid": "t4", **old, "state": "completed"}])
    assert (store.delete_logs(100, 10), store.count_old_tasks(100), store.delete_tasks(100, 10)) == (1, 1, 1)
    assert database.logs.distinct("uuid") == ["l1", "l2"]
    assert database.tasks.distinct("uuid") == ["t1", "t2", "t3"]


def test_a_document_over_the_limit_is_refused(store: MongoStore) -> None:
    step = a_step()
    step.set_attribute("n", "x" * (8 * 1024 * 1024 - 100))
    store.save_step(step)
    step.set_attribute("o", "x" * (8 * 1024 * 1024 - 100), is_return=True)
    with pytest.raises(PayloadError, match="MongoDB"):
        store.save_step(step)
    with pytest.raises(
        PayloadError, match=r"the document s is over MongoDB's limit of 16 MiB: .*; keep large values"
    ):
        store.commit(IterationChanges(updated_steps=[step]))
    found = store.get_step(StepId("s"))
    assert found is not None
    assert found.attributes.returns == {}


@pytest.mark.parametrize(
    "error",
    [
        OperationFailure("Total size of all transaction operations must be less than 16793600", 257),
        BulkWriteError(
            {"writeErrors": [{"code": 388, "errmsg": "will not fit in the storage engine cache"}]}
        ),
    ],
    ids=["log", "cache"],
)
def test_more_than_a_transaction_holds_is_refused_and_not_tried_again(
    store: MongoStore, error: OperationFailure
) -> None:
    """As a StoreError it was tried again forever."""

    def too_much(_: Database) -> None:
        raise error

    with pytest.raises(
        PayloadError, match=r"too large for a transaction of MongoDB: .*; keep large values elsewhere"
    ):
        store.connection.transaction(too_much)


def test_a_commit_may_be_larger_than_a_document(store: MongoStore) -> None:
    changes = IterationChanges()
    for number in range(24):
        step = a_step(f"s{number}")
        step.set_attribute("n", "x" * 1024 * 1024)
        changes.add_created_step(step)
    store.commit(changes)
    assert len(store.get_steps_by_workflow(RUN)) == 24


# -- indexes --------------------------------------------------------------------------------------------------


def test_the_indexes_are_there_by_name(store: MongoStore, database: Database) -> None:
    for name, indexes in INDEXES.items():
        wanted = {index.document["name"] for index in indexes}
        assert wanted | {"_id_"} == set(database[name].index_information())
    running = database.tasks.index_information()["task_step_id_running_unique_index"]
    assert running["unique"]
    assert running["partialFilterExpression"]["state"] == TaskState.RUNNING


def test_indexes_are_made_only_on_request(mongo_database_url: str, new_database: Database) -> None:
    store = MongoStore(mongo_database_url, create_indexes=False)
    store.save_task(a_task("t"))
    assert set(new_database.tasks.index_information()) == {"_id_"}
    store.close()


def test_an_index_of_another_kind_under_our_name_is_reported(
    mongo_database_url: str, new_database: Database
) -> None:
    new_database.tasks.create_index("name", name="task_uuid_index")
    with pytest.raises(StoreError, match=r"drop it.*task_uuid_index"):
        MongoStore(mongo_database_url)


def test_several_open_a_new_database_at_once(mongo_database_url: str) -> None:
    together = Barrier(4)
    problems: list[BaseException] = []

    def open_it() -> None:
        together.wait()
        try:
            store = MongoStore(mongo_database_url)
            store.save_task(a_task("t"))
            store.close()
        except BaseException as error:
            problems.append(error)

    threads = [Thread(target=open_it) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []


def test_a_resume_document_that_names_its_step_waits_for_no_other_task(
    store: MongoStore, database: Database
) -> None:
    store.save_task(a_task("own", step_id="s"))
    database.tasks.insert_one(
        {
            "uuid": "resume",
            "name": "afl:resume",
            "runner_id": "",
            "workflow_id": RUN,
            "flow_id": "",
            "step_id": "s",
            "state": "pending",
            "task_list_name": "default",
            "data_type": "resume",
            "data": None,
        }
    )
    store.reclaim()
    (task,) = store.claim_tasks(["afl:resume"], limit=5)
    assert (task.step_id, task.data) == ("", {"step_id": "s", "workflow_id": RUN})
