"""Signals over HTTP, and the page that delivers them."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from support.dashboard_pages import MARKUP, Visitors, shown, visitors
from support.dashboards import API

from afl.operations.run.signaling import list_signals, send_signal
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import WorkflowId

SOURCE = """namespace shop {
    /** The money is there. @return amount in euros */
    event facet Paid(order: String) => (amount: Double, note: String, full: Boolean)
        with Signal("paid") with Timeout(hours = 5)
    workflow Order(order: String) => (amount: Double) andThen {
        p = Paid(order = $.order)
        yield Order(amount = p.amount)
    }
}
"""
COUNTS = """event facet Counted() => (counts: [Long], note: String) with Signal("counted")
workflow Count() => (note: String) andThen {
    c = Counted()
    yield Count(note = c.note)
}
"""
VALUE = {"amount": 2.5, "note": "x", "full": True}


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        found.run(SOURCE, {"order": MARKUP})
        yield found


def run_of(house: Visitors) -> str:
    (run,) = house.store.get_runs()
    return run.workflow_id


def outputs(house: Visitors) -> object:
    return Evaluator(house.store).resume(WorkflowId(run_of(house))).outputs


def test_the_page_of_a_run_leads_to_the_form(house: Visitors) -> None:
    run = run_of(house)
    page = house.operator.open(f"/runs/{run}")
    (link,) = set(re.findall(r'href="(/signals/[^"]+)"', page))
    assert "Deliver it" in page
    assert f'href="/runs/{run}/signals"' in page
    form = house.operator.open(house.operator.client.get(link).headers["location"])
    assert 'name="field.amount"' in form and "The money is there." in form
    assert "Deliver the signal paid" in form and "expires" in form
    (task,) = house.store.get_tasks_by_workflow(WorkflowId(run))
    assert link in house.operator.open(f"/tasks/{task.uuid}")


def test_a_form_is_delivered_once_however_often_it_is_sent(house: Visitors) -> None:
    path = f"/runs/{run_of(house)}/signals"
    (id,) = re.findall(r'name="id" value="([^"]+)"', house.operator.open(path))
    fields = {"name": "paid", "id": id, "field.amount": "2.5", "field.note": MARKUP, "field.full": "true"}
    told = house.operator.act(path, **fields)
    assert (told.url, told.kind) == (f"/runs/{run_of(house)}", "good")
    assert told.text == "Signal paid was delivered; received by p."
    house.operator.act(path, **fields)
    assert list_signals(house.store, run_of(house)).kept == []
    assert outputs(house) == {"amount": 2.5}
    assert house.operator.act(path, **{**fields, "id": "other"}).kind == "bad"


def test_what_does_not_fit_is_said_and_nothing_is_stored(house: Visitors) -> None:
    path = f"/runs/{run_of(house)}/signals"
    answer = house.operator.send(
        path, **{"name": "paid", "id": "x", "field.amount": "much", "field.note": "x"}
    )
    assert answer.status_code == 422
    assert "write a number" in answer.text and "Nothing was sent" in answer.text
    assert list_signals(house.store, run_of(house)).kept == []


def test_what_only_its_type_refuses_stays_in_the_form(house: Visitors) -> None:
    run = house.run(COUNTS)
    fields = {"name": "counted", "id": "x", "field.counts": '["a"]', "field.note": "kept"}
    answer = house.operator.send(f"/runs/{run}/signals", **fields)
    assert answer.status_code == 422
    assert "return field 'counts'[0]: expected Long, got String 'a'" in shown(answer.text)
    assert ">kept</textarea>" in answer.text and "[&#34;a&#34;]</textarea>" in answer.text
    assert list_signals(house.store, run).kept == []


def test_what_is_kept_is_listed_and_a_viewer_only_looks(house: Visitors) -> None:
    run = run_of(house)
    send_signal(house.store, run, "paid", VALUE)
    send_signal(house.store, run, "paid", {**VALUE, "note": MARKUP}, id="second")
    text = house.viewer.read(f"/runs/{run}/signals?name=paid")
    assert "No step waits for a signal" in text
    assert "Not received yet paid second" in text and MARKUP in text
    assert "that requires the operator role" in text


def test_over_http(client: TestClient) -> None:
    run = client.post(f"{API}/runs", json={"source": SOURCE, "inputs": {"order": "7"}}).json()["run"]
    path = f"{API}/runs/{run}/signals"
    wrong = client.post(path, json={"name": "paid", "value": {"amount": "x"}})
    assert (wrong.status_code, wrong.json()["error"]["code"]) == (422, "signal-refused")
    unknown = client.post(path, json={"name": "sold"})
    assert (unknown.status_code, unknown.json()["error"]["code"]) == (404, "unknown-signal")
    assert client.post(path, json={"name": "x" * 600}).status_code == 422
    assert client.post(path, json={"value": {}}).status_code == 422
    assert client.post(f"{API}/runs/nope/signals", json={"name": "paid"}).status_code == 404
    sent = [client.post(path, json={"name": "paid", "value": VALUE, "id": "a"}).json() for _ in range(2)]
    assert [each["delivered"] for each in sent] == [True, False]
    listed = client.get(path).json()
    assert [(each["name"], each["id"], each["value"]) for each in listed["kept"]] == [("paid", "a", VALUE)]
    fields = client.get(f"{path}/form", params={"name": "paid"}).json()["fields"]
    assert [each["name"] for each in fields] == ["amount", "note", "full"]
    client.post(f"{API}/runs/{run}/cancel")
    over = client.post(path, json={"name": "paid", "value": VALUE})
    assert (over.status_code, over.json()["error"]["code"]) == (409, "run-over")
