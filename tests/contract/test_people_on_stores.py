"""Approvals on every store: what people answer counts once, reaches the step, and is remembered with their name."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from store_records import OpenStore, eventually, stored_task

from afl.language import compile_source
from afl.operations.people import approvals
from afl.operations.people.approvals import Answered, ApprovalClosed, UnknownApproval
from afl.operations.people.forms import FormError
from afl.operations.people.questions import Approval
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import submit
from afl.operations.run import control, runs
from afl.operations.run.run_log import read_page
from afl.operations.run.runs import RunReport
from afl.runtime.entities import RunnerState
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.recovery import sweep
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import WorkflowId

SOURCE = """namespace pay {
    /** Pay this bill? @return ok whether it is paid */
    event facet Approve(amount: Double) => (ok: Boolean) with Human("finance", title = "Pay it?")

    /** Look through the letter. @param letter as it stands @return letter as it goes out */
    event facet Edit(letter: String) => (letter: String, copies: Long = 1) with Human("office")

    event facet Sign(letter: String) with Human("boss")

    workflow Paid(amount: Double) => (ok: Boolean) andThen {
        a = Approve($.amount)
        yield Paid(ok = a.ok)
    }
    workflow Sent(letter: String) => (letter: String, copies: Long) andThen {
        e = Edit($.letter)
        s = Sign(e.letter)
        yield Sent(letter = e.letter, copies = e.copies)
    }
    workflow Caught(letter: String) => (why: String, kind: String) andThen {
        e = Edit($.letter) catch { yield Caught(why = e.error, kind = e.error_type) }
    }
    workflow Hasty(letter: String) => (letter: String) andThen {
        e = Edit($.letter) with Timeout(ms = 1)
        yield Hasty(letter = e.letter)
    }
    workflow Moved(letter: String) => (letter: String) andThen {
        e = Edit($.letter) with Human("office", escalate_to = "boss", escalate_minutes = 0.00001)
        yield Moved(letter = e.letter)
    }
    workflow Asked(letter: String, on: [String]) => (letter: String) andThen {
        e = Edit($.letter) with Retry(2, backoff = 0, on = $.on)
        yield Asked(letter = e.letter)
    }
    workflow Both(letter: String) andThen {
        a = Edit($.letter)
        b = Edit($.letter)
        c = Sign($.letter)
    }
}
"""


def begun(store: PersistenceAPI, workflow: str, **inputs: Any) -> str:
    """A run that waits for a person."""
    program = choose_workflow(compile_source(SOURCE, name="pay.afl"), f"pay.{workflow}")
    run = submit(store, program, inputs).run
    go_on(store, run)
    return run


def go_on(store: PersistenceAPI, run: str) -> RunReport:
    return runs.resume(store, run, handlers=Handlers())


def only(store: PersistenceAPI, **asked: Any) -> Approval:
    (found,) = approvals.list_approvals(store, **asked)
    return found


def state(store: PersistenceAPI, id: str) -> str:
    return approvals.show_approval(store, id).approval.state


def test_a_plain_question_is_approved(store: PersistenceAPI) -> None:
    run = begun(store, "Paid", amount=9.5)
    asked = only(store)
    assert (asked.group, asked.title, asked.state, asked.plain) == ("finance", "Pay it?", "open", True)
    assert (asked.run, asked.workflow, asked.step, asked.facet) == (run, "pay.Paid", "a", "pay.Approve")
    assert (asked.expires, asked.escalates, asked.asked) == (0, 0, [])
    done = approvals.answer(store, asked.id, by="ann")
    assert done == Answered(asked.id, run, "a", "ann", False, {"ok": True}, "")
    assert approvals.list_approvals(store) == []
    assert go_on(store, run).outputs == {"ok": True}
    kept = approvals.show_approval(store, asked.id)
    assert (kept.approval.state, kept.approval.answered_by) == ("answered", "ann")
    assert kept.approval.answered_at >= asked.created
    assert kept.answer == {"ok": True}
    assert [line.message for line in read_page(store, run).lines] == ["approved by ann"]


def test_a_plain_question_is_rejected_by_its_answer(store: PersistenceAPI) -> None:
    run = begun(store, "Paid", amount=9.5)
    asked = only(store)
    done = approvals.reject(store, asked.id, "too much", by="ann")
    assert (done.rejected, done.values, done.feedback) == (True, {"ok": False}, "too much")
    assert go_on(store, run).outputs == {"ok": False}
    kept = approvals.show_approval(store, asked.id).approval
    assert (kept.state, kept.answered_by, kept.feedback) == ("rejected", "ann", "too much")
    assert [line.message for line in read_page(store, run).lines] == ["rejected by ann: too much"]


def test_an_edited_answer_and_a_question_without_returns(store: PersistenceAPI) -> None:
    run = begun(store, "Sent", letter="Dear Sir")
    view = approvals.show_approval(store, only(store, group="office").id)
    assert not view.approval.plain
    assert view.given == {"letter": "Dear Sir"}
    assert [(field.name, field.default, field.required) for field in view.form.fields] == [
        ("letter", "Dear Sir", True),
        ("copies", 1, False),
    ]
    assert (view.form.description, view.form.fields[0].help) == ("Look through the letter.", "as it goes out")
    approvals.answer(store, view.approval.id, {"letter": "Dear Madam"}, by="bob")
    go_on(store, run)
    signing = only(store, group="boss")
    assert signing.plain
    approvals.answer(store, signing.id, by="eve")
    assert go_on(store, run).outputs == {"letter": "Dear Madam", "copies": 1}


def test_what_is_not_given_is_what_stands_in_the_form(store: PersistenceAPI) -> None:
    begun(store, "Sent", letter="Dear Sir")
    asked = only(store)
    assert asked.given == {"letter": "Dear Sir"}
    assert approvals.answer(store, asked.id, {"copies": 2}).values == {"letter": "Dear Sir", "copies": 2}


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"letter": 7}, "letter"),
        ({"letter": None}, "letter"),
        ({"letter": "x", "copies": "many"}, "copies"),
        ({"letter": "x", "color": "red"}, "color"),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(
    store: PersistenceAPI, values: dict[str, Any], problem: str
) -> None:
    begun(store, "Sent", letter="Dear Sir")
    asked = only(store)
    before = stored_task(store, asked.id)
    with pytest.raises(FormError, match=problem):
        approvals.answer(store, asked.id, values)
    assert stored_task(store, asked.id) == before


def test_a_rejection_fails_the_step_with_its_words(store: PersistenceAPI) -> None:
    run = begun(store, "Sent", letter="Dear Sir")
    approvals.reject(store, only(store).id, "not in this tone", by="ann")
    report = go_on(store, run)
    assert report.error is not None
    assert (report.error.message, report.error.error_type) == ("not in this tone", "Rejected")


def test_a_rejection_is_caught(store: PersistenceAPI) -> None:
    run = begun(store, "Caught", letter="Dear Sir")
    asked = only(store)
    approvals.reject(store, asked.id, by="ann")
    assert go_on(store, run).outputs == {"why": "rejected by ann", "kind": "Rejected"}
    assert state(store, asked.id) == "rejected"


@pytest.mark.parametrize(("on", "asked_again"), [([], 0), (["ValueError"], 0), (["Rejected"], 1)])
def test_who_said_no_is_asked_again_only_if_the_workflow_says_so(
    store: PersistenceAPI, on: list[str], asked_again: int
) -> None:
    begun(store, "Asked", letter="Dear Sir", on=on)
    asked = only(store)
    approvals.reject(store, asked.id, "no", by="ann")
    assert len(approvals.list_approvals(store)) == asked_again
    assert state(store, asked.id) == ("open" if asked_again else "rejected")


def test_the_first_answer_counts(store: PersistenceAPI) -> None:
    begun(store, "Paid", amount=9.5)
    asked = only(store)
    approvals.answer(store, asked.id, by="ann")
    for again in (approvals.answer, approvals.reject):
        for id in (asked.id, asked.run):
            with pytest.raises(ApprovalClosed, match=r"answered by ann already, \d.* ago \(\d{4}-.*\)"):
                again(store, id, by="bob")
    assert approvals.show_approval(store, asked.id).approval.answered_by == "ann"


def test_of_many_answers_at_once_the_first_counts(open_store: OpenStore) -> None:
    store = open_store()
    run = begun(store, "Paid", amount=9.5)
    asked = only(store)
    people = [(open_store(), name) for name in ("ann", "bob", "eve")]
    start = threading.Barrier(len(people))

    def answer(person: tuple[PersistenceAPI, str]) -> str:
        start.wait()
        try:
            return approvals.answer(person[0], asked.id, by=person[1]).by
        except ApprovalClosed:
            return ""

    with ThreadPoolExecutor(len(people)) as pool:
        won = [name for name in pool.map(answer, people) if name]
    assert won == [approvals.show_approval(store, asked.id).approval.answered_by]
    assert go_on(store, run).outputs == {"ok": True}


def test_an_answer_after_the_run_was_canceled(store: PersistenceAPI) -> None:
    run = begun(store, "Paid", amount=9.5)
    asked = only(store)
    control.cancel(store, run, by="ada")
    assert approvals.list_approvals(store) == []
    with pytest.raises(ApprovalClosed, match="canceled already"):
        approvals.answer(store, asked.id)
    assert state(store, asked.id) == "canceled"


def test_an_answer_while_the_run_is_paused_waits_for_it(store: PersistenceAPI) -> None:
    run = begun(store, "Paid", amount=9.5)
    control.pause(store, run)
    approvals.answer(store, only(store).id, by="ann")
    stored = store.get_run(WorkflowId(run))
    assert stored is not None
    assert stored.state == RunnerState.PAUSED
    control.unpause(store, run)
    assert go_on(store, run).outputs == {"ok": True}


def test_a_question_expires(store: PersistenceAPI) -> None:
    run = begun(store, "Hasty", letter="Dear Sir")
    (task,) = store.get_tasks_by_workflow(WorkflowId(run))
    evaluator = Evaluator(store)
    eventually(lambda: sweep.reclaim(evaluator) or None)
    assert state(store, task.uuid) == "expired"
    with pytest.raises(ApprovalClosed, match="expired already"):
        approvals.answer(store, task.uuid, {"letter": "late"})
    report = go_on(store, run)
    assert report.error is not None
    assert (report.error.error_type, report.error.message) == ("Timeout", "not answered by office after 1 ms")


def test_the_next_one_is_asked_when_nobody_answers(store: PersistenceAPI) -> None:
    run = begun(store, "Moved", letter="Dear Sir")
    asked = only(store)
    eventually(lambda: sweep.escalate(store))
    moved = only(store, group="boss")
    assert (moved.id, moved.asked, moved.escalates, moved.escalate_to) == (asked.id, ["office"], 0, "")
    assert approvals.list_approvals(store, group="office") == []
    assert sweep.escalate(store) == 0
    (line,) = read_page(store, run).lines
    assert (line.level, line.step) == ("warning", "e")
    assert line.message == "office did not answer within 1e-05 min; boss is asked now"
    approvals.answer(store, moved.id, {"letter": "x"}, by="boss")
    assert go_on(store, run).outputs == {"letter": "x"}
    assert approvals.show_approval(store, asked.id).approval.asked == ["office"]


def test_an_answer_while_the_question_is_moved_counts(
    store: PersistenceAPI, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It was read before it moved, and is stored after."""
    begun(store, "Moved", letter="Dear Sir")
    asked = only(store)
    eventually(store.get_unanswered)
    finish = store.finish

    def moves_first(outcomes: Any) -> list[bool]:
        monkeypatch.setattr(store, "finish", finish)
        assert sweep.escalate(store) == 1
        return finish(outcomes)

    monkeypatch.setattr(store, "finish", moves_first)
    approvals.answer(store, asked.id, {"letter": "x"}, by="ann")
    kept = approvals.show_approval(store, asked.id).approval
    assert (kept.state, kept.answered_by, kept.group, kept.asked) == ("answered", "ann", "boss", ["office"])


def test_pages_and_beginnings_of_ids(store: PersistenceAPI) -> None:
    begun(store, "Both", letter="Dear Sir")
    every = approvals.list_approvals(store)
    assert sorted(each.step for each in every) == ["a", "b", "c"]
    first = approvals.list_approvals(store, limit=2)
    assert first + approvals.list_approvals(store, limit=2, after=first[-1].id) == every
    assert [each.step for each in approvals.list_approvals(store, group="boss")] == ["c"]
    assert approvals.show_approval(store, every[0].id[:-1] if _alone(every) else every[0].id)
    with pytest.raises(UnknownApproval):
        approvals.show_approval(store, "missing")


def _alone(every: list[Approval]) -> bool:
    return len({each.id[:-1] for each in every}) == len(every)


def test_other_tasks_are_no_approvals(store: PersistenceAPI) -> None:
    run = begun(store, "Paid", amount=9.5)
    asked = only(store)
    task = stored_task(store, asked.id)
    task.uuid, task.via, task.step_id = "other", "agent:x", ""
    store.save_task(task)
    with pytest.raises(UnknownApproval, match="no approval 'other'"):
        approvals.answer(store, "other")
    assert [each.run for each in approvals.list_approvals(store)] == [run]
