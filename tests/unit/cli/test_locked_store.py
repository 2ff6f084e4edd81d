"""Commands while a stopped process holds the write lock of the store."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command_line import Afl
from support.processes import stopped_writer

URL = "sqlite:///afl.db"
WORKFLOW = """event facet Ask() => (answer: String)
workflow Main() => (answer: String) andThen {
    a = Ask()
    yield Main(answer = a.answer)
}
"""


@pytest.fixture
def holder(afl: Afl, tmp_path: Path) -> Iterator[subprocess.Popen[str]]:
    """The stopped process, beside a run that waits for an agent."""
    (tmp_path / "main.afl").write_text(WORKFLOW)
    assert afl("submit", "main.afl", "--store", URL).code == 0
    with stopped_writer(URL) as process:
        yield process


def test_submit_fails_with_the_name_of_the_holder(
    afl: Afl, holder: subprocess.Popen[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AFL_LOCK_TIMEOUT_MS", "200")
    outcome = afl("submit", "main.afl", "--store", URL)
    assert outcome.code == 1
    assert f"process {holder.pid} (" in outcome.err
    assert "stopped) holds the write lock" in outcome.err
    assert f"kill -CONT {holder.pid}" in outcome.err


def test_commands_that_look_need_no_lock_and_show_the_holder(afl: Afl, holder: subprocess.Popen[str]) -> None:
    assert afl("list", "--store", URL).code == 0
    listed = afl("ps", "--store", URL)
    assert listed.code == 0
    assert "Nobody can write to the store" in listed.err
    assert f"process {holder.pid} (" in listed.err
    assert json.loads(afl("why", "--json", "--store", URL).out)["code"] == "store-locked"
