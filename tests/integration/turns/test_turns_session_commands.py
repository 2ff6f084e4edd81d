"""`afl turns send --session` and the commands of sessions, before a worker does anything."""

from __future__ import annotations

import json
from pathlib import Path

from support.command_line import Afl, afl

__all__ = ["afl"]

AGENTS = """from afl.models import ScriptedModel
from afl.turns import agent

model = ScriptedModel(["fine"])
guide = agent("guide", "You help travelers.")
"""


def test_the_commands_of_sessions(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)
    afl("turns", "chat", "--module", "agents.py", "--say", "hello")  # which brings the agent
    none = afl("turns", "sessions")
    assert (none.code, none.out) == (0, "") and "No sessions yet" in none.err
    refused = afl("turns", "send", "guide", "hi", "--session", "s", "--after", "guide")
    assert refused.code == 2 and "--session already says what it continues" in refused.err
    sent = afl("turns", "send", "guide", "hi", "--session", "s").out.strip()
    listed = json.loads(afl("turns", "sessions", "--json").out)
    assert [(each["session"], each["agent"], each["turns"]) for each in listed] == [("s", "guide", 1)]
    assert sent in afl("turns", "session", "s").out
    assert json.loads(afl("turns", "show", sent, "--json").out)["session"] == "s"
    assert "is not over" in afl("turns", "fork", "s").err
    assert "stop it first" in afl("turns", "forget", "s").err
    assert "no session 'x'" in afl("turns", "session", "x").err
    assert [each["agent"] for each in json.loads(afl("turns", "agents", "--json").out)] == ["guide"]
    assert "known are: guide\n" in afl("turns", "send", "nobody", "hi").err


def test_files_of_the_command_line(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)
    (tmp_path / "dot.png").write_bytes(bytes(70_000))
    (tmp_path / "note.txt").write_text("hi")
    afl("turns", "chat", "--module", "agents.py", "--say", "hello")  # which brings the agent
    sent = afl("turns", "send", "guide", "Look", "--file", "dot.png", "--file", "note.txt").out.strip()
    shown = afl("turns", "show", sent).out
    assert "(dot.png, image/png, 70,000 bytes)" in shown and "(note.txt, text/plain, 2 bytes)" in shown
    (card,) = json.loads(afl("turns", "show", sent, "--json").out)["context"]
    assert [file["name"] for file in card["files"]] == ["dot.png", "note.txt"]
    none = afl("turns", "send", "guide", "Look", "--file", "none.png")
    assert none.code == 1 and "none.png cannot be read" in none.err
