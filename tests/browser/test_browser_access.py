"""Who may come in and what they may do, where a dashboard has users."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, Request, Route, expect
from support.chromium import Chromium

from afl.operations.access import add_user
from afl.operations.roles import Role
from browser.accessibility import check_accessible, check_fits
from browser.gestures import heading
from browser.live_system import LiveSystem
from browser.looks import LOOKS, Look
from browser.page_watch import PageWatch
from browser.seeds import Seeds


@dataclass(frozen=True)
class Guarded:
    """A dashboard of the same system that demands a login, and everybody's token."""

    url: str
    tokens: dict[str, str]


@pytest.fixture(scope="module")
def guarded(live: LiveSystem, tmp_path_factory: pytest.TempPathFactory) -> Guarded:
    config: Path = tmp_path_factory.mktemp("users") / "afl.config.json"
    roles = {"vera": Role.VIEWER, "otto": Role.OPERATOR, "ada": Role.ADMIN}
    tokens = {name: add_user(config, name, role) for name, role in roles.items()}
    return Guarded(live.dashboard(AFL_CONFIG=str(config)), tokens)


@pytest.fixture
def visitor(guarded: Guarded, watch: PageWatch, page: Page) -> Iterator[Page]:
    """A page of the guarded dashboard, before anybody logged in."""
    watch.allow_host(guarded.url)
    page.goto(f"{guarded.url}/login")
    yield page


def log_in(page: Page, guarded: Guarded, name: str) -> None:
    page.goto(f"{guarded.url}/login")
    page.get_by_label("Token").fill(guarded.tokens[name])
    page.get_by_role("button", name="Log in").click()
    expect(heading(page)).to_have_text("Runs")


def test_the_login_page_is_accessible_and_fits(visitor: Page, look: Look) -> None:
    check_accessible(visitor)
    check_fits(visitor)


def test_nobody_sees_anything_before_the_login(visitor: Page, guarded: Guarded, seeds: Seeds) -> None:
    for path in ("/runs", f"/runs/{seeds.completed}", "/audit", "/approvals"):
        visitor.goto(guarded.url + path)
        expect(visitor.get_by_label("Token")).to_be_visible()
        assert "shop." not in visitor.content()


def test_a_wrong_token_is_refused(visitor: Page, watch: PageWatch) -> None:
    watch.expect_status(401)
    visitor.get_by_label("Token").fill("not a token")
    visitor.get_by_role("button", name="Log in").click()
    expect(visitor.get_by_role("alert")).to_be_visible()


def test_the_login_leads_to_the_page_that_was_asked_for(
    visitor: Page, guarded: Guarded, seeds: Seeds
) -> None:
    visitor.goto(f"{guarded.url}/runs/{seeds.completed}?view=tree")
    visitor.get_by_label("Token").fill(guarded.tokens["vera"])
    visitor.get_by_role("button", name="Log in").click()
    expect(heading(visitor)).to_contain_text("shop.Inventory")
    expect(visitor).to_have_url(re.compile("view=tree"))


def test_the_session_is_in_a_cookie_that_no_script_reads(
    visitor: Page, guarded: Guarded, context: BrowserContext
) -> None:
    log_in(visitor, guarded, "otto")
    session = next(each for each in context.cookies() if each["name"] == "afl-session")
    assert session["httpOnly"] and session["sameSite"] == "Strict"
    assert "afl-session" not in visitor.evaluate("document.cookie")
    visitor.get_by_role("button", name="Log out").click()
    expect(visitor.get_by_label("Token")).to_be_visible()
    visitor.goto(f"{guarded.url}/runs")
    expect(visitor.get_by_label("Token")).to_be_visible()


def test_a_logout_takes_back_what_the_page_had_asked_for(visitor: Page, guarded: Guarded) -> None:
    """Else it is refused before the next page comes, and the refused page reloads itself in between."""
    asked, taken_back = list[Route](), list[Request]()

    def answer(route: Route) -> None:
        """The session is over, and the page is still there."""
        ended = route.fetch(max_redirects=0)
        while len(taken_back) < len(asked):
            visitor.wait_for_event("requestfailed")
        route.fulfill(response=ended)

    def failed(request: Request) -> None:
        taken_back.extend([request] if "/fragment/" in request.url else [])

    visitor.on("requestfailed", failed)
    visitor.route("**/fragment/**", lambda route: asked.append(route))
    visitor.route("**/logout", answer)
    log_in(visitor, guarded, "otto")
    while not asked:
        visitor.wait_for_timeout(1)
    gone_to = list[str]()
    visitor.on("request", lambda request: gone_to.extend([request.url] * request.is_navigation_request()))
    visitor.get_by_role("button", name="Log out").click()
    expect(visitor.get_by_label("Token")).to_be_visible()
    assert gone_to == [f"{guarded.url}/logout", f"{guarded.url}/login"]


def test_a_logout_reaches_the_other_pages_of_the_session(
    visitor: Page, guarded: Guarded, context: BrowserContext
) -> None:
    """Nobody clicks there: the stream of that page ends, and it goes to the login by itself."""
    log_in(visitor, guarded, "vera")
    other = context.new_page()
    other.goto(f"{guarded.url}/tasks")
    expect(other.locator("[data-link-state]")).to_have_text("live")
    visitor.get_by_role("button", name="Log out").click()
    expect(other.get_by_label("Token")).to_be_visible()


def test_an_open_page_goes_to_the_login_when_its_session_is_gone(
    visitor: Page, guarded: Guarded, context: BrowserContext, watch: PageWatch
) -> None:
    """As after a restart of the dashboard, which forgets its sessions: the stream of events is refused."""
    log_in(visitor, guarded, "vera")
    visitor.goto(f"{guarded.url}/tasks")
    expect(visitor.locator("[data-link-state]")).to_have_text("live")
    watch.expect_status(401)
    context.clear_cookies()
    for event in ("pagehide", "pageshow"):
        visitor.evaluate("name => dispatchEvent(new PageTransitionEvent(name))", event)
    expect(visitor.get_by_label("Token")).to_be_visible()


def test_what_was_sent_without_a_session_leads_to_the_login(
    browser: Chromium, guarded: Guarded, seeds: Seeds
) -> None:
    """Without scripts: with them a page leaves by itself, and may have left before the click."""
    with browser.context(java_script_enabled=False, **LOOKS[0].options) as context:
        page = context.new_page()
        log_in(page, guarded, "otto")
        page.goto(f"{guarded.url}/runs/{seeds.running}")
        context.clear_cookies()
        page.get_by_role("button", name="Pause").click()
        page.get_by_role("link", name="Log in").click()
        page.get_by_label("Token").fill(guarded.tokens["otto"])
        page.get_by_role("button", name="Log in").click()
        expect(page).to_have_url(f"{guarded.url}/runs/{seeds.running}")


def test_a_viewer_has_no_buttons_that_act(visitor: Page, guarded: Guarded, seeds: Seeds) -> None:
    log_in(visitor, guarded, "vera")
    pages = (
        "/runs",
        f"/runs/{seeds.running}",
        f"/runs/{seeds.failed}",
        f"/runs/{seeds.failed}/steps/piece",
        "/start",
        "/approvals",
        "/schedules",
        "/agents/clerk",
        "/fleet/workflows/nightly",
        "/messages",
        "/messages/dead",
    )
    allowed = {"/theme", "/logout", "/start/source"}
    for path in pages:
        visitor.goto(guarded.url + path)
        acts = visitor.locator("form[method=post]").evaluate_all(
            "forms => forms.map(f => f.getAttribute('action'))"
        )
        assert set(acts) <= allowed, f"{path}: {acts}"


def test_a_viewer_who_acts_all_the_same_is_refused(
    visitor: Page, guarded: Guarded, live: LiveSystem, seeds: Seeds, watch: PageWatch
) -> None:
    log_in(visitor, guarded, "vera")
    watch.expect_status(403)
    visitor.goto(f"{guarded.url}/runs/{seeds.running}")
    visitor.evaluate(
        """run => { const form = document.createElement("form"); form.method = "post";
        form.action = `/runs/${run}/cancel`; document.body.append(form); form.submit() }""",
        seeds.running,
    )
    expect(visitor.get_by_role("alert")).to_contain_text("viewer")
    assert live.run(seeds.running).state == "running"


def test_an_operator_acts_under_their_name(
    visitor: Page, guarded: Guarded, live: LiveSystem, seeds: Seeds
) -> None:
    log_in(visitor, guarded, "otto")
    run = live.submit("Held", name="operated")
    visitor.goto(f"{guarded.url}/runs/{run}")
    visitor.get_by_role("button", name="Pause").click()
    expect(heading(visitor)).to_contain_text("paused")
    expect(visitor.get_by_role("main")).to_contain_text("otto")
    live.open_gate("operated")


def test_a_form_of_another_site_is_refused(
    visitor: Page, guarded: Guarded, live: LiveSystem, seeds: Seeds, watch: PageWatch
) -> None:
    log_in(visitor, guarded, "ada")
    watch.allow_host(guarded.url, "http://evil.test")
    watch.expect_status(303, 401, 403)
    form = f"<form method=post action='{guarded.url}/runs/{seeds.running}/cancel'><button>Win a prize</button></form>"
    visitor.route("http://evil.test/", lambda route: route.fulfill(content_type="text/html", body=form))
    visitor.goto("http://evil.test/")
    visitor.get_by_role("button", name="Win a prize").click()
    visitor.wait_for_url(re.compile(re.escape(guarded.url)))
    assert live.run(seeds.running).state == "running"
