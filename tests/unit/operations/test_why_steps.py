"""Why a step is stuck, or has not begun."""

from __future__ import annotations

from dataclasses import replace

import pytest
from operated_store import begin, double, refuse, task_of

from afl.kernel.errors import InputError
from afl.operations.reason.reasons import Outlook
from afl.operations.reason.subjects import UnknownSubject
from afl.operations.reason.why import why
from afl.operations.run import control
from afl.runtime.memory_store import MemoryStore
from afl.runtime.states import StepState
from afl.runtime.types import StepId, WorkflowId

NESTED = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    facet Desk(n: Long) => (m: Long) andThen {
        story = Half(n = $.n)
        yield Desk(m = story.m)
    }
    workflow Paper(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        desk = Desk(n = a.m)
        yield Paper(m = desk.m)
    }
}
"""
LOOP = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Loop(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        a = Double(n = n)
        yield Loop(ms = [a.m])
    }
}
"""
OUTER = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    facet Plain(n: Long) => (m: Long)
    workflow Outer(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Plain(n = 1) andThen {
            c = Half(n = a.m)
            yield Plain(m = c.m)
        }
        yield Outer(m = b.m)
    }
}
"""


def test_completed(store: MemoryStore) -> None:
    run = begin(store, Double=double)
    assert why(store, f"{run}/a").code == "step-completed"


def test_waiting_for_an_agent_by_id_and_by_readable_path(store: MemoryStore) -> None:
    run = begin(store)
    reason = why(store, f"{run}/a")
    assert (reason.code, reason.id) == ("step-waits-for-agent", f"{run}/0/a")
    assert reason.sentence == "it waits for an agent that does t.Double."
    assert why(store, f"{run}/0/a") == reason
    assert why(store, f"{run[:20]}/a") == reason


def test_a_name_that_no_step_has_is_answered_with_one_like_it(store: MemoryStore) -> None:
    run = begin(store)
    with pytest.raises(UnknownSubject, match=f"has no step '.0..a'; did you mean 'a'\\? `afl show {run}`"):
        why(store, f"{run}/[0].a")
    with pytest.raises(UnknownSubject, match="has no step 'zzz'; `afl show"):
        why(store, f"{run}/zzz")


def test_one_that_has_not_begun_waits_for_another(store: MemoryStore) -> None:
    run = begin(store)
    reason = why(store, f"{run}/c")
    assert [each.code for each in reason.chain] == [
        *["step-waits-for-step", "step-waits-for-step", "step-waits-for-agent", "task-unserved"]
    ]
    assert [each.sentence for each in reason.chain][:2] == ["it waits for step b.", "it waits for step a."]
    assert why(store, f"{run}/0/c") == reason


def test_failed_and_skipped(store: MemoryStore) -> None:
    run = begin(store, Double=double, Half=refuse)
    failed = why(store, f"{run}/b")
    assert (failed.code, failed.outlook) == ("step-failed", Outlook.OVER)
    assert "at chain.afl:6: 6 is refused" in failed.sentence
    assert failed.action == f"Fix the cause, then: afl retry {run}/0/b"
    skipped = why(store, f"{run}/c")
    assert skipped.code == "step-skipped"
    assert skipped.sentence == "it waits for step b, which failed at chain.afl:6: 6 is refused"


def test_skipped_because_of_one_that_is_skipped(store: MemoryStore) -> None:
    run = begin(store, Double=refuse)
    reason = why(store, f"{run}/c")
    assert [each.code for each in reason.chain] == ["step-skipped", "step-skipped"]
    assert reason.sentence == "it waits for step b, which will not run."


def test_a_failed_step_of_a_run_that_goes_on(store: MemoryStore) -> None:
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
    run = begin(store, both, Half=refuse)
    assert why(store, f"{run}/b").action == (
        f"Fix the cause, then, when its run is over: afl retry {run}/0/b"
    )


def test_its_run_is_over(store: MemoryStore) -> None:
    run = begin(store)
    control.cancel(store, run, by="ada")
    for step in ("a", "c"):
        reason = why(store, f"{run}/{step}")
        assert (reason.code, reason.cause.code) == ("step-run-over", "run-canceled")


def test_waiting_for_the_steps_in_it(store: MemoryStore) -> None:
    run = begin(store, NESTED, Double=double)
    reason = why(store, f"{run}/desk")
    assert [each.code for each in reason.chain] == [
        "step-waits-inside",
        "step-waits-for-agent",
        "task-unserved",
    ]
    assert reason.sentence == "it waits for one step in it: desk.story."


def test_a_foreach_waits_for_its_elements(store: MemoryStore) -> None:
    run = begin(store, LOOP, {"ns": [1, 2, 3]})
    assert why(store, f"{run}/0").sentence == "it waits for 3 steps in it: [0].a."
    assert why(store, f"{run}/[1].a").id == f"{run}/0/#1/a"


SIFTED = """namespace t {
    event facet Double(n: Long) => (m: Long)
    facet Inner(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        yield Inner(m = a.m)
    }
    workflow Sifted(ns: [Long]) => (ms: [Long], lost: [sys.Failure]) andThen foreach n in $.ns limit 2 collect lost {
        a = Inner(n = n)
        yield Sifted(ms = [a.m])
    }
}
"""


def test_a_foreach_with_a_limit_says_how_many_elements_have_not_begun(store: MemoryStore) -> None:
    run = begin(store, SIFTED, {"ns": [1, 2, 3, 4, 5]})
    sentence = "it waits for 2 steps in it: [0].a.a; 3 of 5 elements start when others end."
    assert why(store, f"{run}/0").sentence == sentence


def test_a_failure_that_was_collected_leaves_nothing_to_do(store: MemoryStore) -> None:
    run = begin(store, SIFTED, {"ns": [1, 2]}, Double=refuse)
    for step in ("[0].a.a", "[1].a", "0/#0"):
        reason = why(store, f"{run}/{step}")
        assert (reason.code, reason.outlook) == ("step-collected", Outlook.OVER)
        assert reason.action == "Nothing to do: its foreach collects failures, in 'lost'."
    assert why(store, f"{run}/0").code == "step-completed"
    assert why(store, run).code == "run-completed"


def test_not_reached(store: MemoryStore) -> None:
    run = begin(store, NESTED)
    reason = why(store, f"{run}/desk.story")
    assert [each.code for each in reason.chain] == [
        *["step-not-reached", "step-waits-for-step", "step-waits-for-agent", "task-unserved"]
    ]
    assert reason.sentence == "step desk has not reached it."


def test_never_reached(store: MemoryStore) -> None:
    run = begin(store, NESTED, Double=refuse)
    reason = why(store, f"{run}/desk.story")
    assert [each.code for each in reason.chain] == ["step-skipped", "step-skipped"]


def test_a_body_waits_for_a_step_around_it(store: MemoryStore) -> None:
    run = begin(store, OUTER)
    reason = why(store, f"{run}/0/b/0")
    assert [each.code for each in reason.chain] == [
        *["step-waits-for-step", "step-waits-for-agent", "task-unserved"]
    ]


def test_a_step_whose_task_is_lost(store: MemoryStore) -> None:
    run = begin(store)
    store.save_task(replace(task_of(store, run), state="canceled"))
    reason = why(store, f"{run}/a")
    assert (reason.code, reason.outlook) == ("step-without-task", Outlook.STANDS)
    assert "its task is canceled" in reason.sentence


def test_a_step_between_two_looks_of_an_evaluator(store: MemoryStore) -> None:
    run = begin(store)
    step = store.get_step(StepId(f"{run}/0/a"))
    assert step is not None
    step.change_state(StepState.STATEMENT_END)
    store.save_step(step)
    held = store.take_run(WorkflowId(run), lease_ms=60_000)
    assert held is not None
    reason = why(store, f"{run}/a")
    assert reason.code == "step-evaluating"


def test_an_unknown_step(store: MemoryStore) -> None:
    run = begin(store)
    for name in ("nope", "a.nope", "0/nope", "nope/nope"):
        with pytest.raises(UnknownSubject, match=f"afl show {run}"):
            why(store, f"{run}/{name}")


def test_an_unknown_id_and_one_that_several_have(store: MemoryStore) -> None:
    shared = begin(store)[:4]
    with pytest.raises(UnknownSubject, match="no run, task or server 'zzz'"):
        why(store, "zzz")
    with pytest.raises(UnknownSubject):
        why(store, "")
    with pytest.raises(
        InputError, match=rf"2 things start with {shared}: run 0.*, task 0.*; write more of the id"
    ):
        why(store, shared)


REPEAT = """namespace t {
    event facet Double(n: Long) => (m: Long)
    event facet Half(n: Long) => (m: Long)
    workflow Repeat(n: Long) => (m: Long = 0, i: Long = 0) andThen repeat last {
        a = Double(n = last.i)
        b = Half(n = last.i) andThen when {
            case last.i > 20 => { c = Other(n = 1) }
            case _ => { }
        }
        yield Repeat(i = last.i + 1, m = a.m)
    } until last.i > 99
    event facet Other(n: Long)
}
"""


def test_a_repeat_says_in_which_iteration_it_is(store: MemoryStore) -> None:
    run = begin(store, REPEAT, Double=double, Half=double)
    reason = why(store, run)
    assert reason.sentence == "it waits for one step: [21].b.c, in iteration 21 of `repeat last`."


def test_a_step_of_an_iteration_that_was_removed(store: MemoryStore) -> None:
    run = begin(store, REPEAT, Double=double, Half=double)
    reason = why(store, f"{run}/0/#3/a")
    assert (reason.code, reason.outlook) == ("step-removed", Outlook.OVER)
    assert reason.sentence == "iteration 3 of `repeat last` ended and was removed; those from 11 on are kept."
    assert why(store, f"{run}/0/#11/a").code == "step-completed"
    with pytest.raises(UnknownSubject):
        why(store, f"{run}/0/#3/nothing")
