"""Agents that set other agents to work."""

from __future__ import annotations

from typing import Any

import pytest
from support.turns_office import Barrier, Office, Place, last_text, office, results_in, run, until, wants

from afl.kernel.codec import decode
from afl.kernel.database import Query
from afl.models import ModelRejected, Request
from afl.models.scripted import Scripted
from afl.turns.model import Limits, TurnRef
from afl.turns.resources import get_agent
from afl.turns.statuses import TaskStatus

ANYONE: dict[str, Any] = {"delegation_policy": {}}


def task(ref: str, what: str, strategy: str = "new", **more: Any) -> dict[str, Any]:
    return {"target_strategy": strategy, "target_ref": ref, "instruction": what, **more}


def boss(*calls: tuple[str, dict[str, Any]]) -> Any:
    """One who delegates first and then says what came of it; everybody else answers in capitals."""

    def answer(request: Request) -> Scripted:
        if answered := results_in(request):
            return " | ".join(answered)
        if request.system == "boss":
            return wants(*calls)
        return last_text(request).upper()

    return answer


async def children(there: Office, count: int) -> list[TurnRef]:
    """The turns that were set off by others."""
    table = "state.execution_edges" if there.database.dialect == "postgres" else "state_execution_edges"
    asked = Query.of(
        f"select target_agent_id, target_agent_turn_id from {table} where project_id = '{there.project}' "
        "and primitive = 'enqueue' and source_agent_turn_id <> '' order by created_at, edge_id"
    )
    rows = await until(lambda: _at_least(there.read(lambda tx: tx.all(asked)), count))
    return [TurnRef(there.project, row["target_agent_id"], row["target_agent_turn_id"]) for row in rows]


def _at_least(rows: list[Any], count: int) -> list[Any] | None:
    return rows if len(rows) >= count else None


def test_work_that_is_not_waited_for(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(boss(("delegate_async", task("writer", "write"))))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer", tags=["fast"])
            got = await there.agents.ask("ada", "go")
            told = decode(got.text)
            assert told["status"] == "accepted" and got.succeeded
            (child,) = await children(there, 1)
            assert (told["agent_id"], told["agent_turn_id"]) == (child.agent_id, child.agent_turn_id)
            assert (await there.agents.wait(child)).text == "WRITE"
            agent = there.read(lambda tx: get_agent(tx, there.project, child.agent_id))
            assert agent is not None and (agent.owner_agent_id, list(agent.tags)) == ("ada", ["fast"])
            assert there.count("state.identity_edges", "action = 'create'") == 1

    run(work)


def test_an_agent_that_exists_is_asked(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            calls = [
                ("delegate_async", task("bob", "again", "reuse")),
                ("delegate_async", task("bob", "too", "clone")),
            ]
            await there.hire(boss(*calls))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("bob")
            before = await there.agents.ask("bob", "first")
            assert (await there.agents.ask("ada", "go")).succeeded
            reused, cloned = await children(there, 2)
            assert reused.agent_id == "bob" and cloned.agent_id != "bob"
            again = await there.agents.wait(reused)
            assert again.text == "AGAIN" and again.output_box_id == before.output_box_id
            assert (await there.agents.wait(cloned)).text == "TOO"

    run(work)


def test_experts_principals_and_new_agents(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(
                boss(
                    ("ask_expert", {"expert_profile": "Writer", "question": "why", "include_history": True}),
                    ("launch_principal", {"profile_name": "writer", "instruction": "lead"}),
                    ("provision_agent", {"action": "create", "agent_id": "carl", "profile_name": "writer"}),
                    ("provision_agent", {"action": "ensure", "agent_id": "carl", "profile_name": "writer"}),
                    ("provision_agent", {"action": "create", "agent_id": "carl", "profile_name": "writer"}),
                    ("provision_agent", {"action": "ensure", "agent_id": "carl", "worker_target": "other"}),
                    ("provision_agent", {"action": "derive", "agent_id": "dora", "derived_from": "carl"}),
                )
            )
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer")
            got = await there.agents.ask("ada", "go")
            parts = got.text.split(" | ")
            assert [decode(part).get("status") for part in parts[:2]] == ["accepted", "accepted"]
            assert [decode(part)["created"] for part in (parts[2], parts[3], parts[6])] == [True, False, True]
            assert "exists" in parts[4] and "another worker_target" in parts[5]
            expert, principal = await children(there, 2)
            assert (await there.agents.wait(expert)).text == "WHY"
            assert (await there.agents.wait(principal)).text == "LEAD"
            assert (await there.agents.ask("dora", "hi")).text == "HI"

    run(work)


def test_what_may_not_be_delegated(place: Place) -> None:
    policy = {"target_profiles": ["writer"], "target_tags": ["fast"]}

    async def work() -> None:
        async with office(place) as there:
            await there.hire(
                boss(
                    ("delegate_async", task("nobody", "x")),
                    ("delegate_async", task("reader", "x")),
                    ("delegate_async", task("writer", "x")),
                    ("delegate_async", task("ghost", "x", "reuse")),
                    ("delegate_async", task("writer", "x", context_box_id="box_of_others")),
                    ("delegate_async", {"target_ref": "writer"}),
                    ("fork_join", {"tasks": []}),
                )
            )
            await there.agents.define("ada", "boss", delegation_policy=policy)
            await there.agents.define("writer", tags=["slow"])
            await there.agents.define("reader", tags=["fast"])
            got = await there.agents.ask("ada", "go")
            said = got.text.split(" | ")
            assert [part for part in said if "error" not in part] == []
            assert "there is no profile" in said[0] and "does not allow" in said[1] and "tags" in said[2]
            assert "unknown_agent" in said[3] and "1 to 8" in said[6]
            assert there.count("state.agent_inbox", "message_type = 'turn'") == 1
            assert there.count("resource.project_agents") == 3

    run(work)


def test_boxes_of_others_are_not_passed_on(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.agents.define("bob")
            worker = await there.hire(boss())
            foreign = (await there.agents.ask("bob", "secret")).output_box_id
            await worker.stop()
            await there.hire(boss(("delegate_async", task("bob", "x", context_box_id=foreign))))
            await there.agents.define("ada", "boss", **ANYONE)
            assert "unknown_box" in (await there.agents.ask("ada", "go")).text

    run(work)


def test_without_a_policy_there_is_no_such_tool(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(boss(("delegate_async", task("writer", "x"))))
            await there.agents.define("ada", "boss", tools=None)
            await there.agents.define("writer")
            assert "unknown_tool" in (await there.agents.ask("ada", "go")).text
            await there.agents.define("eve", "boss", tools=["delegate_async"])
            assert "no delegation_policy" in (await there.agents.ask("eve", "go")).text

    run(work)


def test_depth_really_grows(place: Place) -> None:
    """Thirty nested delegations come to an end at the limit."""

    def model(request: Request) -> Scripted:
        if results_in(request):
            return results_in(request)[0]
        return wants(("delegate_async", task("ada", "deeper")))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", "boss", **ANYONE)
            first = await there.agents.send("ada", "go")
            turns = [first, *await children(there, 19)]
            last = [await there.agents.wait(turn) for turn in turns][-1]
            assert "recursion_depth_exceeded" in last.text
            assert there.count("state.agent_inbox", "message_type = 'turn'") == 20
            depths = dict.fromkeys(range(20), 1)
            assert (
                there.count("state.execution_edges", "primitive = 'enqueue' and recursion_depth = 19")
                == depths[19]
            )
            assert there.count("state.execution_edges", "recursion_depth >= 20") == 0
            assert there.count("resource.project_agents") == 20

    run(work)


def test_a_shallow_limit(place: Place) -> None:
    async def work() -> None:
        async with office(place, Limits(max_depth=1)) as there:
            await there.hire(boss(("fork_join", {"tasks": [task("writer", "x")]})))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer")
            assert "recursion_depth_exceeded" in (await there.agents.ask("ada", "go")).text

    run(work)


def test_children_are_waited_for(place: Place) -> None:
    tasks = [task("writer", f"part {n}") for n in range(3)]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(boss(("fork_join", {"tasks": tasks})))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer")
            got = await there.agents.ask("ada", "go")
            told = decode(got.text)
            assert told["status"] == "success"
            assert [(one["task_index"], one["summary"]) for one in told["results"]] == [
                (0, "PART 0"),
                (1, "PART 1"),
                (2, "PART 2"),
            ]
            assert there.count("state.execution_edges", "primitive = 'join'") == 2
            assert there.count("state.pmo_batches", "status = 'success'") == 1
            assert there.count("state.pmo_batch_tasks", "status = 'success'") == 3

    run(work)


def slow_children(tasks: list[dict[str, Any]], **options: Any) -> Any:
    """A boss whose children take long, or fail, or are done at once."""

    def answer(request: Request) -> Scripted:
        if answered := results_in(request):
            return " | ".join(answered)
        if request.system == "boss":
            return wants(("fork_join", {"tasks": tasks, **options}))
        if last_text(request) == "fail":
            return ModelRejected("no good")
        return wants(("slow", {})) if last_text(request) == "slow" else "FINE"

    return answer


def slow_tool(gate: Barrier) -> Any:
    def slow() -> str:
        gate("here")
        return "late"

    return slow


def test_a_failure_ends_them_all(place: Place) -> None:
    gate = Barrier()

    tasks = [task("writer", "slow"), task("writer", "fail")]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(slow_children(tasks, fail_fast=True))
            await there.agents.define("ada", "boss", tools=None, **ANYONE)
            await there.agents.define("writer", tools=[slow_tool(gate)])
            got = await there.agents.ask("ada", "go")
            assert "batch_failed" in got.text
            slow, bad = await children(there, 2)
            assert (await there.agents.wait(slow)).error_code == "stopped"
            assert (await there.agents.wait(bad)).status is TaskStatus.FAILED
            gate.open()
            assert there.count("state.pmo_batch_tasks", "status = 'canceled'") == 1
            assert there.count("state.pmo_batch_tasks", "status = 'failed'") == 1
            result = next(card for card in there.cards(got.output_box_id) if card.type == "tool.result")
            statuses = [one["status"] for one in result.content["result"]["results"]]
            assert (result.content["status"], statuses) == ("failed", ["canceled", "failed"])

    run(work)


def test_an_agent_that_would_wait_for_itself_is_refused(place: Place) -> None:
    tasks = [task("ada", "more", "reuse"), task("writer", "quick")]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(boss(("fork_join", {"tasks": tasks})))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer")
            told = decode((await there.agents.ask("ada", "go")).text)
            assert told["status"] == "failed"
            assert "ada would wait for itself" in told["error"]["message"]
            assert there.count("state.pmo_batches") == 0

    run(work)


def test_an_agent_that_waits_for_the_one_that_asks_it_is_refused(place: Place) -> None:
    """ada waits for bob, bob for carl, and carl would wait for ada."""
    next_ones = {"ada": "bob", "bob": "carl", "carl": "ada"}

    def answer(request: Request) -> Scripted:
        answered = results_in(request)
        return (
            answered[0]
            if answered
            else wants(("fork_join", {"tasks": [task(next_ones[request.system], "more", "reuse")]}))
        )

    async def work() -> None:
        async with office(place) as there:
            await there.hire(answer)
            for name in next_ones:
                await there.agents.define(name, name, **ANYONE)
            got = await there.agents.ask("ada", "go")
            assert "ada would wait for itself" in got.text
            assert there.count("state.pmo_batches") == 2

    run(work)


def test_the_model_reads_what_succeeded_and_why_the_rest_did_not(place: Place) -> None:
    tasks = [task("writer", "quick"), task("writer", "fail")]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(slow_children(tasks))
            await there.agents.define("ada", "boss", **ANYONE)
            await there.agents.define("writer")
            told = decode((await there.agents.ask("ada", "go")).text)
            assert told["status"] == "partial"
            assert told["error"]["message"] == "1 of 2 tasks did not succeed; see the results of each"
            done, failed = told["result"]["results"]
            assert (done["status"], done["summary"]) == ("success", "FINE")
            assert (failed["status"], failed["error"]) == ("failed", "no good")

    run(work)


def test_a_deadline_gives_what_there_is(place: Place) -> None:
    gate = Barrier()
    tasks = [task("writer", "slow"), task("writer", "quick"), task("writer", "slow")]

    async def work() -> None:
        async with office(place) as there:
            worker = await there.hire(slow_children(tasks, deadline_seconds=0.5))
            await there.agents.define("ada", "boss", tools=None, **ANYONE)
            await there.agents.define("writer", tools=[slow_tool(gate)])
            turn = await there.agents.send("ada", "go")
            late = await children(there, 3)
            await until(lambda: len(gate.calls) == 2)
            await there.agents.wait(late[1])
            until_then = there.database.now() + 600
            await until(lambda: there.database.now() > until_then)
            await worker.watch()
            got = await there.agents.wait(turn)
            gate.open()
            result = next(card for card in there.cards(got.output_box_id) if card.type == "tool.result")
            assert result.content["status"] == "partial"
            told = result.content["result"]["results"]
            assert [one["status"] for one in told] == ["timeout", "success", "timeout"]
            assert told[1]["summary"] == "FINE"
            assert told[0]["error"] == "it had not ended when the deadline of fork_join passed"
            for child in (late[0], late[2]):
                assert (await there.agents.wait(child)).status is TaskStatus.CANCELED

    run(work)


def test_a_stop_reaches_the_children(place: Place) -> None:
    gate = Barrier()

    async def work() -> None:
        async with office(place) as there:
            await there.hire(slow_children([task("writer", "slow"), task("writer", "slow")]))
            await there.agents.define("ada", "boss", tools=None, **ANYONE)
            await there.agents.define("writer", tools=[slow_tool(gate)])
            turn = await there.agents.send("ada", "go")
            both = await children(there, 2)
            await until(lambda: len(gate.calls) == 2)
            await there.agents.stop(turn, "enough")
            for each in (turn, *both):
                got = await there.agents.wait(each)
                assert (got.status, got.error_code) == (TaskStatus.CANCELED, "stopped")
            gate.open()

    run(work)


def test_children_that_ended_unheard_are_found_by_a_sweep(place: Place) -> None:
    tasks = [task("writer", "one"), task("writer", "two")]

    async def work() -> None:
        async with office(place) as there:
            with pytest.MonkeyPatch.context() as patch:

                async def forget(self: Any, head: Any) -> None:
                    return None

                patch.setattr("afl.turns.worker.turn_driver.TurnDriver.join_parent", forget)
                worker = await there.hire(boss(("fork_join", {"tasks": tasks})))
                await there.agents.define("ada", "boss", **ANYONE)
                await there.agents.define("writer")
                turn = await there.agents.send("ada", "go")
                for child in await children(there, 2):
                    await there.agents.wait(child)
                assert there.head("ada").status == "suspended"
                await worker.watch()
                assert decode((await there.agents.wait(turn)).text)["status"] == "success"

    run(work)
