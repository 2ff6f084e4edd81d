"""Turns from beginning to end, with tools of this process."""

from __future__ import annotations

from typing import Any

import pytest
from support.turns_office import (
    Place,
    last_text,
    make_unreadable,
    office,
    results_in,
    run,
    told_first,
    until,
    wants,
)

from afl.models import ModelRejected, Reply, Request, Text
from afl.models.errors import ModelUnavailable, RequestTooLong
from afl.models.messages import StopReason
from afl.models.scripted import Scripted
from afl.turns.statuses import StepStatus, TaskStatus
from afl.turns.store.steps import read_steps
from afl.turns.tools.local import local_tool
from afl.turns.worker.services import WorkerLimits


def add(a: int, b: int) -> int:
    """The sum."""
    return a + b


async def shout(text: str) -> str:
    return text.upper()


def test_a_turn_of_one_step(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            await there.hire(lambda request: f"hello {last_text(request)}")
            await there.agents.define("ada", "You greet.")
            words: list[str] = []
            got = await there.agents.ask("ada", "bob", on_text=words.append)
            assert (got.status, got.text) == (TaskStatus.SUCCESS, "hello bob")
            assert there.head("ada").status == "idle"
            cards = there.cards(got.output_box_id)
            assert [card.type for card in cards] == ["agent.thought", "task.deliverable"]
            assert cards[-1].card_id == got.deliverable_card_id
            await until(lambda: there.told("task"))
            assert there.told("task") == [
                {
                    "agent_turn_id": got.agent_turn_id,
                    "status": "success",
                    "output_box_id": got.output_box_id,
                    "deliverable_card_id": got.deliverable_card_id,
                    "stats": {"steps": 1},
                }
            ]
            assert words == ["hello bob"]

    run(work)


def test_what_is_told_of_a_turn_with_tools(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.overhear()
            model = told_first([("add", {"a": 1, "b": 2}), ("shout", {"text": "hi"})])
            await there.hire(model)
            await there.agents.define("ada", tools=[add, shout])
            got = await there.agents.ask("ada", "go")
            assert got.text == "3 | HI"
            await until(lambda: there.told("task") and len(there.told("state")) >= 4)
            states = [
                (each["status"], each["metadata"].get("activity"), each["metadata"].get("current_tool"))
                for each in there.told("state")
            ]
            assert states == [
                ("running", "thinking", None),
                ("running", "executing_tool", "add, shout"),
                ("running", "thinking", None),
                ("idle", None, None),
            ]
            assert all(each["metadata"]["waiting_tool_count"] == 0 for each in there.told("state"))
            assert [each["phase"] for each in there.told("step")] == ["started", "completed"] * 2
            kinds = [each["chunk_type"] for each in there.told("chunk")]
            assert kinds == ["start", "end", "start", "content", "end"]
            assert [card.type for card in there.cards(got.output_box_id)] == [
                "agent.thought",
                "tool.call",
                "tool.call",
                "tool.result",
                "tool.result",
                "agent.thought",
                "task.deliverable",
            ]

    run(work)


def test_steps_have_their_usage(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(told_first([("add", {"a": 1, "b": 2})]))
            await there.agents.define("ada", tools=[add])
            got = await there.agents.ask("ada", "go")
            steps = there.read(lambda tx: read_steps(tx, there.project, got.agent_turn_id))
            assert [(step.number, str(step.status)) for step in steps] == [(1, "completed"), (2, "completed")]
            assert steps[0].metadata["llm_usage"]["input_tokens"] == 100
            assert steps[0].metadata["llm_response_cost"] is None  # the price is not known, so no cost is
            assert len(steps[0].tool_call_ids) == 1 and steps[1].tool_call_ids == []

    run(work)


def test_what_goes_wrong_in_a_call_is_told_to_the_model(place: Place) -> None:
    def broken(n: int) -> int:
        raise ValueError("no good")

    seen: list[str] = []

    def model(request: Request) -> Scripted:
        if answered := results_in(request):
            seen.extend(answered)
            return "done"
        return wants(("broken", {"n": 1}), ("broken", {"n": "x"}), ("ad", {}), ("huge", {}), ("odd", {}))

    def huge() -> str:
        return "x" * 2_000_000

    def odd() -> Any:
        return object()

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", tools=[broken, add, huge, odd])
            got = await there.agents.ask("ada", "go")
            assert got.succeeded
            codes = [
                "ValueError",
                "invalid_arguments",
                "unknown_tool",
                "card_too_large",
                "result_not_serializable",
            ]
            assert all(code in text for code, text in zip(codes, seen, strict=True))
            assert "did you mean add?" in seen[2]

    run(work)


def test_a_tool_may_end_the_turn(place: Place) -> None:
    def verdict() -> dict[str, Any]:
        return {"score": 9}

    def controlled() -> dict[str, Any]:
        return {"__cg_control": {"after_execution": "terminate"}, "why": "enough"}

    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: wants((last_text(request), {})))
            tools: list[Any] = [local_tool(verdict, after_execution="terminate"), controlled]
            await there.agents.define("ada", tools=tools)
            first = await there.agents.ask("ada", "verdict")
            assert (first.status, first.data) == (TaskStatus.SUCCESS, {"score": 9})
            second = await there.agents.ask("ada", "controlled")
            assert second.data["why"] == "enough"

    run(work)


def test_a_turn_that_reads_too_much_says_how_to_read_less(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: RequestTooLong("prompt is too long"))
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "go")
            assert got.error_code == "model_error"
            assert got.error is not None and got.error.startswith("prompt is too long; ")
            assert 'history={"tokens": ...}' in got.error

    run(work)


def test_a_model_that_breaks_off_is_asked_again_in_the_next_step(place: Place) -> None:
    breaks = ModelUnavailable("it broke off", retry_after=0.001, broke_off=True)
    replies: list[Scripted] = [breaks, breaks, "Twelve meters."]

    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: replies.pop(0))
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.text) == (TaskStatus.SUCCESS, "Twelve meters.")
            steps = there.read(lambda tx: read_steps(tx, there.project, got.agent_turn_id))
            assert [(step.status, step.error) for step in steps] == [
                (StepStatus.FAILED, "it broke off"),
                (StepStatus.FAILED, "it broke off"),
                (StepStatus.COMPLETED, None),
            ]

    run(work)


def test_a_model_that_always_breaks_off_fails_the_turn(place: Place) -> None:
    asked: list[Request] = []

    def breaks(request: Request) -> ModelUnavailable:
        asked.append(request)
        return ModelUnavailable("it broke off", retry_after=0.001, broke_off=True)

    async def work() -> None:
        async with office(place) as there:
            await there.hire(breaks)
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "go")
            assert (got.error_code, got.error, len(asked)) == ("model_error", "it broke off", 5)

    run(work)


def test_a_failed_model_fails_the_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: ModelRejected("no key"))
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.error_code, got.error) == (TaskStatus.FAILED, "model_error", "no key")
            assert got.data["kind"] == "fallback_deliverable"
            assert there.head("ada").status == "idle"

    run(work)


def test_a_tool_or_a_model_that_stops_an_iteration_fails(place: Place) -> None:
    def first() -> str:
        return next(iter(()))

    def model(request: Request) -> Scripted:
        if answered := results_in(request):
            return answered[0]
        if last_text(request) == "think":
            next(iter(()))
        return wants(("first", {}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", tools=[first])
            told = await there.agents.ask("ada", "call")
            assert told.succeeded and "StopIteration" in told.text
            got = await there.agents.ask("ada", "think")
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "internal_error")
            assert "StopIteration" in (got.error or "")

    run(work)


def test_words_that_no_card_can_hold_fail_the_turn_in_one_line(
    place: Place, caplog: pytest.LogCaptureFixture
) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: "x" * 2_000_000)
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "card_too_large")

    run(work)
    (record,) = [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert not record.exc_info and "\n" not in record.getMessage()


def test_steps_run_out(place: Place) -> None:
    offered: list[list[str]] = []
    warned: list[str] = []

    def model(request: Request) -> Scripted:
        offered.append([tool.name for tool in request.tools])
        warned.append(request.system)
        return wants(("add", {"a": 1, "b": 1}), text="still at it")

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model, limits=WorkerLimits(max_steps=4))
            await there.agents.define("ada", tools=[add], allowed_internal_tools=["submit_result"])
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "max_steps_reached")
            assert got.error is not None and "allows more with --max-steps" in got.error
            assert got.data["diagnostics"]["last_agent_thought"] == "still at it"
            assert got.data["diagnostics"]["tool_result_count"] >= 3

    run(work)
    assert offered == [["add", "submit_result"]] * 3 + [["submit_result"]]
    assert [bool(text) for text in warned] == [False, False, True, True]


def test_the_default_is_eight_steps() -> None:
    assert WorkerLimits().max_steps == 8


@pytest.mark.parametrize("reason", [StopReason.MAX_TOKENS, StopReason.CONTEXT_FULL])
def test_a_reply_that_was_cut_off_is_told(place: Place, reason: str) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire([Reply((Text("Once upon"),), reason), "The end."])
            await there.agents.define("ada")
            assert (await there.agents.ask("ada", "go")).cut_off
            assert not (await there.agents.ask("ada", "on")).cut_off

    run(work)


def test_an_end_that_must_be(place: Place) -> None:
    def model(request: Request) -> Scripted:
        if "submit_result" in last_text(request):
            return wants(("submit_result", {"result": {"answer": 42}}))
        return "I think it is 42"

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", must_end_with=["submit_result"])
            got = await there.agents.ask("ada", "go")
            assert got.fields == {"answer": "42"}
            types = [card.type for card in there.cards(got.output_box_id)]
            assert "sys.must_end_with_required" in types

    run(work)


def test_the_last_step_offers_the_tool_that_must_end_the_turn(place: Place) -> None:
    def finished(answer: int) -> int:
        return answer

    done = local_tool(finished, name="done", after_execution="terminate")

    def model(request: Request) -> Scripted:
        if [each.name for each in request.tools] == ["done"]:
            assert "call done now" in request.system
            return wants(("done", {"answer": 42}))
        return wants(("add", {"a": 1, "b": 2}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model, tools=[done, add])
            await there.agents.define("ada", tools=["add"], must_end_with=["done"])
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.data) == ("success", 42)

    run(work)


def test_results_must_have_what_was_asked_for(place: Place) -> None:
    said: list[str] = []

    def model(request: Request) -> Scripted:
        said.extend(results_in(request))
        submit = ("submit_result", {"result": {"title": "T"}})
        if len(said) == 0:
            return wants(submit)
        if len(said) == 1:
            return wants(submit, submit)
        if len(said) == 3:
            return wants(submit, ("add", {"a": 1, "b": 1}))
        return wants(("submit_result", {"result": {"more": 1, "body": "B", "title": "T"}}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", tools=[add])
            got = await there.agents.ask("ada", "write", fields={"title": "short", "body": "long"})
            assert list(got.fields.items()) == [("title", "T"), ("body", "B"), ("more", "1")]
            assert got.status is TaskStatus.SUCCESS

    run(work)
    assert "lacks the required field body" in said[0]
    assert all("submit_result_twice" in text for text in said[1:3])
    assert "submit_result_not_alone" in said[3] and said[4] == "2"


def test_words_are_no_result_where_fields_were_asked_for(place: Place) -> None:
    told: list[str] = []

    def model(request: Request) -> Scripted:
        told.append(last_text(request))
        if len(told) == 1:
            return "The sum is 5."
        return wants(("submit_result", {"result": {"sum": 5}}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "2 and 3?", fields={"sum": "the sum"})
            assert (got.status, got.fields) == (TaskStatus.SUCCESS, {"sum": "5"})

    run(work)
    assert "submit_result" in told[1] and "sum" in told[1]


@pytest.mark.parametrize(
    ("reply", "limits", "steps"),
    [
        ("The sum is 5.", WorkerLimits(), 4),
        ("The sum is 5.", WorkerLimits(corrections=1), 2),
        ("The sum is 5.", WorkerLimits(max_steps=2), 2),
        (wants(("submit_result", {"result": {"total": 5}})), WorkerLimits(), 4),
    ],
)
def test_a_turn_that_never_gives_its_fields_fails(
    place: Place, reply: Scripted, limits: WorkerLimits, steps: int
) -> None:
    asked: list[Request] = []

    def model(request: Request) -> Scripted:
        asked.append(request)
        return reply

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model, limits=limits)
            await there.agents.define("ada")
            got = await there.agents.ask("ada", "2 and 3?", fields={"sum": "the sum"})
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "missing_fields")
            assert "sum" in (got.error or "")

    run(work)
    assert len(asked) == steps


def test_a_tool_that_ends_the_turn_must_give_the_fields(place: Place) -> None:
    def verdict(full: bool) -> dict[str, Any]:
        return {"score": 9, "why": "good"} if full else {"score": 9}

    told: list[str] = []

    def model(request: Request) -> Scripted:
        told.append(last_text(request))
        return wants(("verdict", {"full": len(told) > 1}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada", tools=[local_tool(verdict, after_execution="terminate")])
            got = await there.agents.ask("ada", "judge", fields={"score": "0 to 10", "why": "in a word"})
            assert (got.status, got.fields) == (TaskStatus.SUCCESS, {"score": "9", "why": "good"})

    run(work)
    assert "why" in told[1]


def test_fields_are_asked_of_one_turn_of_a_conversation(place: Place) -> None:
    def model(request: Request) -> Scripted:
        if last_text(request) == "and now?":
            return "words"
        return wants(("submit_result", {"result": {"sum": 5}}))

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            talk = there.agents.conversation("ada")
            assert (await talk.say("2 and 3?", fields={"sum": "the sum"})).fields == {"sum": "5"}
            assert (await talk.say("and now?")).text == "words"

    run(work)


def test_a_profile_that_cannot_be_read_fails_the_turn(place: Place) -> None:
    async def work() -> None:
        async with office(place) as there:
            await there.hire(lambda request: "never")
            await there.agents.define("ada")
            await make_unreadable(there.agents, "ada")
            got = await there.agents.ask("ada", "go")
            assert (got.status, got.error_code) == (TaskStatus.FAILED, "profile_not_found")
            assert "llm_config" in (got.error or "")

    run(work)


def test_turns_of_one_agent_come_one_after_another(place: Place) -> None:
    active: list[int] = []
    most: list[int] = []

    def slow(n: int) -> int:
        active.append(n)
        most.append(len(active))
        active.remove(n)
        return n

    async def work() -> None:
        async with office(place) as there:
            model = told_first([("slow", {"n": 1})])
            for _ in range(3):
                await there.hire(model)
            await there.agents.define("ada", tools=[slow])
            turns = [await there.agents.send("ada", f"{n}") for n in range(6)]
            for turn in turns:
                assert (await there.agents.wait(turn)).succeeded
            began = [card.created_at for turn in turns for card in there.output(turn)[:1]]
            assert began == sorted(began)
            assert there.head("ada").turn_epoch == 6

    run(work)
    assert max(most) == 1


def test_a_conversation_is_remembered(place: Place) -> None:
    seen: list[int] = []

    def model(request: Request) -> Scripted:
        seen.append(len(request.messages))
        return f"I heard {last_text(request)}"

    async def work() -> None:
        async with office(place) as there:
            await there.hire(model)
            await there.agents.define("ada")
            talk = there.agents.conversation("ada")
            assert (await talk.say("one")).text == "I heard one"
            assert (await talk.say("two")).text == "I heard two"

    run(work)
    assert seen == [1, 3]
