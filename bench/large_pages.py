"""Pages of much: a run of 20,000 steps, and an inbox of 10,000 approvals."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store
from afl.runtime.task_handlers.handler import Handlers
from bench import programs
from bench.report import Report

STEPS, APPROVALS = 20_000, 10_000
LONGEST_MS, INBOX_MS = 2_000, 200  # as long as a graph may take to appear; as long as any list

Measure = Callable[[str, Mapping[str, str]], dict[str, float]]  # the milliseconds of each page, on a store

APPROVAL = """
event facet Release(n: Long) => (ok: Boolean) with Human("editors")
workflow W(xs: [Long]) => (o: [Boolean]) andThen foreach x in $.xs {
  a = Release(n = x)
  yield W(o = [a.ok])
}
"""


def pages_of_a_large_run(report: Report, store_name: str, url: str, measure: Measure) -> None:
    """Server time of every view of a run, of one of its steps, and of its comparison with another."""
    store = open_store(url)
    run, other = (completed(store, programs.foreach("Work"), {"xs": list(range(STEPS))}) for _ in range(2))
    store.close()
    pages = {view: f"/runs/{run}?view={view}" for view in ("graph", "timeline", "tree", "log")}
    pages["a step"] = f"/runs/{run}/steps/0/%23{STEPS // 2}/a"
    times = measure(url, {**pages, "compare": f"/compare?first={run}&second={other}"})
    report.note(f"{store_name}: two runs of {STEPS:,} elements compared", f"{times.pop('compare'):,.0f} ms")
    _add(report, f"{store_name}: a run of {STEPS:,} elements", times, LONGEST_MS)


def inbox(report: Report, store_name: str, url: str, measure: Measure) -> None:
    """Server time of the pages of approvals."""
    store = open_store(url)
    evaluator = Evaluator(store)
    program = evaluator.programs.of("W", programs.compiled(APPROVAL))
    evaluator.resume(evaluator.submit(program, {"xs": list(range(APPROVALS))}))
    store.close()
    pages = {"inbox": "/approvals", "of a group": "/approvals?group=editors", "overview": "/overview"}
    _add(report, f"{store_name}: {APPROVALS:,} approvals", measure(url, pages), INBOX_MS)


def completed(store: PersistenceAPI, source: str, inputs: dict[str, Any] | None) -> str:
    """A run that is over."""
    evaluator = Evaluator(store)
    runner = LocalRunner(evaluator, Handlers.of({"Work": lambda n: {"m": n}}))
    result = runner.run(evaluator.programs.of("W", programs.compiled(source)), inputs)
    assert result.error is None, result.error
    return str(result.workflow_id)


def _add(report: Report, name: str, times: dict[str, float], bar: float) -> None:
    detail = ", ".join(f"{page}: {value:.0f}" for page, value in times.items())
    report.add(f"{name}, slowest page, ms", max(times.values()), "at_most", bar, detail)
