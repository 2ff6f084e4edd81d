"""`afl turns chat` in a real terminal: words come while they are said, Ctrl+C stops an answer, Ctrl+D ends it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.eventually import eventually
from support.terminal import Terminal

AGENTS = """import time
from pathlib import Path

from afl.models import Reply, Request
from afl.models.scripted import says
from afl.turns import agent


class Slow:
    name = "slow"

    def resolve(self, name):
        return name or self.name

    def complete(self, request, on_text=None):
        asked = request.messages[-1].content[-1].text
        on_text("I begin, ")
        while asked == "slowly" and not Path("go").exists():
            time.sleep(0.01)
        while asked == "never":
            time.sleep(0.01)
        on_text(f"I end ({asked}).")
        return says(f"I begin, I end ({asked}).")


model = Slow()
poet = agent("poet", "You write.")
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Terminal]:
    (tmp_path / "agents.py").write_text(AGENTS)
    opened = Terminal(tmp_path, "turns", "chat", "--module", "agents.py")
    try:
        yield opened
    finally:
        opened.close()


def test_a_conversation_in_a_terminal(terminal: Terminal) -> None:
    terminal.until("you> ")
    assert "This is poet." in terminal.shown()
    terminal.type("slowly\n")
    terminal.until("poet> I begin, ")
    assert "I end" not in terminal.shown()
    (terminal.folder / "go").touch()
    terminal.until("poet> I begin, I end (slowly).\nyou> ")
    terminal.type("never\n")
    eventually(lambda: terminal.shown().count("I begin, ") == 2, terminal.shown)
    terminal.interrupt()
    terminal.until("canceled")
    eventually(lambda: terminal.shown().count("you> ") == 3, terminal.shown)
    terminal.type("again\n")
    terminal.until("I end (again).")
    eventually(lambda: terminal.shown().count("you> ") == 4, terminal.shown)
    terminal.type("\x04")
    assert terminal.end() == 0


def test_ctrl_c_at_the_prompt_ends_it(terminal: Terminal) -> None:
    terminal.until("you> ")
    terminal.interrupt()
    assert terminal.end() in (0, 130)
