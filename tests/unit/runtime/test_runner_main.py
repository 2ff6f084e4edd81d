"""`python -m afl.runtime.runner`: its options reach the service, and signals end it."""

from __future__ import annotations

import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.agents import received

from afl.runtime.entities import ServerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.runner import __main__ as command
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.sqlite_store import SqliteStore


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> list[tuple[PersistenceAPI, RunnerConfig]]:
    """What services were started with; they end at once."""
    made: list[tuple[PersistenceAPI, RunnerConfig]] = []

    class Service(RunnerService):
        def __init__(self, store: PersistenceAPI, evaluator: Evaluator, config: RunnerConfig) -> None:
            super().__init__(store, evaluator, config)
            made.append((store, config))

        def start(self) -> None:
            return

    monkeypatch.setattr(command, "RunnerService", Service)
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    return made


def test_without_options_the_defaults_count(
    started: list[tuple[PersistenceAPI, RunnerConfig]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert command.main(["--store", "memory://"]) == 0
    ((_, config),) = started
    assert config == RunnerConfig()


def test_every_option_reaches_the_configuration(
    started: list[tuple[PersistenceAPI, RunnerConfig]],
) -> None:
    options = {
        "server-group": "g",
        "service-name": "s",
        "server-name": "n",
        "task-list": "l",
        "max-concurrent": "9",
        "poll-interval": "100",
        "heartbeat-interval": "200",
        "lock-duration": "3000",
        "port": "9000",
        "host": "0.0.0.0",
    }
    arguments = [text for name, value in options.items() for text in (f"--{name}", value)]
    assert command.main(["--store", "memory://", *arguments, "--topics", "ns.A", "ns.B"]) == 0
    ((_, config),) = started
    assert (config.server_group, config.service_name, config.server_name) == ("g", "s", "n")
    assert (config.task_list, config.topics, config.max_concurrent) == ("l", ["ns.A", "ns.B"], 9)
    assert (config.poll_interval_ms, config.heartbeat_interval_ms) == (100, 200)
    assert (config.lock_duration_ms, config.lock_extend_interval_ms) == (3000, 1000)
    assert (config.http_port, config.http_host) == (9000, "0.0.0.0")


def test_the_environment_sets_what_no_option_does(
    started: list[tuple[PersistenceAPI, RunnerConfig]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in {
        "AFL_STORE": "memory://",
        "AFL_TASK_LIST": "gpu",
        "AFL_POLL_INTERVAL_MS": "123",
        "AFL_HEARTBEAT_INTERVAL_MS": "456",
        "AFL_HTTP_HOST": "::",
        "AFL_LEASE_MS": "7000",
        "AFL_MAX_DELIVERIES": "3",
    }.items():
        monkeypatch.setenv(name, value)
    command.main(["--poll-interval", "77"])
    ((store, config),) = started
    assert (config.task_list, config.poll_interval_ms, config.heartbeat_interval_ms) == ("gpu", 77, 456)
    assert (config.http_host, store.lease_ms, store.max_deliveries) == ("::", 7000, 3)


def test_the_configuration_file_sets_what_no_option_does(
    started: list[tuple[PersistenceAPI, RunnerConfig]], tmp_path: Path
) -> None:
    file = tmp_path / "mine.json"
    file.write_text('{"store": "memory://", "http_host": "10.0.0.7"}')
    assert command.main(["--config", str(file)]) == 0
    ((_, config),) = started
    assert config.http_host == "10.0.0.7"


def test_the_store_is_closed_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    closed: list[bool] = []

    class Store:
        def close(self) -> None:
            closed.append(True)

    class Service:
        def __init__(self, *parts: Any) -> None:
            pass

        def start(self) -> None:
            raise ZeroDivisionError

    monkeypatch.setattr(command, "store_of", lambda settings: Store())
    monkeypatch.setattr(command, "Evaluator", lambda store: None)
    monkeypatch.setattr(command, "RunnerService", Service)
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    with pytest.raises(ZeroDivisionError):
        command.main(["--store", "memory://"])
    assert closed == [True]


@pytest.mark.parametrize("arguments", [["--port", "x"], ["--nonsense"], ["--log-level", "LOUD"]])
def test_bad_usage_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        command.main(arguments)
    assert caught.value.code == 2
    assert arguments[0] in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--store", "carrier-pigeon://x"], "setting 'store' is 'carrier-pigeon://x'; expected an address"),
        (["--config", "none.json"], "the configuration file is 'none.json'; expected the path of a file"),
    ],
)
def test_a_bad_setting_is_told_in_one_line(
    arguments: list[str], told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith(f"error[setting-error]: {told}")
    assert (printed.out, printed.err.count("\n")) == ("", 1)


def test_a_store_that_cannot_be_opened_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("logging.basicConfig", lambda **options: None)
    assert command.main(["--store", f"sqlite:///{tmp_path}/none/afl.db"]) == 1
    printed = capsys.readouterr()
    assert printed.err.startswith("error[store-") and printed.err.count("\n") == 1


def test_the_module_is_a_command(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "argv", ["runner", "--help"])
    with pytest.raises(SystemExit) as caught, pytest.warns(RuntimeWarning, match="found in sys.modules"):
        runpy.run_module("afl.runtime.runner", run_name="__main__", alter_sys=True)
    assert caught.value.code == 0
    assert "--max-concurrent" in capsys.readouterr().out


def test_a_real_process_serves_until_it_is_told_to_stop(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/afl.db"
    store = SqliteStore(url)
    process = subprocess.Popen(
        [sys.executable, "-m", "afl.runtime.runner", "--store", url, "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        received(store, "nothing", lambda: store.get_servers_by_state(ServerState.RUNNING))
        process.send_signal(signal.SIGTERM)
        printed, _ = process.communicate(timeout=60)
        assert process.returncode == 0, printed
        assert [server.state for server in store.get_all_servers()] == [ServerState.SHUTDOWN]
    finally:
        process.kill()
        process.communicate()
        store.close()
