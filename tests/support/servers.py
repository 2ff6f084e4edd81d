"""The real servers of a test session: started when first asked for, shared by all workers, then ended."""

from __future__ import annotations

import os
import tempfile
from dataclasses import dataclass
from uuid import uuid4

from afl.devstack import ProcessMark, Stack


@dataclass(frozen=True)
class SessionServers:
    """The folder of the session's servers and the process they die with."""

    folder: str
    owner: ProcessMark

    @classmethod
    def of_this_process(cls) -> SessionServers:
        # Directly under the system's temporary folder: a path of pytest's own is long and kept after the run.
        return cls(f"{tempfile.gettempdir()}/afl-test-{uuid4().hex[:12]}", ProcessMark.current())

    def url(self, service: str) -> str:
        """The URL from the environment when one is given, else that of a server started here."""
        return _given(service) or Stack(self.folder, owner=self.owner).up([service])[service]

    def starts(self, service: str) -> bool:
        """Whether the server is the session's own."""
        return not _given(service)

    def end(self) -> None:
        Stack(self.folder).down(remove=True)


def _given(service: str) -> str:
    return os.environ.get(f"AFL_TEST_{service.upper()}_URL", "")
