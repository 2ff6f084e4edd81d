"""Secrets in what handlers raise and log reach neither the store nor the screen."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.command_line import Afl

WORKFLOW = """event facet Fetch() => (n: Long)
workflow Main() => (n: Long) andThen {
    a = Fetch() with Retry(2, backoff = 1)
    yield Main(n = a.n)
}
"""
AGENTS = """import os

import afl

afl.redact(os.environ["KEY"])


@afl.handler("Fetch")
def fetch(context):
    address = os.environ["ADDRESS"]
    context.log(f"asks {address}", key=[os.environ["KEY"]])
    context.progress(0.5, os.environ["AFL_TOKEN"])
    raise OSError(f"no answer from {address} with {os.environ['KEY']} or {os.environ['AFL_TOKEN']}")
"""


@pytest.fixture
def folder(afl: Afl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "main.afl").write_text(WORKFLOW)
    (tmp_path / "agents.py").write_text(AGENTS)
    monkeypatch.setenv("KEY", "swordfish-1")
    monkeypatch.setenv("ADDRESS", "postgresql://me:swordfish-2@db/x")
    monkeypatch.setenv("AFL_TOKEN", "swordfish-3")
    return tmp_path


def stored(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in sorted((folder / ".afl").glob("afl.db*")) if path.is_file())


def test_what_a_handler_raises_and_logs_is_stored_and_shown_without_them(afl: Afl, folder: Path) -> None:
    outcomes = [afl("run", "main.afl", "--agent", "agents.py")]
    outcomes += [afl("show"), afl("why"), afl("logs"), afl("tasks", "--all"), afl("show", "--json")]
    told = "".join(outcome.out + outcome.err for outcome in outcomes)
    masked = "no answer from postgresql://me:***@db/x with *** or ***"
    assert masked in told
    assert masked.encode() in stored(folder)
    assert b"swordfish" not in stored(folder)
    assert "swordfish" not in told
    assert "asks postgresql://me:***@db/x" in told
