"""Telemetry of a run: what is recorded, and how it looks."""

from __future__ import annotations

import json
import sys
from collections import Counter
from datetime import datetime
from types import FrameType

import pytest
from engine_bench import Engine
from runtime_programs import ASK, NUMBER

from afl.runtime.evaluator import Evaluator
from afl.runtime.step import StepDefinition
from afl.runtime.telemetry import Telemetry, TelemetryEvent
from afl.runtime.types import BlockId, ObjectType, WorkflowId

CHAIN = (
    NUMBER
    + """
workflow B(i: Long = 1) => (o: Long) andThen {
    a = N(n = $.i + 1)
    b = N(n = a.n + 1)
    yield B(o = b.n + 1)
}
"""
)


@pytest.fixture
def step() -> StepDefinition:
    return StepDefinition.create(
        WorkflowId("run"), ObjectType.VARIABLE_ASSIGNMENT, "ns.F", block_id=BlockId("b")
    )


def test_an_event_as_plain_data() -> None:
    event = TelemetryEvent("2026-01-01T00:00:00Z", "x", "run", "step", "block", "state", {"k": 1})
    assert event.to_dict() == {
        "timestamp": "2026-01-01T00:00:00Z",
        "eventType": "x",
        "workflowId": "run",
        "stepId": "step",
        "blockId": "block",
        "state": "state",
        "details": {"k": 1},
    }
    assert TelemetryEvent("t", "x").to_dict() == {"timestamp": "t", "eventType": "x"}


def test_an_event_is_read_by_attribute_and_by_key() -> None:
    telemetry = Telemetry()
    telemetry.log_workflow_start("run", "W")
    (event,) = telemetry.get_events()
    assert (event["eventType"], event["workflowId"]) == ("workflow.start", "run")
    assert (event.event_type, event.workflow_id) == ("workflow.start", "run")
    assert event["details"]["workflowName"] == "W"
    assert "stepId" not in event and event.get("stepId") is None
    assert dict(event) == event.to_dict()
    with pytest.raises(KeyError, match="stepId"):
        event["stepId"]


def test_each_kind_of_event(step: StepDefinition) -> None:
    telemetry = Telemetry()
    telemetry.log_workflow_start("run", "W")
    telemetry.log_workflow_complete("run", {"o": 1})
    telemetry.log_workflow_error("run", ValueError("boom"))
    telemetry.log_iteration_start("run", 1)
    telemetry.log_iteration_end("run", 1, 2, 3)
    telemetry.log_step_created(step)
    telemetry.log_state_begin(step, "H")
    telemetry.log_state_end(step, "H")
    telemetry.log_state_transition(step, "a", "b")
    telemetry.log_error(step, "H", KeyError("k"))
    telemetry.log_dependency_resolved(step, "d")
    telemetry.log_event_published(step, "e", "ns.F")
    assert [(event.event_type, event.details) for event in telemetry.get_events()] == [
        ("workflow.start", {"workflowName": "W"}),
        ("workflow.complete", {"result": {"o": 1}}),
        ("workflow.error", {"error": "boom", "errorType": "ValueError"}),
        ("iteration.start", {"iteration": 1}),
        ("iteration.end", {"iteration": 1, "stepsCreated": 2, "stepsUpdated": 3}),
        ("step.created", {"objectType": "VariableAssignment", "facetName": "ns.F"}),
        ("state.begin", {}),
        ("state.end", {}),
        ("state.transition", {"fromState": "a", "toState": "b"}),
        ("step.error", {"error": "'k'", "errorType": "KeyError"}),
        ("dependency.resolved", {"dependencyId": "d"}),
        ("event.published", {"eventId": "e", "eventType": "ns.F"}),
    ]
    last = telemetry.events[-1]
    assert (last.workflow_id, last.step_id, last.block_id) == ("run", step.id, "b")


def test_timestamps_are_utc() -> None:
    telemetry = Telemetry()
    telemetry.log_workflow_start("run", "W")
    stamp = telemetry.events[0].timestamp
    assert stamp.endswith("Z")
    assert datetime.fromisoformat(stamp).utcoffset() is not None


def test_disabled_telemetry_records_nothing(engine: Engine) -> None:
    engine.telemetry.enabled = False
    assert engine.run(CHAIN).success
    assert engine.telemetry.get_events() == []
    assert Evaluator(engine.store).telemetry.enabled is False


def _handlers_called(engine: Engine) -> Counter[str]:
    """The state handlers that a run calls, by class."""
    called: Counter[str] = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_name == "process_state":
            called[type(frame.f_locals["self"]).__name__] += 1

    sys.setprofile(note)
    try:
        assert engine.run(CHAIN).success
    finally:
        sys.setprofile(None)
    return called


def test_telemetry_does_not_change_which_handlers_are_called(engine: Engine) -> None:
    traced = _handlers_called(engine)
    engine.telemetry.enabled = False
    assert traced
    assert _handlers_called(engine) == traced


def test_clear_and_json() -> None:
    telemetry = Telemetry()
    telemetry.log_iteration_start("run", 1)
    assert json.loads(telemetry.to_json()) == [telemetry.events[0].to_dict()]
    assert telemetry.to_json(indent=4).startswith("[\n    {")
    taken = telemetry.get_events()
    telemetry.clear()
    assert telemetry.events == []
    assert len(taken) == 1


def test_a_run_from_start_to_completion(engine: Engine) -> None:
    result = engine.run(CHAIN)
    kinds = [event.event_type for event in engine.telemetry.events]
    assert kinds[0] == "workflow.start"
    assert kinds[-1] == "workflow.complete"
    assert engine.telemetry.events[-1].details == {"result": {"o": 4}}
    assert kinds.count("iteration.start") == kinds.count("iteration.end") == result.iterations == 6
    assert kinds.count("step.created") == 5
    assert {event.workflow_id for event in engine.telemetry.events} == {result.workflow_id}


def test_what_each_iteration_created_and_moved(engine: Engine) -> None:
    engine.run(CHAIN)
    ends = [event.details for event in engine.telemetry.events if event.event_type == "iteration.end"]
    assert [end["iteration"] for end in ends] == [1, 2, 3, 4, 5, 6]
    assert [(end["stepsCreated"], end["stepsUpdated"]) for end in ends] == [
        *((2, 3), (1, 1), (1, 1), (0, 1), (0, 1), (0, 0)),
    ]


def test_states_are_named_after_their_handlers(engine: Engine) -> None:
    engine.run(CHAIN)
    begun = [event.state for event in engine.telemetry.events if event.event_type == "state.begin"]
    ended = [event.state for event in engine.telemetry.events if event.event_type == "state.end"]
    assert sorted(map(str, begun)) == sorted(map(str, ended))
    assert "FacetInitializationBeginHandler" in begun
    assert "StatementCompleteHandler" in begun


def test_a_published_event_is_recorded(engine: Engine) -> None:
    result = engine.run(ASK)
    (published,) = [event for event in engine.telemetry.events if event.event_type == "event.published"]
    assert published.details == {"eventId": result.pending_events[0].id, "eventType": "Ask"}


def test_failures_are_recorded_at_the_step_and_the_run(engine: Engine) -> None:
    engine.run(NUMBER + "workflow W() andThen { a = N(n = 1 % 0) }")
    kinds = [event.event_type for event in engine.telemetry.events]
    assert kinds[-1] == "workflow.error"
    (failed,) = [event for event in engine.telemetry.events if event.event_type == "step.error"]
    assert failed.state == "FacetInitializationBeginHandler"
    assert failed.details["errorType"] == "EvaluationError"
