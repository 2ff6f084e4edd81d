"""afl.run: its sources and its handlers."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import afl
from afl.bridges import answers
from afl.kernel.errors import InputError

SOURCE = """
event facet Double(n: Long) => (m: Long)
workflow Twice(n: Long) => (m: Long) andThen {
    doubled = Double(n = $.n)
    yield Twice(m = doubled.m)
}
"""


class Doubler:
    def __init__(self, factor: int) -> None:
        self.factor = factor

    @afl.handler("Double")
    def double(self, n: int) -> dict[str, int]:
        return {"m": self.factor * n}


class Silent(Doubler):
    def double(self, n: int) -> dict[str, int]:
        return {"m": n}


def test_methods_of_an_object_are_handlers(tmp_path: Path) -> None:
    assert afl.run(SOURCE, {"n": 4}, handlers=Doubler(2), store=f"sqlite:///{tmp_path}/a.db") == {"m": 8}


class Loose:
    @staticmethod
    @afl.handler("Double")
    def inside(n: int) -> dict[str, int]:
        return {"m": 3 * n}

    @afl.handler("Triple")
    @classmethod
    def outside(cls, n: int) -> dict[str, int]:
        return {"m": 4 * n}


@pytest.mark.parametrize(("facet", "outputs"), [("Double", {"m": 12}), ("Triple", {"m": 16})])
def test_static_and_class_methods_are_handlers(facet: str, outputs: dict[str, int]) -> None:
    assert afl.run(SOURCE.replace("Double", facet), {"n": 4}, handlers=Loose(), store="memory://") == outputs


def test_a_method_that_is_overridden_without_a_mark_is_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the object of the class Silent has no handlers; a handler is"):
        afl.run(SOURCE, {"n": 4}, handlers=Silent(2), store=f"sqlite:///{tmp_path}/a.db")


def unmarked(n: int) -> dict[str, int]:
    return {"m": n}


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (unmarked, "the function unmarked is not marked with @handler"),
        ([unmarked], "the function unmarked is not marked with @handler"),
        ("agents.py", "the text 'agents.py' is not looked up as a module"),
        (pytest, "the module pytest has no handlers"),
    ],
)
def test_what_has_no_handlers_is_refused(given: Any, said: str) -> None:
    with pytest.raises(InputError, match=f"{said}.*a handler is"):
        afl.run(SOURCE, {"n": 4}, handlers=given, store="memory://")
    with afl.connect("memory://") as flow, pytest.raises(InputError, match=said):
        flow.worker(given)


def test_a_message_of_a_child_run_is_answered(tmp_path: Path) -> None:
    """The workflow that is run sends none itself."""
    source = """
    event facet Translate(text: String) => (text: String) with Message("translator")
    workflow Page(text: String) => (text: String) andThen {
        french = Translate(text = $.text)
        yield Page(text = french.text)
    }
    workflow Book(text: String) => (text: String) andThen {
        page = Page(text = $.text) with Run()
        yield Book(text = page.text)
    }
    """
    module = ModuleType("translators")
    vars(module)["translate"] = answers("translator")(lambda text: {"text": f"{text}, en français"})
    store = f"sqlite:///{tmp_path}/a.db"
    assert afl.run(source, {"text": "hello"}, handlers=module, workflow="Book", store=store) == {
        "text": "hello, en français"
    }


def test_a_worker_without_room_for_a_task_is_refused() -> None:
    with (
        afl.connect("memory://") as flow,
        pytest.raises(InputError, match="concurrency of a worker is 0"),
        flow.worker({}, concurrency=0),
    ):
        pass
    with pytest.raises(InputError, match="concurrency of a worker is 0"):
        afl.run(SOURCE, {"n": 4}, handlers=Doubler(2), store="memory://", concurrency=0)


def test_a_text_that_is_neither_a_source_nor_a_path() -> None:
    with pytest.raises(InputError, match="'hello world' is neither AFL nor a file"):
        afl.run("hello world")


def test_a_source_of_another_type_is_told() -> None:
    with pytest.raises(InputError, match="a source is a path or a text in AFL, got None"):
        afl.run(None)  # type: ignore[arg-type]


def test_a_file_that_is_missing_is_named() -> None:
    with pytest.raises(InputError, match=r"File not found: nowhere\.afl"):
        afl.run("nowhere.afl")
