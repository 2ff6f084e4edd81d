"""Fan-out control: at most so many elements of a foreach at a time, and failures of elements as values."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from support.agents import begin, run_of
from support.judging import TIGHT

from afl.kernel.errors import InputError
from afl.runtime.agent_poller import AgentPoller, AgentPollerConfig
from afl.runtime.entities import RunnerState, TaskState
from afl.runtime.evaluation.pace import Pace
from afl.runtime.evaluator import Evaluator, ExecutionStatus
from afl.runtime.memory_store import MemoryStore
from afl.runtime.types import StepId, WorkflowId

SOURCE = """
event facet Fetch(url: Any) => (page: String)
workflow Some(urls: Json, limit: Json = 2) => (pages: [String]) andThen foreach url in $.urls limit $.limit {
    got = Fetch(url)
    yield Some(pages = [got.page])
}
facet Twice(url: Any) => (page: String) andThen {
    first = Fetch("first")
    then = Fetch($.url) with Priority(len(first.page))
    yield Twice(page = then.page)
}
workflow Nested(urls: Json) => (pages: [String]) andThen foreach url in $.urls limit 2 {
    got = Twice(url)
    yield Nested(pages = [got.page])
}
workflow Pages(urls: Json, limit: Int = 2) => (pages: [String], failures: [sys.Failure])
    andThen foreach url in $.urls limit $.limit collect failures {
        got = Fetch(url)
        beside = Fetch("beside")
        yield Pages(pages = [beside.page])
    }
workflow Crawl(urls: [String]) => (pages: [String], lost: Long) andThen {
    all = Pages($.urls)
    sys.assert(len(all.failures) <= 3)
    yield Crawl(pages = all.pages, lost = len(all.failures))
}
workflow Chosen(urls: [String])
    => (pages: [String], tried: Int, more: [String] = ["one"], best: String)
    andThen foreach url in $.urls {
        found = Found(url) andThen when {
            case url == "wanted" => {
                got = Fetch(url)
                yield Chosen(pages = [got.page], more = [], best = got.page)
            }
            case _ => { }
        }
        yield Chosen(tried = 1)
    }
facet Found(url: String)
workflow Both(urls: [String]) => (pages: [String], failures: [sys.Failure])
    andThen foreach url in $.urls collect failures {
        inner = Pages(urls = [url, "good"])
        sys.assert(len(inner.failures) == 0)
        yield Both(pages = inner.pages)
    }
"""


class Web:
    """Agents that fetch pages; some cannot be had."""

    def __init__(self, store: MemoryStore) -> None:
        self.store = store
        self.pace = Pace()
        self.missing: set[str] = set()
        self.most = 0
        self.fetched: Counter[str] = Counter()

    def fetch(self, payload: dict[str, Any]) -> dict[str, Any]:
        url = str(payload["url"])
        self.fetched[url] += 1
        if url in self.missing:
            raise ValueError(f"{url} is missing")
        return {"page": f"<{url}>"}

    def begin(self, workflow: str, **inputs: Any) -> WorkflowId:
        run = begin(self.store, workflow, inputs, SOURCE)
        self.go_on(run)
        return run

    def go_on(self, run: WorkflowId) -> None:
        """Work off one task after the other, each in a process of its own; count how many wait at a time."""
        while True:
            evaluator = Evaluator(self.store, pace=self.pace)
            poller = AgentPoller(self.store, evaluator, AgentPollerConfig(max_concurrent=1))
            poller.register("Fetch", self.fetch)
            tasks = self.store.get_tasks_by_workflow(run)
            self.most = max(self.most, sum(task.state == TaskState.PENDING for task in tasks))
            if not poller.poll_once():
                return

    def outputs(self, run: WorkflowId) -> dict[str, Any]:
        found = run_of(self.store, run)
        assert (found.state, found.error) == (RunnerState.COMPLETED, None)
        return found.outputs


@pytest.fixture
def web(store: MemoryStore) -> Web:
    return Web(store)


@pytest.mark.parametrize("limit", [1, 2, 3, 7, 50])
def test_at_most_so_many_elements_are_active(web: Web, limit: int) -> None:
    urls = [f"u{n}" for n in range(7)]
    run = web.begin("Some", urls=urls, limit=limit)
    assert web.outputs(run) == {"pages": [f"<{url}>" for url in urls]}
    assert web.most == min(limit, 7)


def test_a_failed_element_makes_room_for_the_next(web: Web) -> None:
    web.missing = {"u0", "u2"}
    run = web.begin("Some", urls=[f"u{n}" for n in range(5)], limit=1)
    assert run_of(web.store, run).state == RunnerState.FAILED
    assert set(web.fetched) == {f"u{n}" for n in range(5)}
    web.missing = set()
    assert Evaluator(web.store).retry(run) == 2
    Evaluator(web.store).resume(run)
    web.go_on(run)
    assert web.outputs(run) == {"pages": [f"<u{n}>" for n in range(5)]}


LARGE = """
facet Given(text: String)
facet Joined(texts: [String]) => (texts: [String]) andThen { yield Joined(texts = $.texts) }
facet Copies(text: String) => (texts: [String]) andThen foreach n in range(3) { yield Copies(texts = [$.text]) }
workflow Input(texts: [String]) => (sizes: [Long], failures: [sys.Failure])
    andThen foreach text in $.texts collect failures {
    all = Joined(texts = [text, text, text])
    yield Input(sizes = [len(all.texts)])
}
workflow Output(texts: [String]) => (sizes: [Long], failures: [sys.Failure])
    andThen foreach text in $.texts collect failures {
    all = Copies(text)
    yield Output(sizes = [len(all.texts)])
}
workflow Yield(texts: [String]) => (sizes: [Long], failures: [sys.Failure])
    andThen foreach text in $.texts collect failures {
    given = Given(text)
    all = Joined(texts = []) andThen { yield Joined(texts = [given.text, given.text, given.text]) }
    yield Yield(sizes = [len(all.texts)])
}
"""


@pytest.mark.parametrize(
    ("workflow", "step", "message"),
    [
        ("Input", "all", "the input of Joined is"),
        ("Output", "all", "the output of Copies is"),
        ("Yield", "all.yield", "the yield to Joined is"),
    ],
)
def test_what_is_too_large_to_be_stored_fails_its_step(
    store: MemoryStore, workflow: str, step: str, message: str
) -> None:
    run = run_of(store, begin(store, workflow, {"texts": ["a", "x" * 3_000_000, "b"]}, LARGE))
    assert (run.state, run.error) == (RunnerState.COMPLETED, None)
    assert len(run.outputs["sizes"]) == 2
    (failure,) = run.outputs["failures"]
    assert (failure["error_type"], failure["step"]) == ("PayloadError", f"[1].{step}")
    assert failure["message"].startswith(message)


@pytest.mark.parametrize("iterations", [1, 2, None])
@pytest.mark.parametrize("again", [set(), {"u1", "u4"}])
def test_a_retry_keeps_to_the_limit(web: Web, again: set[str], iterations: int | None) -> None:
    urls = [f"u{n}" for n in range(9)]
    web.missing = set(urls) - {"u5"}
    run = web.begin("Nested", urls=urls)
    assert run_of(web.store, run).state == RunnerState.FAILED
    web.missing, web.most = again, 0
    web.fetched.clear()
    assert Evaluator(web.store).retry(run) == 8
    for _ in range(2 if again else 1):
        evaluator = Evaluator(web.store, max_iterations=iterations)
        while evaluator.resume(run).status == ExecutionStatus.TIMEOUT:
            pass  # as after a crash at this iteration
        web.go_on(run)
        if run_of(web.store, run).state == RunnerState.FAILED:
            web.missing = set()
            assert Evaluator(web.store).retry(run) == 2
    assert web.outputs(run) == {"pages": [f"<{url}>" for url in urls]}
    assert web.most == 2
    assert web.fetched == {url: 2 if url in again else 1 for url in urls if url != "u5"}


def test_a_retry_of_more_elements_than_are_kept_in_memory(web: Web) -> None:
    urls = [f"u{n}" for n in range(4)]
    web.missing, web.pace = set(urls), TIGHT
    run = web.begin("Nested", urls=urls)
    web.missing = set()
    assert Evaluator(web.store).retry(run) == 4
    Evaluator(web.store, pace=TIGHT).resume(run)
    web.go_on(run)
    assert web.outputs(run) == {"pages": [f"<{url}>" for url in urls]}


def test_an_element_that_has_a_result_goes_on_before_those_that_failed(web: Web, store: MemoryStore) -> None:
    web.missing = {"u0"}
    run, evaluator = begin(store, "Some", {"urls": ["u0", "u1"], "limit": 1}, SOURCE), Evaluator(store)
    evaluator.fail_step(StepId(f"{run}/0/#0/got"), "u0 is missing")
    evaluator.resume(run)
    store.pause_run(run, "for once")
    evaluator.continue_step(StepId(f"{run}/0/#1/got"), {"page": "<u1>"})
    store.cancel_run(run, "for once")
    web.missing = set()
    assert evaluator.retry(run) == 1
    evaluator.resume(run)
    web.go_on(run)
    assert web.outputs(run) == {"pages": ["<u0>", "<u1>"]}
    assert web.fetched == {"u0": 1}


def test_the_elements_of_a_map_go_some_at_a_time(web: Web) -> None:
    run = web.begin("Some", urls={"a": 1, "b": 2, "c": 3}, limit=1)
    assert web.outputs(run)["pages"] == [
        f"<{{'key': '{k}', 'value': {v}}}>" for k, v in zip("abc", (1, 2, 3), strict=True)
    ]
    assert web.most == 1


@pytest.mark.parametrize("limit", [0, -3, 1.5, "many", None, True])
def test_a_limit_that_makes_no_sense_fails_the_foreach(web: Web, limit: Any) -> None:
    run = web.begin("Some", urls=["a"], limit=limit)
    error = run_of(web.store, run).error
    assert error is not None
    assert error["error_type"] == "BadLimit"
    assert error["message"] == f"the limit of a foreach is {limit!r}; expected a whole number, at least 1"
    assert not web.fetched


def test_failures_are_values_and_yields_of_failed_elements_do_not_count(web: Web) -> None:
    web.missing = {"u1", "u3"}
    run = web.begin("Pages", urls=[f"u{n}" for n in range(4)])
    assert web.outputs(run) == {
        "pages": ["<beside>"] * 2,
        "failures": [
            {
                "error_type": "ValueError",
                "message": f"u{n} is missing",
                "index": n,
                "element": f"u{n}",
                "step": f"[{n}].got",
            }
            for n in (1, 3)
        ],
    }


def test_without_failures_there_is_an_empty_list(web: Web) -> None:
    assert web.outputs(web.begin("Pages", urls=["a"])) == {"pages": ["<beside>"], "failures": []}
    assert web.outputs(web.begin("Pages", urls=[])) == {"pages": [], "failures": []}


def test_a_list_that_no_element_yields_to_is_empty(web: Web) -> None:
    assert web.outputs(web.begin("Some", urls=[])) == {"pages": []}
    assert web.outputs(web.begin("Crawl", urls=[])) == {"pages": [], "lost": 0}
    assert web.outputs(web.begin("Chosen", urls=["a", "b"])) == {"pages": [], "tried": 1, "more": ["one"]}
    assert web.outputs(web.begin("Chosen", urls=["a", "wanted"]))["pages"] == ["<wanted>"]


def test_failures_over_a_map_have_the_entry(web: Web) -> None:
    web.missing = {"{'key': 'a', 'value': 1}"}
    (failure,) = web.outputs(web.begin("Pages", urls={"a": 1, "b": 2}))["failures"]
    assert (failure["index"], failure["element"]) == (0, {"key": "a", "value": 1})


def test_what_is_no_failure_of_an_element_fails_the_foreach(web: Web) -> None:
    run = web.begin("Pages", urls="no list")
    error = run_of(web.store, run).error
    assert error is not None
    assert error["error_type"] == "TypeMismatch"


@pytest.mark.parametrize(("missing", "state"), [(3, RunnerState.COMPLETED), (4, RunnerState.FAILED)])
def test_giving_up_if_too_many_failed(web: Web, missing: int, state: str) -> None:
    urls = [f"u{n}" for n in range(20)]
    web.missing = set(urls[:missing])
    run = web.begin("Crawl", urls=urls)
    assert run_of(web.store, run).state == state
    if state == RunnerState.COMPLETED:
        assert web.outputs(run) == {"pages": ["<beside>"] * 17, "lost": 3}


def test_a_run_that_completed_has_nothing_to_retry(web: Web) -> None:
    web.missing = {"a"}
    run = web.begin("Pages", urls=["a", "b"])
    with pytest.raises(InputError, match="only a failed or canceled run can be retried"):
        Evaluator(web.store).retry(run)


def test_a_retry_does_not_reopen_failures_that_were_collected(web: Web) -> None:
    urls = [f"u{n}" for n in range(5)]
    web.missing = set(urls[:4])
    run = web.begin("Crawl", urls=urls)
    assert run_of(web.store, run).state == RunnerState.FAILED
    web.missing, before = set(), Counter(web.fetched)
    assert Evaluator(web.store).retry(run) == 1  # the assertion
    Evaluator(web.store).resume(run)
    web.go_on(run)
    assert web.fetched == before
    assert run_of(web.store, run).state == RunnerState.FAILED
    with pytest.raises(InputError, match="nothing to retry"):
        Evaluator(web.store).retry(run, StepId(f"{run}/0/all/0/#0"))


def test_a_failure_is_checked_where_a_value_of_its_schema_is_asked_for(web: Web, store: MemoryStore) -> None:
    source = """
    event facet Tell(lost: [sys.Failure])
    workflow W() => (why: String) andThen {
        made = sys.Failure(error_type = "E", message = "m", index = 0, element = null, step = "s")
        yield W(why = made.message)
    }
    workflow Bad(lost: Json) andThen { told = Tell($.lost) }
    """
    assert web.outputs(begin(store, "W", {}, source)) == {"why": "m"}
    error = run_of(store, begin(store, "Bad", {"lost": [{"message": "m"}]}, source)).error
    assert error is not None
    assert "field 'error_type' of sys.Failure is missing" in error["message"]


def test_a_nested_foreach_collects_on_its_own(web: Web) -> None:
    web.missing = {"a"}
    outputs = web.outputs(web.begin("Both", urls=["a", "b"]))
    assert outputs["pages"] == ["<beside>", "<beside>"]
    (failure,) = outputs["failures"]
    assert (failure["error_type"], failure["index"], failure["step"]) == ("AssertionError", 0, "[0].sys")


def test_many_failures_are_collected_in_order(web: Web, store: MemoryStore) -> None:
    source = """
    workflow W(xs: [Int]) => (ok: [Int], failures: Json) andThen foreach x in $.xs limit 40 collect failures {
        sys.assert(x % 3 == 0)
        yield W(ok = [x])
    }
    """
    run = begin(store, "W", {"xs": list(range(3000))}, source)
    outputs = web.outputs(run)
    assert [each["element"] for each in outputs["failures"]] == [n for n in range(3000) if n % 3]
    assert outputs["ok"] == [n for n in range(3000) if n % 3 == 0]
