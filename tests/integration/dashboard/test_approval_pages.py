"""The approvals inbox: what waits for whom, answering and rejecting, and what was answered."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, shown, visitors

from afl.operations.people import approvals
from afl.operations.people.forms import FormError
from afl.runtime.entities import TaskState
from afl.runtime.persistence import TaskFilter

SOURCE = """namespace t {
    schema Payee { name: String, city: String }
    /** Shall this be paid? */
    event facet Pay(amount: Double, note: String, payee: Payee)
        => (amount: Double, note: String, payee: Payee, urgent: Boolean)
        with Human("finance", title = "Pay the bill") with Timeout(hours = 5)
    event facet Sign(paper: String) with Human("boss")
    workflow Bill(amount: Double, note: String, payee: Payee, paper: String) => (paid: Double) andThen {
        a = Pay(amount = $.amount, note = $.note, payee = $.payee)
        b = Sign(paper = $.paper)
        yield Bill(paid = a.amount)
    }
}
"""

COUNT = """event facet Count(shelf: String) => (counts: [Long]) with Human("clerk")
workflow Inventory(shelf: String) => (counts: [Long]) andThen {
    c = Count(shelf = $.shelf)
    yield Inventory(counts = c.counts)
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        payee = {"name": "Ada", "city": "Ulm"}
        found.run(SOURCE, {"amount": 12.5, "note": MARKUP, "payee": payee, "paper": "the treaty"})
        yield found


def id_of(house: Visitors, group: str) -> str:
    (found,) = approvals.list_approvals(house.store, group=group)
    return found.id


def test_the_inbox_has_what_waits_with_its_group_and_expiry(house: Visitors) -> None:
    text = house.viewer.read("/approvals")
    assert "Pay the bill amount 12.5 note" in text
    assert "t.Bill · a finance asked" in text
    assert "expires in 4 h" in text
    assert "All groups 2" in text
    one = house.viewer.read("/approvals?group=boss")
    assert "Sign paper the treaty t.Bill · b boss" in one and "Pay the bill" not in one
    assert "Nothing waits for nobody" in house.viewer.read("/approvals?group=nobody")
    assert "Pay the bill" in house.viewer.read("/approvals/fragment/list")


def test_the_form_has_what_was_given_to_be_edited(house: Visitors) -> None:
    page = house.operator.open(f"/approvals/{id_of(house, 'finance')}")
    text = shown(page)
    assert "Shall this be paid?" in text and "Details" in text
    assert 'name="field.amount" value="12.5"' in page
    assert 'name="field.payee.city"' in page and ">Ulm</textarea>" in page
    assert MARKUP in text
    assert "Approve" in text and "Reject" in text


def test_an_answer_goes_on_with_what_was_edited(house: Visitors) -> None:
    path = f"/approvals/{id_of(house, 'finance')}"
    fields = {
        "field.amount": "11",
        "field.note": f"less {MARKUP}",
        "field.payee.name": "Ada",
        "field.payee.city": "Bonn",
        "field.urgent": "true",
    }
    told = house.operator.act(f"{path}/answer", **fields)
    assert (told.url, told.kind, told.text) == ("/approvals", "good", "Approved: Pay the bill.")
    task = house.store.find_tasks(TaskFilter(name="t.Pay"))[0]
    assert task.state == TaskState.COMPLETED
    assert task.result is not None
    assert (task.result["amount"], task.result["payee"]["city"], task.result["urgent"]) == (11, "Bonn", True)
    history = house.viewer.read("/approvals?view=answered")
    assert "Pay the bill" in history and "answered by operator" in history
    page = house.viewer.read(path)
    assert "The answer" in page and f"less {MARKUP}" in page and "Approve" not in page


def test_a_box_that_is_not_ticked_is_false(house: Visitors) -> None:
    fields = {"field.amount": "1", "field.note": "x", "field.payee.name": "A", "field.payee.city": "B"}
    house.operator.act(f"/approvals/{id_of(house, 'finance')}/answer", **fields)
    task = house.store.find_tasks(TaskFilter(name="t.Pay"))[0]
    assert task.result is not None and task.result["urgent"] is False


def test_what_does_not_fit_is_said_beside_its_field(house: Visitors) -> None:
    path = f"/approvals/{id_of(house, 'finance')}"
    answer = house.operator.send(f"{path}/answer", **{"field.amount": f"much {MARKUP}", "field.note": "kept"})
    assert answer.status_code == 422
    assert MARKUP not in answer.text
    text = shown(answer.text)
    assert "write a number" in text and "Nothing was sent." in text
    assert ">kept</textarea>" in answer.text
    assert 'aria-invalid="true" aria-describedby="field-amount-note"' in answer.text
    assert house.store.find_tasks(TaskFilter(name="t.Pay"))[0].state == TaskState.PENDING


def test_a_value_that_only_its_type_refuses_is_said(house: Visitors) -> None:
    house.run(COUNT, {"shelf": "north"})
    id = id_of(house, "clerk")
    answer = house.operator.send(f"/approvals/{id}/answer", **{"field.counts": '["many"]'})
    assert answer.status_code == 422
    assert "Count: return field 'counts'[0]: expected Long, got String 'many'" in shown(answer.text)
    assert 'aria-invalid="true" aria-describedby="field-counts-note"' in answer.text
    with pytest.raises(FormError) as refused:
        approvals.answer(house.store, id, {"counts": "many"})
    assert list(refused.value.problems) == ["counts"]
    assert house.store.find_tasks(TaskFilter(name="Count"))[0].state == TaskState.PENDING


def test_characters_that_reverse_a_text_are_shown_and_kept(house: Visitors) -> None:
    hidden = "pay \u202e00001"
    payee = {"name": "Ada", "city": "\u200bUlm"}
    run = house.run(SOURCE, {"amount": 1, "note": hidden, "payee": payee, "paper": hidden})
    id = approvals.list_approvals(house.store, group="finance", run=run)[0].id
    for path in (f"/approvals/{id}", "/approvals", f"/runs/{run}"):
        page = house.operator.open(path)
        assert "pay \\u202e00001" in shown(page) and "\u202e" not in page and "\u200b" not in page
    page = house.operator.open(f"/approvals/{id}")
    assert ">pay \\u202e00001</textarea>" in page
    fields = {"field.amount": "1", "field.note": "pay \\u202e00001"}
    house.operator.act(f"/approvals/{id}/answer", **fields, **{"field.payee.city": "edited \\u200bUlm"})
    (task,) = (each for each in house.store.find_tasks(TaskFilter(name="t.Pay")) if each.workflow_id == run)
    assert task.result is not None
    assert (task.result["note"], task.result["payee"]["city"]) == (hidden, "edited \\u200bUlm")


def test_a_plain_question_is_a_yes_or_no(house: Visitors) -> None:
    path = f"/approvals/{id_of(house, 'boss')}"
    assert "field." not in house.operator.open(path)
    assert house.operator.act(f"{path}/answer").text == "Approved: Sign."
    assert house.store.find_tasks(TaskFilter(name="t.Sign"))[0].state == TaskState.COMPLETED


def test_rejecting_says_why_and_who(house: Visitors) -> None:
    path = f"/approvals/{id_of(house, 'boss')}"
    told = house.operator.act(f"{path}/reject", feedback=f"not like this {MARKUP}")
    assert told.text == "Rejected: Sign."
    task = house.store.find_tasks(TaskFilter(name="t.Sign"))[0]
    assert task.state == TaskState.FAILED
    assert task.error is not None and task.error["message"] == f"not like this {MARKUP}"
    assert "rejected by operator" in house.viewer.read("/approvals?view=answered")
    late = house.operator.act(f"{path}/answer")
    assert (late.url, late.kind) == (path, "note")
    assert "rejected by operator already" in late.text


def test_a_viewer_answers_nothing(house: Visitors) -> None:
    path = f"/approvals/{id_of(house, 'boss')}"
    text = house.viewer.read(path)
    assert "requires the operator role" in text and "Approve" not in text
    assert house.viewer.send(f"{path}/answer").status_code == 403
    assert house.viewer.send(f"{path}/reject", feedback="no").status_code == 403
    assert house.store.find_tasks(TaskFilter(name="t.Sign"))[0].state == TaskState.PENDING


def test_an_approval_that_there_is_not(house: Visitors) -> None:
    assert "there is no approval 'nothing'" in house.viewer.read("/approvals/nothing", 404)
