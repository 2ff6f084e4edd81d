"""Every example runs with the one command that its header tells, from the root of the repository.

`research` does so in test_research_example.py.
"""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path

import pytest
from support.command_line import Outcome, environment
from support.node import node
from support.warm_processes import run_python, shared

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted(path.name for path in (ROOT / "examples").iterdir() if path.is_dir())
_COMMAND = re.compile(r"^(?://)?\s+((?:afl|python) .*)$", re.MULTILINE)
_MAINS = {"hello": "hello.afl", "fanout": "fanout.afl", "retry": "retry.afl", "newsroom": "newsroom.afl"}


def header(name: str) -> str:
    return (ROOT / "examples" / name / _MAINS.get(name, "main.py")).read_text()


def command_of(name: str) -> list[str]:
    found = _COMMAND.search(header(name))
    assert found is not None, f"examples/{name} does not say how it is run"
    return shlex.split(found[1].partition(" [")[0])


def run(name: str, folder: Path) -> Outcome:
    """The example's own command; what it keeps goes to a folder."""
    program, *args = command_of(name)
    start = ["-m", "afl"] if program == "afl" else []
    clean = {key: value for key, value in environment().items() if not key.startswith("ANTHROPIC_")}
    place = {"AFL_STORE": f"sqlite:///{folder}/example.db", "NODE": node(), "WARM_PYTHON": shared().python()}
    done = run_python([*start, *args], folder=ROOT, env=clean | place)
    assert done.code == 0, done.err
    return done


@pytest.mark.parametrize("name", EXAMPLES)
def test_its_header_says_what_to_type_and_the_readme_knows_it(name: str) -> None:
    program, *args = command_of(name)
    named = [word for word in args if word.startswith("examples/")]
    assert program in ("afl", "python") and named
    assert all((ROOT / word).is_file() for word in named)
    assert "Look at:" in header(name)
    assert f"examples/{name}" in (ROOT / "README.md").read_text()


def test_hello(tmp_path: Path) -> None:
    assert json.loads(run("hello", tmp_path).out) == {"message": "Hello, Ada!"}


def test_fanout(tmp_path: Path) -> None:
    done = run("fanout", tmp_path)
    prints = json.loads(done.out)["prints"]
    assert [each.partition(",")[0] for each in prints] == [f"photo {number:02}" for number in range(1, 25)]
    assert "all.one = darkroom.Develop 24/24: 24 completed" in done.err


def test_retry(tmp_path: Path) -> None:
    done = run("retry", tmp_path)
    assert json.loads(done.out) == {
        "friend": "hello, at attempt 3",
        "stranger": "nobody: 000-0000 is no number",
    }
    waits = re.findall(r"busy; next attempt in (\d+) ms", done.err)
    assert waits == ["200", "400"]


def test_newsroom(tmp_path: Path) -> None:
    page = json.loads(run("newsroom", tmp_path).out)["page"]
    assert page[0] == "Good morning, science!"
    assert len(page) == 7 and "unconfirmed" in page[3]


def test_two_agents(tmp_path: Path) -> None:
    out = run("two_agents", tmp_path).out
    first, second = re.findall(r"completed: first sorted (\d+), second sorted (\d+)", out)[0]
    again = re.findall(r"^  second takes letter \d+, again$", out, re.MULTILINE)
    assert int(first) + int(second) == 24
    assert "killed first" in out and again
    assert f"{len(again)} letters had to be handed out again" in out.replace("1 letter had", "1 letters had")


def test_node_worker(tmp_path: Path) -> None:
    out = run("node_worker", tmp_path).out
    assert "killed first, who had poem.Translate in hand" in out
    assert '{"text": "plain the on falls Spain in rain the", "length": 36}' in out
    assert "attempt 1 of http:node:first: expired" in out
    assert "attempt 2 of http:node:second: completed" in out


def test_messages(tmp_path: Path) -> None:
    out = run("messages", tmp_path).out
    assert "page 3: A page about islands, by writer b" in out
    assert "request to writer:a failed: PermanentFailure: a page about nothing" in out
    assert "page 2: no answer" in out
    assert "dead letter of writer a: PermanentFailure: a page about nothing cannot be written" in out
    assert out.count("the printer is down") == 2 and "printing: archived" in out
    assert "listed as dead: writer a, writer b" in out


def test_fleet(tmp_path: Path) -> None:
    out = run("fleet", tmp_path).out
    assert "Sum: STDOUT tuesday; rm -rf /: 42 sold" in out and "Bell: STDOUT ding" in out
    assert re.search(r"✓ south .* attempt 2", out) and "⊘ frame" in out
    assert "Morning report: FAILED" in out and "framed" not in out


def test_assistant(tmp_path: Path) -> None:
    out = run("assistant", tmp_path).out
    assert "The first worker is killed in the middle of a booking." in out
    assert "Booked: a table for 2 at Da Enzo (it was booked before)." in out
    assert out.count("→ calendar") == 1 and out.count("→ book") == 1
    assert "Bookings made: 1" in out


def test_everything(tmp_path: Path) -> None:
    done = run("everything", tmp_path)
    assert "finance is asked: The parcel came 3 days late. Pay 16.5 euros?" in done.out
    assert '"letter": "Nous sommes désolés. Nous vous rendons 16.5 euros."' in done.out
    assert "refunds.Approve: waiting for someone in finance" in done.err
    assert "completed, 8 steps" in done.out
