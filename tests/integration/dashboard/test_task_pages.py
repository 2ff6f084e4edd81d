"""The pages of tasks and servers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors

from afl.kernel.clock import wall_ms
from afl.operations.run import control
from afl.runtime.entities import HandledCount, ServerDefinition, ServerState
from afl.runtime.persistence import TaskFilter

SOURCE = """namespace t {
    event facet Double(n: Long, note: String = "") => (m: Long)
    event facet Half(n: Long) => (m: Long) with Concurrency(key = "half", limit = 1)
    workflow Chain(n: Long, note: String = "") => (m: Long) andThen {
        a = Double(n = $.n, note = $.note)
        b = Half(n = $.n)
        yield Chain(m = a.m)
    }
}
"""
MANY = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Many(ns: [Long]) andThen foreach n in $.ns {
        a = Double(n = n)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def refuse(n: int, note: str = "") -> dict[str, int]:
    raise ValueError(f"{n} is refused {note}")


def serve(house: Visitors, **fields: object) -> ServerDefinition:
    """A server of this process."""
    given = {
        "uuid": "server-1",
        "server_group": "north",
        "service_name": "afl-agent",
        "server_name": f"host {MARKUP}",
        "start_time": wall_ms(),
        "ping_time": wall_ms(),
        "state": ServerState.RUNNING,
        "manager": house.store.owner_id,
        "capacity": 4,
        "handlers": ["t.Double"],
        "handled": [HandledCount("t.Double", 7, 2)],
        **fields,
    }
    server = ServerDefinition(**given)  # type: ignore[arg-type]
    house.store.save_server(server)
    return server


def test_open_tasks_say_who_has_them_and_what_keeps_them_back(house: Visitors) -> None:
    first = house.run(SOURCE, {"n": 1})
    house.run(SOURCE, {"n": 2})
    serve(house)
    house.store.claim_task(["t.Double"])
    text = house.viewer.read("/tasks")
    assert text.count("t.Double") == 2
    assert f"running afl-agent on host {MARKUP}" in text
    assert "pending concurrency nobody" in text
    assert first[:10] in text


def test_tasks_are_filtered_by_all_that_one_may_ask_for(house: Visitors) -> None:
    first = house.run(SOURCE, {"n": 1})
    house.run(SOURCE, {"n": 2})
    assert "t.Half" not in house.viewer.read("/tasks?name=Double")
    assert house.viewer.read("/tasks?hold=concurrency").count("t.Half") == 1
    control.pause(house.store, first)
    assert "paused" in house.viewer.read(f"/tasks?run={first}")
    assert "No task fits" in house.viewer.read("/tasks?state=failed")
    assert "No task fits" in house.viewer.read("/tasks?task_list=gpu")
    assert "there is no run nothing" in house.viewer.read("/tasks?run=nothing")


def test_a_long_list_has_pages(house: Visitors) -> None:
    house.run(MANY, {"ns": list(range(60))})
    first = house.viewer.open("/tasks")
    assert first.count('data-key="') - first.count("-error") >= 50
    assert "1 to 50" in house.viewer.read("/tasks")
    assert "skip=50" in first
    second = house.viewer.read("/tasks?skip=50")
    assert "51 to 60" in second
    assert second.count("t.Double") == 10
    assert "1 to 50" in house.viewer.read("/tasks?skip=nonsense")


def test_a_live_list_is_fetched_alone(house: Visitors) -> None:
    house.run(SOURCE, {"n": 1})
    part = house.viewer.open("/tasks/fragment/list?name=Double")
    assert part.lstrip().startswith('<section data-live="tasks" data-src="/tasks/fragment/list?name=Double"')
    assert "<html" not in part


def test_a_task_says_why_it_does_not_move(house: Visitors) -> None:
    house.run(SOURCE, {"n": 1, "note": MARKUP})
    task = house.store.find_tasks(TaskFilter(name="t.Double"))[0]
    text = house.viewer.read(f"/tasks/{task.uuid}")
    assert "No live server serves t.Double" in text.replace("no live", "No live")
    assert MARKUP in text
    assert "task-unserved" in text
    assert "several tasks start with" in house.viewer.read(f"/tasks/{task.uuid[:2]}", 422)
    assert "Input" in house.viewer.read(f"/tasks/{task.uuid}/fragment/facts")


def test_a_failed_task_shows_its_error(house: Visitors) -> None:
    house.run(SOURCE, {"n": 1, "note": MARKUP}, Double=refuse)
    assert f"1 is refused {MARKUP}" in house.viewer.read("/tasks?state=failed")
    task = house.store.find_tasks(TaskFilter(state="failed"))[0]
    assert "ValueError" in house.viewer.read(f"/tasks/{task.uuid}")


def test_a_task_that_there_is_not(house: Visitors) -> None:
    assert "there is no task 'nothing'" in house.viewer.read("/tasks/nothing", 404)


def test_servers_say_how_busy_they_are_and_what_they_hold(house: Visitors) -> None:
    server = serve(house)
    house.run(SOURCE, {"n": 1})
    house.store.claim_task(["t.Double"])
    text = house.viewer.read("/servers")
    assert f"host {MARKUP} afl-agent · north running" in text
    assert "1 of 4" in text and "7 2 failed" in text
    page = house.viewer.read(f"/servers/{server.uuid}")
    assert "Holds now t.Double a" in page
    assert "t.Double 7 completed, 2 failed" in page


def test_a_silent_server_says_why(house: Visitors) -> None:
    long_ago = wall_ms() - 120_000
    serve(house, manager="", ping_time=long_ago)
    assert "silent" in house.viewer.read("/servers")
    page = house.viewer.read("/servers/server-1")
    assert "Why it does not work" in page
    assert "its process cannot be checked from here" in page


def test_servers_of_a_group_and_those_that_are_gone(house: Visitors) -> None:
    assert "No server is up" in house.viewer.read("/servers")
    serve(house, uuid="a", server_group="north", server_name="lives")
    serve(house, uuid="b", server_group="south", server_name="left", state=ServerState.SHUTDOWN)
    text = house.viewer.read("/servers")
    assert "1 server that is gone" in text
    assert text.index("lives") < text.index("left")
    assert "lives" not in house.viewer.read("/servers?group=south")
    assert "there is no server 'nothing'" in house.viewer.read("/servers/nothing", 404)
