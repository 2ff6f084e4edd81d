"""Handlers are compared with their facets before anything runs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypedDict

import pytest

import afl
from afl.operations.program.sources import program_of
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import HandlerContext, Handlers
from afl.runtime.task_handlers.signatures import HandlerMismatch, mismatches, near_misses

SOURCE = """
namespace shop {
    event facet Charge(order: String, amount: Double) => (id: String, fee: Double = 0.0)
    event facet Ship(order: String)
    workflow Buy(order: String) => (id: String) andThen {
        paid = Charge(order = $.order, amount = 1.5)
        sent = Ship(order = paid.id)
        yield Buy(id = paid.id)
    }
}
"""


@dataclass
class Receipt:
    id: str
    fee: float = 0.0


@dataclass
class Slip:
    number: str


class Answer(TypedDict):
    id: str


def charge(order: str, amount: float) -> dict[str, Any]:
    return {"id": order}


def ship(order: str) -> None: ...


def found(**functions: Any) -> list[str]:
    handlers = {"shop.Charge": charge, "shop.Ship": ship}
    named = {f"shop.{name}" if name[0].isupper() else name: each for name, each in functions.items()}
    return mismatches(Handlers.of({**handlers, **named}), program_of(SOURCE, name="shop.afl"))


def test_functions_that_fit() -> None:
    def with_all(**given: Any) -> Any: ...

    def with_context(order: str, amount: float, context: HandlerContext, more: int = 1) -> Receipt: ...

    async def typed(order: str, amount: float) -> Answer: ...

    def untyped(order, amount): ...  # type: ignore[no-untyped-def]

    def with_unknown_name(order: str, amount: float) -> NoSuchName: ...  # type: ignore[name-defined]  # noqa: F821

    for each in (charge, with_all, with_context, typed, untyped, with_unknown_name):
        assert found(Charge=each) == []


def test_a_parameter_that_is_misspelled_missing_or_extra_is_told_with_both_places() -> None:
    def misspelled(order: str, amuont: float) -> dict[str, Any]: ...

    one, two = found(Charge=misspelled)
    assert one.startswith("tests/unit/runtime/test_handler_signatures.py:")
    assert "misspelled() does not take 'amount', which shop.Charge gives; did you mean 'amuont'?" in one
    assert one.endswith("(shop.Charge in shop.afl:3)")
    assert "misspelled() needs 'amuont', which shop.Charge does not give" in two


def test_a_parameter_that_is_given_by_position_only_is_told() -> None:
    def positional(order: str, /, amount: float) -> dict[str, Any]: ...

    def collecting(*order: str, amount: float) -> dict[str, Any]: ...

    (problem,) = found(Charge=positional)
    assert "positional() takes 'order' by position only, and shop.Charge gives it by name" in problem
    (problem,) = found(Charge=collecting)
    assert "collecting() does not take 'order', which shop.Charge gives" in problem


@pytest.mark.parametrize("kind", [str, None, list[str], Slip])
def test_a_return_annotation_that_cannot_fit_is_told(kind: Any) -> None:
    def wrong(order: str, amount: float) -> Any: ...

    wrong.__annotations__["return"] = kind
    (problem,) = found(Charge=wrong)
    assert "shop.Charge returns (id)" in problem


def test_a_near_miss_of_a_name_is_told() -> None:
    program = program_of(SOURCE, name="shop.afl")
    handlers = Handlers.of({"shop.Chrage": charge, "Ship": ship, "other.Facet": ship, "shop.Refund": ship})
    assert mismatches(handlers, program) == []
    (problem,) = near_misses(handlers, program)
    assert "handler of shop.Chrage, which is not an event facet; did you mean 'shop.Charge'?" in problem
    asked = program_of(SOURCE.replace("(id: String, fee: Double = 0.0)", '(id: String) with Human("x")'))
    assert near_misses(handlers, asked) == []


@pytest.mark.parametrize("facet", ["Sleeps", "Tags", "Until2", "Publisher"])
def test_a_step_of_the_runtime_is_no_near_miss(facet: str) -> None:
    """Nobody serves it."""
    steps = """
        a = sys.Sleep(ms = 1)
        b = sys.Until(time = "2026-01-01T00:00:00Z")
        c = sys.Tag(name = "a", value = "b")
        d = sys.Publish(name = "a", value = 1)
    """
    program = program_of(SOURCE.replace("yield", f"{steps} yield", 1))
    assert near_misses(Handlers.of({facet: ship}), program) == []


def test_run_refuses_before_anything_is_stored() -> None:
    store = MemoryStore()

    def wrong(order: str) -> dict[str, Any]: ...

    with pytest.raises(HandlerMismatch, match="does not take 'amount'"):
        afl.run(SOURCE, {"order": "1"}, handlers={"shop.Charge": wrong, "shop.Ship": ship}, store=store)
    assert store.find_runs() == []
    store.close()
