"""Tasks, servers, schedules and the audit log."""

from __future__ import annotations

import re

from playwright.sync_api import Page, expect

from browser.gestures import confirm, heading, row
from browser.live_system import LiveSystem
from browser.seeds import Seeds


def test_tasks_are_listed_and_say_why_they_wait(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/tasks")
    expect(row(page, "Tasks", "shop.Deliver").first).to_contain_text("nobody")
    expect(row(page, "Tasks", "shop.Gate").first).to_contain_text("running")
    expect(row(page, "Tasks", "shop.Price").first).to_contain_text("human:finance")
    row(page, "Tasks", "shop.Deliver").first.get_by_role("link", name="shop.Deliver").click()
    expect(heading(page)).to_have_text("shop.Deliver")
    expect(page.locator(".why")).to_contain_text("shop.Deliver")
    page.get_by_role("link", name=f"Run {seeds.waiting[:10]}").click()
    expect(heading(page)).to_contain_text("shop.Unserved")


def test_tasks_appear_and_go_while_one_looks(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/tasks")
    run = live.submit("Held", name="a task that goes")
    of_run = page.locator(f"a[href='/runs/{run}']")
    mine = page.get_by_role("table", name="Tasks").locator("tbody tr", has=of_run, has_text="shop.Gate")
    expect(mine).to_contain_text("running")
    live.open_gate("a task that goes")
    expect(mine).to_have_count(0)


def test_servers_say_what_they_do_and_that_they_live(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/servers")
    server = row(page, "Servers", "shop-floor")
    expect(server).to_contain_text("shop.Look")
    server.get_by_role("link", name="shop-floor").click()
    expect(heading(page)).to_have_text("shop-floor")
    expect(page.get_by_role("main")).to_contain_text("shop.Fragile")


def test_a_schedule_is_paused_and_goes_on(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/schedules")
    expect(row(page, "Schedules", "morning")).to_contain_text("0 6 * * 1-5")
    row(page, "Schedules", "morning").get_by_role("button", name="Pause").click()
    expect(row(page, "Schedules", "morning")).to_contain_text("paused")
    row(page, "Schedules", "morning").get_by_role("button", name="Unpause").click()
    expect(row(page, "Schedules", "morning")).to_contain_text("scheduled")


def test_a_schedule_is_added_and_removed(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/schedules/new")
    page.get_by_label("Workflow", exact=True).select_option("shop.Inventory")
    page.get_by_label("When").fill("30 4 * * *")
    page.get_by_label("Time zone").fill("Europe/Rome")
    page.get_by_role("button", name="Show the next times").click()
    expect(page.get_by_label("When")).to_have_value("30 4 * * *")
    page.get_by_text("Name, missed times, task list").click()
    page.get_by_label("Name", exact=False).last.fill("before dawn")
    page.get_by_role("button", name="Add", exact=True).click()
    expect(row(page, "Schedules", "before dawn")).to_contain_text("Europe/Rome")
    confirm(page, row(page, "Schedules", "before dawn").get_by_role("button", name="Remove"))
    expect(row(page, "Schedules", "morning")).to_be_visible()
    expect(row(page, "Schedules", "before dawn")).to_have_count(0)


def test_every_action_stands_in_the_audit_log(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="audited")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Pause").click()
    expect(heading(page)).to_contain_text("paused")
    page.goto(f"/audit?subject={run}")
    entry = row(page, "Actions, newest first", run).first
    expect(entry).to_contain_text("pause")
    expect(entry).to_contain_text("127.0.0.1")
    page.get_by_role("textbox", name="Action").fill("cancel")
    page.get_by_role("textbox", name="Action").press("Enter")
    expect(page).to_have_url(re.compile("operation=cancel"))
    expect(page.get_by_role("heading", name="No action fits")).to_be_visible()
    live.open_gate("audited")
