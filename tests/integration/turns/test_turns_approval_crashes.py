"""Workers that are lost around an approval: nobody is asked twice, and nothing is done that nobody approved."""

from __future__ import annotations

from support.turns_office import Barrier, Office, Place, lose, office, results_in, run, until, wants

from afl.models import Request
from afl.models.scripted import Scripted
from afl.turns.model import Limits
from afl.turns.store.approvals import ToolApproval, open_approvals
from afl.turns.tools.answering import approve_call
from afl.turns.tools.declaring import tool
from afl.turns.tools.local import LocalTool, current_call

SHORT = Limits(lease_ms=300)


def clerk(request: Request) -> Scripted:
    """Calls both tools once, and tells what they answered."""
    if answered := results_in(request):
        return " | ".join(answered)
    return wants(("pay", {"cents": 5}), ("look", {}))


class Desk:
    """A tool that must be approved, and one beside it that may be held."""

    def __init__(self) -> None:
        self.paid: list[str] = []
        self.looks = 0
        self.looking, self.paying = Barrier(), Barrier()
        self.paying.open()

    @property
    def tools(self) -> list[LocalTool]:
        @tool(approve=True)
        def pay(cents: int) -> str:
            self.paid.append(current_call().idempotency_key)
            self.paying("here")
            return f"paid {cents}"

        @tool
        def look() -> str:
            self.looks += 1
            if self.looks == 1:
                self.looking("here")
            return "seen"

        return [pay, look]


def questions(there: Office) -> list[ToolApproval]:
    return there.read(lambda tx: open_approvals(tx))


def approve(there: Office, question: ToolApproval) -> None:
    database = there.agents.engine.database
    answered = database.write(lambda tx: approve_call(tx, question, question.arguments, "grace"))
    assert answered.counts
    there.agents.engine.tell(*answered.signals)


def test_a_worker_that_dies_before_the_answer_is_replaced_and_nobody_is_asked_again(place: Place) -> None:
    desk = Desk()

    async def work() -> None:
        async with office(place, SHORT) as there:
            first = await there.hire(clerk)
            await there.agents.define("ada", tools=desk.tools)
            turn = await there.agents.send("ada", "go")
            await until(lambda: desk.looks == 1)
            (question,) = questions(there)
            await lose(first)
            await there.hire(clerk, watch_seconds=0.05)
            await until(lambda: there.head("ada").status == "suspended")
            desk.looking.open()
            assert questions(there) == [question] and desk.paid == []
            approve(there, question)
            assert (await there.agents.wait(turn)).text == "paid 5 | seen"

    run(work)
    assert (len(desk.paid), desk.looks) == (1, 2)  # the executor of `look` died


def test_a_worker_that_dies_after_the_answer_is_replaced_and_the_call_is_made_once(place: Place) -> None:
    desk = Desk()

    async def work() -> None:
        async with office(place, SHORT) as there:
            first = await there.hire(clerk)
            await there.agents.define("ada", tools=desk.tools)
            turn = await there.agents.send("ada", "go")
            await until(lambda: desk.looks == 1)
            (question,) = questions(there)
            approve(there, question)
            await until(lambda: there.count("state.turn_waiting_tools", "wait_status = 'applied'") == 1)
            await lose(first)
            await there.hire(clerk, watch_seconds=0.05)
            assert (await there.agents.wait(turn)).text == "paid 5 | seen"
            desk.looking.open()

    run(work)
    assert (len(desk.paid), desk.looks) == (1, 2)


def test_an_answer_that_comes_while_its_worker_is_busy_is_not_lost(place: Place) -> None:
    desk = Desk()

    async def work() -> None:
        async with office(place, SHORT) as there:
            await there.hire(clerk)
            await there.agents.define("ada", tools=desk.tools)
            turn = await there.agents.send("ada", "go")
            await until(lambda: desk.looks == 1)
            approve(there, questions(there)[0])
            await until(lambda: there.count("state.turn_waiting_tools", "wait_status = 'applied'") == 1)
            desk.looking.open()
            assert (await there.agents.wait(turn)).text == "paid 5 | seen"

    run(work)
    assert (len(desk.paid), desk.looks) == (1, 1)


def test_a_call_whose_executor_died_is_made_again_under_the_same_key(place: Place) -> None:
    desk = Desk()
    desk.paying = Barrier()
    desk.looking.open()

    async def work() -> None:
        async with office(place, SHORT) as there:
            first = await there.hire(clerk)
            await there.agents.define("ada", tools=desk.tools)
            turn = await there.agents.send("ada", "go")
            await until(lambda: there.head("ada").status == "suspended")
            approve(there, questions(there)[0])
            await until(lambda: len(desk.paid) == 1)
            await lose(first)
            desk.paying.open()
            await there.hire(clerk, watch_seconds=0.05)
            assert (await there.agents.wait(turn)).text == "paid 5 | seen"
            assert there.count("state.tool_approvals") == 1
            assert there.count("state.outbox", "kind = 'task'") == 1

    run(work)
    assert len(desk.paid) == 2 and len(set(desk.paid)) == 1


def test_an_answer_waits_for_a_worker_that_comes_later(place: Place) -> None:
    desk = Desk()
    desk.looking.open()

    async def work() -> None:
        async with office(place, SHORT) as there:
            first = await there.hire(clerk)
            await there.agents.define("ada", tools=desk.tools)
            turn = await there.agents.send("ada", "go")
            await until(lambda: there.head("ada").status == "suspended")
            await lose(first)
            approve(there, questions(there)[0])
            await there.hire(clerk)
            assert (await there.agents.wait(turn)).text == "paid 5 | seen"

    run(work)
    assert (len(desk.paid), desk.looks) == (1, 1)
