"""The evaluator on every store: pause, outside work, resume elsewhere, always the same result.

The program is example 4 of the specification: one event facet deep inside, then its value on the way out.
"""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from store_records import LONG, OpenStore, an_event, eventually, of_stores

from afl.kernel.errors import InputError
from afl.language import compile_source
from afl.operations.program.sources import program_of
from afl.runtime.entities import RunnerState, TaskDefinition, TaskState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.persistence import PersistenceAPI, RunFilter
from afl.runtime.persistence.changes import STEP_CONTINUE
from afl.runtime.states import EventState, StepState
from afl.runtime.step import StepDefinition
from afl.runtime.types import StepId, WorkflowId

SOURCE = """
namespace doc {
  facet Value(n: Long)
  facet Half(i: Long) => (o: Long)
  event facet Count(i: Long) => (o: Long)
  facet Sum(a: Long, b: Long) => (s: Long) andThen {
    p = Half(i = $.a) andThen {
      u = Count(i = 3)
      yield Half(o = u.i + 10)
    }
    q = Value(n = $.b)
    yield Sum(s = p.o + q.n)
  }
  workflow Example(x: Long = 1, y: Long = 2) => (r: Long) andThen {
    t = Sum(a = $.x, b = $.y)
    yield Example(r = t.s)
  }
  workflow Counted(x: Long) => (r: Long) andThen {
    u = Count(i = $.x)
    v = Count(i = u.o)
    yield Counted(r = v.o)
  }
  workflow Wide(xs: [Long]) => (r: [Long]) andThen foreach x in $.xs {
    u = Count(i = $.x)
    yield Wide(r = [u.o])
  }
  workflow Sifted(xs: [Long]) => (r: [Long], lost: [sys.Failure]) andThen foreach x in $.xs limit 2 collect lost {
    u = Count(i = $.x)
    yield Sifted(r = [u.o])
  }
}
"""
PROGRAM: dict[str, Any] = compile_source(SOURCE).program


def workflow(name: str) -> dict[str, Any]:
    (found,) = [w for n in PROGRAM["namespaces"] for w in n.get("workflows", []) if w["name"] == name]
    node: dict[str, Any] = found
    return node


def start(store: PersistenceAPI, name: str = "Example", **inputs: Any) -> ExecutionResult:
    result = Evaluator(store).execute(workflow(name), inputs, PROGRAM)
    assert result.error is None
    assert result.status == ExecutionStatus.PAUSED
    return result


def resume(store: PersistenceAPI, started: ExecutionResult) -> ExecutionResult:
    """In an evaluator that has never seen the program: it is stored with the run."""
    return Evaluator(store).resume(started.workflow_id)


def waiting(store: PersistenceAPI, workflow_id: WorkflowId) -> list[StepDefinition]:
    return [step for step in store.get_open_steps(workflow_id) if step.state == StepState.EVENT_TRANSMIT]


def the_waiting(store: PersistenceAPI, workflow_id: WorkflowId) -> StepDefinition:
    (step,) = waiting(store, workflow_id)
    return step


def event_states(store: PersistenceAPI, workflow_id: WorkflowId) -> list[str]:
    return [event.state for event in store.get_events_by_workflow(workflow_id)]


def continue_by_hand(store: PersistenceAPI, step: StepDefinition, event_id: str) -> None:
    """What an agent of another language says when it is done (seed 003, StepContinue)."""
    store.save_event(
        an_event(
            event_id,
            step.workflow_id,
            step_id=step.id,
            event_type=STEP_CONTINUE,
            payload={"step_id": step.id},
        )
    )


def test_a_run_pauses_and_goes_on_elsewhere(open_store: OpenStore) -> None:
    store, other = open_store(), open_store()
    started = start(store)
    assert (started.iterations, len(store.get_steps_by_workflow(started.workflow_id))) == (2, 8)
    assert [event.event_type for event in started.pending_events] == ["doc.Count"]
    (task,) = store.get_tasks_by_workflow(started.workflow_id)
    assert (task.name, task.params, task.state) == ("doc.Count", {"i": 3}, TaskState.PENDING)
    still = resume(other, started)
    assert (still.status, len(still.pending_events)) == (ExecutionStatus.PAUSED, 1)
    assert len(store.get_tasks_by_workflow(started.workflow_id)) == 1
    step = the_waiting(other, started.workflow_id)
    assert Evaluator(other).continue_step(step.id, {"o": 5})
    done = resume(other, started)
    assert (done.status, done.outputs, done.iterations) == (ExecutionStatus.COMPLETED, {"r": 15}, 11)
    assert len(store.get_steps_by_workflow(started.workflow_id)) == 11
    again = resume(store, started)
    assert (again.status, again.outputs) == (ExecutionStatus.COMPLETED, {"r": 15})
    assert store.get_marks(started.workflow_id) == []
    assert event_states(store, started.workflow_id) == [EventState.COMPLETED]
    run = store.get_run(started.workflow_id)
    assert run is not None
    assert (run.state, run.outputs, run.owner) == (RunnerState.COMPLETED, {"r": 15}, "")


def test_a_claimed_task_is_finished_under_its_claim(store: PersistenceAPI) -> None:
    started = start(store, "Counted", x=1)
    evaluator = Evaluator(store)
    for expected in ({"i": 1}, {"i": 10}):
        task = store.claim_task(["Count"], owner="worker", lease_ms=LONG)
        assert task is not None
        assert task.params == expected
        assert event_states(store, started.workflow_id)[-1] == EventState.DISPATCHED
        store.start_tasks([task])
        assert event_states(store, started.workflow_id)[-1] == EventState.PROCESSING
        assert evaluator.continue_step(StepId(task.step_id), {"o": 10}, task=task)
        assert not evaluator.continue_step(StepId(task.step_id), {"o": 99}, task=task)
        done = resume(store, started)
    assert (done.status, done.outputs) == (ExecutionStatus.COMPLETED, {"r": 10})
    assert event_states(store, started.workflow_id) == [EventState.COMPLETED] * 2


def test_a_failed_step_ends_the_run(store: PersistenceAPI) -> None:
    started = start(store)
    step = the_waiting(store, started.workflow_id)
    assert Evaluator(store).fail_step(step.id, "no such document")
    done = resume(store, started)
    assert done.status == ExecutionStatus.ERROR
    assert "no such document" in str(done.error)
    assert [task.state for task in store.get_tasks_by_workflow(started.workflow_id)] == [TaskState.FAILED]
    assert event_states(store, started.workflow_id) == [EventState.ERROR]


def test_word_for_a_step_that_went_on_is_no_news(store: PersistenceAPI) -> None:
    started = start(store, "Counted", x=1)
    step = the_waiting(store, started.workflow_id)
    evaluator = Evaluator(store)
    assert evaluator.continue_step(step.id, {"o": 2})
    assert not evaluator.continue_step(step.id, {"o": 3})
    assert not evaluator.fail_step(step.id, "too late")
    paused = resume(store, started)
    assert paused.status == ExecutionStatus.PAUSED
    assert not evaluator.continue_step(step.id, {"o": 3})
    assert the_waiting(store, started.workflow_id).get_attribute("i") == 2
    with pytest.raises(InputError, match="not found"):
        evaluator.continue_step(StepId("missing"), {})


def test_an_agent_of_another_language_writes_its_result_and_says_so(store: PersistenceAPI) -> None:
    started = start(store, "Counted", x=1)
    step = the_waiting(store, started.workflow_id)
    step.attributes.set_return("o", 7, "Long")
    store.save_step(step)
    assert resume(store, started).status == ExecutionStatus.PAUSED  # not before it said so
    for number in range(3):
        continue_by_hand(store, step, f"by-hand-{number}")
    assert resume(store, started).status == ExecutionStatus.PAUSED
    second = the_waiting(store, started.workflow_id)
    assert second.get_attribute("i") == 7
    continue_by_hand(store, step, "by-hand-again")
    assert resume(store, started).status == ExecutionStatus.PAUSED
    assert the_waiting(store, started.workflow_id).id == second.id
    assert store.get_marks(started.workflow_id) == []
    first, _ = store.get_tasks_by_workflow(started.workflow_id)
    assert first.state == TaskState.COMPLETED
    assert event_states(store, started.workflow_id) == [EventState.COMPLETED, EventState.CREATED]


def test_a_saved_step_that_asks_for_its_transition_goes_on(store: PersistenceAPI) -> None:
    """With its task still in the queue, and nothing else said."""
    started = start(store)
    step = the_waiting(store, started.workflow_id)
    step.set_attribute("o", 5, is_return=True)
    step.request_state_change(True)
    store.save_step(step)
    done = resume(store, started)
    assert (done.status, done.outputs) == (ExecutionStatus.COMPLETED, {"r": 15})
    (task,) = store.get_tasks_by_workflow(started.workflow_id)
    assert (task.state, task.result) == (TaskState.COMPLETED, {"o": 5})
    assert store.get_marks(started.workflow_id) == []


def test_a_saved_step_that_asks_for_nothing_waits_on(store: PersistenceAPI) -> None:
    started = start(store)
    step = the_waiting(store, started.workflow_id)
    step.set_attribute("o", 5, is_return=True)
    store.save_step(step)
    assert store.get_marks(started.workflow_id) == []
    assert resume(store, started).status == ExecutionStatus.PAUSED


@pytest.mark.parametrize("closes_its_task", [True, False])
def test_an_agent_of_another_language_that_claims_its_task(
    store: PersistenceAPI, closes_its_task: bool
) -> None:
    started = start(store)
    task = store.claim_task(["doc.Count"], owner="java")
    assert task is not None
    step = store.get_step(StepId(task.step_id))
    assert step is not None
    step.attributes.set_return("o", 7)
    store.save_step(step)
    if closes_its_task:
        task.state = TaskState.COMPLETED
        store.save_task(task)
    continue_by_hand(store, step, "by-hand")
    done = resume(store, started)
    assert (done.error, done.status, done.outputs) == (None, ExecutionStatus.COMPLETED, {"r": 15})
    (closed,) = store.get_tasks_by_workflow(started.workflow_id)
    assert closed.state == TaskState.COMPLETED
    assert event_states(store, started.workflow_id) == [EventState.COMPLETED]


def test_a_result_by_hand_that_does_not_fit_fails_the_step(store: PersistenceAPI) -> None:
    started = start(store)
    step = the_waiting(store, started.workflow_id)
    step.attributes.set_return("o", "seven")
    store.save_step(step)
    continue_by_hand(store, step, "by-hand")
    done = resume(store, started)
    assert done.status == ExecutionStatus.ERROR
    assert "o" in str(done.error)


def test_two_evaluators_at_once_come_to_one_result(open_store: OpenStore) -> None:
    """One of them holds the run; the other is told so, or finds it done."""
    stores = [open_store(), open_store()]
    started = start(stores[0], "Wide", xs=list(range(6)))
    for step in waiting(stores[0], started.workflow_id):
        assert Evaluator(stores[0]).continue_step(step.id, {"o": step.get_attribute("i") * 2})
    together = threading.Barrier(2)

    def work(store: PersistenceAPI) -> ExecutionResult:
        together.wait()
        return resume(store, started)

    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(work, stores))
    for result in results:
        assert result.error is None
        assert result.status == ExecutionStatus.COMPLETED or result.held_by
    done = resume(stores[0], started)
    assert (done.status, done.outputs) == (ExecutionStatus.COMPLETED, {"r": [0, 2, 4, 6, 8, 10]})
    assert_handled_once(stores[0], started.workflow_id, 6)


def test_a_foreach_goes_some_at_a_time_and_collects_its_failures(open_store: OpenStore) -> None:
    """Each element is worked off and evaluated by a process that has not seen the run before."""
    started = start(open_store(), "Sifted", xs=list(range(5)))
    result = resume(open_store(), started)
    while result.status == ExecutionStatus.PAUSED:
        store = open_store()
        steps = waiting(store, started.workflow_id)
        assert 1 <= len(steps) <= 2
        number = steps[-1].get_attribute("i")
        if number % 2:
            assert Evaluator(store).fail_step(steps[-1].id, f"{number} is odd")
        else:
            assert Evaluator(store).continue_step(steps[-1].id, {"o": number * 2})
        result = resume(open_store(), started)
    assert result.error is None
    assert result.outputs["r"] == [0, 4, 8]
    assert result.outputs["lost"] == [
        {"error_type": "AgentError", "message": f"{n} is odd", "index": n, "element": n, "step": f"[{n}].u"}
        for n in (1, 3)
    ]
    with pytest.raises(InputError, match="only a failed or canceled run"):
        Evaluator(open_store()).retry(started.workflow_id)


def test_workers_and_evaluators_at_once_handle_every_task_once(open_store: OpenStore) -> None:
    """Each worker claims, finishes and resumes: many tries of one run, one result, each event facet done once."""
    stores = [open_store() for _ in range(3)]
    started = start(stores[0], "Wide", xs=list(range(12)))
    together = threading.Barrier(len(stores))

    def work(store: PersistenceAPI) -> list[TaskDefinition]:
        together.wait()
        served = []
        while task := store.claim_task(["Count"], lease_ms=LONG):
            assert task.data is not None
            assert Evaluator(store).continue_step(StepId(task.step_id), {"o": task.data["i"] * 2}, task=task)
            assert resume(store, started).error is None
            served.append(task)
        return served

    with ThreadPoolExecutor(len(stores)) as pool:
        served = [task for part in pool.map(work, stores) for task in part]
    assert len({task.step_id for task in served}) == len(served) == 12
    done = eventually(lambda: _if_over(resume(stores[0], started)))
    assert (done.status, done.outputs) == (ExecutionStatus.COMPLETED, {"r": [2 * n for n in range(12)]})
    assert_handled_once(stores[0], started.workflow_id, 12)


@of_stores(offers="retention")
def test_a_workflow_runs_again_after_its_old_runs_were_removed(store: PersistenceAPI) -> None:
    """Programs are stored once and remembered by evaluators: removing a run must not take away what the next needs."""
    evaluator = Evaluator(store)
    first = evaluator.execute(workflow("Counted"), {"x": 1}, PROGRAM)
    assert store.cancel_run(first.workflow_id, "enough")
    assert store.delete_runs(2**60, 10) == 1
    second = evaluator.execute(workflow("Counted"), {"x": 1}, PROGRAM)
    assert second.status == ExecutionStatus.PAUSED
    again = resume(store, second)
    assert (again.status, again.error) == (ExecutionStatus.PAUSED, None)


def _if_over(result: ExecutionResult) -> ExecutionResult | None:
    return result if result.status != ExecutionStatus.PAUSED else None


def assert_handled_once(store: PersistenceAPI, workflow_id: WorkflowId, count: int) -> None:
    tasks = store.get_tasks_by_workflow(workflow_id)
    assert [task.state for task in tasks] == [TaskState.COMPLETED] * count
    assert len({task.step_id for task in tasks}) == count
    assert event_states(store, workflow_id) == [EventState.COMPLETED] * count
    steps = store.get_steps_by_workflow(workflow_id)
    assert len({step.id for step in steps}) == len(steps)
    assert all(step.is_complete for step in steps)
    assert store.get_marks(workflow_id) == []


def test_a_workflow_tags_its_run(store: PersistenceAPI) -> None:
    source = """
    event facet Ask() => (who: String)
    workflow W() => (who: String) andThen {
        first = sys.Tag(name = "stage", value = "asking")
        a = Ask()
        named = sys.Tag(name = "who", value = a.who)
        last = sys.Tag(name = "stage", value = "done") with After(named)
        yield W(who = a.who)
    }
    """
    program = program_of(source)
    evaluator = Evaluator(store)
    run = evaluator.submit(program, tags={"team": "data"})
    evaluator.resume(run)
    assert _found(store, "stage=asking", "team=data") == [run]
    evaluator.continue_step(StepId(f"{run}/0/a"), {"who": "Ada"})
    evaluator.resume(run)
    assert _found(store, "stage=done", "team=data", "who=Ada") == [run]
    assert _found(store, "stage=asking") == []
    stored = store.get_run(run)
    assert stored is not None and stored.tags == {"team": "data", "stage": "done", "who": "Ada"}


def test_a_tag_that_cannot_be_one_fails_its_step(store: PersistenceAPI) -> None:
    program = program_of('workflow W(name: String) andThen { t = sys.Tag(name = $.name, value = "x") }')
    evaluator = Evaluator(store)
    run = evaluator.submit(program, {"name": "a=b"})
    result = evaluator.resume(run)
    assert isinstance(result.error, StepFailure) and result.error.error_type == "BadTag"


def _found(store: PersistenceAPI, *tags: str) -> list[str]:
    return [run.workflow_id for run in store.find_runs(RunFilter(tags=tags))]
