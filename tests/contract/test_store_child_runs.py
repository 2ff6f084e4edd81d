"""Child runs on every store: the workflow that a step calls `with Run(...)` is a run of its own.

Its end goes up to the step that waits for it, the end of the parent goes down, and every id belongs to one run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from store_records import LONG, OpenStore, a_run, eventually, of_stores

from afl.kernel.clock import wall_ms
from afl.kernel.errors import FencedError, PayloadError
from afl.language import compile_source
from afl.operations.run.control import cancel, retry
from afl.operations.run.rerun import rerun
from afl.operations.run.signaling import send_signal
from afl.runtime.entities import RunDefinition, RunnerState, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator, ExecutionResult, ExecutionStatus
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.program import Program
from afl.runtime.recovery.sweep import reclaim
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId, WorkflowId
from afl.runtime.worker.held_runs import HeldRuns

SOURCE = """
namespace shop {
    event facet Charge(item: String) => (total: Long)

    workflow Order(item: String, note: String = "none") => (total: Long) andThen {
        paid = Charge(item = $.item)
        yield Order(total = paid.total)
    }
    workflow Awaits(n: Long) => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = "order-" ++ $.n)
        yield Awaits(total = order.total + 1)
    }
    workflow Both(ids: [String]) => (totals: [Long]) andThen foreach id in $.ids {
        awaits = Awaits(n = 7) with Run(id = id)
        yield Both(totals = [awaits.total])
    }
    workflow Nameless() => (total: Long) andThen {
        order = Order(item = "tea") with Run()
        yield Nameless(total = order.total)
    }
    workflow Catches() => (why: String) andThen {
        order = Order(item = "tea") with Run(id = "order-7") catch {
            yield Catches(why = order.error_type ++ ": " ++ order.error)
        }
    }
    workflow Detaches() => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = "order-7", onParentClose = "detach")
        yield Detaches(total = order.total)
    }
    workflow Starts(closing: String) => (item: String) andThen {
        order = Order(item = "tea") with Run(id = "order-7", onParentClose = $.closing, wait = false)
        yield Starts(item = order.item)
    }
    workflow Hurries(closing: String) => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = "order-7", onParentClose = $.closing) with Timeout(ms = 1)
        yield Hurries(total = order.total)
    }
    workflow Listed() => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = "order-7", taskList = "orders")
        yield Listed(total = order.total)
    }
    workflow Wide(items: [String]) => (totals: [Long]) andThen foreach item in $.items {
        order = Order(item = item) with Run()
        yield Wide(totals = [order.total])
    }
    workflow Named(id: String) => (total: Long) andThen {
        order = Order(item = "tea") with Run(id = $.id)
        yield Named(total = order.total)
    }
    workflow Untyped(item: Json) => (total: Long) andThen {
        order = Order(item = $.item) with Run()
        yield Untyped(total = order.total)
    }
    event facet Paid(item: String) => (total: Long) with Signal("paid")

    workflow Nap(ms: Long) => (total: Long) andThen {
        nap = sys.Sleep(ms = $.ms)
        yield Nap(total = 8)
    }
    workflow Naps() => (total: Long) andThen {
        first = Nap(ms = 1) with Run()
        second = Nap(ms = 1) with Run() with After(first)
        yield Naps(total = first.total + second.total)
    }
    workflow Asks() => (total: Long) andThen {
        paid = Paid(item = "tea")
        yield Asks(total = paid.total)
    }
    workflow Bills() => (total: Long) andThen {
        asked = Asks() with Run(id = "order-7")
        yield Bills(total = asked.total)
    }
    workflow Twice() => (total: Long) andThen {
        a = Order(item = "tea") with Run(id = "order-7")
        b = Order(item = "tea") with Run(id = "order-7")
        yield Twice(total = a.total + b.total)
    }
    workflow Above(n: Long) => (total: Long) andThen {
        middle = Awaits(n = $.n) with Run(id = "middle")
        yield Above(total = middle.total + 10)
    }
}
"""
PROGRAM: dict[str, Any] = compile_source(SOURCE).program
ORDER = WorkflowId("order-7")
PARENT = WorkflowId("parent")


def program(name: str) -> Program:
    return Program({"program": PROGRAM, "workflow": f"shop.{name}"})


def start(store: PersistenceAPI, name: str, **inputs: Any) -> Evaluator:
    """A parent, evaluated until it waits; its children are not begun."""
    evaluator = Evaluator(store)
    evaluator.submit(program(name), inputs, workflow_id=PARENT)
    evaluator.resume(PARENT)
    return evaluator


def get(store: PersistenceAPI, run: str) -> RunDefinition:
    found = store.get_run(WorkflowId(run))
    assert found is not None, run
    return found


def states(store: PersistenceAPI, *runs: str) -> list[str]:
    return [get(store, run).state for run in runs]


def error_of(run: RunDefinition) -> tuple[str, str]:
    error = run.error or {}
    return error.get("error_type", ""), error.get("message", "")


def charge(evaluator: Evaluator, run: str = ORDER, total: int = 5) -> ExecutionResult:
    """The child is begun, and its work is done."""
    evaluator.resume(WorkflowId(run))
    evaluator.continue_step(StepId(f"{run}/0/paid"), {"total": total})
    return evaluator.resume(WorkflowId(run))


def refuse(evaluator: Evaluator, run: str = ORDER) -> None:
    """The child is begun, and its work fails."""
    evaluator.resume(WorkflowId(run))
    evaluator.fail_step(StepId(f"{run}/0/paid"), "no money")
    evaluator.resume(WorkflowId(run))


# -- a child that is awaited ----------------------------------------------------------------------------------


def test_a_child_is_stored_with_the_task_that_waits_for_it(store: PersistenceAPI) -> None:
    start(store, "Awaits", n=7)
    child, parent = get(store, ORDER), get(store, PARENT)
    (task,) = store.get_tasks_by_workflow(PARENT)
    assert (child.state, child.workflow_name, child.task_list) == (
        RunnerState.CREATED,
        "shop.Order",
        "default",
    )
    assert child.inputs == {"item": "tea", "note": "none"}
    assert (child.parent, child.parent_step) == (PARENT, "parent/0/order")
    assert (child.on_parent_close, child.parent_told) == ("cancel", 0)
    assert (task.via, task.hold, task.state) == ("run:order-7", TaskHold.ELSEWHERE, TaskState.PENDING)
    assert (parent.waiting, parent.state) == (1, RunnerState.RUNNING)
    assert [run.workflow_id for run in store.get_children(PARENT)] == [ORDER]
    assert store.get_due_runs() == [ORDER]


def test_the_result_of_a_child_completes_the_step(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    assert charge(evaluator).outputs == {"total": 5}
    assert get(store, ORDER).parent_told == 1
    result = evaluator.resume(PARENT)
    assert (result.status, result.outputs) == (ExecutionStatus.COMPLETED, {"total": 6})
    (task,) = store.get_tasks_by_workflow(PARENT)
    assert (task.state, task.hold, task.result) == (TaskState.COMPLETED, "", {"total": 5})


def test_a_child_without_an_id_gets_one(store: PersistenceAPI) -> None:
    evaluator = start(store, "Nameless")
    (child,) = store.get_children(PARENT)
    (task,) = store.get_tasks_by_workflow(PARENT)
    assert child.workflow_id == task.uuid
    charge(evaluator, child.workflow_id)
    assert evaluator.resume(PARENT).outputs == {"total": 5}


def test_the_failure_of_a_child_fails_the_step(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    refuse(evaluator)
    evaluator.resume(PARENT)
    assert states(store, PARENT, ORDER) == [RunnerState.FAILED] * 2
    assert error_of(get(store, PARENT)) == ("AgentError", "child run order-7 failed: no money")
    assert get(store, ORDER).parent_told == 1


def test_the_failure_of_a_child_can_be_caught(store: PersistenceAPI) -> None:
    evaluator = start(store, "Catches")
    refuse(evaluator)
    assert evaluator.resume(PARENT).outputs == {"why": "AgentError: child run order-7 failed: no money"}


def test_a_canceled_child_fails_the_step(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    cancel(store, ORDER, by="ann")
    evaluator.resume(PARENT)
    assert error_of(get(store, PARENT)) == (
        "ChildCanceled",
        "child run order-7 was canceled: canceled by operator ann",
    )


def test_a_child_has_the_task_list_that_it_is_given(store: PersistenceAPI) -> None:
    evaluator = start(store, "Listed")
    evaluator.resume(ORDER)
    (task,) = store.get_tasks_by_workflow(ORDER)
    assert (get(store, ORDER).task_list, task.task_list_name) == ("orders", "orders")


def test_a_child_that_ends_while_its_parent_is_paused(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    assert store.pause_run(PARENT, "paused")
    assert charge(evaluator).status == ExecutionStatus.COMPLETED
    assert states(store, PARENT) == [RunnerState.PAUSED]
    store.unpause_run(PARENT)
    assert evaluator.resume(PARENT).outputs == {"total": 6}


# -- ids ------------------------------------------------------------------------------------------------------


def test_an_id_in_use_fails_the_step_and_leaves_nothing(store: PersistenceAPI) -> None:
    Evaluator(store).submit(program("Order"), {"item": "mine"}, workflow_id=ORDER)
    start(store, "Awaits", n=7)
    parent = get(store, PARENT)
    assert error_of(parent) == (
        "RunExists",
        "there is a run order-7 already; a child run needs a new id",
    )
    assert store.get_tasks_by_workflow(PARENT) == []
    assert (get(store, ORDER).inputs["item"], get(store, ORDER).parent_step) == ("mine", "")


def test_two_steps_cannot_start_the_same_run(store: PersistenceAPI) -> None:
    evaluator = start(store, "Twice")
    charge(evaluator)
    evaluator.resume(PARENT)
    assert error_of(get(store, PARENT))[0] == "RunExists"
    assert len(store.get_children(PARENT)) == 1


def test_a_run_cannot_be_its_own_child(store: PersistenceAPI) -> None:
    evaluator = Evaluator(store)
    evaluator.submit(program("Awaits"), {"n": 7}, workflow_id=ORDER)
    evaluator.resume(ORDER)
    assert error_of(get(store, ORDER))[0] == "RunExists"


def test_a_run_that_is_started_again_starts_its_children_again_under_new_ids(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    charge(evaluator)
    evaluator.resume(PARENT)
    for again, source, child in (
        ("b", PARENT, "order-7-1"),
        ("c", PARENT, "order-7-2"),
        ("d", "c", "order-7-3"),
    ):
        rerun(store, source, id=again)
        evaluator.resume(again)
        assert [run.workflow_id for run in store.get_children(again)] == [child]
        assert charge(evaluator, child).status == ExecutionStatus.COMPLETED
        evaluator.resume(again)
        assert (states(store, again), get(store, again).outputs) == ([RunnerState.COMPLETED], {"total": 6})


def test_the_children_of_children_are_started_again_under_new_ids(store: PersistenceAPI) -> None:
    evaluator = start(store, "Both", ids=["left"])
    evaluator.resume(WorkflowId("left"))
    rerun(store, PARENT, id="again")
    evaluator.resume(WorkflowId("again"))
    evaluator.resume(WorkflowId("left-1"))
    assert [run.workflow_id for run in store.get_children("left-1")] == ["order-7-1"]


def test_two_children_cannot_start_the_same_run(store: PersistenceAPI) -> None:
    evaluator = start(store, "Both", ids=["left", "right"])
    evaluator.resume(WorkflowId("left"))
    evaluator.resume(WorkflowId("right"))
    assert error_of(get(store, WorkflowId("right")))[0] == "RunExists"


def test_a_run_that_is_started_again_does_not_take_the_id_of_a_stranger(store: PersistenceAPI) -> None:
    Evaluator(store).submit(program("Order"), {"item": "mine"}, workflow_id=ORDER)
    evaluator = start(store, "Awaits", n=7)
    rerun(store, PARENT, id="again")
    evaluator.resume("again")
    assert error_of(get(store, "again"))[0] == "RunExists"


def test_a_commit_with_the_id_of_another_run_is_refused_whole(store: PersistenceAPI) -> None:
    Evaluator(store).submit(program("Order"), {"item": "mine"}, workflow_id=ORDER)
    taken = a_run("a-parent")
    child = a_run(ORDER, parent_step="a-parent/0/order", state=RunnerState.CREATED)
    changes = IterationChanges(run=taken, new_run=True)
    changes.created_runs.append(child)
    with pytest.raises(FencedError):
        store.commit(changes)
    assert store.get_run(WorkflowId("a-parent")) is None
    assert get(store, ORDER).parent_step == ""


def test_an_id_that_is_taken_between_the_look_and_the_commit(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    evaluator = Evaluator(store)
    evaluator.submit(program("Order"), {"item": "mine"}, workflow_id=ORDER)
    evaluator.submit(program("Awaits"), {"n": 7}, workflow_id=PARENT)
    runs = HeldRuns(evaluator)
    with monkeypatch.context() as patched:
        look = store.get_run
        patched.setattr(store, "get_run", lambda run: None if run == ORDER else look(run))
        runs.advance(PARENT)
    assert (states(store, PARENT), store.get_tasks_by_workflow(PARENT)) == ([RunnerState.CREATED], [])
    runs.advance(PARENT)
    assert error_of(get(store, PARENT))[0] == "RunExists"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("a/b", "the id is 'a/b'; expected at most 200 printable"),
        ("a b", "the id is 'a b'; expected at most 200 printable"),
        ("x" * 201, "the id is 'xxxxxxxxxx"),
    ],
)
def test_an_id_that_cannot_be_one_fails_the_step(store: PersistenceAPI, given: str, message: str) -> None:
    start(store, "Named", id=given)
    kind, said = error_of(get(store, PARENT))
    assert kind == "BadPolicy"
    assert said.startswith(f"Run: {message}")


def test_an_input_of_another_type_fails_the_step(store: PersistenceAPI) -> None:
    start(store, "Untyped", item=5)
    assert error_of(get(store, PARENT)) == (
        "TypeMismatch",
        "shop.Order: argument 'item': expected String, got Long 5",
    )
    assert store.get_children(PARENT) == []


@pytest.mark.parametrize("closing", ["stop", ""])
def test_a_bad_policy_fails_the_step(store: PersistenceAPI, closing: str) -> None:
    start(store, "Starts", closing=closing)
    kind, message = error_of(get(store, PARENT))
    assert kind == "BadPolicy"
    assert message == f"Run: onParentClose is {closing!r}; expected 'cancel' or 'detach'"
    assert store.get_children(PARENT) == []


# -- the parent's end -----------------------------------------------------------------------------------------


def test_canceling_a_parent_cancels_its_child(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    evaluator.resume(ORDER)
    cancel(store, PARENT)
    child = get(store, ORDER)
    assert (child.state, child.reason) == (RunnerState.CANCELED, "its parent run parent is canceled")
    (task,) = store.get_tasks_by_workflow(ORDER)
    assert task.state == TaskState.CANCELED
    assert store.ended_elsewhere("run") == []
    assert store.get_unsettled_children() == []


def test_a_sweep_cancels_the_child_of_a_parent_that_nobody_saw_end(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    store.cancel_run(PARENT, "gone")
    assert states(store, ORDER) == [RunnerState.CREATED]
    reclaim(evaluator)
    assert states(store, ORDER) == [RunnerState.CANCELED]
    assert store.ended_elsewhere("run") == []


def test_a_detached_child_goes_on(store: PersistenceAPI) -> None:
    evaluator = start(store, "Detaches")
    cancel(store, PARENT)
    assert states(store, ORDER) == [RunnerState.CREATED]
    assert charge(evaluator).status == ExecutionStatus.COMPLETED
    assert (get(store, ORDER).parent_told, get(store, PARENT).state) == (1, RunnerState.CANCELED)


def test_three_levels_are_canceled_from_above(store: PersistenceAPI) -> None:
    evaluator = start(store, "Above", n=7)
    evaluator.resume(WorkflowId("middle"))
    evaluator.resume(ORDER)
    cancel(store, PARENT)
    assert states(store, PARENT, "middle", ORDER) == [RunnerState.CANCELED] * 3
    assert get(store, ORDER).reason == "its parent run middle is canceled"
    assert store.get_due_runs() == []


def test_three_levels_end_from_below(store: PersistenceAPI) -> None:
    evaluator = start(store, "Above", n=7)
    evaluator.resume(WorkflowId("middle"))
    charge(evaluator)
    evaluator.resume(WorkflowId("middle"))
    assert evaluator.resume(PARENT).outputs == {"total": 16}


@pytest.mark.parametrize(
    ("closing", "state"), [("cancel", RunnerState.CANCELED), ("detach", RunnerState.CREATED)]
)
def test_a_step_whose_time_is_up(store: PersistenceAPI, closing: str, state: str) -> None:
    evaluator = start(store, "Hurries", closing=closing)
    eventually(lambda: reclaim(evaluator) or store.get_marks(PARENT))
    evaluator.resume(PARENT)
    assert error_of(get(store, PARENT)) == ("Timeout", "not done after 1 ms")
    reclaim(evaluator)
    assert states(store, ORDER) == [state]


def test_a_parent_that_fails_since_a_value_cannot_be_stored(
    store: PersistenceAPI,
) -> None:
    evaluator = start(store, "Awaits", n=7)
    session = evaluator.take(PARENT)
    assert session is not None
    session.fail_unstorable(PayloadError("too large"))
    evaluator.settle_child_runs([session])
    assert states(store, PARENT, ORDER) == [RunnerState.FAILED, RunnerState.CANCELED]


# -- a child that nobody waits for ----------------------------------------------------------------------------


def test_a_step_that_does_not_wait_completes_at_once(store: PersistenceAPI) -> None:
    evaluator = start(store, "Starts", closing="detach")
    assert (get(store, PARENT).state, get(store, PARENT).outputs) == (RunnerState.COMPLETED, {"item": "tea"})
    assert store.get_tasks_by_workflow(PARENT) == []
    assert (states(store, ORDER), get(store, ORDER).parent_told) == ([RunnerState.CREATED], 1)
    assert charge(evaluator).outputs == {"total": 5}


def test_a_child_that_nobody_waits_for_ends_with_its_parent(store: PersistenceAPI) -> None:
    start(store, "Starts", closing="cancel")
    assert states(store, PARENT, ORDER) == [RunnerState.COMPLETED, RunnerState.CANCELED]
    assert get(store, ORDER).reason == "its parent run parent is completed"


# -- retry ----------------------------------------------------------------------------------------------------


def test_retrying_a_parent_retries_its_failed_child(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    refuse(evaluator)
    evaluator.resume(PARENT)
    assert retry(store, PARENT).steps == 1
    evaluator.resume(PARENT)
    assert [run.workflow_id for run in store.get_children(PARENT)] == [ORDER]
    assert states(store, PARENT, ORDER) == [RunnerState.RUNNING] * 2
    charge(evaluator)
    assert evaluator.resume(PARENT).outputs == {"total": 6}


def test_retrying_a_canceled_parent_takes_up_its_child(store: PersistenceAPI) -> None:
    evaluator = start(store, "Above", n=7)
    evaluator.resume(WorkflowId("middle"))
    evaluator.resume(ORDER)
    cancel(store, PARENT)
    retry(store, PARENT)
    reclaim(evaluator)  # nobody cancels them again
    evaluator.resume(PARENT)
    evaluator.resume(WorkflowId("middle"))
    reclaim(evaluator)
    assert states(store, PARENT, "middle", ORDER) == [RunnerState.RUNNING] * 3
    charge(evaluator)
    evaluator.resume(WorkflowId("middle"))
    assert evaluator.resume(PARENT).outputs == {"total": 16}


def test_a_child_that_was_retried_by_itself_is_taken_up_by_its_parent(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    refuse(evaluator)
    evaluator.resume(PARENT)
    retry(store, ORDER)
    reclaim(evaluator)
    assert charge(evaluator).status == ExecutionStatus.COMPLETED
    assert states(store, PARENT) == [RunnerState.FAILED]
    retry(store, PARENT)
    evaluator.resume(PARENT)
    reclaim(evaluator)
    assert evaluator.resume(PARENT).outputs == {"total": 6}


@of_stores(offers="retention")
def test_retrying_a_parent_whose_child_was_removed_starts_another(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    refuse(evaluator)
    store.delete_runs(wall_ms() + 1, 10)
    assert store.get_run(ORDER) is None
    evaluator.resume(PARENT)
    retry(store, PARENT)
    evaluator.resume(PARENT)
    assert states(store, ORDER) == [RunnerState.CREATED]


# -- retention ------------------------------------------------------------------------------------------------


@of_stores(offers="retention")
def test_a_child_whose_parent_does_not_know_its_end_is_kept(store: PersistenceAPI) -> None:
    evaluator = start(store, "Awaits", n=7)
    store.cancel_run(ORDER, "gone")
    assert store.delete_runs(wall_ms() + 1, 10) == 0
    reclaim(evaluator)
    assert store.delete_runs(wall_ms() + 1, 10) == 1
    evaluator.resume(PARENT)
    assert error_of(get(store, PARENT))[0] == "ChildCanceled"


@of_stores(offers="retention")
def test_a_detached_child_outlives_its_parent(store: PersistenceAPI) -> None:
    evaluator = start(store, "Starts", closing="detach")
    assert store.delete_runs(wall_ms() + 1, 10) == 1
    reclaim(evaluator)
    assert store.get_run(PARENT) is None
    assert charge(evaluator).outputs == {"total": 5}


# -- many, and in one process ---------------------------------------------------------------------------------


def test_the_children_of_a_run_and_of_a_step(store: PersistenceAPI) -> None:
    evaluator = start(store, "Wide", items=["a", "b", "c"])
    children = store.get_children(PARENT)
    charge(evaluator, children[0].workflow_id)
    assert len(children) == 3
    assert store.count_children(PARENT) == {RunnerState.CREATED: 2, RunnerState.COMPLETED: 1}
    assert len(store.get_children(PARENT, states=[RunnerState.COMPLETED])) == 1
    assert len(store.get_children("parent/0/#1")) == 1
    assert len(store.get_children(PARENT, limit=2)) == 2
    assert store.get_children("paren") == []
    assert store.count_children("nobody") == {}


def local(store: PersistenceAPI, work: Callable[..., Any]) -> LocalRunner:
    return LocalRunner(Evaluator(store), Handlers.of({"shop.Charge": work}))


def test_one_process_works_on_a_run_and_its_children(store: PersistenceAPI) -> None:
    with local(store, lambda item: {"total": len(item)}) as runner:
        result = runner.run(program("Wide"), {"items": ["a", "bb", "ccc"]})
        assert result.outputs == {"totals": [1, 2, 3]}
        assert runner.run(program("Above"), {"n": 7}).outputs == {"total": 14}
        assert runner.run(program("Nameless")).outputs == {"total": 3}
        assert runner.run(program("Starts"), {"closing": "detach"}).error is not None  # order-7 is in use


def test_a_child_may_sleep(store: PersistenceAPI) -> None:
    with LocalRunner(Evaluator(store), Handlers.of({})) as runner:
        assert runner.run(program("Naps")).outputs == {"total": 16}


def test_a_child_may_wait_for_a_signal(store: PersistenceAPI) -> None:
    evaluator = start(store, "Bills")
    evaluator.resume(ORDER)
    send_signal(store, ORDER, "paid", {"total": 9})
    evaluator.resume(ORDER)
    assert evaluator.resume(PARENT).outputs == {"total": 9}


def test_one_process_takes_up_a_run_and_its_children(open_store: OpenStore) -> None:
    store = open_store()
    evaluator = start(store, "Above", n=7)
    evaluator.resume(WorkflowId("middle"))
    with local(open_store(), lambda item: {"total": 5}) as runner:
        assert runner.resume(PARENT).outputs == {"total": 16}
    assert states(store, PARENT, "middle", ORDER) == [RunnerState.COMPLETED] * 3


def test_one_process_whose_child_lacks_a_handler_stops_waiting(store: PersistenceAPI) -> None:
    with LocalRunner(Evaluator(store), Handlers.of({})) as runner:
        result = runner.run(program("Awaits"), {"n": 7}, workflow_id=PARENT)
    assert result.status == ExecutionStatus.PAUSED
    assert [run.owner for run in store.get_runs()] == ["", ""]


def test_a_child_run_is_claimed_by_nobody(store: PersistenceAPI) -> None:
    start(store, "Awaits", n=7)
    assert store.claim_tasks(["shop.Order"], limit=5, lease_ms=LONG, any_event=True) == []
