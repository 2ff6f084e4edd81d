"""The pages of flows and their requests: the list, a flow with its source and compiled JSON, the way from a run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors
from support.dashboards import API

from afl.operations.program.flows import list_flows
from afl.operations.program.library import publish_source
from afl.runtime.entities import FlowDefinition, FlowIdentity, SourceText

SOURCE = """namespace t {
    event facet Ring(bell: String) => (rung: Boolean)
    /** Rings a bell in the morning. */
    workflow Morning(bell: String = "small", times: Long) => (rung: Boolean) andThen {
        a = Ring(bell = $.bell)
        yield Morning(rung = a.rung)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def published(house: Visitors, name: str = "bells", source: str = SOURCE) -> str:
    publish_source(house.store, source, name=name)
    return list_flows(house.store).flows[0].id


def test_the_list_leads_to_a_flow_with_its_source(house: Visitors) -> None:
    assert "No flows yet" in house.viewer.read("/flows")
    flow = published(house, MARKUP, f"// {MARKUP}\n{SOURCE}")
    assert f"{MARKUP} 1 0 now" in house.viewer.read("/flows")
    assert f'href="/flows/{flow}"' in house.viewer.open("/flows")
    text = house.viewer.read(f"/flows/{flow}")
    assert "t.Morning Rings a bell in the morning. bell: String = … , times: Long rung: Boolean" in text
    assert f"// {MARKUP} namespace t {{ event facet Ring" in text
    assert "/start?workflow=t.Morning" not in house.viewer.open(f"/flows/{flow}")
    assert "/start?workflow=t.Morning" in house.operator.open(f"/flows/{flow}")


def test_the_compiled_json_of_a_flow(house: Visitors) -> None:
    flow = published(house)
    assert '"type": "Program"' in house.viewer.read(f"/flows/{flow}?view=json")
    assert '"type": "Program"' not in house.viewer.read(f"/flows/{flow}")
    assert house.viewer.read(f"/flows/{flow}?view=nonsense") == house.viewer.read(f"/flows/{flow}")


def test_many_flows_are_on_several_pages(house: Visitors) -> None:
    for number in range(51):
        source = SourceText("s.afl", SOURCE)
        house.store.save_flow(
            FlowDefinition(
                f"id-{number:02}", FlowIdentity(f"flow-{number:02}", "", ""), compiled_sources=[source]
            )
        )
    first = house.viewer.open("/flows")
    assert ("flow-50" in first, "flow-00" in first) == (True, False)
    assert "flow-00" in house.viewer.read("/flows?before=id-01")
    assert "/flows?before=id-01" in first


def test_a_run_leads_to_what_it_executes(house: Visitors) -> None:
    run = house.run(SOURCE, {"times": 2}, Ring=lambda bell: {"rung": True})
    found = re.search(r'href="(/flows/[0-9a-f]{64})"', house.viewer.open(f"/runs/{run}"))
    assert found is not None
    text = house.viewer.read(found[1])
    assert "The program of runs that were started from this source" in text
    assert "workflow Morning(bell: String" in text

    flow = published(house)
    answer = house.operator.client.post(f"{API}/workflows/t.Morning/start", json={"inputs": {"times": 1}})
    assert f'href="/flows/{flow}"' in house.viewer.open(f"/runs/{answer.json()['run']}")
    assert "Runs 1" in house.viewer.read(f"/flows/{flow}")


def test_a_flow_that_is_not_there_or_does_not_compile(house: Visitors) -> None:
    assert "there is no flow" in house.viewer.read("/flows/nope", status=404)
    broken = FlowDefinition(
        "f", FlowIdentity("x", "", "f"), compiled_sources=[SourceText("s.afl", "workflow {")]
    )
    house.store.save_flow(broken)
    assert "does not compile" in house.viewer.read("/flows/f?view=json")
    assert "workflow {" in house.viewer.read("/flows/f")


def test_flows_over_the_api(house: Visitors) -> None:
    flow = published(house, "folder/bells")
    ask = house.viewer.client.get
    page = ask(f"{API}/flows").json()
    assert [(each["id"], each["name"], each["runs"]) for each in page["flows"]] == [(flow, "folder/bells", 0)]
    for name in (flow, "folder/bells", "folder%2Fbells"):
        view = ask(f"{API}/flows/{name}").json()
        assert (view["sources"][0]["content"], view["program"]["type"]) == (SOURCE, "Program")
    assert ask(f"{API}/flows/{flow}", params={"with_program": "false"}).json()["program"] is None
    missing = ask(f"{API}/flows/nope")
    assert (missing.status_code, missing.json()["error"]["code"]) == (404, "unknown-flow")
    assert ask(f"{API}/flows", params={"limit": 0}).status_code == 422
