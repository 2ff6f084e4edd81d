"""The inbox of those who are asked: approve, edit, reject; and that others see it."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from browser.gestures import heading
from browser.live_system import LiveSystem
from browser.page_watch import PageWatch
from browser.seeds import Seeds


def question(page: Page, live: LiveSystem, run: str) -> None:
    """Open the approval that a run waits for."""
    task = live.waiting_task(run)
    page.goto("/approvals")
    page.locator(f"a[href='/approvals/{task}']").click()
    expect(page).to_have_url(re.compile(task))


def test_an_approval_is_edited_and_approved(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Priced", item="sugar", price=0.9)
    question(page, live, run)
    expect(page.get_by_role("main")).to_contain_text("sugar")
    expect(page.get_by_label("price")).to_have_value("0.9")
    page.get_by_label("price").fill("1.1")
    page.get_by_label("note").fill("rounded up")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".flash")).to_be_visible()
    live.until(run, "completed")
    assert live.run(run).outputs == {"price": 1.1, "note": "rounded up"}
    page.goto("/approvals?view=answered")
    expect(page.get_by_role("region", name="Approvals")).to_contain_text("answered")


def test_an_answer_that_does_not_fit_is_refused(
    page: Page, live: LiveSystem, seeds: Seeds, watch: PageWatch
) -> None:
    watch.expect_status(422)
    question(page, live, seeds.priced)
    page.get_by_label("price").fill("a lot")
    page.get_by_role("button", name="Approve").click()
    expect(page.get_by_role("alert").first).to_contain_text("invalid")
    expect(page.get_by_label("price")).to_have_attribute("aria-invalid", "true")
    assert live.run(seeds.priced).state == "running"


def test_a_rejection_fails_the_step_with_its_feedback(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Priced", item="gold", price=1.0)
    question(page, live, run)
    page.get_by_label("Feedback").fill("nobody buys that")
    page.get_by_role("button", name="Reject").click()
    live.until(run, "failed")
    page.goto(f"/runs/{run}")
    expect(page.get_by_role("region", name="It failed")).to_contain_text("nobody buys that")


def test_a_plain_yes_needs_no_form(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Signed", paper="the lease")
    question(page, live, run)
    expect(page.get_by_role("main")).to_contain_text("the lease")
    page.get_by_role("button", name="Approve").click()
    expect(page.locator(".flash")).to_be_visible()
    live.until(run, "completed")


def test_a_new_question_appears_in_an_open_inbox(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/approvals")
    expect(heading(page)).to_have_text("Approvals")
    run = live.submit("Priced", item="pepper", price=2.0)
    task = live.waiting_task(run)
    expect(page.locator(f"a[href='/approvals/{task}']")).to_be_visible()


def test_what_is_chosen_stays_chosen_when_a_new_question_appears(
    page: Page, live: LiveSystem, seeds: Seeds
) -> None:
    chosen = live.waiting_task(live.submit("Signed", paper="the first"))
    page.goto("/approvals?group=boss")
    page.locator(f"input[value='{chosen}']").check()
    new = live.waiting_task(live.submit("Signed", paper="the second"))
    expect(page.locator(f"input[value='{new}']")).to_be_visible()
    expect(page.locator(f"input[value='{chosen}']")).to_be_checked()
    expect(page.get_by_role("button", name="Answer 1")).to_be_enabled()


def test_groups_and_the_badge_count_what_waits(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    live.waiting_task(live.submit("Signed", paper="a letter"))
    page.goto("/approvals")
    page.get_by_role("navigation", name="Groups").get_by_role("link", name="boss").click()
    expect(page.get_by_role("region", name="Approvals")).to_contain_text("shop.Signed")
    expect(page.get_by_role("region", name="Approvals")).not_to_contain_text("shop.Priced")
    expect(page.get_by_role("link", name=re.compile("^Approvals"))).to_contain_text(re.compile("[0-9]"))


def test_several_are_chosen_previewed_and_approved(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    runs = [live.submit("Signed", paper=f"contract {number}") for number in (1, 2, 3)]
    tasks = [live.waiting_task(run) for run in runs]
    page.goto("/approvals?group=boss")
    inbox = page.get_by_role("region", name="Approvals")
    expect(inbox).to_contain_text("contract 3")
    for task in tasks[:2]:
        page.locator(f"input[value='{task}']").check()
    page.get_by_role("button", name="Answer 2").click()
    expect(heading(page)).to_have_text("Answer 2 approvals")
    expect(page.get_by_role("table", name="What would be answered")).to_contain_text("contract 2")
    page.get_by_role("button", name="Approve 2").click()
    expect(page.locator(".flash")).to_contain_text("Approved 2 approvals")
    for run in runs[:2]:
        live.until(run, "completed")
    assert live.run(runs[2]).state == "running"
