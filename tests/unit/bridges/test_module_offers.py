"""What a module offers: handlers, functions that answer messages, agents of turns; alone or together."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace

import pytest

from afl.bridges import answers
from afl.bridges.marks import answering
from afl.kernel.errors import InputError
from afl.operations.program.agents import AgentError
from afl.operations.work.offers import load_offer, offer_of

EVERYTHING = """
from afl import handler
from afl.bridges import answers
from afl.models import ScriptedModel
from afl.turns import agent, tool

model = ScriptedModel(["hello"])


@tool(timeout=5)
def look(at: str) -> str:
    return at


team = [agent("guide", tools=[look]), agent("cook")]


@handler("t.Work")
def work(): ...


@answers("translator")
@answers("speaker:one")
def translate(text): ...
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_one_module_may_offer_everything(folder: Path) -> None:
    (folder / "offers_all.py").write_text(EVERYTHING)
    offer = load_offer(["offers_all.py"])
    assert offer.handlers.names == ["t.Work"]
    assert sorted(offer.answering) == ["speaker:one", "translator"]
    assert [agent.agent_id for agent in offer.agents[0].agents] == ["guide", "cook"]
    assert offer.names == [
        "t.Work",
        *(f"messages to {agent}" for agent in offer.answering),
        "agent guide",
        "agent cook",
    ]


@pytest.mark.parametrize(
    "text",
    [
        'from afl.bridges import answers\n@answers("a")\ndef f(): ...\n',
        "from afl.models import ScriptedModel\nfrom afl.turns import agent\nmodel = ScriptedModel([])\n"
        'a = agent("a")\n',
    ],
)
def test_handlers_are_no_duty(folder: Path, text: str) -> None:
    name = f"offers_{abs(hash(text)):x}"
    (folder / f"{name}.py").write_text(text)
    offer = load_offer([f"{name}.py"])
    assert offer.handlers.names == [] and len(offer.names) == 1


def test_a_module_that_offers_nothing_is_told(folder: Path) -> None:
    (folder / "offers_none.py").write_text("x = 1\n")
    with pytest.raises(AgentError, match="has no handlers"):
        load_offer(["offers_none.py"])


def test_two_functions_for_one_agent_are_told(folder: Path) -> None:
    text = 'from afl.bridges import answers\n@answers("a")\ndef f(): ...\n@answers("a")\ndef g(): ...\n'
    (folder / "offers_two.py").write_text(text)
    with pytest.raises(AgentError, match="two functions answer for a"):
        load_offer(["offers_two.py"])


@pytest.mark.parametrize("name", ["", ":one", "a:", "a:b:c"])
def test_an_agent_has_a_type_and_at_most_one_instance(name: str) -> None:
    with pytest.raises(InputError, match="type or type:instance"):
        answers(name)


def test_the_same_function_under_two_names_is_one() -> None:
    @answers("a")
    def f() -> None: ...

    assert answering([SimpleNamespace(f=f, g=f)]) == {"a": f}


def test_nothing_offers_nothing() -> None:
    assert offer_of(None).names == []
    assert offer_of({"t.Work": lambda: None}).names == ["t.Work"]
