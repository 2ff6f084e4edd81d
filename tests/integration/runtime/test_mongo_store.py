"""What is particular to the MongoDB store: its documents, indexes, addresses and errors."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from threading import Barrier, Thread
from typing import Any

import pytest
from pymongo import MongoClient

from afl.config import MongoDBConfig
from afl.devstack.binaries import MONGOD
from afl.kernel.errors import InputError, PayloadError, StoreConflict, StoreError, StoreUnavailable
from afl.runtime.changes import IterationChanges
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.mongo.indexes import INDEXES
from afl.runtime.mongo_store import MongoStore
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

Database = Any
RUN = WorkflowId("run")


@pytest.fixture
def store(mongo_database_url: str) -> Iterator[MongoStore]:
    opened = MongoStore(mongo_database_url)
    yield opened
    opened.close()


@pytest.fixture
def database(mongo_database_url: str) -> Iterator[Database]:
    """The same database as an agent of another language sees it."""
    with MongoClient[dict[str, Any]](mongo_database_url) as client:
        yield client.get_default_database()


def a_step(step_id: str = "s") -> StepDefinition:
    return StepDefinition(StepId(step_id), "VariableAssignment", RUN, state=StepState.EVENT_TRANSMIT)


def a_task(uuid: str, **fields: Any) -> TaskDefinition:
    return TaskDefinition(uuid, "ns.F", "r", RUN, "f", fields.pop("step_id", ""), **fields)


# -- documents ------------------------------------------------------------------------------------------------


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


def test_a_document_over_the_limit_is_refused(store: MongoStore) -> None:
    step = a_step()
    step.set_attribute("n", "x" * (8 * 1024 * 1024 - 100))
    store.save_step(step)
    step.set_attribute("o", "x" * (8 * 1024 * 1024 - 100), is_return=True)
    with pytest.raises(PayloadError, match="MongoDB"):
        store.save_step(step)
    with pytest.raises(PayloadError, match="MongoDB"):
        store.commit(IterationChanges(updated_steps=[step]))
    found = store.get_step(StepId("s"))
    assert found is not None
    assert found.attributes.returns == {}


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


def test_indexes_are_made_only_on_request(mongo_database_url: str, database: Database) -> None:
    store = MongoStore(mongo_database_url, create_indexes=False)
    store.save_task(a_task("t"))
    assert set(database.tasks.index_information()) == {"_id_"}
    store.close()


def test_an_index_of_another_kind_under_our_name_is_reported(
    mongo_database_url: str, database: Database
) -> None:
    database.tasks.create_index("name", name="task_uuid_index")
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


# -- addresses ------------------------------------------------------------------------------------------------


def test_a_database_named_in_the_address_counts(store: MongoStore, database: Database) -> None:
    store.save_task(a_task("t"))
    assert database.tasks.count_documents({}) == 1


def test_a_database_name_that_is_given_counts_more(mongo_database_url: str, database: Database) -> None:
    name = f"{database.name}_b"
    store = MongoStore(mongo_database_url, name)
    try:
        store.save_task(a_task("t"))
        assert database.client[name].tasks.count_documents({}) == 1
        assert database.tasks.count_documents({}) == 0
    finally:
        store.drop_database()
        store.close()
    assert name not in database.client.list_database_names()


def test_a_configuration_names_server_and_database(mongo_url: str, database: Database) -> None:
    store = MongoStore.from_config(MongoDBConfig(url=mongo_url, database=database.name), create_indexes=False)
    store.save_task(a_task("t"))
    assert database.tasks.count_documents({}) == 1
    assert set(database.tasks.index_information()) == {"_id_"}
    store.close()


def test_a_client_that_is_passed_in_stays_open(database: Database) -> None:
    store = MongoStore(database_name=database.name, client=database.client)
    store.save_task(a_task("t"))
    store.close()
    assert database.tasks.count_documents({}) == 1


def test_a_server_that_does_not_answer_is_named_without_the_password() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # bound and not listening: connections are refused
        port = taken.getsockname()[1]
        with pytest.raises(StoreUnavailable) as caught:
            MongoStore(f"mongodb://me:secret@127.0.0.1:{port}/?serverSelectionTimeoutMS=200")
    assert f"127.0.0.1:{port}" in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize(
    "address",
    [
        "mongodb://me:sec@ret@host",
        "mongodb://",
        "http://me:secret@host",
        "mongodb://me:secret@host:port",
    ],
)
def test_an_address_that_cannot_be_read_is_refused_without_the_password(address: str) -> None:
    with pytest.raises(InputError, match="mongodb://user") as caught:
        MongoStore(address)
    assert "sec" not in str(caught.value).replace("secret", "")
    assert "me:secret" not in str(caught.value)


@pytest.fixture
def lone_server(tmp_path: Path) -> Iterator[str]:
    """A mongod that is no replica set."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = ["--dbpath", str(tmp_path), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
    small = ["--wiredTigerCacheSizeGB", "0.25", "--quiet"]
    with subprocess.Popen([str(MONGOD.find()), *where, *small], stdout=subprocess.DEVNULL) as server:
        with MongoClient[dict[str, Any]](f"mongodb://127.0.0.1:{port}/") as client:
            client.admin.command("ping")  # waits for the server
        yield f"mongodb://127.0.0.1:{port}/"
        server.kill()


def test_a_server_that_is_no_replica_set_is_refused_with_what_to_do(lone_server: str) -> None:
    with pytest.raises(StoreError, match="--replSet"):
        MongoStore(lone_server)


# -- errors and processes -------------------------------------------------------------------------------------


def test_a_duplicate_names_the_key(store: MongoStore) -> None:
    store.save_task(a_task("t1", step_id="busy", state=TaskState.RUNNING))
    with pytest.raises(StoreConflict, match="busy"):
        store.save_task(a_task("t2", step_id="busy", state=TaskState.RUNNING))


def test_a_closed_store_says_so(store: MongoStore) -> None:
    store.close()
    with pytest.raises(StoreError):
        store.get_run(RUN)


def test_each_store_object_is_an_owner_of_its_own(store: MongoStore, mongo_database_url: str) -> None:
    other = MongoStore(mongo_database_url)
    assert store.owner_id != other.owner_id
    assert not MongoStore.proves_death
    other.close()


def test_tasks_of_a_runner_and_their_state(store: MongoStore) -> None:
    store.save_task(a_task("t"))
    assert [task.uuid for task in store.get_tasks_by_runner("r")] == ["t"]
    assert store.update_task_state("t", TaskState.CANCELED)
    assert not store.update_task_state("missing", TaskState.CANCELED)
    assert [task.state for task in store.get_tasks_by_runner("r")] == [TaskState.CANCELED]


_FORK = """
import os, sys
from afl.runtime.mongo_store import MongoStore
store = MongoStore(sys.argv[1])
before = store.owner_id
read, write = os.pipe()
child = os.fork()
if child == 0:
    assert store.acquire_lock("child", 600_000)
    os.write(write, store.owner_id.encode())
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
there = os.read(read, 1000).decode()
assert there and there != before == store.owner_id, (there, before)
assert store.check_lock("child") is not None
store.close()
"""


def test_a_forked_child_is_somebody_else(mongo_database_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", _FORK, mongo_database_url], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")


_WITHOUT_DRIVER = """
import sys
sys.modules["pymongo"] = None
try:
    from afl.runtime.mongo_store import MongoStore
except ImportError as error:
    print(type(error).__name__, error)
"""


def test_without_the_driver_the_error_says_what_to_install() -> None:
    done = subprocess.run([sys.executable, "-c", _WITHOUT_DRIVER], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("MissingExtraError pymongo is required for MongoStore. ")
    assert "agentflow[mongo]" in done.stdout
