"""The figures of the dashboard: a list of many runs, the graph of a large run, how soon a change is seen.

What is seen is measured in a real browser; without one its figures are left out, and a line says so.
"""

from __future__ import annotations

import http.client
import random
import re
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from afl.kernel.clock import wall_ms
from afl.kernel.ids import sortable_id
from afl.operations.run import control
from afl.runtime.entities import RunDefinition, RunnerState
from afl.runtime.errors import StepFailure
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.persistence.changes import IterationChanges
from afl.runtime.program.program import Program
from afl.runtime.store import open_store
from bench import large_pages, programs, run_lists
from bench.place import Place
from bench.report import Report
from tests.support.chromium import MISSING, Chromium, find_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Page

RUNS, ROUNDS, CHANGES = 10_000, 15, 40
ELEMENTS, STATEMENTS = 20_000, 5_000
BATCH = 1_000
STATES = (RunnerState.COMPLETED,) * 7 + (RunnerState.FAILED, RunnerState.CANCELED, RunnerState.PAUSED)
ERROR = StepFailure("the line is busy", "Busy", "call", "shop.Call", 12).to_dict()
_ADDRESS = re.compile(r"http://127\.0\.0\.1:\d+")


def measure(report: Report, place: Place) -> None:
    """Every figure of the dashboard."""
    run_list(report, "SQLite", place.sqlite())
    run_list(report, "PostgreSQL", place.server("postgres"))
    run_lists.compare(report, "SQLite", place.sqlite(), _run, _program, _pages_ms)
    run_lists.compare(report, "PostgreSQL", place.server("postgres"), _run, _program, _pages_ms)
    for name, url in (("SQLite", place.sqlite()), ("PostgreSQL", place.server("postgres"))):
        large_pages.pages_of_a_large_run(report, name, url, _server_times)
        large_pages.inbox(report, name, url, _server_times)
    if find_chromium() is None:
        report.note("dashboard in the browser", f"NOT RUN: {MISSING}")
        return
    with Chromium() as browser:
        graphs(report, browser, place.sqlite())
        changes(report, browser, "SQLite", place.sqlite())
        changes(report, browser, "PostgreSQL", place.server("postgres"))


@contextmanager
def dashboard(store: str) -> Iterator[str]:
    """`afl dashboard` in a process of its own; its address."""
    command = [sys.executable, "-m", "afl", "dashboard", "--port", "0", "--store", store]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        assert process.stdout is not None
        try:
            found = next((match for line in process.stdout if (match := _ADDRESS.search(line))), None)
            if found is None:
                raise SystemExit(f"afl dashboard did not start: {process.wait()}")
            yield found[0]
        finally:
            process.terminate()


def fill(store: PersistenceAPI, count: int) -> None:
    """Runs of some workflows, most of them over, as if a minute lay between each and the next."""
    now, hash_ = wall_ms(), _waiting(store).program_hash
    for start in range(0, count, BATCH):
        batch = [
            _run(number, now - (count - number) * 60_000, hash_) for number in range(start, start + BATCH)
        ]
        problems = [
            each
            for each in store.commit_all([IterationChanges(run=run, new_run=True) for run in batch])
            if each
        ]
        assert not problems, problems[0]


def _waiting(store: PersistenceAPI) -> RunDefinition:
    """A run with one step that nobody takes up."""
    program = Program({"program": programs.compiled(programs.foreach("Work")), "workflow": "W"})
    evaluator = Evaluator(store)
    workflow_id = evaluator.submit(program, {"xs": [1]})
    evaluator.resume(workflow_id)
    run = store.get_run(workflow_id)
    assert run is not None
    return run


def _run(number: int, created: int, program: str) -> RunDefinition:
    state = STATES[number % len(STATES)]
    return RunDefinition(
        workflow_id=sortable_id(),
        workflow_name=f"shop.Workflow{number % 20}",
        program_hash=program,
        state=state,
        inputs={"number": number, "text": "x" * 200},
        outputs={"result": number} if state == RunnerState.COMPLETED else {},
        error=ERROR if state == RunnerState.FAILED else None,
        settled=True,
        created=created,
        updated=created + 5_000,
        ended=created + 5_000 if state != RunnerState.PAUSED else 0,
    )


def run_list(report: Report, store_name: str, url: str) -> None:
    """Server time: from the request to the last byte, over one connection that stays open."""
    store = open_store(url)
    fill(store, RUNS)
    store.close()
    pages = {
        "first page": "/runs",
        "failed ones": "/runs?state=failed",
        "of one workflow": "/runs?workflow=shop.Workflow7",
        "search without a hit": "/runs?text=nothing-like-this",
    }
    with dashboard(url) as address:
        times = {name: _server_ms(address, path) for name, path in pages.items()}
    detail = ", ".join(f"{name}: {value:.0f}" for name, value in times.items())
    report.add(
        f"{store_name}: list of {RUNS:,} runs, slowest page, ms", max(times.values()), "at_most", 200, detail
    )


def _program(store: PersistenceAPI) -> str:
    return _waiting(store).program_hash


def _pages_ms(url: str) -> dict[str, float]:
    return _server_times(url, run_lists.PAGES)


def _server_times(url: str, pages: Mapping[str, str]) -> dict[str, float]:
    with dashboard(url) as address:
        return {name: _server_ms(address, path) for name, path in pages.items()}


def _server_ms(address: str, path: str) -> float:
    parts = urlsplit(address)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port)

    def one() -> float:
        begin = time.perf_counter()
        connection.request("GET", path, headers={"Accept": "text/html"})
        response = connection.getresponse()
        response.read()
        assert response.status == 200, f"{path}: {response.status}"
        return (time.perf_counter() - begin) * 1e3

    one()  # templates are compiled by then
    try:
        return statistics.median(one() for _ in range(ROUNDS))
    finally:
        connection.close()


def graphs(report: Report, browser: Chromium, url: str) -> None:
    """From the request until a step of the graph can be opened: as a person has it, in an empty browser."""
    store = open_store(url)
    shapes: dict[str, tuple[str, dict[str, Any] | None]] = {
        f"a foreach of {ELEMENTS:,} elements": (programs.foreach("Work"), {"xs": list(range(ELEMENTS))}),
        f"a program of {STATEMENTS:,} steps": (programs.fan_out(STATEMENTS), None),
    }
    runs = {name: large_pages.completed(store, source, inputs) for name, (source, inputs) in shapes.items()}
    store.close()
    with dashboard(url) as address:
        for name, run in runs.items():
            times = [_graph_ms(browser, address, run) for _ in range(5)]
            detail = f"slowest of 5: {max(times) / 1e3:.2f} s"
            report.add(
                f"browser: graph of {name}, s",
                statistics.median(times) / 1e3,
                "at_most",
                2,
                detail,
            )


def _graph_ms(browser: Chromium, address: str, run: str) -> float:
    with browser.context(viewport={"width": 1280, "height": 800}) as context:
        page = context.new_page()
        begin = time.perf_counter()
        page.goto(f"{address}/runs/{run}?view=graph", wait_until="commit")
        page.locator(".graph a").first.click(trial=True)  # it is there, stands still and takes a click
        return (time.perf_counter() - begin) * 1e3


def changes(report: Report, browser: Chromium, store_name: str, url: str) -> None:
    """Somebody else pauses a run, or lets it go on: how long until an open page says so, by one clock on the wall."""
    store = open_store(url)
    run = _waiting(store).workflow_id
    with dashboard(url) as address, browser.context() as context:
        pages = {"run": f"/runs/{run}", "list": f"/runs?text={run}"}
        for name, path in pages.items():
            page = context.new_page()
            page.goto(address + path)
            times = _seen_ms(page, store, run)
            page.close()
            p50, p95 = statistics.median(times), statistics.quantiles(times, n=20)[18]
            report.add(
                f"{store_name}: change of state to visible in the {name}, p95, ms",
                p95,
                "at_most",
                500,
                f"p50 {p50:.0f} ms",
            )
    store.close()


def _seen_ms(page: Page, store: PersistenceAPI, run: str) -> list[float]:
    acts: list[tuple[str, Callable[[], object]]] = [
        ("paused", lambda: control.pause(store, run)),
        ("waiting for an agent", lambda: control.unpause(store, run)),
    ]
    times = []
    for number in range(CHANGES):
        state, act = acts[number % 2]
        page.wait_for_timeout(random.uniform(0, 300))  # so that the looks of the server are hit anywhere
        page.evaluate(_WATCH, state)
        begin = time.time()
        act()
        times.append(page.wait_for_function("window.seen").json_value() - begin * 1e3)
    return times


_WATCH = """state => {
  const there = () => [...document.querySelectorAll("main .state")].some(each => each.textContent.trim() === state);
  window.seen = new Promise(resolve => {
    const look = () => there() && (observer.disconnect(), resolve(Date.now()));
    const observer = new MutationObserver(look);
    observer.observe(document, {subtree: true, childList: true, attributes: true, characterData: true});
    look();
  });
}"""
