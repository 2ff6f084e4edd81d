"""The crash matrix: it finds handlers that do harm when they are called twice, and passes what is sound."""

from __future__ import annotations

import importlib.util
import os
import signal
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import afl
from afl.client.client import Client
from afl.kernel.errors import InputError
from afl.testing import survives_crashes

ROOT = Path(__file__).parents[3]
ORDER = """
namespace shop {
    event facet Charge(amount: Int) => (id: String)
    event facet Ship(charge: String) => (tracking: String)
    workflow Order(amount: Int) => (tracking: String) andThen {
        charged = Charge(amount = $.amount)
        shipped = Ship(charge = charged.id)
        yield Order(tracking = shipped.tracking)
    }
}
"""


def ship(charge: str, context: afl.HandlerContext) -> dict[str, str]:
    return {"tracking": f"{charge} {len(context.idempotency_key) > 0}"}


class Ledger:
    """A payment service: a file with a line for each payment."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "payments.txt"

    def pay(self, amount: int, key: str = "") -> None:
        if not key or key not in self.payments():
            with self._file.open("a") as lines:
                print(key or amount, file=lines)

    def payments(self) -> list[str]:
        return self._file.read_text().split() if self._file.exists() else []


def order(flow: Client, charge: Any) -> dict[str, Any]:
    with flow.worker({"shop.Charge": charge, "shop.Ship": ship}):
        return flow.run(ORDER, amount=5, timeout=50)


@survives_crashes
def test_a_handler_that_uses_its_key_survives_every_crash(flow: Client, folder: Path) -> object:
    ledger = Ledger(folder)

    def charge(amount: int, context: afl.HandlerContext) -> dict[str, str]:
        ledger.pay(amount, context.idempotency_key)
        return {"id": "ch_1"}

    return order(flow, charge), ledger.payments()


class TestOrders:
    amount = 5

    @survives_crashes(pure=["shop.Charge"])
    def test_a_method_of_a_class(self, flow: Client) -> object:
        return order(flow, lambda amount: {"id": f"ch_{amount == self.amount}"})


def test_a_handler_that_does_not_use_its_key_is_found(tmp_path: Path) -> None:
    @survives_crashes
    def charged_twice(flow: Client) -> object:
        return order(flow, lambda amount: {"id": "ch_1"})

    with pytest.raises(AssertionError) as failed:
        charged_twice(tmp_path=tmp_path)
    told = str(failed.value)
    assert "crash at commit.before:" in told
    assert "shop.Charge is called 2 times for the key run-1/" in told
    assert "shop.Charge: called again without asking for context.idempotency_key" in told
    assert "shop.Ship" not in told


def test_what_handlers_leave_behind_is_compared(tmp_path: Path) -> None:
    @survives_crashes(pure=["shop.*"])
    def charged_twice(flow: Client, folder: Path) -> object:
        ledger = Ledger(folder)

        def charge(amount: int) -> dict[str, str]:
            ledger.pay(amount)
            return {"id": "ch_1"}

        return order(flow, charge), ledger.payments()

    with pytest.raises(AssertionError, match=r"\['5', '5'\]\), and .*\['5'\]\) without a crash"):
        charged_twice(tmp_path=tmp_path)


@survives_crashes(pure=["shop.Charge"])
def test_time_is_skipped_and_fixtures_are_given(flow: Client, order_source: str) -> object:
    with flow.worker({"shop.Charge": lambda amount: {"id": str(amount)}, "shop.Ship": ship}):
        return flow.run(order_source, amount=5, timeout=50)


@pytest.fixture
def order_source() -> str:
    slow = "pause = sys.Sleep(ms = 86400000) with After(charged)\n shipped"
    return ORDER.replace("shipped", slow, 1).replace(
        "charge = charged.id)", "charge = charged.id) with After(pause)"
    )


def test_a_function_that_fails_without_a_crash_fails(tmp_path: Path) -> None:
    @survives_crashes
    def fails(flow: Client) -> None:
        raise ValueError("no workflow")

    with pytest.raises(AssertionError, match="it fails without any crash: ValueError: no workflow"):
        fails(tmp_path=tmp_path)


def test_what_cannot_be_called_in_a_process_is_refused_where_it_is_marked() -> None:
    async def waits(flow: Client) -> None: ...

    def alone() -> None: ...

    def hidden(*given: Any, **named: Any) -> None: ...

    with pytest.raises(InputError, match=r"waits is a coroutine function; .* asyncio\.run"):
        survives_crashes(waits)
    with pytest.raises(InputError, match="alone has no parameter 'flow'"):
        survives_crashes(alone)
    with pytest.raises(InputError, match=r"pure is a list of facets, such as \['shop\.Ship'\]"):
        survives_crashes(pure="shop.Ship")
    survives_crashes(hidden)


def test_a_process_that_does_not_end_is_killed(tmp_path: Path) -> None:
    @survives_crashes(timeout=0.5)
    def waits(flow: Client) -> None:
        flow.run(ORDER, amount=5)

    with pytest.raises(AssertionError, match=r"not ended after 0\.5 seconds"):
        waits(tmp_path=tmp_path)


def test_an_interrupt_leaves_no_process_behind(tmp_path: Path) -> None:
    reading, writing = os.pipe()
    this = os.getpid()

    @survives_crashes
    def interrupts(flow: Client) -> None:
        os.kill(this, signal.SIGINT)
        os.read(reading, 1)  # forever

    with pytest.raises(KeyboardInterrupt):
        interrupts(tmp_path=tmp_path)
    os.close(writing)
    with os.fdopen(reading, "rb") as file:
        assert file.read() == b""  # nobody else has the other end


def newsroom() -> ModuleType:
    """The handlers of the example, which pretend to be slow, without the pretence."""
    spec = importlib.util.spec_from_file_location("newsroom", ROOT / "examples/newsroom/agents.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    vars(module)["time"] = SimpleNamespace(sleep=lambda seconds: None)
    return module


@survives_crashes(pure=["newsroom.*"])
def test_the_newsroom_survives_every_crash(flow: Client) -> object:
    with flow.worker(newsroom()):
        return flow.run(ROOT / "examples/newsroom/newsroom.afl", timeout=50)
