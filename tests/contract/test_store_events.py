"""Events and marks. A saved StepContinue event is a mark: a row somebody inserts and the run's evaluator deletes."""

from __future__ import annotations

from typing import Any

import pytest
from store_records import RUN, a_mark, a_task, an_event, begin

from afl.kernel.errors import PayloadError
from afl.runtime.events import step_continue
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.states import EventState
from afl.runtime.types import EventId, StepId, WorkflowId

SHUFFLED = ["e3", "e9", "e1", "e7", "e2", "e8"]


def ids(events: list[Any]) -> list[str]:
    return [event.id for event in events]


@pytest.mark.parametrize(
    "payload",
    [{}, {"n": None, "ü": [1, {"a": 2.5}]}, {"": 1, "a.b": {"$x": "\x00"}}, {"big": "x" * 1_000_000}],
    ids=["empty", "nested", "odd keys", "large"],
)
def test_every_field_of_an_event_comes_back(store: PersistenceAPI, payload: dict[str, Any]) -> None:
    event = an_event(step_id="step", state=EventState.PROCESSING, event_type="ns.Ü", payload=payload)
    store.save_event(event)
    assert store.get_event(event.id) == event
    assert store.get_events_by_workflow(RUN) == [event]


def test_an_event_that_is_not_there(store: PersistenceAPI) -> None:
    assert store.get_event(EventId("missing")) is None
    assert store.get_events_by_workflow(WorkflowId("missing")) == []


def test_saving_again_replaces_the_event(store: PersistenceAPI) -> None:
    store.save_event(an_event(payload={"old": 1}))
    new = an_event(state=EventState.ERROR, payload={"error": "no"}, step_id="other", event_type="G")
    store.save_event(new)
    assert store.get_events_by_workflow(RUN) == [new]


def test_copies_go_in_and_copies_come_out(store: PersistenceAPI) -> None:
    event = an_event(payload={"list": [1]})
    store.save_event(event)
    event.payload["list"].append(2)
    first = store.get_event(event.id)
    assert first is not None
    first.payload["list"].append(3)
    assert store.get_event(event.id) == an_event(payload={"list": [1]})


def test_a_payload_that_is_no_plain_data_is_refused(store: PersistenceAPI) -> None:
    with pytest.raises(PayloadError):
        store.save_event(an_event(payload={"x": object()}))
    assert store.get_event(EventId("e")) is None


def test_the_events_of_a_run_come_by_id(store: PersistenceAPI) -> None:
    """Ids that the runtime makes sort by time, so its own events come in creation order."""
    for event_id in SHUFFLED:
        store.save_event(an_event(event_id))
    store.save_event(an_event("other", "run-2"))
    store.save_task(a_task("e5", step_id="s"))  # an open task is its own event
    store.save_task(a_task("e6"))  # one of no step is none
    assert ids(store.get_events_by_workflow(RUN)) == sorted([*SHUFFLED, "e5"])


def test_marks_are_the_step_continue_events_of_a_run(store: PersistenceAPI) -> None:
    store.save_event(an_event("z-work"))
    for event_id in SHUFFLED:
        store.save_event(a_mark(event_id))
    store.save_event(a_mark("other", "run-2"))
    assert sorted(ids(store.get_marks(RUN))) == sorted(SHUFFLED)
    assert len(store.get_marks(RUN, limit=2)) == 2
    assert ids(store.get_events_by_workflow(RUN)) == [*sorted(SHUFFLED), "z-work"]
    assert store.get_marks(WorkflowId("missing")) == []


def test_word_of_one_step_is_one_mark(store: PersistenceAPI) -> None:
    for _ in range(2):
        store.save_event(step_continue(StepId("s"), RUN))
    assert store.get_marks(RUN) == [step_continue(StepId("s"), RUN)]


def test_consumed_marks_are_gone_with_the_commit(store: PersistenceAPI) -> None:
    run = begin(store)
    store.save_event(a_mark("m1"))
    store.save_event(a_mark("m2"))
    store.commit(IterationChanges(run=run, consumed_events=[EventId("m1"), EventId("missing")]))
    assert ids(store.get_marks(RUN)) == ["m2"]
    assert store.get_event(EventId("m1")) is None
