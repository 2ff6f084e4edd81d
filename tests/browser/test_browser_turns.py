"""Turns: agents, transcripts with cards and tool calls, live; sending and stopping."""

from __future__ import annotations

import re

from playwright.sync_api import Locator, Page, expect

from afl.operations.turn import turns
from afl.operations.turn.turn_store import TurnStore
from browser.gestures import confirm, heading, row
from browser.live_system import LiveSystem
from browser.seeds import Seeds


def transcript(page: Page) -> Locator:
    return page.get_by_role("list", name="Transcript")


def test_agents_and_turns_are_listed(page: Page, seeds: Seeds) -> None:
    page.goto("/turns")
    expect(row(page, "Agents", "clerk")).to_be_visible()
    row(page, "Latest turns", "success").first.get_by_role("link").first.click()
    expect(heading(page)).to_have_text("Turn of clerk")


def test_a_transcript_has_cards_calls_and_what_was_delivered(page: Page, seeds: Seeds) -> None:
    page.goto(f"/turns/{seeds.turn}")
    for text in ("How much is there of", "I look it up.", "stock", "In short: 12 of"):
        expect(transcript(page)).to_contain_text(text)
    transcript(page).locator("summary", has_text="stock").click()
    expect(transcript(page)).to_contain_text("Arguments")
    expect(page.get_by_role("main")).to_contain_text("$")


def test_a_message_is_sent_and_its_turn_is_followed_live(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/agents/clerk")
    page.get_by_label("Send clerk a message").fill("Ask the back room about tins")
    page.get_by_role("button", name="Send").click()
    expect(page).to_have_url(re.compile("/turns/"))
    expect(transcript(page)).to_contain_text("ask_back_room")
    expect(transcript(page)).not_to_contain_text("In short")
    live.open_gate("tins")
    expect(transcript(page)).to_contain_text("In short: the back room says: tins")
    expect(page.get_by_role("region", name="Transcript")).to_contain_text("success")


def test_text_is_shown_while_the_model_speaks(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    turn = live.do(turns.send, TurnStore(live.settings), "clerk", "Talk about jam")
    page.goto(f"/turns/{turn.agent_turn_id}")
    now = transcript(page).get_by_role("listitem").filter(has_text="says now")
    expect(now).to_contain_text("It takes a while")
    live.open_gate("jam")
    expect(transcript(page)).to_contain_text("It takes a while to tell.")
    expect(now).to_have_count(0)


def test_a_turn_that_another_process_sends_appears(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/agents/clerk")
    rows = page.get_by_role("table", name="Turns of clerk").locator("tbody tr")
    before = rows.count()
    turn = live.do(turns.send, TurnStore(live.settings), "clerk", "How much flour")
    expect(page.locator(f"a[href='/turns/{turn.agent_turn_id}']").first).to_be_visible()
    expect(rows).to_have_count(before + 1)


def test_a_turn_is_stopped(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    turn = live.do(turns.send, TurnStore(live.settings), "clerk", "Ask the back room about never")
    page.goto(f"/turns/{turn.agent_turn_id}")
    expect(transcript(page)).to_contain_text("ask_back_room")
    confirm(page, page.get_by_role("button", name="Stop"))
    expect(page.get_by_role("region", name="Transcript")).to_contain_text("canceled")
    live.open_gate("never")
