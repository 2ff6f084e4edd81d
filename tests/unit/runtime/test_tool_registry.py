"""ToolRegistry: exact name, then short name, then default."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest

from afl.runtime.agent import ToolRegistry

Payload = dict[str, Any]


def answering(word: str) -> Any:
    return lambda payload: {"by": word, **payload}


@pytest.fixture
def registry() -> ToolRegistry:
    registry = ToolRegistry()
    registry.register("ns.Exact", answering("ns.Exact"))
    registry.register("Short", answering("Short"))
    return registry


def test_an_exact_name_is_served(registry: ToolRegistry) -> None:
    assert registry.handle("ns.Exact", {"x": 1}) == {"by": "ns.Exact", "x": 1}
    assert registry.has_handler("ns.Exact")


@pytest.mark.parametrize("facet", ["Short", "ns.Short", "a.b.Short"])
def test_a_short_name_serves_every_namespace(registry: ToolRegistry, facet: str) -> None:
    assert registry.handle(facet, {}) == {"by": "Short"}
    assert registry.has_handler(facet)


@pytest.mark.parametrize("facet", ["Exact", "other.Exact", "ns.Shorter"])
def test_a_dotted_name_serves_no_other_namespace(registry: ToolRegistry, facet: str) -> None:
    assert registry.handle(facet, {}) is None
    assert not registry.has_handler(facet)
    assert registry.find(facet) is None


def test_the_exact_name_goes_before_the_short_one(registry: ToolRegistry) -> None:
    registry.register("ns.Short", answering("ns.Short"))
    assert registry.handle("ns.Short", {}) == {"by": "ns.Short"}
    assert registry.handle("other.Short", {}) == {"by": "Short"}


def test_the_default_serves_what_nothing_else_does(registry: ToolRegistry) -> None:
    assert not registry.has_default
    registry.set_default_handler(lambda facet, payload: {"facet": facet, **payload})
    assert registry.has_default
    assert registry.has_handler("any.Thing")
    assert registry.find("any.Thing") is None
    assert registry.handle("any.Thing", {"x": 1}) == {"facet": "any.Thing", "x": 1}
    assert registry.handle("ns.Exact", {}) == {"by": "ns.Exact"}


def test_the_last_registration_counts(registry: ToolRegistry) -> None:
    registry.register("Short", answering("later"))
    assert registry.handle("Short", {}) == {"by": "later"}
    assert registry.names == ["ns.Exact", "Short"]


def test_answers_become_plain_data() -> None:
    @dataclass
    class Weight:
        grams: int

    async def weigh(payload: Payload) -> Any:
        return Weight(payload["grams"])

    registry = ToolRegistry()
    registry.register("Weigh", weigh)
    assert registry.handle("Weigh", {"grams": 5}) == {"grams": 5}


def test_what_a_handler_raises_is_the_callers_business(registry: ToolRegistry) -> None:
    def broken(payload: Payload) -> Payload:
        raise LookupError("not here")

    registry.register("Broken", broken)
    with pytest.raises(LookupError, match="not here"):
        registry.handle("Broken", {})
