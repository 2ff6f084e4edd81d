"""The pages about runs: the list, a run and its views, a step, the start of a workflow, what can be done."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from html import unescape

import pytest
from support.dashboard_pages import MARKUP, Visitors, visitors

from afl.kernel.ids import sortable_id
from afl.operations.run import control
from afl.runtime.entities import RunDefinition
from afl.runtime.stores.sql_store.tables import Q
from afl.runtime.types import WorkflowId

CHAIN = """namespace t {
    event facet Double(n: Long, note: String = "") => (m: Long)
    /** Doubles twice.
     * @param n what to double
     */
    workflow Chain(n: Long, note: String = "", fast: Boolean = false) => (m: Long) andThen {
        a = Double(n = $.n, note = $.note)
        b = Double(n = a.m)
        yield Chain(m = b.m)
    }
}
"""
EACH = """namespace t {
    event facet Double(n: Long) => (m: Long)
    facet All(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        one = Double(n = n)
        yield All(ms = [one.m])
    }
    workflow Each(ns: [Long]) => (ms: [Long]) andThen {
        all = All(ns = $.ns)
        yield Each(ms = all.ms)
    }
}
"""


@pytest.fixture
def house(store_url: str) -> Iterator[Visitors]:
    with visitors(store_url) as found:
        yield found


def double(n: int, note: str = "") -> dict[str, int]:
    return {"m": 2 * n}


def refuse(n: int, note: str = "") -> dict[str, int]:
    raise ValueError(f"{n} is refused {MARKUP}")


def refuse_even(n: int) -> dict[str, int]:
    return double(n) if n % 2 else refuse(n)


def state_of(house: Visitors, run: str) -> str:
    found = house.store.get_run(WorkflowId(run))
    assert found is not None
    return found.state


# -- the list --------------------------------------------------------------------------------------------------


def test_an_empty_list_says_how_to_begin(house: Visitors) -> None:
    assert "No runs yet" in house.viewer.read("/runs")
    assert "No run fits" in house.viewer.read("/runs?state=failed")
    assert house.viewer.client.get("/").headers["location"] == "/runs"


def test_runs_are_filtered_by_state_workflow_text_and_time(house: Visitors) -> None:
    done = house.run(CHAIN, {"n": 1}, Double=double)
    failed = house.run(CHAIN, {"n": 2}, Double=refuse)
    other = house.run(EACH, {"ns": [1]}, Double=double)

    def listed(query: str) -> list[str]:
        rows = re.findall(r'<tr data-key="([^"]+)"', house.viewer.open(f"/runs{query}"))
        assert rows or "No run fits" in house.viewer.read(f"/runs{query}")
        return rows

    assert listed("") == [other, failed, done]
    assert listed("?state=failed") == [failed]
    assert listed("?workflow=t.Each") == [other]
    assert listed("?text=is+refused") == [failed]
    assert listed(f"?text={done[-8:]}") == [done]
    assert listed("?text=<b>") == []
    assert listed("?span=1h&state=completed") == [other, done]


def test_a_long_list_has_pages_and_keeps_the_question(house: Visitors) -> None:
    for number in range(60):
        run = RunDefinition(sortable_id(), f"t.W{number % 2}", "hash", state="completed", settled=True)
        house.store.insert_run(run)
    first = house.viewer.open("/runs?state=completed")
    older = re.search(r'href="([^"]+)" rel="next"', first)
    assert older is not None
    second = house.viewer.open(unescape(older[1]))
    rows = [re.findall(r'<tr data-key="([^"]+)"', page) for page in (first, second)]
    assert [len(each) for each in rows] == [50, 10]
    assert not set(rows[0]) & set(rows[1])
    assert 'href="/runs?state=completed" rel="first"' in second
    gone = house.viewer.open("/runs?before=nothinglikethis")
    assert len(re.findall(r"<tr data-key=", gone)) == 50


def test_ten_thousand_runs_are_read_along_their_index(house: Visitors) -> None:
    """No sorting, and only as far as the page goes: what makes a list fast however long it is."""
    given: dict[str, object] = dict.fromkeys(("prefix", "state", "workflow", "before", "text"), "")
    given |= {"beyond": "z", "latest": 2**62, "roots": 0, "since": 0, "until": 0, "limit": 51}
    given |= {"tags": "[]", "tag_count": 0, "state": "failed", "behind": "z"}
    given |= dict.fromkeys(("longer", "shorter", "clock", "cost_from", "cost_to"), 0)
    with closing(sqlite3.connect(house.settings.store.removeprefix("sqlite:///"))) as file:
        steps = [row[3] for row in file.execute(f"explain query plan {Q.find_runs.sqlite}", given)]
        states = [row[3] for row in file.execute(f"explain query plan {Q.runs_in_state.sqlite}", given)]
        workflows = [row[3] for row in file.execute(f"explain query plan {Q.runs_of_workflow.sqlite}", given)]
        named = [row[3] for row in file.execute(f"explain query plan {Q.find_runs_named.sqlite}", given)]
    assert "ORDER BY" not in " ".join((*steps, *states, *workflows))
    assert "afl_runs_state (state=? AND (created,workflow_id)<(?,?))" in states[0]
    assert "afl_runs_workflow (workflow_name=? AND (created,workflow_id)<(?,?))" in workflows[0]
    assert "afl_runs_created (created>? AND created<?)" in steps[0]
    assert "PRIMARY KEY (workflow_id>? AND workflow_id<?)" in named[0]


def test_a_live_list_is_fetched_alone(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 1}, Double=double)
    page = house.viewer.open("/runs?state=completed")
    source = re.search(r'data-live="runs" data-src="([^"]+)"', page)
    assert source is not None
    part = house.viewer.open(unescape(source[1]))
    assert run in part
    assert "<html" not in part


# -- one run ---------------------------------------------------------------------------------------------------


def test_a_failed_run_shows_the_line_and_the_cause_as_text(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3, "note": MARKUP}, Double=refuse)
    html = house.viewer.open(f"/runs/{run}")
    text = house.viewer.read(f"/runs/{run}")
    assert f"3 is refused {MARKUP}" in text
    assert "a = Double(n = $.n, note = $.note)" in text
    assert "test.afl:7" in text
    assert "&lt;script&gt;" in html
    assert "style=" not in html
    assert not re.search(r"<script(?! type=\"module\" src=\"/static/)", html)


def test_a_run_that_waits_says_for_whom(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3})
    text = house.viewer.read(f"/runs/{run}")
    assert "Why it is stuck" in text
    assert "No live server serves t.Double" in text or "no live server serves t.Double" in text
    assert f"/runs/{run}/cancel" not in house.viewer.open(f"/runs/{run}")
    assert f"/runs/{run}/cancel" in house.operator.open(f"/runs/{run}")


@pytest.mark.parametrize("view", ["graph", "timeline", "tree", "log"])
def test_every_view_is_a_page_and_a_part(house: Visitors, view: str) -> None:
    run = house.run(EACH, {"ns": [1, 2, 3]}, Double=double)
    whole = house.viewer.open(f"/runs/{run}?view={view}")
    part = house.viewer.open(f"/runs/{run}/fragment/{view}")
    assert f'?view={view}" aria-current="page"' in whole
    assert "<html" not in part
    if view != "log":
        assert "×3" in part
        assert f"/runs/{run}/steps/0/all/0/%23/one" in part


def test_the_tree_counts_what_failed_of_many(house: Visitors) -> None:
    """A few of hundreds are too thin a part of the bar to be seen."""
    run = house.run(EACH, {"ns": list(range(40))}, Double=refuse_even)
    assert "20 failed" in house.viewer.read(f"/runs/{run}?view=tree")


def test_an_empty_text_is_seen(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 1}, Double=double)
    assert '<code class="value faint">""</code>' in house.viewer.open(f"/runs/{run}")


def test_a_run_is_found_by_the_beginning_of_its_id(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 1}, Double=double)
    assert run in house.viewer.read(f"/runs/{run[:14]}")
    assert "there is no run nothing" in house.viewer.read("/runs/nothing", 404)
    assert "graph" in house.viewer.open(f"/runs/{run}?view=nonsense")


def test_groups_of_the_graph_fold_by_links(house: Visitors) -> None:
    run = house.run(EACH, {"ns": [1, 2]}, Double=double)
    page = house.viewer.open(f"/runs/{run}")
    assert 'data-id="0/all/0/#/one"' in page
    fold = re.search(r'class="toggle" href="([^"]+)" data-toggle="0/all"', page)
    assert fold is not None
    folded = house.viewer.open(unescape(fold[1]))
    assert 'data-id="0/all/0/#/one"' not in folded
    unfold = re.search(r'class="toggle" href="([^"]+)" data-toggle="0/all"', folded)
    assert unfold is not None
    assert 'data-id="0/all/0/#/one"' in house.viewer.open(unescape(unfold[1]))


def test_the_states_of_the_graph_come_alone(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 1})
    answer = house.viewer.client.get(f"/runs/{run}/graph-states").json()
    assert answer["state"] == "running"
    assert [[each[0], each[2]] for each in answer["nodes"]] == [
        ["0/a", "waiting"],
        ["0/b", "not begun"],
    ]


# -- what can be done ------------------------------------------------------------------------------------------


def test_a_run_is_paused_let_go_on_canceled_and_retried(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3})
    assert house.operator.act(f"/runs/{run}/pause").kind == "good"
    assert state_of(house, run) == "paused"
    assert "Nothing changed" in house.operator.act(f"/runs/{run}/pause").text
    assert house.operator.act(f"/runs/{run}/unpause").text == "The run continues."
    assert house.operator.act(f"/runs/{run}/cancel").text == "The run was canceled."
    assert state_of(house, run) == "canceled"
    told = house.operator.act(f"/runs/{run}/retry")
    assert (told.url, told.kind) == (f"/runs/{run}", "good")
    assert state_of(house, run) == "running"
    assert house.operator.act(f"/runs/{run}/retry").kind == "bad"


@pytest.mark.parametrize("action", ["pause", "unpause", "cancel", "retry"])
def test_a_viewer_cannot_act(house: Visitors, action: str) -> None:
    run = house.run(CHAIN, {"n": 3})
    assert house.viewer.send(f"/runs/{run}/{action}").status_code == 403
    assert state_of(house, run) == "running"


def test_one_step_is_retried(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3}, Double=refuse)
    told = house.operator.act(f"/runs/{run}/step-retry/0/a")
    assert (told.url, told.text) == (f"/runs/{run}/steps/0/a", "1 step will be tried again.")
    assert house.operator.act(f"/runs/{run}/step-retry/0/a").kind == "bad"
    assert house.viewer.send(f"/runs/{run}/step-retry/0/a").status_code == 403


# -- a step ----------------------------------------------------------------------------------------------------


def test_a_step_shows_inputs_outputs_attempts_and_its_line(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 21, "note": MARKUP}, Double=double)
    text = house.viewer.read(f"/runs/{run}/steps/0/a")
    assert MARKUP in text
    assert "42" in text
    assert "Attempt Outcome Queued Ran Started Ended Worker Details 1 completed" in text
    assert "test.afl:7" in text
    assert "Open" in house.viewer.read(f"/runs/{run}/step-part/0/a?panel=1")


def test_a_failed_step_offers_to_try_again_to_those_who_may(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3}, Double=refuse)
    assert f"3 is refused {MARKUP}" in house.viewer.read(f"/runs/{run}/steps/0/a")
    assert "Retry step" not in house.viewer.read(f"/runs/{run}/steps/0/a")
    assert "Retry step" in house.operator.read(f"/runs/{run}/steps/0/a")
    text = house.viewer.read(f"/runs/{run}/steps/0/a")
    assert "Traceback (most recent call last)" in text
    assert "raise ValueError" in text
    assert "has no step 'nothing'" in house.viewer.read(f"/runs/{run}/steps/nothing", 404)


def test_the_steps_of_a_place_are_listed_and_each_has_its_page(house: Visitors) -> None:
    run = house.run(EACH, {"ns": [1, 2, 3]}, Double=lambda n: double(n) if n != 2 else refuse(n))
    place = f"/runs/{run}/steps/0/all/0/%23/one"
    text = house.viewer.read(place)
    assert "all[1].one" in text
    assert "1 failed" in text
    failed = house.viewer.read(f"{place}?state=failed")
    assert "all[1].one" in failed
    assert "all[0].one" not in failed
    assert "2 is refused" in house.viewer.read(f"/runs/{run}/steps/0/all/0/%231/one")
    assert "No steps here" in house.viewer.read(f"{place}?state=waiting")


def test_a_step_that_has_not_begun_has_a_page(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 3})
    text = house.viewer.read(f"/runs/{run}/steps/0/b")
    assert "not begun" in text
    assert "waits for" in text


# -- starting --------------------------------------------------------------------------------------------------


def test_a_known_workflow_is_started_from_its_form_once(house: Visitors) -> None:
    house.run(CHAIN, {"n": 1}, Double=double)
    assert "t.Chain" in house.viewer.read("/start")
    form = house.operator.open("/start?workflow=t.Chain")
    assert "Doubles twice." in form
    assert "what to double" in form
    key = re.search(r'name="key" value="([^"]+)"', form)
    assert key is not None
    fields = {"workflow": "t.Chain", "key": key[1], "field.n": "21", "field.note": "", "task_list": "default"}
    first = house.operator.act("/start/run", **fields)
    again = house.operator.act("/start/run", **fields)
    assert first.url == again.url
    assert first.text == "Started t.Chain."
    run = house.store.get_run(WorkflowId(first.url.removeprefix("/runs/")))
    assert run is not None
    assert run.inputs == {"n": 21, "note": "", "fast": False}
    assert len(house.store.get_runs()) == 2


def test_what_does_not_fit_is_said_beside_its_field(house: Visitors) -> None:
    house.run(CHAIN, {"n": 1}, Double=double)
    answer = house.operator.send(
        "/start/run", workflow="t.Chain", key="k", **{"field.n": "many", "field.note": MARKUP}
    )
    assert answer.status_code == 422
    assert "whole number" in answer.text
    assert 'aria-invalid="true"' in answer.text
    assert MARKUP not in answer.text
    assert 'name="key" value="k"' in answer.text
    assert len(house.store.get_runs()) == 1


def test_a_source_is_compiled_and_started(house: Visitors) -> None:
    form = house.operator.send("/start/source", source=CHAIN)
    assert form.status_code == 200
    assert 'name="field.n"' in form.text
    told = house.operator.act(
        "/start/run", workflow="t.Chain", key="k2", source=CHAIN, task_list="gpu", **{"field.n": "4"}
    )
    run = house.store.get_run(WorkflowId(told.url.removeprefix("/runs/")))
    assert run is not None
    assert (run.workflow_name, run.task_list) == ("t.Chain", "gpu")


def test_a_source_that_is_wrong_is_shown_with_line_and_caret(house: Visitors) -> None:
    wrong = CHAIN.replace("a.m", "a.nothing").replace("Doubles", MARKUP)
    answer = house.operator.send("/start/source", source=wrong)
    assert answer.status_code == 422
    text = unescape(answer.text)
    assert "8 |" in text
    assert "^" in text
    assert MARKUP not in answer.text
    both = CHAIN.rstrip().removesuffix("}") + "    workflow Other() andThen { x = Double(n = 1) }\n}\n"
    assert "Which workflow?" in house.operator.send("/start/source", source=both).text
    chosen = house.operator.send("/start/source", source=both, workflow="t.Other")
    assert "takes no inputs" in chosen.text
    assert house.operator.act("/start/source", source=" ").kind == "note"


def test_a_file_is_taken_as_a_source(house: Visitors) -> None:
    answer = house.operator.client.post(
        "/start/source",
        files={"file": ("chain.afl", CHAIN.encode(), "text/plain")},
        headers={"Sec-Fetch-Site": "same-origin"},
    )
    assert 'name="field.n"' in answer.text


def test_a_viewer_cannot_start(house: Visitors) -> None:
    house.run(CHAIN, {"n": 1}, Double=double)
    answer = house.viewer.send("/start/run", workflow="t.Chain", key="k", **{"field.n": "1"})
    assert answer.status_code == 403
    assert len(house.store.get_runs()) == 1


# -- the frame -------------------------------------------------------------------------------------------------


def test_the_navigation_counts_what_is_open(house: Visitors) -> None:
    run = house.run(CHAIN, {"n": 1})
    assert 'title="1 open"' in house.viewer.open("/fragment/navigation?active=runs")
    control.cancel(house.store, run)
    assert "open" not in house.viewer.open("/fragment/navigation")


def test_the_theme_is_kept_without_scripts(house: Visitors) -> None:
    answer = house.viewer.client.post(
        "/theme",
        data={"theme": "dark"},
        headers={"Sec-Fetch-Site": "same-origin", "Referer": "http://evil/runs?x=1"},
    )
    assert answer.headers["location"] == "/runs?x=1"
    assert 'data-theme="dark"' in house.viewer.open("/runs")


def test_assets_are_served_and_asked_for_again(house: Visitors) -> None:
    answer = house.viewer.client.get("/static/afl.css")
    assert answer.headers["cache-control"] == "no-cache"
    assert "--ground" in answer.text
    again = house.viewer.client.get("/static/afl.css", headers={"If-None-Match": answer.headers["etag"]})
    assert again.status_code == 304


# -- child runs ------------------------------------------------------------------------------------------------

FAMILY = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Child(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        yield Child(m = a.m)
    }
    workflow Parent(n: Long) => (m: Long) andThen {
        one = Child(n = $.n) with Run(id = "child-1")
        two = Child(n = $.n) with Run(id = "child-2")
        yield Parent(m = one.m + two.m)
    }
}
"""


def test_parent_and_children_lead_to_each_other(house: Visitors) -> None:
    run = house.run(FAMILY, {"n": 3}, "t.Parent", Double=double)
    page = house.viewer.open(f"/runs/{run}")
    assert 'href="/runs/child-1"' in page
    assert 'href="/runs/child-2"' in page
    assert "Child runs 2: 2 completed" in house.viewer.read(f"/runs/{run}")
    assert house.viewer.read("/runs").count(f"child of {run}") == 2
    tasks = house.store.get_tasks_by_workflow(WorkflowId(run))
    assert 'href="/runs/child-1"' in house.viewer.open(f"/tasks/{tasks[0].uuid}")
    child = house.viewer.open("/runs/child-1")
    assert f'href="/runs/{run}"' in child
    assert f'href="/runs/{run}/steps/0/one"' in child
    assert "Child runs" not in house.viewer.read("/runs/child-1")
    assert 'href="/runs/child-2"' in house.viewer.open(f"/runs/{run}/steps/0/two")
    for view in ("graph", "tree"):
        assert "child run" in house.viewer.read(f"/runs/{run}?view={view}")
    assert "child run" not in house.viewer.read("/runs/child-1?view=tree")


def test_a_child_whose_parent_is_gone_names_it(house: Visitors) -> None:
    run = house.run(FAMILY, {"n": 3}, "t.Parent", Double=double)
    with closing(sqlite3.connect(house.settings.store.removeprefix("sqlite:///"))) as file, file:
        file.execute("delete from afl_runs where workflow_id = ?", [run])
    assert f"{run} removed" in house.viewer.read("/runs/child-1")
