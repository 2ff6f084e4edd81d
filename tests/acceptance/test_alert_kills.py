"""Runners that send alerts: one at a time does, and when it is killed another goes on where it stopped."""

from __future__ import annotations

from pathlib import Path

from support.alert_inbox import alert_inbox
from support.eventually import eventually
from support.warm_processes import WarmProcesses
from support.workshop import opened

from afl.language import compile_source
from afl.operations.alerts.destinations import read_destinations
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import submit
from afl.runtime.stores.alert_store import alert_store

SOURCE = """namespace t {
    event facet Ask(n: Long) => (ok: Boolean) with Human("finance")
    workflow Asked(n: Long) andThen { a = Ask($.n) }
}
"""


def test_another_runner_sends_on_when_the_first_is_killed(tmp_path: Path, warm: WarmProcesses) -> None:
    with alert_inbox() as inbox, opened(tmp_path, f"sqlite:///{tmp_path / 'afl.db'}", warm) as workshop:
        program = choose_workflow(compile_source(SOURCE))
        sent = alert_store(workshop.store)
        assert sent is not None
        (destination,) = read_destinations(inbox.address())

        def ask(number: int) -> None:
            submit(workshop.store, program, {"n": number})

        def asked() -> str:
            """The number in the next message; a list of several is not expected."""
            title, body = inbox.next()
            assert title == "Approval for finance: Ask"
            return body.splitlines()[1]

        runners = [workshop.runner(AFL_ALERTS=inbox.address()) for _ in range(2)]

        def recorded(subject: str) -> None:
            eventually(
                lambda: sent.get_alerted(destination.key, [subject]),
                lambda: [each.said() for each in runners],
            )

        recorded("")  # they have begun
        ask(1)
        assert asked() == "n: 1"
        (question,) = sent.get_questions(10)
        recorded(f"{question.task_id}:finance")  # one that is killed before that sends it once more
        holder = workshop.store.check_lock("afl:alerts")
        assert holder is not None
        words = workshop.store.describe(holder.owner)
        victim = next(each for each in runners if f"process {each.pid} on " in words)
        victim.kill()
        ask(2)
        assert asked() == "n: 2"  # and 1 is not sent again
        runners.remove(victim)
        assert [each.terminate() for each in runners] == [0]
        assert workshop.store.check_lock("afl:alerts") is None
        ask(3)
        workshop.runner(AFL_ALERTS=inbox.address())
        assert asked() == "n: 3"
        assert inbox.take() == []
