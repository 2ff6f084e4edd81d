"""A stack of real servers: up, down, status, from any process and in any folder."""

from __future__ import annotations

import os
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

import psycopg
import pytest
import redis
from pymongo import MongoClient
from support.stacks import emptied_folder

from afl.devstack import SERVERS, Stack, down, status, temporary_stack, up
from afl.devstack.postgres import Postgres
from afl.devstack.servers import Valkey
from afl.kernel.errors import InputError, ServerError

LONG = "/".join(["a-folder-with-a-rather-long-name-" + "x" * 60] * 4)


def pids(folder: Path) -> dict[str, int | None]:
    return {server.service: server.pid for server in status(folder)}


def in_another_process(code: str, folder: Path) -> str:
    script = f"import sys; from afl.devstack import *; folder = sys.argv[1]; {code}"
    return subprocess.run(
        [sys.executable, "-c", script, str(folder)], check=True, capture_output=True, text=True
    ).stdout


@pytest.fixture(scope="module")
def running() -> Iterator[Path]:
    """A folder with a long name where all servers run, for tests that change nothing there."""
    with emptied_folder() as folder:
        place = folder / LONG
        up(place, SERVERS)
        yield place
        assert down(place) == list(SERVERS)


def test_up_twice_starts_once(running: Path) -> None:
    before = pids(running)
    first = up(running, SERVERS)
    assert first == up(running, SERVERS)
    assert list(first) == ["postgres", "redis", "nats", "mongo"]
    assert None not in before.values()
    assert pids(running) == before


def test_every_server_listens_on_loopback_only(running: Path) -> None:
    for url in up(running, SERVERS).values():
        port = urlsplit(url).port
        with socket.create_connection(("127.0.0.1", port)), pytest.raises(ConnectionRefusedError):
            socket.create_connection(("127.0.0.2", port))


def test_postgres_asks_for_the_password_that_only_its_owner_can_read(running: Path) -> None:
    url = up(running, ["postgres"])["postgres"]
    parts = urlsplit(url)
    assert parts.password is not None
    assert len(parts.password) >= 32
    for wrong in (f"{parts.username}", f"{parts.username}:x{parts.password}"):
        with pytest.raises(psycopg.OperationalError, match="password"):
            psycopg.connect(urlunsplit(parts._replace(netloc=f"{wrong}@127.0.0.1:{parts.port}")))
    telling = [path for path in running.rglob("*") if path.is_file() and parts.password in read(path)]
    assert {path.name for path in telling} == {"password", "stack.json"}
    assert {stat.S_IMODE(path.stat().st_mode) for path in telling} == {0o600}


def read(path: Path) -> str:
    return path.read_bytes().decode("latin-1")


def test_postgres_of_an_older_version_that_trusted_everybody_asks_from_now_on(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Postgres, "_initdb_options", ("-U", "postgres", "-A", "trust"))
        url = up(folder, ["postgres"])["postgres"]
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept AS SELECT 7 AS answer")
        down(folder)
        (folder / "postgres" / "password").unlink()
    parts = urlsplit(up(folder, ["postgres"])["postgres"])
    with psycopg.connect(urlunsplit(parts)) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (7,)
    with pytest.raises(psycopg.OperationalError, match="password"):
        psycopg.connect(urlunsplit(parts._replace(netloc=f"postgres@127.0.0.1:{parts.port}")))


def test_servers_outlive_the_command_and_another_one_stops_them(folder: Path) -> None:
    in_another_process("up(folder, ['redis', 'nats'])", folder)
    assert {server.service: server.state for server in status(folder)} == {
        "redis": "running",
        "nats": "running",
    }
    assert in_another_process("print(*down(folder))", folder).split() == ["redis", "nats"]
    assert [server.state for server in status(folder)] == ["stopped", "stopped"]


def test_down_twice_is_no_error(folder: Path) -> None:
    up(folder, ["redis"])
    assert down(folder) == ["redis"]
    assert down(folder) == []
    assert down(folder / "never used") == []
    assert not (folder / "never used").exists()


def test_data_and_addresses_survive_a_restart(folder: Path) -> None:
    urls = up(folder, ["postgres", "redis", "nats"])
    with psycopg.connect(urls["postgres"]) as connection:
        connection.execute("CREATE TABLE kept AS SELECT 7 AS answer")
    with redis.Redis.from_url(urls["redis"]) as client:
        client.set("kept", "7")
    down(folder)
    assert up(folder, ["postgres", "redis", "nats"]) == urls
    with psycopg.connect(urls["postgres"]) as connection:
        assert connection.execute("SELECT answer FROM kept").fetchone() == (7,)
    with redis.Redis.from_url(urls["redis"]) as client:
        assert client.get("kept") == b"7"


def test_a_remembered_port_that_somebody_took_is_replaced(folder: Path) -> None:
    url = up(folder, ["redis"])["redis"]
    down(folder)
    with socket.create_server(("127.0.0.1", urlsplit(url).port)):
        other = up(folder, ["redis"])["redis"]
    assert other != url
    with redis.Redis.from_url(other) as client:
        assert client.ping()


@pytest.mark.parametrize("service", ["postgres", "redis"])
def test_losing_the_race_for_a_port_means_another_attempt(folder: Path, service: str) -> None:
    up_at_the_second_port(folder, service)


def test_mongo_finds_itself_again_on_another_port(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    url = up_at_the_second_port(folder, "mongo")
    down(folder)
    monkeypatch.setattr("afl.devstack.server._is_free", lambda port: False)
    other = up(folder, ["mongo"])["mongo"]
    assert other != url
    with MongoClient[dict[str, object]](other) as client:
        assert client.test.things.insert_one({"kept": True}).acknowledged


def up_at_the_second_port(folder: Path, service: str) -> str:
    """Start a server while somebody takes the port that it was to have; its address, which has the next port."""
    with socket.create_server(("127.0.0.1", 0)) as thief, socket.socket() as spare:
        spare.bind(("127.0.0.1", 0))
        free = spare.getsockname()[1]
        spare.close()
        ports = iter([thief.getsockname()[1], free])
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(SERVERS[service], "free_port", lambda self: next(ports))
            url = up(folder, [service])[service]
        assert f":{free}/" in url
        return url


def test_ups_at_once_start_one_server(folder: Path) -> None:
    code = "print(up(folder, ['postgres', 'redis']), [server.pid for server in status(folder)])"
    with ThreadPoolExecutor() as pool:
        answers = set(pool.map(lambda _: in_another_process(code, folder), range(4)))
    assert len(answers) == 1


def test_threads_at_once_start_one_server(folder: Path) -> None:
    with ThreadPoolExecutor(8) as pool:
        urls = {url["redis"] for url in pool.map(lambda _: up(folder, ["redis"]), range(8))}
    assert len(urls) == 1


def test_down_with_remove_while_others_start_leaves_a_working_stack(folder: Path) -> None:
    place = folder / "stack"
    with ThreadPoolExecutor(8) as pool:
        ups = [pool.submit(up, place, ["redis"]) for _ in range(8)]
        downs = [pool.submit(down, place, remove=True) for _ in range(8)]
    assert all(set(each.result()) == {"redis"} for each in ups)
    assert all(set(each.result()) <= {"redis"} for each in downs)
    with redis.Redis.from_url(up(place, ["redis"])["redis"]) as client:
        assert client.ping()


def test_any_folder_will_do(folder: Path, running: Path) -> None:
    strange = folder / "with a space, ümlaut, 'quote' \"double\" $HOME"
    for place in (running, strange):
        its_data_is_there(place, up(place, SERVERS))
    assert down(strange) == list(SERVERS)


def its_data_is_there(place: Path, urls: Mapping[str, str]) -> None:
    with psycopg.connect(urls["postgres"]) as connection:
        assert connection.execute("SHOW data_directory").fetchone() == (str(place / "postgres" / "data"),)
    with redis.Redis.from_url(urls["redis"], decode_responses=True) as client:
        assert client.config_get("dir") == {"dir": str(place / "redis" / "data")}


def test_a_path_beyond_what_postgres_can_take_is_refused(folder: Path) -> None:
    place = folder / "/".join(["x" * 200] * 5)
    with pytest.raises(InputError, match="at most 900 bytes"):
        up(place, ["postgres"])


def test_a_relative_folder_is_the_same_from_elsewhere(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(folder)
    up("servers", ["redis"])
    monkeypatch.chdir("/")
    assert down(folder / "servers") == ["redis"]


def test_a_server_that_cannot_start_shows_the_end_of_its_log(folder: Path) -> None:
    up(folder, ["postgres"])
    down(folder)
    (folder / "postgres" / "data" / "postgresql.conf").write_text("no_such_setting = 'really'\n")
    with pytest.raises(ServerError, match="no_such_setting") as failure:
        up(folder, ["postgres"])
    assert str(folder / "postgres" / "server.log") in str(failure.value)
    assert [server.state for server in status(folder)] == ["died"]


def test_a_server_that_is_never_ready_is_ended(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Valkey, "ready_port", lambda self, pid, port: None)
    monkeypatch.setattr(Valkey, "start_seconds", 0.2)
    with pytest.raises(ServerError, match="was not ready"):
        up(folder, ["redis"])
    assert [server.state for server in status(folder)] == ["died"]


def test_half_of_a_database_is_made_again(folder: Path) -> None:
    half = folder / "postgres" / "data.new"
    half.mkdir(parents=True)
    (folder / "postgres" / "server.log").touch()
    (half / "PG_VERSION").write_text("garbage")
    with psycopg.connect(up(folder, ["postgres"])["postgres"]) as connection:
        assert connection.execute("SELECT 1").fetchone() == (1,)
    assert not half.exists()


def test_an_unknown_service_names_the_near_one(folder: Path) -> None:
    with pytest.raises(InputError, match="did you mean postgres"):
        up(folder, ["postgre"])
    assert list(folder.iterdir()) == []


def test_a_folder_that_cannot_be_one_is_refused(folder: Path) -> None:
    (folder / "file").touch()
    for place in (folder / "file", folder / "file" / "below", "/proc/servers"):
        with pytest.raises(InputError, match="cannot hold the data of servers"):
            up(place, ["redis"])


def test_a_folder_of_a_servers_name_that_holds_something_else_is_left_alone(folder: Path) -> None:
    (folder / "redis").mkdir()
    (folder / "redis" / "notes.txt").write_text("mine")
    with pytest.raises(InputError, match="holds something else"):
        up(folder, ["nats", "redis"])
    assert [server.service for server in status(folder)] == ["nats"]
    down(folder, remove=True)
    assert [path.name for path in folder.rglob("*")] == ["redis", "notes.txt"]


def test_removing_leaves_what_is_not_ours(folder: Path) -> None:
    (folder / "letter.txt").write_text("dear")
    up(folder, ["redis"])
    down(folder, remove=True)
    assert [path.name for path in folder.iterdir()] == ["letter.txt"]


def test_removing_what_is_no_stack_touches_nothing(folder: Path) -> None:
    (folder / "postgres").mkdir()
    assert down(folder, remove=True) == []
    assert (folder / "postgres").exists()


def test_a_temporary_stack_is_gone_after_its_block() -> None:
    with temporary_stack() as stack:
        url = stack.up(["redis"])["redis"]
        with redis.Redis.from_url(url) as client:
            assert client.ping()
    assert not stack.folder.exists()
    with pytest.raises(redis.ConnectionError), redis.Redis.from_url(url) as client:
        client.ping()


def test_the_folder_is_private(folder: Path) -> None:
    place = folder / "stack"
    up(place, ["redis"])
    assert (place.stat().st_mode & 0o777, (place / "redis").stat().st_mode & 0o777) == (0o700, 0o700)


def test_an_empty_stack_has_nothing_to_show(folder: Path) -> None:
    assert Stack(folder).status() == []


def test_a_failed_initdb_says_why(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Postgres, "_initdb_options", ("--no-such-option",))
    with pytest.raises(ServerError, match="no-such-option"):
        up(folder, ["postgres"])
    assert not os.path.exists(folder / "postgres" / "data")


def test_postgres_is_durable(running: Path) -> None:
    url = up(running, ["postgres"])["postgres"]
    with psycopg.connect(url) as connection:
        settings = [
            connection.execute(f"SHOW {name}").fetchone()
            for name in ("fsync", "synchronous_commit", "full_page_writes")
        ]
    assert settings == [("on",), ("on",), ("on",)]
