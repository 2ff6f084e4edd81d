"""Modules that declare agents of turns: what is found in them, and what is wrong with them."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from afl.kernel.settings import Settings
from afl.models import ScriptedModel
from afl.operations.program.agents import AgentError
from afl.operations.turn.turn_service import WorkerOptions, load_model, load_turn_module, staffed
from afl.turns import local_tool, open_agents
from afl.turns.tools.local import near
from afl.turns.tools.tool_names import BUILT_IN

GOOD = """
from afl.models import ScriptedModel
from afl.turns import agent

def weather(city: str) -> str:
    "The weather."
    return "rain"

def other(city: str) -> str:
    return "sun"

model = ScriptedModel(["hello"], name="first")
small = ScriptedModel(["hi"], name="second")
models = {"small": small}
guide = agent("guide", "You help.", tools=[weather, "search"], tags=["travel"])
alias = guide
team = [agent("cook", tools=[weather], worker_target="kitchen")]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    for name in ("good", "bad"):
        sys.modules.pop(name, None)


def load(folder: Path, source: str) -> None:
    (folder / "bad.py").write_text(source)
    load_turn_module("bad.py")


def test_agents_without_a_key_for_their_model(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ANTHROPIC_API_KEY", "")
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    script = 'models = {"script": ScriptedModel(["here"])}'
    agents = [
        'a = agent("a")',
        'b = agent("b", llm_config={"model": "openai:gpt-5-mini"})',
        'c = agent("c", llm_config={"model": "script"})',
    ]
    head = "from afl.models import ScriptedModel\nfrom afl.turns import agent"
    (folder / "good.py").write_text("\n".join([head, script, *agents]))
    assert load_turn_module("good.py").unavailable() == {
        "anthropic:claude-sonnet-4-6 cannot be asked: ANTHROPIC_API_KEY is not set": ["a"],
        "openai:gpt-5-mini cannot be asked: OPENAI_API_KEY is not set": ["b"],
    }


def test_tools_that_nothing_provides_are_told_when_a_worker_starts(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (folder / "good.py").write_text(
        GOOD.replace(
            'tools=[weather, "search"]', 'tools=[weather, "recal", "remember", "submit_result"]'
        ).replace("tools=[weather],", 'tools=[weather], must_end_with=["serve", "submit_result", "weather"],')
    )

    async def start() -> None:
        settings = Settings(store=f"sqlite:///{folder}/afl.db")
        async with staffed(settings, load_turn_module("good.py"), WorkerOptions()):
            pass

    asyncio.run(start())
    told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert [each.partition(": nothing provides it; ")[::2] for each in told] == [
        ("agent guide has no tool 'recal'", "did you mean recall?"),
        ("agent cook has no tool 'serve'", near("serve", [*BUILT_IN, "weather"])),
    ]


def test_what_a_module_declares(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    found = load_turn_module("good.py")
    assert [agent.agent_id for agent in found.agents] == ["guide", "cook"]
    assert (found.model.name, list(found.models)) == ("first", ["small"])
    assert found.targets == ["agents", "kitchen"]
    assert [local_tool(tool).name for tool in found.tools] == ["weather", "weather"]
    assert found.agent("cook").worker_target == "kitchen"
    assert load_turn_module("good.py:team").agents == (found.agents[1],)


def test_another_model_may_think(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    assert load_turn_module("good.py", "good.py:small").model.name == "second"
    assert load_model("good.py:model").name == "first"
    with pytest.raises(AgentError, match="expected a model"):
        load_model("good.py:guide")


def test_an_agent_is_named_when_there_are_several(folder: Path) -> None:
    (folder / "good.py").write_text(GOOD)
    found = load_turn_module("good.py")
    with pytest.raises(AgentError, match="guide, cook; say which"):
        found.agent()
    with pytest.raises(AgentError, match="did you mean guide"):
        found.agent("gide")
    assert load_turn_module("good.py:guide").agent().agent_id == "guide"


def test_without_a_model_it_is_claude(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.models.claude.ClaudeModel", lambda *name: ScriptedModel([], name="claude"))
    (folder / "good.py").write_text(GOOD.replace("model = ", "nothing = "))
    assert load_turn_module("good.py").model.name == "claude"
    assert load_model("claude-sonnet-4-5").name == "claude"


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ('"openai:gpt-5-mini"', "gpt-5-mini"),
        ('"http://localhost:1/v1#llama3"', "http://localhost:1/v1#llama3"),
        ("__import__('pydantic_ai.models.test').models.test.TestModel()", "test"),
    ],
)
def test_a_module_may_have_any_model(folder: Path, given: str, name: str) -> None:
    source = f"from afl.turns import agent\na, model, models = agent('x'), {given}, {{'other': {given}}}\n"
    (folder / "any_model.py").write_text(source)
    found = load_turn_module("any_model.py")
    assert (found.model.name, found.models["other"].name) == (name, name)
    sys.modules.pop("any_model")


@pytest.mark.parametrize("name", ["openai:o3", "groq:llama3", "http://localhost:1/v1#llama3"])
def test_a_model_of_a_command_is_a_providers_or_a_modules(name: str) -> None:
    assert load_model(name).name == name.removeprefix("openai:")
    with pytest.raises(AgentError, match="there is no agent module 'no_such_module'"):
        load_model("no_such_module:model")


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("", "declares no agents"),
        ("from afl.turns import agent\na, b = agent('x'), agent('x')", "two agents of one name"),
        ("from afl.turns import agent\na = agent('x')\nmodel = 3", "`model` is a int"),
        ("from afl.turns import agent\nfrom afl.models import ScriptedModel\na = agent('x')\n"
         "model = ScriptedModel([])\nmodels = [1]", "must be a map of models"),
        ("from afl.turns import agent\nfrom afl.models import ScriptedModel\nmodel = ScriptedModel([])\n"
         "def f(): pass\ng = f\ndef f(): pass\na = agent('x', tools=[f, g])", "two tools have the name 'f'"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_said(folder: Path, source: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        load(folder, source)


def test_a_model_by_a_name_of_the_module_is_asked_by_its_own_name() -> None:
    fast = ScriptedModel(["quick"], name="llama3")

    async def story() -> None:
        async with open_agents("memory://", model=ScriptedModel([]), models={"fast": fast}) as agents:
            await agents.define("guide", llm_config={"model": "fast"})
            assert (await agents.ask("guide", "Hello?")).text == "quick"

    asyncio.run(story())
    assert [request.model for request in fast.requests] == [""]  # its own
