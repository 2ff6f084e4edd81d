"""Alerts on every store, delivered by Apprise to a server: what waits for someone, and what failed, once each."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from store_records import OpenStore, eventually
from support.alert_inbox import AlertInbox, alert_inbox

from afl.kernel.clock import wall_ms
from afl.kernel.errors import StoreUnavailable
from afl.kernel.settings import Settings, load_settings
from afl.language import compile_source
from afl.operations.alerts.service import AlertService, alert_service
from afl.operations.people import approvals
from afl.operations.program.sources import choose_workflow
from afl.operations.run import control, runs
from afl.operations.work.alerting import alerting
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.alerts import AlertStore, FailedRun
from afl.runtime.recovery import sweep
from afl.runtime.stores.alert_store import alert_store
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace shop {
    event facet Check(amount: Double, payee: String) => (ok: Boolean)
        with Human("finance", title = "A bill to check") with Timeout(hours = 48)
    event facet Look(letter: String) => (letter: String)
        with Human("office", escalate_to = "boss", escalate_minutes = 0.00001)
    event facet Charge(amount: Double)

    workflow Pay(amount: Double) andThen {
        c = Check(amount = $.amount, payee = "Ada Ltd")
    }
    workflow Read() andThen {
        e = Look("dear all")
    }
    workflow Sell(amount: Double) andThen {
        s = Charge($.amount)
    }
    workflow Outer(amount: Double) andThen {
        s = Sell($.amount) with Run()
    }
    workflow Apart(amount: Double) andThen {
        s = Sell($.amount) with Run(id = "alone", wait = false, onParentClose = "detach")
    }
}
"""


def charge(amount: float) -> None:
    raise ValueError(f"no such card for {amount}")


HANDLERS = Handlers.of({"shop.Charge": charge})


def run(store: PersistenceAPI, workflow: str, *, name: str = "", **inputs: Any) -> str:
    """Run a workflow until it ends, or until only people can go on."""
    program = choose_workflow(compile_source(SOURCE, name="shop.afl"), f"shop.{workflow}")
    return runs.start(store, program, inputs, handlers=HANDLERS, name=name).run


@pytest.fixture
def inbox() -> Iterator[AlertInbox]:
    with alert_inbox() as found:
        yield found


def settings(addresses: str, dashboard: str = "") -> Settings:
    return load_settings({"alerts": addresses, "dashboard_url": dashboard}, environ={})


def service(store: PersistenceAPI, addresses: str, dashboard: str = "") -> AlertService:
    made = alert_service(store, settings(addresses, dashboard))
    assert made is not None
    return made


def at_work(store: PersistenceAPI, addresses: str, dashboard: str = "") -> AlertService:
    """One that has looked once: what comes now is new to it."""
    made = service(store, addresses, dashboard)
    made.look()
    return made


def test_an_approval_is_sent_once_with_the_values_to_decide_on(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    alerts = at_work(store, inbox.address())
    started = run(store, "Pay", amount=120.0)
    (asked,) = approvals.list_approvals(store)
    alerts.look()
    assert inbox.take() == [
        (
            "Approval for finance: A bill to check",
            f"Run {started} of shop.Pay, step c\namount: 120.0\npayee: Ada Ltd\nExpires in 1 d 23 h\n"
            f"afl approvals show {asked.id}",
        )
    ]
    alerts.look()
    service(store, inbox.address()).look()  # another process, or the same one started again
    assert inbox.take() == []


def test_a_failed_run_is_sent_once_and_again_if_it_fails_again(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    alerts = at_work(store, inbox.address(), "https://afl.example.org/")
    started = run(store, "Sell", name="Monday's sale", amount=3.0)
    text = (
        "Run failed: Monday's sale",
        f"ValueError: no such card for 3.0\nRun {started} of shop.Sell, step s\n"
        f"https://afl.example.org/runs/{started}",
    )
    alerts.look()
    alerts.look()
    assert inbox.take() == [text]
    control.retry(store, started)
    runs.resume(store, started, handlers=HANDLERS)
    alerts.look()
    assert inbox.take() == [text]


def test_a_run_whose_budget_is_used_up_is_sent_once_for_each_budget(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    alerts = at_work(store, inbox.address())
    waiting = WorkflowId(run(store, "Read"))
    inbox.take()
    for budget in ("budget of 5 USD is used up: 5.01 USD", "budget of 9 USD is used up: 9.2 USD"):
        store.pause_run(waiting, budget)
        alerts.look()
        alerts.look()
        *_, (title, text) = inbox.take()
        assert (title, text) == (
            "Run paused: shop.Read",
            f"The {budget}\nRun {waiting} of shop.Read\n"
            f"To continue it: afl unpause {waiting} --budget-usd N\nafl show {waiting}",
        )
        store.unpause_run(waiting)
    store.pause_run(waiting, "by an operator")
    alerts.look()
    assert inbox.take() == []


def test_several_at_once_are_one_message(store: PersistenceAPI, inbox: AlertInbox) -> None:
    alerts = at_work(store, inbox.address())
    failed = [run(store, "Sell", amount=float(each)) for each in range(12)]
    waiting = [run(store, "Pay", amount=1.0), run(store, "Pay", amount=2.0)]
    alerts.look()
    (first, second) = inbox.take()
    assert (first[0], second[0]) == ("2 approvals for finance are waiting", "12 runs failed")
    assert [line.partition(", step")[0] for line in first[1].splitlines()] == [
        f"A bill to check (for finance), run {each} of shop.Pay" for each in waiting
    ]
    lines = second[1].splitlines()
    assert lines[0] == f"shop.Sell: ValueError: no such card for 0.0 (afl show {failed[0]})"
    assert (len(lines), lines[-1]) == (11, "and 2 more: afl list --state failed")


def test_groups_and_failures_have_addresses_of_their_own(store: PersistenceAPI, inbox: AlertInbox) -> None:
    words = f"finance={inbox.address('f')} failures={inbox.address('x')} boss={inbox.address('b')}"
    alerts = at_work(store, words)
    run(store, "Pay", amount=1.0)
    run(store, "Sell", amount=1.0)
    run(store, "Read")
    alerts.look()
    assert sorted((path, title) for path, title, _ in inbox.messages) == [
        ("/f", "Approval for finance: A bill to check"),
        ("/x", "Run failed: shop.Sell"),
    ]
    assert inbox.kinds == {
        ("Approval for finance: A bill to check", "info"),
        ("Run failed: shop.Sell", "failure"),
    }
    inbox.take()
    eventually(lambda: sweep.escalate(store))  # nobody in the office answered
    alerts.look()
    assert [(path, title) for path, title, _ in inbox.messages] == [("/b", "Approval for boss: Look")]


def test_what_was_there_before_a_destination_is_not_sent_to_it(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    run(store, "Pay", amount=1.0)
    run(store, "Sell", amount=1.0)
    alerts = at_work(store, inbox.address())
    alerts.look()
    assert inbox.take() == []
    run(store, "Sell", amount=2.0)
    at_work(store, inbox.address("new"))
    alerts.look()
    assert [title for _, title, _ in inbox.messages] == ["Run failed: shop.Sell"]


def test_what_cannot_be_delivered_is_sent_later_and_delays_no_other(store: PersistenceAPI) -> None:
    with alert_inbox() as down, alert_inbox() as up:
        down.refuses = True
        words = f"{down.address()} {up.address()}"
        alerts = at_work(store, words)
        run(store, "Sell", amount=1.0)
        run(store, "Pay", amount=1.0)
        alerts.look()
        assert (len(down.take()), len(up.take())) == (0, 2)
        assert down.refused > 0
        down.refuses = False
        service(store, words).look()  # waits for no pause of its predecessor
        assert sorted(title for title, _ in down.take()) == [
            "Approval for finance: A bill to check",
            "Run failed: shop.Sell",
        ]
        assert up.take() == []


def test_what_was_delivered_and_not_recorded_is_sent_again(
    store: PersistenceAPI, inbox: AlertInbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    alerts = at_work(store, inbox.address())
    run(store, "Pay", amount=1.0)

    def dies(*_: object) -> None:
        raise StoreUnavailable("gone")

    with monkeypatch.context() as patch, pytest.raises(StoreUnavailable):
        patch.setattr(type(alert_store(store)), "save_alerted", dies)
        alerts.look()
    first = inbox.take()
    service(store, inbox.address()).look()
    assert len(first) == 1 and inbox.take() == first


def test_a_question_that_is_answered_before_it_is_sent_is_not(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    alerts = at_work(store, inbox.address())
    run(store, "Pay", amount=1.0)
    approvals.answer(store, approvals.list_approvals(store)[0].id, by="ann")
    alerts.look()
    assert inbox.take() == []


def test_a_child_run_is_its_parents_failure_if_that_waits_for_it(
    store: PersistenceAPI, inbox: AlertInbox
) -> None:
    alerts = at_work(store, inbox.address())
    outer = run(store, "Outer", amount=1.0)
    alerts.look()
    ((title, text),) = inbox.take()
    assert (title, text.splitlines()[-1]) == ("Run failed: shop.Outer", f"afl show {outer}")
    run(store, "Apart", amount=1.0)
    runs.resume(store, "alone", handlers=HANDLERS)
    alerts.look()
    ((title, text),) = inbox.take()
    assert (title, text.splitlines()[-1]) == ("Run failed: shop.Sell", "afl show alone")


@pytest.mark.parametrize("open_store", ["sqlite"], indirect=True)
def test_a_thread_sends_while_a_process_works(open_store: OpenStore, inbox: AlertInbox) -> None:
    store = open_store()
    at_work(store, inbox.address())
    with alerting(store, settings(inbox.address())), alerting(open_store(), settings(inbox.address())):
        run(store, "Pay", amount=1.0)
        assert inbox.next()[0] == "Approval for finance: A bill to check"
        run(store, "Sell", amount=1.0)
        assert inbox.next()[0] == "Run failed: shop.Sell"
    assert inbox.take() == []
    assert store.check_lock("afl:alerts") is None


# -- the store ----------------------------------------------------------------------------------------------------


@pytest.fixture
def known(store: PersistenceAPI) -> AlertStore:
    found = alert_store(store)
    assert found is not None
    return found


def test_what_a_destination_was_sent_is_kept_for_a_while(known: AlertStore) -> None:
    known.save_alerted("a", ["one", "two", ""])
    known.save_alerted("b", ["two"])
    known.save_alerted("a", ["two", "three"])
    assert known.get_alerted("a", ["one", "two", "three", "four", ""]) == {"one", "two", "three", ""}
    assert known.get_alerted("b", ["one", "two"]) == {"two"}
    assert known.get_alerted("c", ["one"]) == set()
    assert known.get_alerted("a", []) == set()
    assert known.forget_alerted(wall_ms() - 60_000, 100) == 0
    assert known.forget_alerted(wall_ms() + 60_000, 3) == 3
    assert known.forget_alerted(wall_ms() + 60_000, 3) == 1
    assert known.get_alerted("a", ["one", "two", "three", ""]) == {""}


def test_failures_are_found_by_when_they_were(store: PersistenceAPI, known: AlertStore) -> None:
    failed = [run(store, "Sell", amount=1.0) for _ in range(3)]
    run(store, "Pay", amount=1.0)
    ends = [store.get_runs(limit=10)[each].ended for each in (3, 2, 1)]
    assert known.get_failures(0, 10) == [
        FailedRun(each, ended) for each, ended in zip(failed, ends, strict=True)
    ]
    assert [each.workflow_id for each in known.get_failures(0, 2)] == failed[:2]
    assert known.get_failures(ends[-1] + 1, 10) == []
