"""What is particular to the MongoDB store: its addresses, errors and processes."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from pymongo import MongoClient
from support.eventually import eventually

from afl.config import MongoDBConfig
from afl.devstack.binaries import MONGOD
from afl.kernel.errors import InputError, StoreConflict, StoreError, StoreUnavailable
from afl.runtime.entities import ServerState, TaskDefinition, TaskState
from afl.runtime.mongo_store import MongoStore
from afl.runtime.states import StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

Database = Any
RUN = WorkflowId("run")


def a_step(step_id: str = "s") -> StepDefinition:
    return StepDefinition(StepId(step_id), "VariableAssignment", RUN, state=StepState.EVENT_TRANSMIT)


def a_task(uuid: str, **fields: Any) -> TaskDefinition:
    return TaskDefinition(uuid, "ns.F", "r", RUN, "f", fields.pop("step_id", ""), **fields)


def test_a_database_named_in_the_address_counts(store: MongoStore, database: Database) -> None:
    store.save_task(a_task("t"))
    assert database.tasks.count_documents({}) == 1


def test_a_database_name_that_is_given_counts_more(empty_mongo_url: str, database: Database) -> None:
    name = f"{database.name}_b"
    store = MongoStore(empty_mongo_url, name)
    try:
        store.save_task(a_task("t"))
        assert database.client[name].tasks.count_documents({}) == 1
        assert database.tasks.count_documents({}) == 0
    finally:
        store.drop_database()
        store.close()
    assert name not in database.client.list_database_names()


def test_a_configuration_names_server_and_database(mongo_url: str, new_database: Database) -> None:
    config = MongoDBConfig(url=mongo_url, database=new_database.name)
    store = MongoStore.from_config(config, create_indexes=False)
    store.save_task(a_task("t"))
    assert new_database.tasks.count_documents({}) == 1
    assert set(new_database.tasks.index_information()) == {"_id_"}
    store.close()


def test_the_runner_serves_the_store_that_mongodb_variables_name(
    mongo_url: str, new_database: Database, tmp_path: Path
) -> None:
    config = MongoDBConfig(url=mongo_url, database=new_database.name)
    store = MongoStore.from_config(config)
    environ = {name: value for name, value in os.environ.items() if name != "AFL_STORE"}
    process = subprocess.Popen(
        [sys.executable, "-m", "afl.runtime.runner", "--port", "0"],
        cwd=tmp_path,
        env=environ | {"AFL_MONGODB_URL": config.url, "AFL_MONGODB_DATABASE": config.database},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        eventually(lambda: process.poll() is not None or store.get_servers_by_state(ServerState.RUNNING))
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        assert [server.state for server in store.get_all_servers()] == [ServerState.SHUTDOWN]
        assert list(tmp_path.iterdir()) == []
    finally:
        process.kill()
        process.communicate()
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


@contextmanager
def running_mongod(place: Path, *options: str) -> Iterator[str]:
    """A mongod of one test alone; its host and port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    where = ["--dbpath", str(place), "--port", str(port), "--bind_ip", "127.0.0.1", "--nounixsocket"]
    small = ["--wiredTigerCacheSizeGB", "0.25", "--quiet"]
    command = [str(MONGOD.find()), *where, *small, *options]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
        address = f"127.0.0.1:{port}"
        with MongoClient[dict[str, Any]](f"mongodb://{address}/?directConnection=true") as client:
            client.admin.command("ping")  # waits for the server
        yield address
        server.kill()


@pytest.fixture
def lone_server(tmp_path: Path) -> Iterator[str]:
    """A mongod that is no replica set."""
    with running_mongod(tmp_path) as address:
        yield f"mongodb://{address}/"


@pytest.fixture(scope="module")
def failing_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A replica set that can be told to fail."""
    options = ["--replSet", "rs0", "--setParameter", "enableTestCommands=1"]
    with running_mongod(tmp_path_factory.mktemp("mongo"), *options) as address:
        with MongoClient[Any](f"mongodb://{address}/?directConnection=true") as client:
            client.admin.command("replSetInitiate", {"_id": "rs0", "members": [{"_id": 0, "host": address}]})
        yield f"mongodb://{address}/?replicaSet=rs0"


@pytest.fixture
def failing_store(failing_server: str) -> Iterator[MongoStore]:
    address = f"{failing_server}&heartbeatFrequencyMS=500"  # how soon it is found to be the primary after all
    with closing(MongoStore(address, f"test_{uuid4().hex}")) as store:
        yield store


def test_a_server_that_is_no_replica_set_is_refused_with_what_to_do(lone_server: str) -> None:
    with pytest.raises(StoreError, match="--replSet"):
        MongoStore(lone_server)


def refuse_once(server: str, command: str, **data: Any) -> None:
    """What a primary says to a write that it did and that no majority has, since it steps down; once."""
    stepped_down = {"code": 189, "codeName": "PrimarySteppedDown", "errmsg": "it steps down"}
    told = {"failCommands": [command], "writeConcernError": stepped_down, **data}
    with MongoClient[Any](server) as client:
        client.admin.command("configureFailPoint", "failCommand", mode={"times": 1}, data=told)


def test_a_claim_on_a_primary_that_steps_down_is_sent_again(
    failing_server: str, failing_store: MongoStore
) -> None:
    failing_store.save_task(a_task("t"))
    refuse_once(failing_server, "findAndModify")  # the server itself says that it may be sent again
    claimed = failing_store.claim_task(["ns.F"], lease_ms=60_000)
    assert claimed is not None
    assert (claimed.uuid, claimed.deliveries) == ("t", 1)
    assert type(claimed.epoch) is int  # and not the driver's own kind


@pytest.mark.parametrize(
    ("command", "write"),
    [
        ("findAndModify", lambda store: store.claim_task(["ns.F"], lease_ms=60_000)),
        ("update", lambda store: store.update_task_state("t", TaskState.CANCELED)),
    ],
)
def test_a_primary_that_steps_down_makes_the_store_unavailable(
    failing_server: str, failing_store: MongoStore, command: str, write: Callable[[MongoStore], object]
) -> None:
    failing_store.save_task(a_task("t"))
    refuse_once(failing_server, command, errorLabels=[])  # so the driver asks no second time
    with pytest.raises(StoreUnavailable, match="it steps down"):
        write(failing_store)


# -- errors and processes -------------------------------------------------------------------------------------


def test_a_duplicate_names_the_key(store: MongoStore) -> None:
    store.save_task(a_task("t1", step_id="busy", state=TaskState.RUNNING))
    with pytest.raises(StoreConflict, match="busy"):
        store.save_task(a_task("t2", step_id="busy", state=TaskState.RUNNING))


def test_a_closed_store_says_so(store: MongoStore) -> None:
    store.close()
    with pytest.raises(StoreError):
        store.get_run(RUN)


def test_each_store_object_is_an_owner_of_its_own(store: MongoStore, empty_mongo_url: str) -> None:
    other = MongoStore(empty_mongo_url)
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


def test_a_forked_child_is_somebody_else(empty_mongo_url: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", _FORK, empty_mongo_url],
        capture_output=True,
        text=True,
        check=False,
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
    assert "agentflow-afl[mongo]" in done.stdout
