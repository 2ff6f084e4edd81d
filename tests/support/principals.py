"""A principal in a process of its own, on free ports of this machine, with everything it keeps in one folder."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from afl.fleet.settings import FleetSettings
from support.warm_processes import WarmPopen

_READY = re.compile(r"principal ready on tcp://(?P<host>\S+):(\d+) \(logs (\d+), (\d+)\)")
HELLO = "name: Hello\ntasks:\n  a: {name: A, config: !Subprocess {cmd: echo, args: [hi]}}\n"


class PrincipalProcess:
    """Started anew it has the same ports and the same store."""

    def __init__(self, folder: Path, **environment: str) -> None:
        self.folder = folder
        self.settings = FleetSettings(
            principal_port=0,
            logs_listening_port=0,
            logs_publishing_port=0,
            app_data_directory=str(folder / "data"),
            db_path=str(folder / "principal.db"),
            workflow_dir=str(folder / "workflows"),
        )
        self._environment = environment
        self._process: subprocess.Popen[str] | None = None
        (folder / "workflows").mkdir(exist_ok=True)

    def write_workflow(self, name: str, text: str = HELLO) -> None:
        path = self.folder / "workflows" / f"{name}.yml"
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished = path.with_suffix(".unfinished")
        unfinished.write_text(text)
        unfinished.rename(path)  # the principal may look at any moment

    def start(self) -> None:
        self._process = WarmPopen(
            ["-m", "afl.fleet.principal"],
            stdout=subprocess.PIPE,
            env={**os.environ, **self._variables(), **self._environment},
        )
        assert self._process.stdout is not None
        match = _READY.match(self._process.stdout.readline())
        assert match is not None, f"the principal did not start: {self._process.wait()}"
        ports = [int(match[number]) for number in (2, 3, 4)]
        self.settings = replace(
            self.settings,
            principal_port=ports[0],
            logs_listening_port=ports[1],
            logs_publishing_port=ports[2],
        )

    def suspend(self) -> None:
        """SIGSTOP, as when a laptop sleeps; `wake` lets it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def wake(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def kill(self) -> None:
        """As if the machine had lost it: SIGKILL."""
        assert self._process is not None
        self._process.kill()
        self._reap()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        assert self._process is not None
        self._process.terminate()
        return self._reap()

    def close(self) -> None:
        if self._process is not None:
            self.kill()

    def _reap(self) -> int:
        process, self._process = self._process, None
        assert process is not None and process.stdout is not None
        code = process.wait()
        process.stdout.close()
        return code

    def _variables(self) -> dict[str, str]:
        return {
            "CDKTR_PRINCIPAL_HOST": self.settings.principal_host,
            "CDKTR_PRINCIPAL_PORT": str(self.settings.principal_port),
            "CDKTR_LOGS_LISTENING_PORT": str(self.settings.logs_listening_port),
            "CDKTR_LOGS_PUBLISHING_PORT": str(self.settings.logs_publishing_port),
            "CDKTR_APP_DATA_DIRECTORY": self.settings.app_data_directory,
            "CDKTR_DB_PATH": self.settings.db_path,
            "CDKTR_WORKFLOW_DIR": self.settings.workflow_dir,
        }


@contextmanager
def running_principal(
    folder: Path, workflows: Mapping[str, str] | None = None, **environment: str
) -> Iterator[PrincipalProcess]:
    """One that runs, with the workflow `hello` and others; it is killed at the end."""
    principal = PrincipalProcess(folder, **environment)
    for name, text in {"hello": HELLO, **(workflows or {})}.items():
        principal.write_workflow(name, text)
    principal.start()
    try:
        yield principal
    finally:
        principal.close()
