"""Messages: queues, dead letters, who is registered, circuit breakers."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from playwright.sync_api import Page, expect
from redis.asyncio import Redis

from afl.coordination import RedisMessageCoordinator
from browser.gestures import confirm, heading, row, told
from browser.live_system import LiveSystem
from browser.seeds import MARKUP, Seeds, send_dead_letter


def with_coordinator(live: LiveSystem, work: Callable[[RedisMessageCoordinator], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with (
            Redis.from_url(live.settings.redis) as redis,
            RedisMessageCoordinator(redis) as coordinator,
        ):
            await work(coordinator)

    live.do(asyncio.run, connected())


def test_queues_agents_and_breakers_are_listed(page: Page, seeds: Seeds) -> None:
    page.goto("/messages")
    expect(row(page, "Queues", "clerk:1")).to_contain_text("3")
    expect(row(page, "Registered agents", "clerk:2")).to_contain_text("alive")
    expect(row(page, "Registered agents", "clerk:2")).to_contain_text("weigh")
    expect(row(page, "Circuit breakers", "scale")).to_contain_text("closed")


def test_a_breaker_is_opened_closed_and_reset(page: Page, seeds: Seeds) -> None:
    page.goto("/messages")
    row(page, "Circuit breakers", "scale").get_by_role("button", name="Open").click()
    expect(row(page, "Circuit breakers", "scale")).to_contain_text("opened by hand")
    row(page, "Circuit breakers", "scale").get_by_role("button", name="Close").click()
    expect(row(page, "Circuit breakers", "scale")).to_contain_text("closed")
    confirm(page, row(page, "Circuit breakers", "scale").get_by_role("button", name="Reset"))
    expect(row(page, "Circuit breakers", "scale")).not_to_contain_text("by hand")


def test_a_dead_letter_says_why_and_goes_back_in_line(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    with_coordinator(live, lambda coordinator: send_dead_letter(coordinator, "to-requeue"))
    page.goto("/messages/dead")
    row(page, "Dead letters", "to-requeue").get_by_role("link", name="to-requeue").click()
    expect(heading(page)).to_have_text("to-requeue")
    expect(page.get_by_role("main")).to_contain_text(f"no box is large enough {MARKUP}")
    page.get_by_role("button", name="Requeue").click()
    told(page, "")
    page.goto("/messages/dead")
    expect(row(page, "Dead letters", "order-dead")).to_be_visible()
    expect(row(page, "Dead letters", "to-requeue")).to_have_count(0)


def test_a_dead_letter_is_thrown_away(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto("/messages/dead")
    with_coordinator(live, lambda coordinator: send_dead_letter(coordinator, "to-purge"))
    expect(row(page, "Dead letters", "to-purge")).to_be_visible()  # it came while we looked
    confirm(page, row(page, "Dead letters", "to-purge").get_by_role("button", name="Purge"))
    told(page, "")
    expect(row(page, "Dead letters", "to-purge")).to_have_count(0)
