"""`afl approvals`, and what `afl run` says of a run that waits for a person."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.command_line import Afl, Outcome

PAYING = """namespace pay {
    /** Look at the bill. @param amount in euros @return amount what is paid @return note why */
    event facet Check(amount: Double) => (amount: Double, note: String, tags: [String] = ["new"])
        with Human("finance", title = "Check the bill") with Timeout(hours = 5)
    event facet Sign(n: Long) => (ok: Boolean) with Human("boss", escalate_to = "board", escalate_minutes = 90)
    workflow Pay(amount: Double) => (amount: Double, note: String) andThen {
        c = Check($.amount)
        yield Pay(amount = c.amount, note = c.note)
    }
    workflow Signed(n: Long) => (ok: Boolean) andThen {
        s = Sign($.n)
        yield Signed(ok = s.ok)
    }
}
"""


def result(done: Outcome) -> Any:
    assert done.code == 0, done.err
    return json.loads(done.out)


@pytest.fixture
def waiting(afl: Afl, tmp_path: Path) -> str:
    """A run that waits for finance; its approval's id."""
    (tmp_path / "pay.afl").write_text(PAYING)
    done = afl("run", "pay.afl", "pay.Pay", "-i", "amount=9.5", "-q")
    assert done.code == 0, done.err
    (approval,) = result(afl("approvals", "--json"))
    return str(approval["id"])


def test_run_says_that_it_waits_for_a_person(afl: Afl, tmp_path: Path) -> None:
    (tmp_path / "pay.afl").write_text(PAYING)
    done = afl("run", "pay.afl", "pay.Pay", "-i", "amount=9.5", "-q")
    run = json.loads(done.out)
    assert run["waiting_for"] == [{"facet": "pay.Check", "steps": 1, "via": "human:finance"}]
    assert done.err == (
        f"Paused: run {run['run']} waits for a person.\n"
        "  pay.Check: waiting for someone in finance\n"
        "Answer it: afl approvals\n"
        f"Continue with: afl resume {run['run']}\n"
    )
    other = afl("run", "pay.afl", "pay.Pay", "-i", "amount=1", "-q", "--store", "sqlite:///other.db")
    assert "Answer it: afl approvals --store sqlite:///other.db\n" in other.err


def test_nothing_waits(afl: Afl, doubling: str) -> None:
    afl("submit", doubling, "-i", "n=1")
    done = afl("approvals")
    assert (done.code, done.out) == (0, "") and done.err.startswith("Nothing waits for a person in /")
    assert result(afl("approvals", "list", "--json")) == []


def test_what_waits_is_listed(afl: Afl, waiting: str) -> None:
    for command in (["approvals"], ["approvals", "list"], ["approvals", "--group", "finance"]):
        heading, line = afl(*command).out.splitlines()
        assert heading.split()[:3] == ["APPROVAL", "FOR", "WHAT"]
        assert line.split()[:5] == [waiting, "finance", "Check", "the", "bill"]
        assert line.endswith("in 4 h 59 min  amount=9.5")
    assert afl("approvals", "--group", "boss").err.startswith("Nothing waits for boss in /")


def test_a_question_is_shown_with_its_form(afl: Afl, waiting: str) -> None:
    shown = afl("approvals", "show", waiting[:-1]).out
    assert shown.startswith("Check the bill  open\n  for    finance\n")
    assert "; expires in 4 h 59 min\n\nLook at the bill.\n\nGiven\n  amount: 9.5\n\nAnswer\n" in shown
    assert "  amount: Double, now 9.5 — what is paid\n" in shown
    assert "  note: String — why\n" in shown
    assert '  tags: [String], ["new"] if left out\n' in shown
    assert f"  afl approvals approve {waiting} --set note=…\n" in shown
    told = result(afl("approvals", "show", waiting, "--json"))
    assert told["approval"]["plain"] is False
    assert [field["kind"] for field in told["form"]["fields"]] == ["number", "text", "list"]


def test_a_run_that_waits_for_one_answer_is_name_enough(afl: Afl, waiting: str) -> None:
    (approval,) = result(afl("approvals", "--json"))
    done = afl("approvals", "approve", approval["run"], "--set", "note=fine", "--json")
    assert result(done)["values"]["note"] == "fine"
    again = afl("approvals", "approve", approval["run"])
    assert again.code == 1
    assert f"approval {waiting} was answered by " in again.err


def test_a_question_that_moves_on(afl: Afl, waiting: str) -> None:
    afl("run", "pay.afl", "pay.Signed", "-i", "n=1", "-q")
    (approval,) = result(afl("approvals", "--group", "boss", "--json"))
    shown = afl("approvals", "show", approval["id"]).out
    assert "; board is asked in 1 h 29 min\n" in shown
    assert "\nAnswer\n" not in shown
    assert f"  afl approvals approve {approval['id']}\n" in shown


def test_approve(afl: Afl, waiting: str) -> None:
    done = afl("approvals", "approve", waiting, "--set", "note=it is right", "-s", "tags=a")
    (run,) = result(afl("list", "--json"))["runs"]
    assert done.err == (
        f"Approved c of run {run['run']}; the next server continues it (or: afl resume {run['run']})\n"
    )
    assert result(afl("resume", run["run"], "-q")) == {"amount": 9.5, "note": "it is right"}
    shown = afl("approvals", "show", waiting).out
    assert shown.startswith("Check the bill  answered\n")
    assert "\n  by     " in shown
    assert "\nAnswer\n  amount: 9.5\n  note: it is right\n" in shown
    assert "afl approvals approve" not in shown


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ([], "note: is required: write a text"),
        (["note=x", "amount=much"], "amount: write a number; got 'much'"),
        (["note=x", "color=red"], "color: there is no such field; known: amount, note, tags"),
    ],
)
def test_what_does_not_fit_is_refused(afl: Afl, waiting: str, given: list[str], problem: str) -> None:
    done = afl("approvals", "approve", waiting, *(word for each in given for word in ("--set", each)))
    assert done.code == 1
    assert problem in done.err
    assert len(result(afl("approvals", "--json"))) == 1
    assert afl("approvals", "approve", waiting, "--set", "note").code == 2


def test_reject(afl: Afl, waiting: str) -> None:
    done = afl("approvals", "reject", waiting, "--feedback", "too much", "--json")
    told = result(done)
    assert (told["rejected"], told["feedback"], told["step"]) == (True, "too much", "c")
    failed = afl("resume", told["run"], "-q")
    assert failed.code == 1
    assert "error[Rejected] pay.afl:7:9: too much" in failed.err
    again = afl("approvals", "approve", waiting, "--set", "note=x")
    assert again.code == 1
    assert f"approval {waiting} was rejected by {told['by']} already" in again.err


def test_whoever_rejects_on_a_terminal_is_asked_why(
    afl: Afl, waiting: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("afl.cli.approvals_command.can_ask", lambda: True)
    done = afl("approvals", "reject", waiting, stdin="too much\n")
    assert done.code == 0
    assert done.err.startswith("Why is it rejected: Check the bill (may be empty):")
    assert result(afl("approvals", "show", waiting, "--json"))["approval"]["feedback"] == "too much"


@pytest.mark.parametrize(
    ("terminal", "more", "stdin"),
    [(True, (), "\n"), (True, ("--feedback", ""), ""), (True, ("--json",), ""), (False, (), "unread\n")],
)
def test_feedback_may_be_empty_and_is_not_asked_for_without_a_terminal(
    afl: Afl, waiting: str, monkeypatch: pytest.MonkeyPatch, terminal: bool, more: tuple[str, ...], stdin: str
) -> None:
    monkeypatch.setattr("afl.cli.approvals_command.can_ask", lambda: terminal)
    done = afl("approvals", "reject", waiting, *more, stdin=stdin)
    assert done.code == 0
    assert ("Why is it rejected" in done.err) == (terminal and not more)
    assert result(afl("approvals", "show", waiting, "--json"))["approval"]["feedback"] == ""


@pytest.mark.parametrize(
    ("command", "ok"), [(["approve"], True), (["reject"], False), (["approve", "-s", "ok=no"], False)]
)
def test_a_plain_question(afl: Afl, waiting: str, command: list[str], ok: bool) -> None:
    afl("run", "pay.afl", "pay.Signed", "-i", "n=1", "-q")
    (approval,) = result(afl("approvals", "--group", "boss", "--json"))
    assert approval["plain"] is True
    assert afl("approvals", command[0], approval["id"], *command[1:]).code == 0
    assert result(afl("resume", approval["run"], "-q")) == {"ok": ok}


@pytest.fixture
def three(afl: Afl, waiting: str) -> list[str]:
    """Approvals of the boss, of runs of their own; finance is asked as well."""
    for n in (1, 2, 3):
        afl("run", "pay.afl", "pay.Signed", "-i", f"n={n}", "-q")
    return [each["id"] for each in result(afl("approvals", "--group", "boss", "--json"))]


def test_several_are_previewed_and_answered(afl: Afl, waiting: str, three: list[str]) -> None:
    shown = afl("approvals", "approve", *three, waiting, "--preview").out
    assert [line.split()[0] for line in shown.splitlines()[1:]] == [*three, waiting]
    assert [line.split()[3:] for line in shown.splitlines()[1:4]] == [
        [f"n={n}", "ok=true"] for n in (1, 2, 3)
    ]
    assert "note: is required" in shown
    assert len(result(afl("approvals", "--json"))) == 4
    done = afl("approvals", "approve", *three, waiting)
    assert done.code == 1
    assert "Approved 3 of 4" in done.err and "note: is required: write a text" in done.err
    assert [each["id"] for each in result(afl("approvals", "--json"))] == [waiting]


def test_a_whole_group_is_answered_only_if_meant(
    afl: Afl, three: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "say --yes" in afl("approvals", "approve", "--group", "boss").err
    monkeypatch.setattr("afl.cli.approvals_bulk.can_ask", lambda: True)
    assert "Reject 3?" in afl("approvals", "reject", "--group", "boss", stdin="n\n").err
    assert len(result(afl("approvals", "--group", "boss", "--json"))) == 3
    told = result(afl("approvals", "reject", "--group", "boss", "-m", "not now", "--yes", "--json"))
    assert [each["feedback"] for each in told["answered"]] == ["not now"] * 3
    assert told["refused"] == []
    assert result(afl("approvals", "--group", "boss", "--json")) == []


def test_one_of_several_that_was_answered_before_is_named(afl: Afl, three: list[str]) -> None:
    afl("approvals", "approve", three[1])
    done = afl("approvals", "approve", *three, "--json")
    told = json.loads(done.out)
    assert (done.code, [each["id"] for each in told["answered"]]) == (1, [three[0], three[2]])
    assert "answered by" in told["refused"][0]["problem"]


def test_which_ones_are_meant_must_be_said(afl: Afl, waiting: str) -> None:
    for command in (["approve"], ["reject", waiting, "--group", "finance"]):
        done = afl("approvals", *command)
        assert done.code == 1
        assert "name approvals by their ids, or all of a group or a run" in done.err
    assert "Nothing waits for an answer" in afl("approvals", "approve", "--group", "nobody").err


def test_an_unknown_one(afl: Afl, waiting: str) -> None:
    done = afl("approvals", "show", "nothing")
    assert done.code == 1
    assert "there is no approval 'nothing' in this store" in done.err


def test_help_has_examples(afl: Afl) -> None:
    for command in ([], ["list"], ["show"], ["approve"], ["reject"]):
        assert "Examples" in afl("approvals", *command, "--help").out


def test_show_tells_who_is_asked(afl: Afl, waiting: str) -> None:
    shown = afl("show").out
    assert "c = pay.Check  waiting" in shown
    assert shown.rstrip().endswith("asked: finance")
    assert "held" not in shown
