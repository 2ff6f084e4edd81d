"""The events of a turn by position: nothing is missed and nothing comes twice, wherever a reader goes on."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest
from support.speaking import SpeakingModel
from support.turns_house import House

from afl.kernel.errors import InputError, NotFoundError
from afl.models.scripted import calls
from afl.turns import AgentEvent, TurnRef, open_agents
from afl.turns.cardbox.cards import NewCard, text, tool_call_content
from afl.turns.model import Head
from afl.turns.primitives.takeover import takeover
from afl.turns.protocol.ids import new_id
from afl.turns.statuses import CardType, StepStatus, TaskStatus
from afl.turns.store.live_text import LiveText, store_texts
from afl.turns.store.steps import StepEnd, open_step, read_steps
from afl.turns.transitions import finish, next_step, note
from afl.turns.turn_events import AgentEventPage, EventPosition, read_turn_page

OPAQUE = {"type": "opaque", "data": {"type": "thinking", "thinking": "two and three", "signature": "s"}}


def page(house: House, head: Head, after: str = "", limit: int = 1_000) -> AgentEventPage:
    turn, place = head.active_agent_turn_id or "", EventPosition.of(after)
    return house.read(lambda tx: read_turn_page(tx, house.project, turn, place, limit))


def kinds(found: AgentEventPage) -> list[tuple[str, str]]:
    return [(event.kind, event.text or event.tool) for event in found.events]


def step_of(house: House, head: Head) -> str:
    return house.read(lambda tx: read_steps(tx, house.project, head.active_agent_turn_id or ""))[-1].step_id


def thought(house: House, head: Head, step: str, words: str, *blocks: dict[str, object]) -> NewCard:
    card = house.card(head, words=words, step_id=step)
    return replace(card, content={**text(words), **({"blocks": list(blocks)} if blocks else {})})


def say(house: House, head: Head, step: str, words: str, epoch: int | None = None) -> None:
    turn, now = head.active_agent_turn_id or "", head.turn_epoch if epoch is None else epoch
    live = LiveText(house.project, head.agent_id, turn, step, now, words)
    house.write(lambda tx: store_texts(tx, [live]))


def lived(house: House) -> Head:
    """A turn of two steps with one call, to its end."""
    head = house.running()
    step = step_of(house, head)
    wait = replace(house.waits(1)[0], step_id=step)
    call = house.card(
        head, CardType.TOOL_CALL, step_id=step, tool_call_id=wait.tool_call_id, function_name="search"
    )
    call = replace(call, content=tool_call_content("search", {"q": "5"}))
    said = thought(house, head, step, "let me see", OPAQUE)
    head = house.write(
        lambda tx: note(tx, head, cards=[said, call], step=StepEnd(step, StepStatus.TOOL_DISPATCHED))
    )
    second, result = new_id("step"), house.result_card(head, wait)
    head = house.write(lambda tx: next_step(tx, head, step_id=second, cards=[result], ended=StepEnd(step)))
    ending = replace(house.ending(head), cards=[thought(house, head, second, "done")])
    house.write(lambda tx: finish(tx, head, ending))
    return head


def test_the_events_of_a_turn_in_their_order(house: House) -> None:
    found = page(house, lived(house))
    assert found.over
    assert kinds(found) == [
        ("step", ""),
        ("text", "let me see"),
        ("thinking", "two and three"),
        ("message", "let me see"),
        ("tool-call", "search"),
        ("tool-result", "search"),
        ("step", ""),
        ("text", "done"),
        ("message", "done"),
        ("result", "done"),
    ]
    assert [event.step for event in found.events] == [1] * 6 + [2] * 3 + [0]
    call, result = found.events[4:6]
    assert (call.call, call.data) == (result.call, {"q": "5"})
    assert (result.data, result.status) == ({"found": 1}, "success")
    assert [event.ends_turn for event in found.events] == [False] * 9 + [True]


def test_who_reads_on_from_any_position_gets_the_rest(house: House) -> None:
    head = lived(house)
    every = page(house, head).events
    for place, event in enumerate(every, 1):
        assert page(house, head, event.position).events == every[place:]
    one_by_one: list[AgentEvent] = []
    while found := page(house, head, one_by_one[-1].position if one_by_one else "", limit=1).events:
        one_by_one += found
    assert one_by_one == every


def test_text_comes_while_the_model_speaks_and_its_card_has_the_rest(house: House) -> None:
    head = house.running()
    step = step_of(house, head)
    say(house, head, step, "It is")
    first = page(house, head)
    assert (kinds(first), first.over) == ([("step", ""), ("text", "It is")], False)
    say(house, head, step, "It is fi")
    second = page(house, head, first.position)
    assert kinds(second) == [("text", " fi")]
    assert page(house, head, second.position).is_empty
    ending = replace(
        house.ending(head), cards=[thought(house, head, step, "It is five.")], step=StepEnd(step)
    )
    house.write(lambda tx: finish(tx, head, ending))
    rest = [("text", "ve."), ("message", "It is five."), ("result", "done")]
    assert kinds(page(house, head, second.position)) == rest
    assert kinds(page(house, head)) == [("step", ""), ("text", "It is five."), *rest[1:]]


def test_text_of_a_call_that_came_to_nothing_is_not_continued(house: House) -> None:
    """A provider's stream broke, and the model said something else: the message is what counts."""
    head = house.running()
    step = step_of(house, head)
    say(house, head, step, "It was")
    begun = page(house, head)
    ending = replace(house.ending(head), cards=[thought(house, head, step, "It is five.")])
    house.write(lambda tx: finish(tx, head, ending))
    assert kinds(page(house, head, begun.position)) == [("message", "It is five."), ("result", "done")]


def test_a_turn_that_was_taken_over_goes_on_in_the_stream(house: House) -> None:
    head = house.running(lease_ms=-1)
    say(house, head, step_of(house, head), "It")
    begun = page(house, head)
    taken = house.write(lambda tx: takeover(tx, house.ref(head), "worker-2"))
    after, again = taken.payload["head"], new_id("step")
    house.write(lambda tx: open_step(tx, after, again))
    say(house, after, again, "They")
    say(house, head, step_of(house, head), "too late", epoch=head.turn_epoch)
    found = page(house, head, begun.position)
    assert (kinds(found), {event.step for event in found.events}) == ([("step", ""), ("text", "They")], {1})


def test_a_turn_that_fails_and_one_that_waits(house: House) -> None:
    head = house.running()
    ending = house.ending(head, TaskStatus.FAILED, error="it broke", error_code="broken")
    house.write(lambda tx: finish(tx, head, ending))
    last = page(house, head).events[-1]
    assert (last.kind, last.text, last.status, last.error_code) == ("failed", "it broke", "failed", "broken")
    queued = house.dispatched("bob")
    assert (page(house, queued).events, page(house, queued).over) == ([], False)


def test_what_is_no_turn_or_no_position(house: House) -> None:
    with pytest.raises(NotFoundError, match="no turn 'turn_x'"):
        house.read(lambda tx: read_turn_page(tx, house.project, "turn_x", EventPosition(), 1))
    for wrong in ("x", "1.2.3", "1.2.3.-4", "1.2.3.4.5", "²"):
        with pytest.raises(InputError, match="not the position"):
            EventPosition.of(wrong)


def add(a: int, b: int) -> int:
    """The sum of two numbers."""
    return a + b


def test_a_stream_of_another_process_has_text_before_the_model_is_done(database_url: str) -> None:
    """The reader has a connection and an engine of its own, as another process has."""
    model = SpeakingModel([calls("add", {"a": 2, "b": 3}), ["It is ", "five", "."]])

    async def story() -> list[AgentEvent]:
        seen: list[AgentEvent] = []
        async with open_agents(database_url, model=model) as agents, open_agents(database_url) as reader:
            await agents.define("clerk", "You add.", tools=[add])
            async for event in reader.stream("clerk", "2 and 3?"):
                seen.append(event)
                if event.kind == "text":
                    model.go_on()  # each piece is awaited before the next one is said
            turn = TurnRef("main", "clerk", seen[0].turn)
            again = [event async for event in reader.events(turn)]
        assert [each.kind for each in again if each.kind != "text"] == [
            each.kind for each in seen if each.kind != "text"
        ]
        return seen

    seen = asyncio.run(asyncio.wait_for(story(), 60))
    assert [event.text for event in seen if event.kind == "text"] == ["It is ", "five", "."]
    others = [event.kind for event in seen if event.kind != "text"]
    assert others == ["step", "tool-call", "tool-result", "step", "message", "result"]
