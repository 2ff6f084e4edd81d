"""The pages of the fleet, before a real principal with an agent."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest
from support.dashboard_pages import MARKUP, Visitors, shown, visitors
from support.dashboards import served, settings_for
from support.eventually import eventually
from support.fleet_agents import running_agent
from support.principals import PrincipalProcess, running_principal

from afl.fleet.messages import Status
from afl.operations.fleet import fleet

PAPER = """name: Paper
description: Prints a page <b>and</b> reads it.
params:
  title: {type: string, description: Its headline.}
  copies: {type: integer, default: 2}
  color: {type: boolean, default: true}
  size: {type: string, default: A4, choices: [A4, A5]}
tasks:
  write:
    name: Write it
    config: !Subprocess {cmd: echo, args: ["{{ params.title }} {{ params.copies }} {{ params.color }}"]}
  read: {name: Read it, depends: [write], config: !Subprocess {cmd: sh, args: ["-c", "echo too small >&2; exit 3"]}}
  bin: {name: Throw away, depends: [read], config: !Subprocess {cmd: echo, args: [gone]}}
"""
HELD = """name: Held
tasks:
  wait: {name: Wait, config: !Subprocess {cmd: sh, args: ["-c", "echo begun; sleep 600"]}}
"""


LONG = "name: Long\ntasks: {count: {name: Count, config: !Subprocess {cmd: seq, args: ['600']}}}\n"


@pytest.fixture(scope="module")
def principal(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PrincipalProcess]:
    folder: Path = tmp_path_factory.mktemp("fleet")
    workflows = {"paper": PAPER, "held": HELD, "long": LONG, "broken": f"name: Broken\ntasks: {MARKUP!r}\n"}
    with running_principal(folder, workflows) as found, running_agent(found.settings, folder / "agent"):
        with fleet.connected(found.settings) as client:
            eventually(lambda: any(agent.alive for agent in fleet.agents(client)))
            eventually(lambda: {"paper", "held"} <= {each.id for each in fleet.workflows(client)})
        yield found


@pytest.fixture
def house(store_url: str, principal: PrincipalProcess, monkeypatch: pytest.MonkeyPatch) -> Iterator[Visitors]:
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", str(principal.settings.principal_port))
    monkeypatch.setenv("CDKTR_APP_DATA_DIRECTORY", principal.settings.app_data_directory)
    with visitors(store_url) as found:
        yield found


def until_over(run_id: str, status: Status) -> None:
    with fleet.connected(fleet.hasty_settings()) as client:
        eventually(lambda: fleet.show_run(client, run_id).run.status is status)


def started(house: Visitors, workflow: str, **params: str) -> str:
    told = house.operator.act(
        f"/fleet/workflows/{workflow}/start", **{f"param.{name}": text for name, text in params.items()}
    )
    assert told.kind == "good", told
    return told.url.removeprefix("/fleet/runs/")


def test_workflows_with_problems_of_their_files_and_agents(house: Visitors) -> None:
    shown = "Paper paper · Prints a page <b>and</b> reads it. 3"
    text = eventually(lambda: next((page for page in [house.viewer.read("/fleet")] if shown in page), None))
    assert "broken.yml" in text and "1 problem in workflow files" in text
    assert "title, copies, color, size" in text
    assert "ready" in text or "busy" in text


def test_a_run_is_started_from_the_form_and_shown_as_a_dag(house: Visitors) -> None:
    page = house.operator.open("/fleet/workflows/paper")
    assert 'name="param.copies" inputmode="decimal"' in page.replace("  ", " ")
    assert '<option value="A5"' in page
    run = started(house, "paper", title=MARKUP, copies="5")
    until_over(run, Status.FAILED)
    page = house.viewer.open(f"/fleet/runs/{run}")
    for task, state in {"write": "completed", "read": "failed", "bin": "skipped"}.items():
        assert f'data-step="{task}" data-state="{state}"' in page
    text = shown(page)
    assert "3 of 3 ended" in text and "on demand" in text
    assert f"Write it {MARKUP} 5 false" in text  # a box that is not ticked is not sent
    assert run in house.viewer.read("/fleet?workflow=paper&status=FAILED")
    assert "No run fits" in house.viewer.read("/fleet?workflow=paper&status=RUNNING")


def test_lines_are_filtered_by_task_and_searched(house: Visitors) -> None:
    run = started(house, "paper", title="News")
    until_over(run, Status.FAILED)
    one = house.viewer.read(f"/fleet/runs/{run}?task=read")
    assert "too small" in one and "News 2" not in one
    found = house.viewer.read(f"/fleet/runs/{run}?text=news+2")
    assert "Write it News 2" in found and "too small" not in found
    assert "No line fits." in house.viewer.read(f"/fleet/runs/{run}?text=nothing")
    assert "No line fits." in house.viewer.read(f"/fleet/runs/{run}?text=News+%5Cd")  # no regular expression


def test_where_the_lines_are_that_a_page_leaves_out(house: Visitors) -> None:
    run = started(house, "long")
    until_over(run, Status.COMPLETED)
    assert f"The last 500 lines; afl fleet logs --run {run} has all." in house.viewer.read(
        f"/fleet/runs/{run}"
    )


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({}, "needs the parameter 'title'"),
        ({"param.title": "x", "param.copies": "many"}, "is 'many'; expected a whole number"),
        ({"param.title": "x", "param.size": "A0"}, "expected one of"),
    ],
)
def test_a_start_that_does_not_fit_starts_nothing(
    house: Visitors, fields: dict[str, str], problem: str
) -> None:
    told = house.operator.act("/fleet/workflows/paper/start", **fields)
    assert (told.url, told.kind) == ("/fleet/workflows/paper", "bad")
    assert problem in told.text


def test_cancel(house: Visitors) -> None:
    run = started(house, "held")
    until_over(run, Status.RUNNING)
    page = house.operator.open(f"/fleet/runs/{run}")
    assert f'data-live="fleet-run:{run}"' in page and "Cancel" in shown(page)
    assert house.operator.act(f"/fleet/runs/{run}/cancel").kind == "good"
    until_over(run, Status.CANCELED)
    text = house.operator.read(f"/fleet/runs/{run}")
    assert text.count("canceled by operator") == 1
    assert "canceled by operator" in house.operator.read("/fleet?workflow=held")
    again = house.operator.act(f"/fleet/runs/{run}/cancel")
    assert again.kind == "bad" and "already" in again.text


def test_a_viewer_starts_and_cancels_nothing(house: Visitors) -> None:
    run = started(house, "held")
    assert "Start a run" not in house.viewer.read("/fleet/workflows/paper")
    assert house.viewer.send("/fleet/workflows/paper/start", **{"param.title": "x"}).status_code == 403
    assert house.viewer.send(f"/fleet/runs/{run}/cancel").status_code == 403
    assert "Cancel this run" not in house.viewer.open(f"/fleet/runs/{run}")
    house.operator.act(f"/fleet/runs/{run}/cancel")
    until_over(run, Status.CANCELED)


def test_what_there_is_not(house: Visitors) -> None:
    assert "there is no workflow 'nothing'" in house.viewer.read("/fleet/workflows/nothing", 404)
    assert "nothing" in house.viewer.read("/fleet/runs/nothing", 404)


@contextmanager
def stream(url: str, **headers: str) -> Iterator[Iterator[tuple[str, str]]]:
    """The events of a server-sent stream: (id, data)."""

    def events(lines: Iterator[str]) -> Iterator[tuple[str, str]]:
        found: dict[str, str] = {}
        for line in lines:
            name, _, value = line.partition(": ")
            if line:
                found[name] = value
            elif "data" in found:
                yield found.get("id", ""), json.loads(found["data"])
                found = {}

    with httpx2.stream("GET", url, headers=headers, timeout=60) as answer:
        yield events(answer.iter_lines())


def test_lines_stream_in_and_go_on_after_an_outage(house: Visitors, tmp_path: Path) -> None:
    run = started(house, "paper", title=MARKUP)
    until_over(run, Status.FAILED)
    with served(settings_for(f"sqlite:///{tmp_path}/other.db")) as address:
        url = f"{address}/fleet/runs/{run}/lines"
        with stream(f"{url}?after=0") as events:
            position, html = next(events)
        assert MARKUP not in html and MARKUP in shown(html)
        with stream(f"{url}?task=read", **{"Last-Event-ID": "0"}) as events:
            later, html = next(events)
        assert "too small" in shown(html) and "Write it" not in html
        assert int(later) <= int(position)


def test_without_a_principal_the_page_says_how_to_start_one(
    store_url: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", "1")
    monkeypatch.setenv("CDKTR_DEFAULT_ZMQ_TIMEOUT_MS", "50")
    monkeypatch.setenv("CDKTR_APP_DATA_DIRECTORY", str(tmp_path))
    with visitors(store_url) as house:
        text = house.viewer.read("/fleet")
        assert "Fleet cannot be reached" in text
        assert "nothing answers at tcp://" in text and "afl fleet principal --with-agent" in text
        assert "Fleet cannot be reached" in house.viewer.read("/fleet/fragment/lists")
        assert "Fleet cannot be reached" in house.viewer.read("/fleet/runs/anything")
        assert house.operator.send("/fleet/workflows/hello/start").status_code == 200
