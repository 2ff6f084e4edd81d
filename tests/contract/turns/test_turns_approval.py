"""Approval inside a turn: the call waits for a person, durably, and is made once, as that person says."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from functools import wraps
from typing import Any

import pytest

from afl.kernel.database import Database
from afl.models import ScriptedModel
from afl.models.messages import Reply, StopReason, ToolResult, ToolUse
from afl.models.scripted import calls
from afl.turns import EventKind, ToolService, open_agents, tool
from afl.turns.agents import Agents
from afl.turns.store.approvals import ToolApproval, approvals_of_turn, open_approvals
from afl.turns.tools.answering import AnsweredCall, approve_call, reject_call
from afl.turns.watchdog import Watchdog


def asynchronous(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """A test on an event loop of its own."""

    @wraps(test)
    def run(*args: Any, **kwargs: Any) -> None:
        asyncio.run(test(*args, **kwargs))

    return run


class Shop:
    """A tool that must be approved, and what was done with it."""

    def __init__(self, **options: Any) -> None:
        self.paid: list[tuple[str, int]] = []

        @tool(**{"approve": "finance", **options})
        def pay(to: str, cents: int) -> str:
            """Pay somebody."""
            self.paid.append((to, cents))
            return f"paid {cents} to {to}"

        self.pay = pay


PAY = calls("pay", {"to": "Ada", "cents": 700})


async def asked(agents: Agents, count: int = 1) -> list[ToolApproval]:
    """The questions, once there are so many."""
    async with asyncio.timeout(10):
        while True:
            found = agents.engine.database.read(lambda tx: open_approvals(tx))
            if len(found) >= count:
                return found
            await asyncio.sleep(0.005)


def answer(agents: Agents, approval: ToolApproval, arguments: Mapping[str, Any]) -> AnsweredCall:
    return _told(agents, lambda tx: approve_call(tx, approval, arguments, "grace"))


def refuse(agents: Agents, approval: ToolApproval, why: str) -> AnsweredCall:
    return _told(agents, lambda tx: reject_call(tx, approval, why, "grace"))


def _told(agents: Agents, work: Callable[[Any], AnsweredCall]) -> AnsweredCall:
    answered = agents.engine.database.write(work)
    agents.engine.tell(*answered.signals)
    return answered


def read_by_model(model: ScriptedModel) -> list[str]:
    """The results of tools in the last request."""
    content = model.requests[-1].messages[-1].content
    return [block.content for block in content if isinstance(block, ToolResult)]


@asynchronous
async def test_a_call_waits_for_a_person_and_is_then_made_once(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        assert (question.group_name, question.tool_name) == ("finance", "pay")
        assert question.arguments == {"to": "Ada", "cents": 700} and shop.paid == []
        assert answer(agents, question, question.arguments).counts
        assert (await agents.wait(turn)).text == "Done."
    assert shop.paid == [("Ada", 700)]
    assert read_by_model(model) == ["paid 700 to Ada"]


@asynchronous
async def test_nobody_is_asked_about_arguments_that_do_not_fit(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([calls("pay", {"to": "Ada", "cents": "many"}), "I cannot."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        async with asyncio.timeout(10):
            assert (await agents.ask("clerk", "Pay Ada.")).text == "I cannot."
    assert "parameter 'cents' of pay: Expected `int`, got `str`" in read_by_model(model)[0]
    assert shop.paid == []


@asynchronous
async def test_a_person_changes_the_arguments_and_the_model_is_told(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        answer(agents, question, {"to": "Ada", "cents": 5})
        await agents.wait(turn)
    assert shop.paid == [("Ada", 5)]
    assert read_by_model(model) == ['(grace changed the arguments to {"to":"Ada","cents":5})\npaid 5 to Ada']


@asynchronous
async def test_a_rejection_is_the_error_of_the_tool(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Sorry."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        refuse(agents, question, "we paid her yesterday")
        assert (await agents.wait(turn)).text == "Sorry."
    assert shop.paid == []
    assert "grace rejected this call: we paid her yesterday" in read_by_model(model)[0]


@asynchronous
async def test_the_first_answer_counts(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        answer(agents, question, question.arguments)
        late = refuse(agents, question, "no")
        assert not late.counts
        assert (late.approval.status, late.approval.answered_by) == ("approved", "grace")
        await agents.wait(turn)
    assert shop.paid == [("Ada", 700)]


@pytest.mark.parametrize(("cents", "asks"), [(50, False), (500, True)])
@asynchronous
async def test_a_function_says_which_calls_are_asked_for(database: Database, cents: int, asks: bool) -> None:
    shop = Shop(approve=lambda given: given["cents"] > 100)
    model = ScriptedModel([calls("pay", {"to": "Ada", "cents": cents}), "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        if asks:
            (question,) = await asked(agents)
            assert question.group_name == "operators"
            answer(agents, question, question.arguments)
        await agents.wait(turn)
        found = database.read(lambda tx: approvals_of_turn(tx, "main", turn.agent_turn_id))
    assert len(found) == int(asks) and shop.paid == [("Ada", cents)]


@pytest.mark.parametrize(("policy", "status"), [("reject", "success"), ("fail", "failed")])
@asynchronous
async def test_when_nobody_answers_the_policy_counts(database: Database, policy: str, status: str) -> None:
    shop = Shop(approve_timeout=0.001, approve_expired=policy)
    model = ScriptedModel([PAY, "Nobody was there."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        await asked(agents)
        await Watchdog(agents.engine, "w", ["agents"]).sweep()
        delivered = await agents.wait(turn)
        (question,) = database.read(lambda tx: approvals_of_turn(tx, "main", turn.agent_turn_id))
    assert (str(delivered.status), question.status, shop.paid) == (status, "expired", [])
    if policy == "fail":
        assert delivered.error_code == "approval_timeout"
    else:
        assert "nobody in finance approved this call" in read_by_model(model)[0]


@asynchronous
async def test_calls_beside_it_are_made_at_once_and_several_questions_are_asked(database: Database) -> None:
    shop = Shop()
    looked: list[str] = []

    def look(what: str) -> str:
        """Look."""
        looked.append(what)
        return "seen"

    uses = (
        ToolUse("a", "pay", {"to": "Ada", "cents": 1}),
        ToolUse("b", "look", {"what": "sky"}),
        ToolUse("c", "pay", {"to": "Bob", "cents": 2}),
    )
    model = ScriptedModel([Reply(uses, StopReason.TOOL_USE), "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay, look])
        turn = await agents.send("clerk", "Pay them.")
        first, second = await asked(agents, 2)
        refuse(agents, first, "not her")
        answer(agents, second, second.arguments)
        assert (await agents.wait(turn)).text == "Done."
    assert (shop.paid, looked) == ([("Bob", 2)], ["sky"])
    results = read_by_model(model)
    assert "not her" in results[0] and results[1:] == ["seen", "paid 2 to Bob"]


@asynchronous
async def test_a_tool_of_another_process_is_called_with_the_approved_arguments(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        service = ToolService(agents.engine, agents.project, [shop.pay], target="bank")
        await service.register()
        await service.start()
        await agents.define("clerk", tools=["pay"])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        answer(agents, question, {"to": "Ada", "cents": 6})
        assert (await agents.wait(turn)).text == "Done."
        await service.stop()
    assert shop.paid == [("Ada", 6)]
    assert "grace changed the arguments" in read_by_model(model)[0]


@asynchronous
async def test_a_stopped_turn_takes_its_question_with_it(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        await agents.stop(turn)
        await agents.wait(turn)
        late = answer(agents, question, question.arguments)
        assert (late.counts, late.approval.status) == (False, "canceled")
        assert database.read(lambda tx: open_approvals(tx)) == []
    assert shop.paid == []


@asynchronous
async def test_who_reads_along_is_told_that_a_person_is_asked(database: Database) -> None:
    """The question and the answer are of the store, so they are read from any position."""
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", tools=[shop.pay])
        kinds, positions = [], []
        turn = await agents.send("clerk", "Pay Ada.")
        async for event in agents.events(turn):
            if event.kind != EventKind.TEXT:
                kinds.append(event.kind)
                positions.append(event.position)
            if event.kind == EventKind.APPROVAL_NEEDED:
                assert event.data["group"] == "finance" and event.tool == "pay"
                (question,) = await asked(agents)
                assert question.approval_id == event.data["id"]
                answer(agents, question, question.arguments)
        assert [str(each) for each in kinds] == [
            *("step", "tool-call", "approval-needed", "tool-result", "step", "message", "result")
        ]
        rest = [event.kind async for event in agents.events(turn, after=positions[2])]
        assert [each for each in rest if each != EventKind.TEXT] == kinds[3:]


@asynchronous
async def test_a_tool_of_an_agent_in_a_session_waits_for_a_person(database: Database) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as agents:
        await agents.define("clerk", lambda context: "You pay.", tools=[shop.pay])
        turn = await agents.session("ada", "clerk").send("Pay Ada.")
        (question,) = await asked(agents)
        answer(agents, question, question.arguments)
        assert (await agents.wait(turn)).text == "Done."
    assert shop.paid == [("Ada", 700)]
    assert model.requests[0].system == "You pay."


@pytest.mark.parametrize("order", [("boss", "clerk"), ("clerk", "boss")])
@asynchronous
async def test_each_agent_has_the_rule_that_it_gives_to_a_function(
    database: Database, order: tuple[str, str]
) -> None:
    shop = Shop()
    tools = {"boss": tool(shop.pay, approve=False), "clerk": tool(shop.pay, approve_timeout=3600)}
    async with open_agents(database, model=ScriptedModel([PAY, "Done.", PAY, "Done."])) as agents:
        for name in order:
            await agents.define(name, tools=[tools[name]])
        assert (await agents.ask("boss", "Pay Ada.")).text == "Done."
        assert shop.paid == [("Ada", 700)]
        turn = await agents.send("clerk", "Pay Ada.")
        (question,) = await asked(agents)
        assert (question.group_name, question.agent_id) == ("finance", "clerk")
        assert question.deadline is not None and shop.paid == [("Ada", 700)]
        answer(agents, question, question.arguments)
        await agents.wait(turn)
    assert len(shop.paid) == 2


@pytest.mark.parametrize(
    ("before", "now", "group"),
    [
        (False, "finance", "finance"),
        ("clerks", "finance", "finance"),
        (lambda given: False, "finance", "finance"),
        (False, lambda given: "finance", "operators"),  # the function is not there: every call is asked for
        (lambda given: "clerks", lambda given: "finance", "clerks"),
        ("clerks", False, "clerks"),
    ],
)
@asynchronous
async def test_a_worker_with_an_older_module_asks_as_the_profile_says(
    database: Database, before: Any, now: Any, group: str
) -> None:
    shop, model = Shop(), ScriptedModel([PAY, "Done."])
    async with open_agents(database, model=model) as worker, open_agents(database) as deployed:
        await worker.define("clerk", tools=[tool(shop.pay, approve=before)])
        await deployed.define("clerk", tools=[tool(shop.pay, approve=now)])
        turn = await deployed.send("clerk", "Pay Ada.")
        (question,) = await asked(deployed)
        assert (question.group_name, shop.paid) == (group, [])
        answer(deployed, question, question.arguments)
        await deployed.wait(turn)
    assert shop.paid == [("Ada", 700)]
