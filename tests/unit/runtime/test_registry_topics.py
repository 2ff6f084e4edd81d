"""Topics say what a runner serves: what it claims, and what it keeps of the tasks that it creates itself."""

from __future__ import annotations

from typing import Any

import pytest

from afl.runtime.runner.registry_handlers import RegistryHandlers
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.task_handlers.tool_registry import ToolRegistry


def answer(**given: Any) -> dict[str, Any]:
    return given


@pytest.mark.parametrize(
    ("topics", "served"),
    [
        ([], {"a.One", "a.Two", "b.Two"}),
        (["a.One"], {"a.One"}),
        (["Two"], {"a.Two", "b.Two"}),
        (["a.Two"], {"a.Two"}),
        (["a.Three"], set()),
    ],
)
def test_topics_leave_other_facets_to_others(topics: list[str], served: set[str]) -> None:
    registry = ToolRegistry()
    registry.register("Two", lambda payload: payload)
    handlers = RegistryHandlers(registry, topics, Handlers.of({"a.One": answer}))
    assert {name for name in ("a.One", "a.Two", "b.Two", "a.Three") if handlers.serves(name)} == served
