"""The set-up of two machines as the guide tells it: each with a home of its own, and keys exchanged by copying."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import Outcome, environment
from support.warm_processes import WarmPopen, afl_warm

HELLO = "name: Hello\ntasks: {a: {name: A, config: !Subprocess {cmd: printenv, args: [HOME]}}}\n"
FREE = {"CDKTR_LOGS_LISTENING_PORT": "0", "CDKTR_LOGS_PUBLISHING_PORT": "0"}


class Machine:
    """A home folder, and `afl fleet` in it."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.keys = home / ".cdktr" / "keys"
        self.environment = {"HOME": str(home), "CDKTR_DEFAULT_ZMQ_TIMEOUT_MS": "1000"}
        (home / "workflows").mkdir(parents=True)
        self._processes: list[subprocess.Popen[str]] = []

    def fleet(self, *args: str, **changes: str) -> Outcome:
        return afl_warm("fleet", *args, folder=self.home, **{**self.environment, **changes})

    def start(self, *args: str) -> str:
        """A process until the end of the test; its first line."""
        process = WarmPopen(
            ["-m", "afl", "fleet", *args],
            cwd=self.home,
            env=environment(**self.environment, **FREE),
            stdout=subprocess.PIPE,
        )
        self._processes.append(process)
        assert process.stdout is not None
        return process.stdout.readline() if "principal" in args else ""

    def stop(self) -> None:
        for process in self._processes:
            process.kill()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


@pytest.fixture
def alpha(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "alpha")
    yield machine
    machine.stop()


@pytest.fixture
def beta(tmp_path: Path) -> Iterator[Machine]:
    machine = Machine(tmp_path / "beta")
    yield machine
    machine.stop()


def test_keys_are_exchanged_and_workflows_run_on_the_other_machine(alpha: Machine, beta: Machine) -> None:
    assert alpha.fleet("keys").code == 0
    (alpha.home / "workflows" / "hello.yml").write_text(HELLO)
    found = re.search(r":(\d+) ", alpha.start("principal", "--port", "0"))
    assert found is not None
    port = found[1]

    stranger = beta.fleet("list", "--port", port)
    assert stranger.code == 1 and "does not answer" in stranger.err

    assert beta.fleet("keys", "--client").code == 0
    shutil.copy(alpha.keys / "principal.key", beta.keys)
    refused = beta.fleet("list", "--port", port)
    assert refused.code == 1 and refused.out == ""

    shutil.copy(beta.keys / "client.key", alpha.keys / "allowed" / "beta.key")
    beta.start("agent", "--port", port)
    done = alpha.fleet("run", "hello", "--follow", "--port", port)
    assert done.code == 0, done.err
    assert done.out.rstrip().endswith(str(beta.home))
    assert beta.fleet("logs", "--port", port).out.rstrip().endswith(str(beta.home))
    assert not (beta.keys / "principal.key_secret").exists()

    (alpha.keys / "allowed" / "beta.key").unlink()
    assert beta.fleet("list", "--port", port).code == 1
