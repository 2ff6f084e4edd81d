"""A process is stopped while it has the write lock of the file: agents say so, and go on once it does."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.processes import let_go, stopped_writer
from support.warm_processes import WarmProcesses
from support.workshop import Workshop, opened


@pytest.fixture
def workshop(tmp_path: Path, warm: WarmProcesses) -> Iterator[Workshop]:
    with opened(tmp_path, f"sqlite:///{tmp_path / 'afl.db'}", warm) as workshop:
        yield workshop
        warm.end_all()


def test_an_agent_names_the_holder_and_goes_on_when_that_does(workshop: Workshop) -> None:
    agent = workshop.agent(AFL_LOCK_TIMEOUT_MS="300")
    assert workshop.wait_completed(workshop.submit("t.One", n=1))["m"] == 2
    workshop.hold(True)
    run = workshop.submit("t.One", n=2)
    workshop.wait_held(agent)
    with stopped_writer(workshop.url) as process:
        workshop.hold(False)  # there is an answer to be stored now
        named = f"process {process.pid} ("
        eventually(lambda: agent.said().count(named) >= 3, agent.said)  # it tries again and again
        let_go(process)
        assert workshop.wait_completed(run)["m"] == 4
    assert agent.terminate() == 0
    assert "Traceback" not in agent.said()
