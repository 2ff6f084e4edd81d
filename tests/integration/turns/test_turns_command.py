"""`afl turns` on one SQLite file: what it prints, what it says, how it ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.command_line import Afl, afl

from afl.cli.turns_command import turns

__all__ = ["afl"]

AGENTS = """from afl.models import Reply, Request, ScriptedModel, ToolUse
from afl.models.messages import StopReason, Text, ToolResult
from afl.turns import agent


def weather(city: str) -> str:
    "The weather in a city."
    return f"rain in {city}"


def answer(request: Request):
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        return f"There is {last.content}.\\nTake a coat."
    if last.text == "fail":
        return Exception("no")
    if last.text == "long":
        return Reply((Text("Once upon a"),), StopReason.MAX_TOKENS)
    if last.text == "nothing":
        return ""
    if last.text == "remember":
        return " / ".join(b.text for m in request.messages for b in m.content if isinstance(b, Text))
    if request.tools and request.tools[-1].name == "submit_result":
        return Reply((ToolUse("s", "submit_result", {"result": {"city": "Oslo"}}),), StopReason.TOOL_USE)
    return Reply((ToolUse("w", "weather", {"city": "Oslo"}),), StopReason.TOOL_USE)


model = ScriptedModel(answer)
guide = agent("guide", "You help travelers.", tools=[weather], tags=["travel"])
"""
CHAT = ("turns", "chat", "--module", "agents.py")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "agents.py").write_text(AGENTS)
    return tmp_path


def last(afl: Afl) -> str:
    return str(json.loads(afl("turns", "list", "--json").out)[0]["turn"])


def test_a_conversation_from_a_pipe(afl: Afl, folder: Path) -> None:
    done = afl(*CHAT, stdin="Oslo?\n\nremember\n")
    assert done.code == 0
    first = "There is rain in Oslo.\nTake a coat.\n"
    assert done.out.startswith(f"{first}Oslo? / ") and done.out.endswith(" / remember\n")


def test_a_conversation_goes_on_after_an_earlier_one(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    again = afl(*CHAT, "--say", "remember", "--after", "guide")
    assert again.out.startswith("Oslo? / ")
    assert afl(*CHAT, "--say", "remember").out == "remember\n"


def test_answers_as_json(afl: Afl, folder: Path) -> None:
    done = afl(*CHAT, "--json", stdin="Oslo?\nfail\n")
    good, bad = [json.loads(line) for line in done.out.splitlines()]
    assert (good["status"], good["text"]) == ("success", "There is rain in Oslo.\nTake a coat.")
    assert (bad["status"], bad["deliverable_card_id"] != "") == ("failed", True)


def test_an_answer_that_failed_is_told(afl: Afl, folder: Path) -> None:
    done = afl(*CHAT, "--say", "fail")
    assert done.code == 1 and "failed:" in done.err


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_one_failed_answer_of_several_counts(afl: Afl, folder: Path, options: tuple[str, ...]) -> None:
    done = afl(*CHAT, "--say", "fail", "--say", "remember", *options)
    assert done.code == 1 and "remember" in done.out
    assert afl(*CHAT, "--say", "Oslo?", *options).code == 0
    assert afl(*CHAT, *options, stdin="fail\n").code == 0  # a conversation has not failed by that


def test_a_transcript(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    lines = afl("turns", "show", "--edges").out.splitlines()
    shown = [line for line in lines if line.startswith("  ") and "asked" not in line]
    assert shown[:5] == [
        "  sys.user       Oslo?",
        '  → weather      {"city":"Oslo"}',
        "  ← weather      rain in Oslo",
        "  delivers       There is rain in Oslo.",
        "                 Take a coat.",
    ]
    assert "enqueue   request   sys.user → guide" in shown[5]
    assert lines[0].endswith("of guide  success")
    found = json.loads(afl("turns", "show", "guide", "--json").out)
    assert [card["type"] for card in found["cards"]][-1] == "task.deliverable"
    assert found["turn"]["agent"] == "guide" and found["steps"][0]["model"] == "scripted"


def test_a_reply_that_was_cut_off_is_told(afl: Afl, folder: Path) -> None:
    said = afl(*CHAT, "--say", "long")
    assert (said.code, said.out) == (0, "Once upon a\n")
    assert "The reply was cut off at max_tokens" in said.err
    assert json.loads(afl(*CHAT, "--say", "long", "--json").out)["cut_off"] is True
    assert "cut off at max_tokens" in afl("turns", "show").out
    assert json.loads(afl("turns", "show", "--json").out)["steps"][0]["stop_reason"] == "max_tokens"
    assert "cut off" not in afl(*CHAT, "--say", "remember").err
    assert json.loads(afl("turns", "show", "--json").out)["steps"][0]["stop_reason"] == "end_turn"


def test_a_reply_that_is_empty_is_an_empty_text(afl: Afl, folder: Path) -> None:
    said = afl(*CHAT, "--say", "nothing")
    assert (said.code, said.out) == (0, "\n") and "The reply is empty." in said.err
    assert json.loads(afl(*CHAT, "--say", "nothing", "--json").out)["text"] == ""
    assert "  delivers       (nothing)" in afl("turns", "show").out.splitlines()
    assert afl(*CHAT, "--say", "remember", "--after", "guide").out == "nothing / remember\n"


def test_turns_wait_for_a_worker_and_can_be_stopped(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    first = afl("turns", "send", "guide", "Bergen?").out.strip()
    second = json.loads(afl("turns", "send", "guide", "Rome?", "--json").out)["turn"]
    listed = json.loads(afl("turns", "list", "guide", "--limit", "2", "--json").out)
    assert [(each["turn"], each["status"]) for each in listed] == [(second, "queued"), (first, "dispatched")]
    (line,) = json.loads(afl("turns", "agents", "--json").out)
    assert (line["agent"], line["status"], line["turn"], line["queued"]) == ("guide", "dispatched", first, 1)
    assert "start one: afl turns worker" in afl("turns", "why", "guide").out
    assert json.loads(afl("turns", "why", second, "--json").out)["code"] == "turn-queued"
    assert afl("turns", "send", "guide", "x", "--wait", "--timeout", "0").code == 3
    stopped = afl("turns", "stop", second, "--reason", "never mind")
    assert stopped.code == 0 and "was told to stop" in stopped.err
    shown = json.loads(afl("turns", "show", second, "--json").out)
    assert (shown["turn"]["status"], shown["cards"][-1]["type"]) == ("canceled", "task.deliverable")
    assert json.loads(afl("turns", "stop", second, "--json").out)["late"] is True


def test_whoever_waits_is_told_that_no_worker_serves_the_agent(
    afl: Afl, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.client.turn_waits._PATIENCE", 0)
    afl(*CHAT, "--say", "Oslo?")
    done = afl("turns", "send", "guide", "x", "--wait", "--timeout", "1")
    assert (done.code, done.out) == (3, "")
    why = afl("turns", "why", "guide").out.splitlines()
    assert "no worker of" in why[0] and "start one: afl turns worker MODULE" in why[1]
    assert done.err.count("no worker of") == 1 and why[1] in done.err.splitlines()
    assert "Still waiting" in done.err


def test_tables(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    agents = afl("turns", "agents").out
    assert agents.startswith("AGENT  STATUS  TURN") and "travel" in agents
    assert last(afl) in afl("turns", "list").out
    assert "it succeeded." in afl("turns", "why").out


def test_the_same_correlation_is_the_same_turn(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    sent = [afl("turns", "send", "guide", "Rome?", "--correlation", "order-7").out for _ in range(2)]
    assert sent[0] == sent[1] and sent[0].startswith("turn_")


@pytest.mark.parametrize(
    ("args", "code", "said"),
    [
        (("send", "gide", "hello"), 1, "no agent 'gide'; did you mean guide?"),
        (("show", "01zzzz"), 1, "no turn and no agent '01zzzz'"),
        (("stop", "nobody"), 1, "no turn and no agent 'nobody'"),
        (("list", "nobody"), 1, "no agent 'nobody'"),
        (("tail", "nobody"), 1, "no agent 'nobody'"),
        (("send", "guide", "x", "--field", "=y"), 2, "name=description"),
        (("chat",), 1, "say which agent"),
        (("chat", "--module", "nothing.py"), 1, "does not exist"),
        (("worker", "nothing.py"), 1, "does not exist"),
        (("chat", "gide", "--module", "agents.py"), 1, "no agent 'gide'; did you mean guide?"),
        (("agents", "--bus", "http://x"), 1, "AFL_BUS|bus"),
    ],
)
def test_what_is_wrong_is_said(afl: Afl, folder: Path, args: tuple[str, ...], code: int, said: str) -> None:
    afl(*CHAT, "--say", "Oslo?")
    done = afl("turns", *args)
    assert done.code == code
    assert any(each in " ".join(done.err.replace("│", " ").split()) for each in said.split("|")), done.err


def test_a_store_that_is_not_there_is_not_made(afl: Afl, folder: Path) -> None:
    done = afl("turns", "agents")
    assert done.code == 1 and f"there is no store {folder}/.afl/afl.db yet" in done.err
    assert "hint" not in done.err, "no server has to be started"
    assert not (folder / ".afl").exists()


def test_a_project_without_agents(afl: Afl, folder: Path) -> None:
    afl(*CHAT, "--say", "Oslo?")
    assert "has no agents" in afl("turns", "agents", "--project", "other").err
    assert afl("turns", "list", "--project", "other").err.startswith("No turns yet in /")


@pytest.mark.parametrize("name", [command.name for command in turns.registered_commands])
def test_every_command_has_examples_and_json(afl: Afl, name: str) -> None:
    shown = afl("turns", name, "--help").out
    assert "Examples" in shown and f"afl turns {name}" in " ".join(shown.split())
    assert "--json" in shown or name == "worker"
