"""Why a run is stuck."""

from __future__ import annotations

from operated_store import CHAIN, HOUR, begin, double, program_of, refuse, serve
from support.lives import Lives

from afl.kernel.database import Query
from afl.operations.program.submission import submit
from afl.operations.reason.reasons import Outlook, Reason
from afl.operations.reason.why import why
from afl.operations.run import control
from afl.runtime.entities import RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.runner import RunnerService
from afl.runtime.types import WorkflowId


def submitted(store: PersistenceAPI) -> str:
    return submit(store, program_of(CHAIN), {"n": 3}).run


def taken(store: PersistenceAPI, run: str, lease_ms: int = HOUR) -> RunDefinition:
    held = store.take_run(WorkflowId(run), lease_ms=lease_ms)
    assert held is not None
    return held


def codes(reason: Reason) -> list[str]:
    return [each.code for each in reason.chain]


def test_completed(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=double)
    reason = why(store, run)
    assert (reason.code, reason.outlook) == ("run-completed", Outlook.OVER)
    assert reason.sentence.startswith("it completed at ")


def test_without_a_name_the_latest_run_is_meant(store: MemoryStore) -> None:
    begin(store)
    run = begin(store, Double=double, Half=double)
    assert why(store).id == run


def test_failed_names_the_step_the_line_and_the_cause(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=refuse)
    reason = why(store, run)
    assert reason.code == "run-failed"
    assert "step b = t.Half at chain.afl:6: 6 is refused (ValueError)" in reason.sentence
    assert reason.action == f"Fix the cause, then: afl retry {run}"


def test_canceled_says_by_whom(store: MemoryStore) -> None:
    run = begin(store)
    control.cancel(store, run, by="ada")
    reason = why(store, run)
    assert (reason.code, reason.outlook) == ("run-canceled", Outlook.OVER)
    assert "canceled by operator ada" in reason.sentence


def test_paused_says_by_whom(store: MemoryStore) -> None:
    run = begin(store)
    control.pause(store, run, by="ada")
    reason = why(store, run)
    assert (reason.code, reason.outlook) == ("run-paused", Outlook.STANDS)
    assert (reason.sentence, reason.action) == (
        "it is paused by operator ada.",
        f"Continue it: afl unpause {run}",
    )


def test_a_run_that_cannot_be_evaluated_says_why(store: MemoryStore) -> None:
    run = submitted(store)
    nothing_left = Query.of("delete from afl_programs", name="delete_programs")
    store.database.write(lambda tx: tx.run(nothing_left))
    RunnerService(store, Evaluator(store)).run_once()
    reason = why(store, run)
    assert reason.code == "run-paused"
    assert reason.sentence.startswith("it is paused, since it cannot be evaluated: the program ")
    assert reason.sentence.endswith(" is missing from the store.")
    assert reason.action == f"Fix the cause, then: afl unpause {run}; or end it: afl cancel {run}"


def test_a_budget_that_is_used_up(store: MemoryStore) -> None:
    run = begin(store)
    store.pause_run(WorkflowId(run), "budget of 1.00 USD is used up")
    reason = why(store, run)
    assert reason.code == "run-budget"
    assert "budget of 1.00 USD is used up" in reason.sentence
    assert reason.action.endswith(f"afl unpause {run} --budget-usd N")
    other = begin(store)
    store.pause_run(WorkflowId(other), "budget of 10 tokens is used up: 0 spent, 4267 needed")
    assert why(store, other).action.endswith(f"afl unpause {other} --budget-tokens N")


def test_due_and_nobody_there(store: MemoryStore) -> None:
    run = submitted(store)
    reason = why(store, run)
    assert (reason.code, reason.outlook) == ("run-no-evaluator", Outlook.STANDS)
    assert reason.sentence == "it is due, but no live runner can evaluate it."
    serve(store, "afl:execute", silent_ms=3 * HOUR, state="shutdown")
    assert "the last one was seen 3 h ago on host-7" in why(store, run).sentence


def test_due_and_a_server_is_there(store: MemoryStore) -> None:
    run = submitted(store)
    serve(store, "t.Double")
    assert why(store, run).code == "run-no-evaluator", "an agent only evaluates what its tasks belong to"
    serve(store, "t.Double", "afl:execute", topics=["t.Double"])
    reason = why(store, run)
    assert (reason.code, reason.outlook) == ("run-queued", Outlook.MOVES)


def test_a_result_that_nobody_has_looked_at_makes_a_run_due(store: MemoryStore) -> None:
    run = begin(store)
    step = store.get_tasks_by_workflow(WorkflowId(run))[0].step_id
    assert Evaluator(store).continue_step(step, {"m": 6})  # type: ignore[arg-type]
    assert why(store, run).code == "run-no-evaluator"


def test_a_live_evaluator_has_it(store: MemoryStore) -> None:
    run = submitted(store)
    taken(store, run)
    reason = why(store, run)
    assert reason.code == "run-evaluated"
    assert "(this one) evaluates it; its lease runs until" in reason.sentence


def test_its_evaluator_died(lives: Lives) -> None:
    first = lives.next()
    run = submitted(first)
    taken(first, run)
    second = lives.next()
    reason = why(second, run)
    assert (reason.code, reason.sentence) == (
        "run-no-evaluator",
        "life-1, which evaluated it, died, and there is no live runner to take it over.",
    )
    serve(second, "afl:execute")
    reason = why(second, run)
    assert (reason.code, reason.outlook) == ("run-evaluator-gone", Outlook.MOVES)


def test_its_evaluator_lost_its_lease(unseen: Lives) -> None:
    first = unseen.next()
    run = submitted(first)
    taken(first, run)
    second = unseen.next()
    assert "life-1, which evaluated it, lost its lease at" in why(second, run).sentence


def test_its_evaluator_cannot_be_seen(unseen: Lives) -> None:
    first = unseen.next()
    run = submitted(first)
    second = unseen.next()
    taken(first, run)
    reason = why(second, run)
    assert reason.code == "run-evaluator-silent"
    assert "life-1 evaluates it and cannot be seen from here" in reason.sentence


def test_waiting_descends_to_what_can_be_acted_on(store: MemoryStore) -> None:
    run = begin(store)
    reason = why(store, run)
    assert codes(reason) == ["run-waits", "step-waits-for-agent", "task-unserved"]
    assert reason.sentence == "it waits for one step: a."
    assert reason.outlook is Outlook.STANDS


def test_of_many_steps_the_one_that_needs_somebody_is_shown(store: MemoryStore) -> None:
    both = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    workflow Both(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Half(n = $.n)
        yield Both(m = a.m + b.m)
    }
}
"""
    run = begin(store, both)
    serve(store, "t.Double")
    reason = why(store, run)
    assert reason.sentence == "it waits for 2 steps, among them b."
    assert reason.cause.code == "task-unserved"
    serve(store, "t.Half")
    assert why(store, run).cause.code == "task-ready"


def test_nothing_to_wait_for(store: MemoryStore) -> None:
    run = begin(store)
    held = taken(store, run)
    for step in store.get_open_steps(WorkflowId(run)):
        step.mark_completed()
        store.save_step(step)
    held.settled, held.owner = True, ""
    store.commit(IterationChanges(run=held))
    assert why(store, run).code == "run-stalled"
