"""Starting a run again and forking it: the pages, and over HTTP."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from starlette.testclient import TestClient
from support.dashboard_pages import MARKUP, Visitors, visitors
from support.dashboards import API

from afl.runtime.entities import RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.types import StepId, WorkflowId

SOURCE = """namespace shop {
    event facet Price(item: String, amount: Long) => (total: Long)
    workflow Order(item: String, amount: Long = 2) => (total: Long) andThen {
        first = Price(item = $.item, amount = $.amount)
        second = Price(item = "box", amount = first.total)
        yield Order(total = second.total)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        found.run(SOURCE, {"item": MARKUP, "amount": 3})
        (run,) = found.store.get_runs()
        finish(found, run.workflow_id, "first", "second")
        yield found


def finish(house: Visitors, run: str, *steps: str) -> RunDefinition:
    evaluator = Evaluator(house.store)
    for step in steps:
        evaluator.resume(WorkflowId(run))
        evaluator.continue_step(StepId(f"{run}/0/{step}"), {"total": 7})
    evaluator.resume(WorkflowId(run))
    return get(house, run)


def get(house: Visitors, run: str) -> RunDefinition:
    found = house.store.get_run(WorkflowId(run))
    assert found is not None
    return found


def source_of(house: Visitors) -> str:
    return house.store.get_runs()[-1].workflow_id


def test_start_another_has_the_inputs_of_the_run(house: Visitors) -> None:
    run = source_of(house)
    page = house.operator.open(f"/runs/{run}")
    assert f'href="/runs/{run}/again"' in page and "Start another" in page
    form = house.operator.open(f"/runs/{run}/again")
    (key,) = re.findall(r'name="key" value="([^"]+)"', form)
    assert 'name="field.amount" value="3"' in form
    fields = {"key": key, "field.item": MARKUP, "field.amount": "4"}
    told = house.operator.act(f"/runs/{run}/again", **fields)
    assert (told.kind, told.text) == ("good", "Started shop.Order again.")
    assert house.operator.act(f"/runs/{run}/again", **fields).url == told.url
    again = get(house, told.url.rpartition("/")[2])
    assert (again.inputs, again.origin) == ({"item": MARKUP, "amount": 4}, run)
    assert "Rerun of" in house.operator.read(told.url)
    assert "Reruns and forks" in house.operator.read(f"/runs/{run}")


def test_what_does_not_fit_is_said_beside_its_field(house: Visitors) -> None:
    run = source_of(house)
    answer = house.operator.send(f"/runs/{run}/again", **{"key": "k", "field.amount": "much"})
    assert answer.status_code == 422
    assert "write a whole number" in answer.text
    assert len(house.store.get_runs()) == 1


def test_a_step_leads_to_its_fork(house: Visitors) -> None:
    run = source_of(house)
    assert f'href="/runs/{run}/fork/0/second"' in house.operator.open(f"/runs/{run}/steps/0/second")
    form = house.operator.open(f"/runs/{run}/fork/0/second")
    assert "It keeps 1 completed step and executes 1 step again" in form
    (id,) = re.findall(r'name="id" value="([^"]+)"', form)
    fields = {"id": id, "field.item": "bag", "field.amount": "7"}
    told = house.operator.act(f"/runs/{run}/fork/0/second", **fields)
    assert (told.url, told.text) == (f"/runs/{id}", "Forked at second.")
    assert house.operator.act(f"/runs/{run}/fork/0/second", **fields).url == told.url
    assert finish(house, id, "second").outputs == {"total": 7}
    step = house.store.get_step(StepId(f"{id}/0/second"))
    assert step is not None
    assert step.get_attribute("item") == "bag"
    assert "Forked from" in house.operator.read(told.url)
    assert f"Kept from run {run}" in house.operator.read(f"{told.url}/steps/0/first")


def test_a_fork_that_cannot_be(house: Visitors) -> None:
    run = source_of(house)
    answer = house.operator.send(
        f"/runs/{run}/fork/0/second", **{"id": "x", "field.item": "bag", "field.amount": "much"}
    )
    assert answer.status_code == 422
    assert "write a whole number" in answer.text
    house.run(SOURCE, {"item": "new"})
    waiting = house.store.get_runs()[0].workflow_id
    told = house.operator.client.get(f"/runs/{waiting}/fork/0/second")
    assert told.status_code == 303


def test_a_viewer_only_looks(house: Visitors) -> None:
    run = source_of(house)
    assert "/again" not in house.viewer.open(f"/runs/{run}")
    assert "A viewer cannot start workflows" in house.viewer.open(f"/runs/{run}/again")
    assert "A viewer cannot fork runs" in house.viewer.open(f"/runs/{run}/fork/0/second")
    assert house.viewer.send(f"/runs/{run}/again", key="k").status_code == 403
    assert house.viewer.send(f"/runs/{run}/fork/0/second", id="x").status_code == 403


def test_over_http(client: TestClient) -> None:
    run = client.post(f"{API}/runs", json={"source": SOURCE, "inputs": {"item": "a"}}).json()["run"]
    again = client.post(f"{API}/runs/{run}/rerun", json={"inputs": {"amount": 9}})
    assert again.status_code == 200
    summary = client.get(f"{API}/runs/{again.json()['run']}/summary").json()
    assert (summary["inputs"], summary["lineage"]["origin"]["run"]) == ({"item": "a", "amount": 9}, run)
    form = client.get(f"{API}/runs/{run}/rerun/form").json()
    assert [field["name"] for field in form["fields"]] == ["item", "amount"]
    refused = client.post(f"{API}/runs/{run}/fork", json={"step": "first"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "unknown-subject")
    assert client.get(f"{API}/runs/{run}/fork/form", params={"step": "first"}).status_code == 404
