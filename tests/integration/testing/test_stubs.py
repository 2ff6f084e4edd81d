"""The fixtures of `afl.testing`: a fresh store, a client on it, stubs that answer and know their calls."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import afl
from afl.client.client import Client
from afl.client.connection import connect
from afl.kernel.errors import InputError
from afl.testing import Stubs, raises

ORDER = """
namespace shop {
    event facet Charge(amount: Int) => (id: String)
    event facet Ship(charge: String) => (tracking: String)
    workflow Order(amount: Int) => (tracking: String) andThen {
        charged = Charge(amount = $.amount) with Retry(attempts = 2, backoff = 0)
        shipped = Ship(charge = charged.id)
        yield Order(tracking = shipped.tracking)
    }
}
"""
CHARGED = {"id": "ch_1"}
SHIPPED = {"tracking": "t_1"}


@pytest.fixture
def flow(empty_sqlite_url: str) -> Iterator[Client]:
    with connect(empty_sqlite_url) as client:
        yield client


def test_stubs_answer_and_know_their_calls(flow: Client) -> None:
    stubs = Stubs(flow, {"shop.Charge": CHARGED, "shop.Ship": SHIPPED})
    assert stubs.run(ORDER, amount=5) == SHIPPED
    assert stubs.calls("shop.Charge") == [{"amount": 5}]
    assert stubs.calls("shop.Ship") == [{"charge": "ch_1"}]
    assert [call.facet for call in stubs.recorded()] == ["shop.Charge", "shop.Ship"]


def test_a_stub_raises_and_a_list_answers_in_turn(flow: Client) -> None:
    charges = [raises(TimeoutError("no answer")), CHARGED]
    stubs = Stubs(flow, {"shop.Charge": charges, "shop.Ship": raises(OSError("no van"))})
    with pytest.raises(afl.RunFailed, match="no van"):
        stubs.run(ORDER, inputs={"amount": 5})
    first, second = stubs.recorded("shop.Charge")
    assert (first.attempt, second.attempt) == (1, 2)
    assert first.idempotency_key == second.idempotency_key


def test_a_function_is_a_stub_like_any_handler(flow: Client) -> None:
    def charge(amount: int, context: afl.HandlerContext) -> dict[str, str]:
        return {"id": f"{amount} {context.facet}"}

    async def ship(charge: str) -> dict[str, str]:
        return {"tracking": charge}

    stubs = Stubs(flow, {"Charge": charge, "Ship": ship})
    assert stubs.run(ORDER, "shop.Order", amount=1) == {"tracking": "1 shop.Charge"}
    assert stubs.calls("Charge") == [{"amount": 1}]


def test_what_a_handler_does_to_its_values_does_not_change_the_record(flow: Client) -> None:
    source = (
        "event facet F(xs: [Int])\nworkflow W() => (n: Int) andThen {\n f = F(xs = [1])\n yield W(n = 1)\n}"
    )
    stubs = Stubs(flow, {"F": lambda xs: xs.append(2) or {}})
    assert stubs.run(source) == {"n": 1}
    assert stubs.calls("F") == [{"xs": [1]}]


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        ([], "list is empty"),
        (TimeoutError("x"), "write raises"),
        (TimeoutError, r"raises\(TimeoutError\(\)\)"),
        ("ch_1", "give a mapping"),
    ],
)
def test_what_cannot_be_an_answer_is_refused(flow: Client, answer: object, said: str) -> None:
    with pytest.raises(InputError, match=said):
        Stubs(flow, {"shop.Charge": answer})


def test_a_misspelled_stub_is_named(flow: Client) -> None:
    with pytest.raises(InputError, match=r"did you mean shop\.Charge"):
        Stubs(flow, {"shop.Charge": CHARGED}).calls("shop.Chrage")
    with pytest.raises(InputError, match="takes an exception"):
        raises(TimeoutError)  # type: ignore[arg-type]
