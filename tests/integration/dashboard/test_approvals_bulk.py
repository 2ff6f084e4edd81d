"""Several approvals at once: the values to decide on, a preview, and answers that do not stop at the first problem."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, shown, visitors

from afl.operations.audit import read_audit
from afl.operations.people import approvals

SOURCE = """namespace t {
    event facet Pay(amount: Double, to: String) => (amount: Double) with Human("finance")
    event facet Name(child: Long) => (name: String) with Human("parents")
    workflow Bill(amount: Double, to: String) => (paid: Double) andThen {
        a = Pay(amount = $.amount, to = $.to)
        yield Bill(paid = a.amount)
    }
    workflow Birth(child: Long) => (name: String) andThen {
        a = Name(child = $.child)
        yield Birth(name = a.name)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        for amount, to in ((12.5, "Ada"), (99.0, MARKUP)):
            found.run(SOURCE, {"amount": amount, "to": to}, "t.Bill")
        found.run(SOURCE, {"child": 3}, "t.Birth")
        yield found


def ids(house: Visitors) -> list[str]:
    return [each.id for each in approvals.list_approvals(house.store)]


def test_the_inbox_has_the_values_to_decide_on(house: Visitors) -> None:
    text = house.viewer.read("/approvals")
    assert "amount 12.5 to Ada" in text and f"amount 99.0 to {MARKUP}" in text
    assert "Answer the selected" not in text
    page = house.operator.open("/approvals")
    assert page.count('name="id"') == 3


def test_the_preview_changes_nothing(house: Visitors) -> None:
    answer = house.operator.client.post(
        "/approvals/several", data={"id": ids(house)}, headers={"Sec-Fetch-Site": "same-origin"}
    )
    assert MARKUP not in answer.text
    text = shown(answer.text)
    assert "Answer 3 approvals" in text and "Approve 2" in text and "Reject 3" in text
    assert "name: is required" in text
    assert len(ids(house)) == 3
    assert "Check those" in house.operator.act("/approvals/several").text


def test_several_are_approved_and_each_is_audited(house: Visitors) -> None:
    first, second, third = ids(house)
    approvals.answer(house.store, second, by="ada")
    answer = house.operator.client.post(
        "/approvals/several/answer",
        data={"id": [first, second, third], "verdict": "approve"},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.headers["location"] == "/approvals"
    text = house.operator.read("/approvals")
    assert "Approved 1 approval. 2 were not answered:" in text
    assert "answered by ada already" in text and "name: is required" in text
    assert ids(house) == [third]
    done = [each for each in read_audit(house.store).entries if each.outcome == "done"]
    assert [(each.operation, each.subject) for each in done] == [("answer_approval", first)]


def test_several_are_rejected_for_one_reason(house: Visitors) -> None:
    every = ids(house)
    answer = house.operator.client.post(
        "/approvals/several/answer",
        data={"id": every, "verdict": "reject", "feedback": "not now"},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert answer.status_code == 303
    assert ids(house) == []
    assert {approvals.show_approval(house.store, id).approval.feedback for id in every} == {"not now"}


def test_a_viewer_answers_none(house: Visitors) -> None:
    (first, *_) = ids(house)
    assert house.viewer.send("/approvals/several/answer", id=first, verdict="approve").status_code == 403
    assert len(ids(house)) == 3


def test_every_front_end_fills_in_the_rest(house: Visitors) -> None:
    """HTTP sends nothing, as the command does: the form's own value is the answer."""
    (first, *_, third) = ids(house)
    done = house.operator.client.post(f"/api/v1/approvals/{first}/answer", json={})
    assert done.json()["values"] == {"amount": 12.5}
    refused = house.operator.client.post(f"/api/v1/approvals/{third}/answer", json={"values": {}})
    assert refused.json()["error"]["details"]["problems"] == {"name": "is required: write a text"}
    again = house.operator.client.post(f"/api/v1/approvals/{first}/answer", json={})
    assert again.status_code == 409 and "answered by operator already" in again.json()["error"]["message"]
    planned = house.operator.client.post(
        "/api/v1/approvals/preview", json={"ids": [first, third, "x"]}
    ).json()
    assert ["already" in planned[0]["problem"], "required" in planned[1]["problem"]] == [True, True]
    assert planned[2]["approval"] is None and "there is no approval 'x'" in planned[2]["problem"]
