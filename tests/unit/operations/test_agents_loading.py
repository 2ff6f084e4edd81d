"""Agent modules: by file or by name, whole or one attribute; what is wrong with one is told."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from afl.kernel.errors import SourcePlace
from afl.operations.program.agents import AgentError, load_agent, load_agents
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import HandlerContext

ONE = 'from afl import handler\n\n@handler("t.One")\ndef one(n): return {"m": n}\n'


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path[:])
    yield tmp_path
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


def test_a_file(folder: Path) -> None:
    (folder / "one_file.py").write_text(ONE)
    assert load_agent("one_file.py").names == ["t.One"]
    assert load_agent(str(folder / "one_file.py")).names == ["t.One"]


def test_a_file_imports_its_neighbors(folder: Path) -> None:
    (folder / "sub").mkdir()
    (folder / "sub" / "neighbor_of_agents.py").write_text("N = 7\n")
    (folder / "sub" / "importing_agents.py").write_text("from neighbor_of_agents import N\n" + ONE)
    assert load_agent("sub/importing_agents.py").names == ["t.One"]


def test_a_module_by_name(folder: Path) -> None:
    (folder / "named_agents").mkdir()
    (folder / "named_agents" / "news.py").write_text(ONE)
    assert load_agent("named_agents.news").names == ["t.One"]


def test_two_files_of_one_name_are_two_modules(folder: Path) -> None:
    for name in ("a", "b"):
        (folder / name).mkdir()
        (folder / name / "same_agents.py").write_text(ONE.replace("One", name.upper()))
    assert load_agents(["a/same_agents.py", "b/same_agents.py"]).names == ["t.A", "t.B"]


def test_a_file_named_like_a_library_does_not_replace_it(folder: Path) -> None:
    import json

    (folder / "json.py").write_text(ONE)
    assert load_agent("json.py").names == ["t.One"]
    assert sys.modules["json"] is json


def test_one_attribute(folder: Path) -> None:
    (folder / "table_agents.py").write_text(ONE + '\ndef two(n): return {"m": n}\n\nTABLE = {"t.Two": two}\n')
    assert load_agent("table_agents.py:TABLE").names == ["t.Two"]
    assert load_agent("table_agents.py:one").names == ["t.One"]
    with pytest.raises(AgentError, match=r"table_agents\.py has no 'nope'"):
        load_agent("table_agents.py:nope")


def test_a_missing_file() -> None:
    with pytest.raises(AgentError, match=r"nope\.py does not exist"):
        load_agent("nope.py")


@pytest.mark.parametrize("name", ["nope_agents", "nope_agents.inner", "json.nope"])
def test_a_missing_module(name: str) -> None:
    with pytest.raises(AgentError, match=f"there is no agent module '{name}'; give a file"):
        load_agent(name)


def test_a_module_that_cannot_be_imported_says_why_and_where(folder: Path) -> None:
    (folder / "broken_agents.py").write_text("\nimport no_such_library\n")
    with pytest.raises(AgentError) as caught:
        load_agent("broken_agents.py")
    assert "cannot be imported: ModuleNotFoundError: No module named 'no_such_library'" in str(caught.value)
    assert caught.value.place == SourcePlace("broken_agents.py", 2, 1)
    with pytest.raises(AgentError, match="No module named 'no_such_library'"):
        load_agent("broken_agents")


def test_a_module_with_a_syntax_error(folder: Path) -> None:
    (folder / "unclosed_agents.py").write_text("x = (1\n")
    with pytest.raises(AgentError, match=r"SyntaxError: '\(' was never closed") as caught:
        load_agent("unclosed_agents.py")
    assert caught.value.place == SourcePlace("unclosed_agents.py", 1, 5)


def test_a_module_with_a_model_alone_says_how_to_give_it_facets(folder: Path) -> None:
    (folder / "model_agents.py").write_text(
        "from afl.models import ScriptedModel\nmodel = ScriptedModel([])\n"
    )
    with pytest.raises(
        AgentError, match="it has the model 'model', so say which facets it answers"
    ) as caught:
        load_agent("model_agents.py")
    assert "--agent model_agents.py:facets" in str(caught.value)


def test_a_module_with_an_object_with_marked_methods_says_how_to_name_it(folder: Path) -> None:
    (folder / "object_agents.py").write_text(
        "from afl import handler\nclass Desk:\n"
        "    @handler('t.One')\n    def one(self):\n        return {}\ndesk = Desk()\n"
    )
    with pytest.raises(AgentError, match=r"its object 'desk' has some: --agent object_agents.py:desk"):
        load_agent("object_agents.py")
    assert load_agent("object_agents.py:desk").names == ["t.One"]


def test_a_module_without_handlers_says_how_to_write_one(folder: Path) -> None:
    (folder / "empty_agents.py").write_text("x = 1\n")
    with pytest.raises(AgentError, match="has no handlers; a handler is a function like this") as caught:
        load_agent("empty_agents.py")
    assert '@handler("namespace.Facet")' in str(caught.value)


def test_two_modules_with_a_handler_for_one_facet(folder: Path) -> None:
    (folder / "first_agents.py").write_text(ONE)
    (folder / "second_agents.py").write_text(ONE)
    with pytest.raises(AgentError, match=r"both first_agents.py and second_agents.py .* t.One"):
        load_agents(["first_agents.py", "second_agents.py"])


def test_a_module_with_two_handlers_for_one_facet(folder: Path) -> None:
    (folder / "double_agents.py").write_text(ONE + ONE.replace("def one", "def other"))
    with pytest.raises(AgentError, match=r"double_agents.py: there are two handlers for t.One"):
        load_agent("double_agents.py")


def test_no_modules_are_no_handlers() -> None:
    assert load_agents([]).names == []


def test_a_model_stands_in_a_map_for_a_function(folder: Path) -> None:
    (folder / "model_agents.py").write_text(
        "from afl.models import ScriptedModel\nregistry = {'t.One': ScriptedModel([]), 't.Two': 'openai:gpt-5'}\n"
    )
    with closing(MemoryStore()) as store:
        assert load_agent("model_agents.py:registry", store).names == ["t.One", "t.Two"]
    looked_at = load_agent("model_agents.py:registry").find("t.One")
    assert looked_at is not None
    with pytest.raises(AgentError, match="model scripted cannot be asked without a store"):
        looked_at({}, HandlerContext("task", "step", "run", "t.One"))


def test_a_bare_mark_is_told_at_the_line_of_the_module(folder: Path) -> None:
    (folder / "bare_mark.py").write_text("from afl import handler\n\n\n@handler\ndef one(n): return {}\n")
    with pytest.raises(AgentError, match="above one, not @handler") as caught:
        load_agent("bare_mark.py")
    assert caught.value.place is not None
    assert (caught.value.place.file, caught.value.place.line) == ("bare_mark.py", 4)
