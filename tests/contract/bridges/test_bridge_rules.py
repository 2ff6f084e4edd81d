"""One line of configuration in place of a mixin, and what keeps a bridge from being used."""

from __future__ import annotations

import itertools
import threading
from typing import Any

import pytest
from support.crossings import Crossing
from support.eventually import eventually

from afl.bridges.rules import Rules
from afl.kernel.errors import SettingError, StoreUnavailable
from afl.kernel.settings import load_settings
from afl.operations.people import approvals
from afl.operations.work.hosting import bridge_service, uses_redis
from afl.operations.work.offers import Offer
from afl.runtime.entities import TaskDefinition, TaskState
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.types import WorkflowId

SOURCE = """
namespace news {
    event facet Translate(text: String) => (text: String)
    event facet Publish(text: String) => (page: Long)
    workflow W() => (page: Long) andThen {
        french = Translate(text = "hello")
        out = Publish(text = french.text)
        yield W(page = out.page)
    }
}
"""


def test_facets_are_handed_over_by_full_or_short_name(crossing: Crossing) -> None:
    rules = (("news.Translate", "message:translator"), ("Publish", "human:press"))
    crossing.settings = load_settings({**_values(crossing), "bridges": dict(rules)}, environ={})
    bridges = crossing.host({"translator": lambda text: {"text": f"{text}, en français"}})
    report = crossing.run(SOURCE, bridges=bridges)
    assert report.status == "PAUSED"
    eventually(lambda: approvals.list_approvals(crossing.store, group="press"))
    (question,) = approvals.list_approvals(crossing.store)
    assert approvals.show_approval(crossing.store, question.id).given == {"text": "hello, en français"}
    approvals.answer(crossing.store, question.id, {"page": 3}, by="ada")
    assert crossing.resume(report.run, bridges).outputs == {"page": 3}


def test_a_run_waits_while_its_task_is_handed_over(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For a moment the task is claimed, by a bridge: neither pending nor elsewhere."""
    crossing.settings = load_settings(
        {**_values(crossing), "bridges": {"Translate": "message:translator", "Publish": "human:press"}},
        environ={},
    )
    bridges = crossing.host({"translator": lambda text: {"text": text}})
    store, here = crossing.store, threading.current_thread()
    hand_over, get_tasks, get_marks = store.hand_over, store.get_tasks_by_workflow, store.get_marks_of
    looks, seen, looked = itertools.count(1), threading.Event(), threading.Event()

    def late(task: TaskDefinition, via: str) -> object:
        assert looked.wait(30)
        return hand_over(task, via)

    def tasks_of(workflow_id: WorkflowId) -> list[TaskDefinition]:
        """The run, which is driven on this thread, sees its task in that moment, and once more."""
        tasks = get_tasks(workflow_id)
        running = any(task.state == TaskState.RUNNING for task in tasks)
        if threading.current_thread() is here and running and next(looks) == 2:
            seen.set()
        return tasks

    def marks_of(*args: Any, **options: Any) -> Any:
        """Then it looks for answers, and there are none yet."""
        marks = get_marks(*args, **options)
        if threading.current_thread() is here and seen.is_set():
            looked.set()
        return marks

    monkeypatch.setattr(store, "hand_over", late)
    monkeypatch.setattr(store, "get_tasks_by_workflow", tasks_of)
    monkeypatch.setattr(store, "get_marks_of", marks_of)
    assert crossing.run(SOURCE, bridges=bridges).status == "PAUSED"
    assert looked.is_set()
    eventually(lambda: approvals.list_approvals(crossing.store, group="press"))


def test_a_task_whose_claim_was_not_heard_of_is_handed_over_all_the_same(
    crossing: Crossing, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bridge lives, and so would its lease: nobody else could have the task before it ends."""
    crossing.store.lease_ms = 600_000
    rules = {"Translate": "message:translator", "Publish": "human:press"}
    crossing.settings = load_settings({**_values(crossing), "bridges": rules}, environ={})
    claim, lost = crossing.store.claim_tasks, threading.Event()

    def unheard(*args: Any, **terms: Any) -> list[TaskDefinition]:
        claimed = claim(*args, **terms)
        if claimed and not lost.is_set():
            lost.set()
            raise StoreUnavailable("the connection was lost; nobody knows whether it was done")
        return claimed

    monkeypatch.setattr(crossing.store, "claim_tasks", unheard)
    bridges = crossing.host({"translator": lambda text: {"text": text}})
    report = crossing.run(SOURCE, bridges=bridges)
    assert (report.status, lost.is_set()) == ("PAUSED", True)
    eventually(lambda: approvals.list_approvals(crossing.store, group="press"))
    tasks = crossing.store.get_tasks_by_workflow(WorkflowId(report.run))
    assert {task.deaths for task in tasks} == {0}


def _values(crossing: Crossing) -> dict[str, object]:
    return {"store": crossing.settings.store, "poll_interval_ms": 200, "messages": "memory"}


@pytest.mark.parametrize("via", ["agent", "agent:", "people:finance", "signal:paid", "", 7])
def test_a_line_that_names_no_other_side_is_an_error(via: object) -> None:
    with pytest.raises(SettingError, match=r"bridges: news.Ask is .*; expected one of agent:NAME"):
        Rules.of([("news.Ask", via)])


def test_rules_come_from_a_variable_or_the_file() -> None:
    settings = load_settings(environ={"AFL_BRIDGES": '{"news.Ask": "agent:researcher"}'})
    assert Rules.of(settings.bridges).via("news.Ask") == "agent:researcher"
    assert Rules.of(settings.bridges).via("other.Ask") is None
    assert Rules.of([("Ask", "fleet:ask")]).via("other.Ask") == "fleet:ask"


@pytest.mark.parametrize(
    ("given", "by_server"),
    [
        ({}, False),
        ({"redis": "redis://messages:6379/0"}, True),
        ({"redis": "redis://messages:6379/0", "messages": "memory"}, False),
        ({"messages": "redis"}, True),
    ],
)
def test_messages_go_by_a_server_once_one_is_named(given: dict[str, str], by_server: bool) -> None:
    assert uses_redis(load_settings(given, environ={})) is by_server


def test_every_bridge_is_hosted_where_the_store_allows_it(crossing: Crossing) -> None:
    assert bridge_service(crossing.store, crossing.settings, Offer()).kinds == ["agent", "fleet", "message"]


def test_a_store_without_sql_has_no_turns(mongo_database_url: str) -> None:
    from afl.runtime.mongo_store import MongoStore

    store: PersistenceAPI = MongoStore(mongo_database_url)
    kinds = bridge_service(store, load_settings(environ={}), Offer()).kinds
    store.close()
    assert kinds == ["fleet", "message"]
