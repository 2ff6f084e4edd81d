"""One run: graph, timeline, tree, log; what can be done to it; why it is stuck; and all of it live."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from afl.operations.run import control
from browser.accessibility import check_fits
from browser.gestures import confirm, heading, told
from browser.live_system import LiveSystem
from browser.looks import LOOKS, Look
from browser.page_watch import PageWatch
from browser.seeds import MANY, Seeds


def node(page: Page, step: str) -> Locator:
    return page.locator(f".graph [data-id='{step}']")


def choose(page: Page, view: str) -> None:
    page.get_by_role("navigation", name="Views of the run").get_by_role("link", name=view).click()
    expect(page.get_by_role("link", name=view, exact=True)).to_have_attribute("aria-current", "page")


def test_the_graph_shows_steps_with_their_states(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    expect(heading(page)).to_contain_text("shop.Inventory")
    expect(heading(page)).to_contain_text("completed")
    graph = page.get_by_role("group", name=re.compile("Graph of the run"))
    for name in ("found", "cards", "call", "broken"):
        expect(graph.get_by_role("link", name=re.compile(rf"^{name}\b"))).not_to_have_count(0)


def test_the_elements_of_a_foreach_are_folded_with_counts(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.many}")
    expect(page.locator(".graph")).to_contain_text(str(MANY))
    assert page.locator(".graph .node").count() < 20


def test_a_run_that_is_over_is_drawn_once(page: Page, seeds: Seeds) -> None:
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    with page.expect_response(re.compile("/fragment/head$")):
        page.goto(f"/runs/{seeds.completed}")
    assert not [url for url in asked if "/graph-states" in url]
    assert len([url for url in asked if "/fragment/navigation" in url]) == 1


def test_a_body_is_unfolded_and_folded_again(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    before = page.locator(".graph .node").count()
    toggle = page.locator(".graph [data-toggle]").first
    was_open = "Fold" in (toggle.get_attribute("aria-label") or "").split()[0]
    toggle.click()
    expect(page.locator(".graph .node")).not_to_have_count(before)
    after = page.locator(".graph .node").count()
    assert (after < before) is was_open
    page.reload()
    expect(page.locator(".graph .node").first).to_be_visible()


def test_a_step_opens_beside_the_graph(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    page.get_by_role("link", name=re.compile(r"^call\b")).first.click()
    panel = page.get_by_role("complementary", name="Step")
    expect(panel).to_be_visible()
    expect(panel).to_contain_text("shop.Busy")
    expect(panel).to_contain_text("attempt 2 to reach the office")
    panel.get_by_role("button", name="Close").click()
    expect(panel).to_be_hidden()


def test_the_timeline_has_a_bar_for_each_place(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    choose(page, "Timeline")
    steps = page.get_by_role("table", name="Steps over time")
    for name in ("found", "cards", "call"):
        expect(steps.get_by_role("link", name=name, exact=True)).to_be_visible()
    expect(steps.get_by_role("img", name=re.compile("^call, .*after the start"))).to_be_visible()


def test_the_tree_has_counts_attempts_and_what_was_caught(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    choose(page, "Tree")
    tree = page.get_by_role("region", name="Tree")
    expect(tree).to_contain_text("×3")
    expect(tree).to_contain_text("2 attempts")
    expect(tree).to_contain_text("caught: never mended is broken")


def test_the_log_is_there(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}")
    choose(page, "Log")
    expect(page.get_by_role("list", name="Log")).to_contain_text("flour is on the scale")


def test_a_failure_names_the_step_the_line_and_the_cause(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.failed}")
    box = page.get_by_role("region", name="It failed")
    expect(box).to_contain_text("vase is broken")
    expect(box).to_contain_text("shop.Fragile")
    expect(box).to_contain_text("shop.afl")
    expect(box.locator("pre")).to_contain_text("piece = Fragile(name = $.name)")


def test_a_step_has_inputs_outputs_attempts_logs_and_model_costs(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}/steps/call")
    expect(page.get_by_role("heading", level=1)).to_contain_text("call")
    for text in ("office", "hello", "attempt 1 to reach the office"):
        expect(page.get_by_role("main")).to_contain_text(text)
    attempts = page.get_by_role("table", name="Attempts of the step")
    first, second = attempts.get_by_role("row").filter(has_text=re.compile("failed|completed")).all()
    expect(first).to_contain_text("LineBusy: the line to the office is busy")
    expect(first.get_by_text("raise LineBusy")).to_be_hidden()
    first.get_by_text("traceback", exact=True).click()
    expect(first.get_by_text("raise LineBusy")).to_be_visible()
    expect(second).to_contain_text("completed")
    page.goto(f"/runs/{seeds.completed}?view=tree")
    page.get_by_role("link", name="words", exact=True).click()
    panel = page.get_by_role("complementary", name="Step")
    panel.get_by_role("link", name="cards[0].card.words").click()
    expect(page.get_by_role("table", name="Model calls")).to_contain_text("claude-sonnet-4-6")
    expect(page.get_by_role("table", name="Model calls")).to_contain_text("$0.0048")


def test_why_a_run_does_not_move(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.waiting}")
    expect(page.locator(".why")).to_contain_text("shop.Deliver")


def test_a_failed_run_is_retried_and_completes(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.until(live.submit("Mended", name="lamp"), "failed")
    page.goto(f"/runs/{run}")
    live.open_gate("lamp")
    confirm(page, page.get_by_role("button", name="Retry", exact=True))
    told(page, "1 step will be tried again")
    expect(heading(page)).to_contain_text("completed")


def test_one_step_is_retried(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.until(live.submit("Mended", name="mirror"), "failed")
    live.open_gate("mirror")
    page.goto(f"/runs/{run}/steps/piece")
    page.get_by_role("button", name="Retry step").click()
    live.until(run, "completed")
    page.goto(f"/runs/{run}")
    expect(heading(page)).to_contain_text("completed")


def test_a_run_is_paused_and_goes_on(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="pausing")
    page.goto(f"/runs/{run}")
    page.get_by_role("button", name="Pause").click()
    expect(heading(page)).to_contain_text("paused")
    live.open_gate("pausing")
    page.get_by_role("button", name="Unpause").click()
    expect(heading(page)).to_contain_text("completed")


def test_a_run_is_canceled_only_when_meant(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="never opened")
    page.goto(f"/runs/{run}")
    page.wait_for_load_state()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("dialog").get_by_role("button", name="Back").click()
    expect(heading(page)).to_contain_text("running")
    confirm(page, page.get_by_role("button", name="Cancel", exact=True))
    expect(heading(page)).to_contain_text("canceled")
    assert live.run(run).state == "canceled"


@pytest.mark.parametrize("view", ["graph", "timeline", "tree"])
def test_what_another_process_changes_is_seen(page: Page, live: LiveSystem, seeds: Seeds, view: str) -> None:
    gate = f"seen in the {view}"
    run = live.submit("Held", name=gate)
    page.goto(f"/runs/{run}?view={view}")
    expect(heading(page)).to_contain_text("running")
    live.open_gate(gate)
    expect(heading(page)).to_contain_text("completed")
    if view == "graph":
        expect(node(page, "0/gate")).to_have_class(re.compile("done"))
    else:
        expect(page.locator("[data-key='0/gate']")).to_contain_text("gate")


def test_a_change_leaves_what_a_person_opened(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="folded")
    page.goto(f"/runs/{run}?view=tree")
    inputs = page.locator("details", has_text="Inputs").first
    inputs.locator("summary").first.click()
    expect(inputs).to_have_attribute("open", "")
    live.open_gate("folded")
    expect(heading(page)).to_contain_text("completed")
    expect(inputs).to_have_attribute("open", "")


# The head of a run that has just ended may be read between the two: still running, and no reason any more.
_WITHOUT_REASON = """async () => {
  const { swap } = await import(new URL("live.js", document.querySelector("script[type=module]").src));
  const head = document.querySelector(".why").closest("[data-live]");
  const next = head.cloneNode(true);
  next.querySelector(".why").remove();
  next.querySelectorAll("details").forEach((each) => (each.open = false));
  swap(head, next.outerHTML);
  return [...head.querySelectorAll(".why, details[open] h2")].map((each) => each.textContent);
}"""


def test_a_box_that_goes_away_leaves_what_a_person_opened(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    run = live.submit("Held", name="paused, then opened")
    control.pause(live.store, run)
    page.goto(f"/runs/{run}?view=tree")
    expect(page.get_by_role("heading", name="Why it is stuck")).to_be_visible()
    inputs = page.locator("details", has_text="Inputs").first
    inputs.locator("summary").first.click()
    expect(inputs).to_have_attribute("open", "")
    assert page.evaluate(_WITHOUT_REASON) == ["Inputs"]


def test_nothing_moves_for_whoever_asked_for_less_motion(page: Page, live: LiveSystem, seeds: Seeds) -> None:
    page.goto(f"/runs/{live.submit('Held', name='without motion')}")
    expect(heading(page)).to_contain_text("running")
    expect(page.locator(".state.running i").first).to_be_visible()
    assert page.evaluate("document.getAnimations().length") == 0


def test_the_log_is_filtered_while_somebody_types_and_downloaded(page: Page, seeds: Seeds) -> None:
    page.goto(f"/runs/{seeds.completed}?view=log")
    log = page.get_by_role("list", name="Log")
    expect(log).to_contain_text("flour is on the scale")
    page.get_by_label("Text", exact=True).fill("OFFICE")
    expect(log).not_to_contain_text("flour is on the scale")
    expect(log).to_contain_text("attempt 2 to reach the office")
    page.get_by_label("Level", exact=True).select_option("error")
    expect(log).not_to_contain_text("attempt 2 to reach the office")
    expect(log).to_contain_text("attempt 1 failed: LineBusy")
    expect(page).to_have_url(re.compile("grep=OFFICE&level=error"))
    with page.expect_download() as started:
        page.get_by_role("link", name="Download").click()
    assert "attempt 1 failed: LineBusy" in started.value.path().read_text()
    page.goto(f"/runs/{seeds.completed}/steps/call")
    first, second = page.get_by_role("table", name="Attempts of the step").get_by_role("row").all()[1:]
    expect(second.get_by_text("attempt 2 to reach the office")).to_be_visible()
    expect(first.get_by_text("attempt 1 to reach the office")).to_be_hidden()
    first.locator("summary", has_text="log").click()
    expect(first.get_by_text("attempt 1 to reach the office")).to_be_visible()
    expect(first.get_by_text("attempt 2 to reach the office")).to_have_count(0)


@pytest.mark.parametrize("look", LOOKS[-1:], ids=lambda look: look.name)
def test_graph_timeline_and_elements_on_a_phone(page: Page, seeds: Seeds, look: Look) -> None:
    page.goto(f"/runs/{seeds.completed}")
    expect(page.locator("[data-graph][data-narrow]")).to_be_visible()
    expect(node(page, "0/cards")).to_contain_text("Cards · foreach item")
    expect(page.locator(".node.yield")).to_have_count(0)
    choose(page, "Timeline")
    expect(page.get_by_role("img", name=re.compile("^attempt 1, failed, queued .*, ran"))).to_be_visible()
    expect(page.locator(".bar-row.is-critical").first).to_be_visible()
    page.goto(f"/runs/{seeds.many}/steps/0/%23/one")
    page.get_by_label("Value or error").fill("117")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_role("table", name="Steps").get_by_role("link")).to_have_text(["[117].one"])
    check_fits(page)


@pytest.mark.parametrize("look", LOOKS[-1:], ids=lambda look: look.name)
def test_long_words_do_not_make_a_page_wider_than_a_phone(
    page: Page, watch: PageWatch, live: LiveSystem, look: Look
) -> None:
    word = "w" * 200
    run = live.submit("Mended", name=word)
    live.until(run, "failed")
    page.goto(f"/runs/{run}?view=tree")
    expect(page.locator(".tree")).to_contain_text(word[:100])
    check_fits(page)
    watch.expect_status(404)
    page.goto(f"/runs/{word}")
    expect(page.get_by_role("alert")).to_contain_text(word)
    check_fits(page)
