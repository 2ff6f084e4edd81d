"""The life of an event, and handlers in this process."""

from __future__ import annotations

from typing import Any

import pytest

from afl.runtime.errors import EventError
from afl.runtime.events import EventDispatcher, EventManager, LocalEventHandler, step_continue
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import EventDefinition
from afl.runtime.states import EventState
from afl.runtime.types import EventId, StepId, WorkflowId

RUN = WorkflowId("run")


def make_event(kind: str = "ns.F", **payload: Any) -> EventDefinition:
    return EventDefinition(EventId("e"), StepId("s"), RUN, EventState.CREATED, kind, payload)


@pytest.fixture
def manager(store: MemoryStore) -> EventManager:
    return EventManager(store)


def test_a_new_event_is_created_and_not_saved(manager: EventManager, store: MemoryStore) -> None:
    event = manager.create_event(StepId("s"), RUN, "ns.F", {"i": 1})
    assert (event.step_id, event.workflow_id, event.event_type) == ("s", "run", "ns.F")
    assert (event.state, event.payload) == (EventState.CREATED, {"i": 1})
    assert event.id != manager.create_event(StepId("s"), RUN, "ns.F", {}).id
    assert store.event_count() == 0


def test_the_whole_life_is_one_object(manager: EventManager) -> None:
    event = manager.create_event(StepId("s"), RUN, "ns.F", {"i": 1})
    assert manager.dispatch(event) is event
    assert event.state == EventState.DISPATCHED
    assert manager.start_processing(event) is event
    assert event.state == EventState.PROCESSING
    assert manager.complete(event, {"o": 2}) is event
    assert event.state == EventState.COMPLETED
    assert event.payload == {"i": 1, "result": {"o": 2}}


def test_an_error_keeps_the_payload(manager: EventManager) -> None:
    event = make_event(i=1)
    assert manager.error(event, "boom") is event
    assert event.state == EventState.ERROR
    assert event.payload == {"i": 1, "error": "boom"}


def test_pending_events_are_the_unfinished_ones_of_the_run(manager: EventManager, store: MemoryStore) -> None:
    states = [EventState.CREATED, EventState.DISPATCHED, EventState.PROCESSING]
    for position, state in enumerate([*states, EventState.COMPLETED, EventState.ERROR]):
        store.save_event(EventDefinition(EventId(f"e{position}"), StepId("s"), RUN, state, "ns.F"))
    store.save_event(EventDefinition(EventId("x"), StepId("t"), WorkflowId("other"), states[0], "ns.F"))
    store.save_event(step_continue(StepId("s"), RUN))
    assert [event.state for event in manager.get_pending_events(RUN)] == states


def test_a_handler_answers_by_event_type() -> None:
    handler = LocalEventHandler()
    handler.register("ns.F", lambda payload: {"o": payload["i"] + 1})
    assert handler.handle(make_event(i=1)) == {"o": 2}


def test_without_a_handler_the_answer_is_none() -> None:
    assert LocalEventHandler().handle(make_event()) is None


def test_the_last_handler_wins() -> None:
    handler = LocalEventHandler()
    handler.register("ns.F", lambda payload: {"o": 1})
    handler.register("ns.F", lambda payload: {"o": 2})
    assert handler.handle(make_event()) == {"o": 2}


def test_handlers_are_not_shared() -> None:
    LocalEventHandler().register("ns.F", lambda payload: {"o": 1})
    assert LocalEventHandler().handle(make_event()) is None


def test_a_dispatcher_without_handlers_completes_nothing() -> None:
    dispatcher = EventDispatcher()
    event = make_event()
    dispatcher.dispatch(event)
    assert event.state == EventState.DISPATCHED
    assert dispatcher.poll_completed() == []


def test_a_dispatcher_hands_out_each_answer_once_in_order() -> None:
    dispatcher = EventDispatcher()
    dispatcher.handler.register("ns.F", lambda payload: {"o": payload["i"]})
    for position in range(3):
        event = make_event(i=position)
        event.id = EventId(f"e{position}")
        dispatcher.dispatch(event)
    assert dispatcher.poll_completed() == [("e0", {"o": 0}), ("e1", {"o": 1}), ("e2", {"o": 2})]
    assert dispatcher.poll_completed() == []


@pytest.mark.parametrize("state", [EventState.COMPLETED, EventState.ERROR])
def test_an_event_that_is_over_is_not_dispatched(state: str) -> None:
    dispatcher, event = EventDispatcher(), make_event()
    event.state = state
    with pytest.raises(EventError, match="over"):
        dispatcher.dispatch(event)
    assert event.state == state


def test_step_continue_has_the_shape_of_the_seed() -> None:
    event = step_continue(StepId("s"), RUN)
    assert (event.event_type, event.step_id, event.state) == ("StepContinue", "s", EventState.CREATED)
    assert event.payload == {"step_id": "s"}
