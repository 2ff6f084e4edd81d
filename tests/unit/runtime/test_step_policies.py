"""Policies of a step: what the workflow says, where it counts, and what is refused when the step runs."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from support.agents import Recorder, begin, ended, only_task, received, run_of, serving

from afl.runtime.agent import ToolRegistry
from afl.runtime.entities import RunnerState, TaskDefinition, TaskHold, TaskState
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.persistence import TaskFilter
from afl.runtime.program.policies import retry_delay
from afl.runtime.runner.service import RunnerConfig, RunnerService
from afl.runtime.worker.results import TaskResult


def source(call: str = "", signature: str = "", more: str = "") -> str:
    return f"""
    namespace ns {{
        event facet Double(n: Long, k: String = "key") => (m: Long) {signature}
        workflow Once(n: Long, x: Double = 1.0, s: String = "", j: Json = 5) => (m: Long) andThen {{
            d = Double($.n) {call}
            yield Once(m = d.m)
        }}
        {more}
    }}
    """


def task_of(store: MemoryStore, call: str = "", signature: str = "", **inputs: Any) -> TaskDefinition:
    return only_task(store, begin(store, inputs={"n": 3, **inputs}, source=source(call, signature)))


def failing(times: int, error: type[Exception] = ValueError) -> Any:
    left = [times]

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        left[0] -= 1
        if left[0] >= 0:
            raise error("not yet")
        return {"m": payload["n"] * 2}

    return work


def serve(store: MemoryStore, work: Any, **terms: Any) -> tuple[RunnerService, Recorder]:
    recorder, registry = Recorder(store), ToolRegistry()
    registry.register("Double", work)
    config = RunnerConfig(**{"http": False, "poll_interval_ms": 20, **terms})
    return RunnerService(recorder.api, Evaluator(recorder.api), config, registry), recorder


# -- what a task is given -------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["signature", "call"])
@pytest.mark.parametrize("schema", ["more", "elsewhere"])
def test_a_schema_with_the_name_of_a_policy_is_not_that_policy(
    store: MemoryStore, place: str, schema: str
) -> None:
    declared = "schema Timeout { a: Long }"
    text = source(more=declared if schema == "more" else "", **{place: "with Timeout(2000)"})
    if schema == "elsewhere":
        text = f"{declared} {text} namespace other {{ {declared} }}"
    assert only_task(store, begin(store, inputs={"n": 3}, source=text)).timeout_ms == 2_000


def test_without_policies_a_task_has_none(store: MemoryStore) -> None:
    task = task_of(store)
    assert (task.retry, task.timeout_ms, task.priority) == (None, 0, 0)
    assert (task.concurrency_key, task.concurrency_limit, task.hold) == ("", 0, "")
    assert task.task_list_name == "default"


@pytest.mark.parametrize(
    ("policy", "expected"),
    [
        (
            "with Retry(3)",
            {
                "retry": {
                    "attempts": 3,
                    "backoff": 1000,
                    "factor": 2.0,
                    "max": 300000,
                    "on": [],
                    "nonRetryable": [],
                }
            },
        ),
        (
            'with Retry(2, backoff = 5, factor = 1.5, max = 9, on = ["A", "B"])',
            {
                "retry": {
                    "attempts": 2,
                    "backoff": 5,
                    "factor": 1.5,
                    "max": 9,
                    "on": ["A", "B"],
                    "nonRetryable": [],
                }
            },
        ),
        ("with Timeout(250)", {"timeout_ms": 250}),
        ("with Timeout(ms = 1, seconds = 2, minutes = 3, hours = 4)", {"timeout_ms": 14_582_001}),
        ("with Priority(7)", {"priority": 7}),
        ("with Priority(-7)", {"priority": -7}),
        ('with TaskList("gpu")', {"task_list_name": "gpu"}),
        (
            'with Concurrency("tenant", limit = 2)',
            {"concurrency_key": "tenant", "concurrency_limit": 2, "hold": ""},
        ),
        (
            'with Rate("api", perMinute = 30)',
            {"concurrency_key": "rate:api", "concurrency_limit": -30, "per_minute": 30, "hold": ""},
        ),
        ("with Timeout(seconds = 1) with Priority(2)", {"timeout_ms": 1000, "priority": 2}),
    ],
)
@pytest.mark.parametrize("where", ["call", "signature"])
def test_a_policy_is_written_into_the_task(
    store: MemoryStore, where: str, policy: str, expected: dict[str, Any]
) -> None:
    task = task_of(store, **{where: policy})
    assert {name: getattr(task, name) for name in expected} == expected


def test_attempts_have_a_second_name(store: MemoryStore) -> None:
    assert task_of(store, "with Retry(maxAttempts = 3)").retry == task_of(store, "with sys.Retry(3)").retry


def test_a_policy_at_the_call_counts_before_the_one_in_the_signature(store: MemoryStore) -> None:
    task = task_of(store, "with Retry(5) with Timeout(1)", "with Retry(2, backoff = 7) with Priority(9)")
    assert task.retry is not None
    assert (task.retry["attempts"], task.retry["backoff"]) == (5, 1000)
    assert (task.timeout_ms, task.priority) == (1, 9)


def test_a_limit_at_the_call_takes_the_place_of_the_other_in_the_signature(store: MemoryStore) -> None:
    task = task_of(store, 'with Rate("api", perMinute = 5)', 'with Concurrency("tenant", limit = 2)')
    assert (task.concurrency_key, task.per_minute) == ("rate:api", 5)
    task = task_of(store, 'with Concurrency("tenant", limit = 2)', 'with Rate("api", perMinute = 5)')
    assert (task.concurrency_key, task.concurrency_limit, task.per_minute) == ("tenant", 2, 0)


def test_a_rate_of_work_that_is_done_elsewhere_fails_the_step(store: MemoryStore) -> None:
    text = source('with Rate("api", perMinute = 5)', 'with Agent("ada")')
    found = run_of(store, begin(store, inputs={"n": 3}, source=text))
    assert found.error is not None
    assert found.error["error_type"] == "BadPolicy"
    assert "is done elsewhere (agent:ada)" in found.error["message"]


def test_policies_are_computed_from_what_is_known_where_they_stand(store: MemoryStore) -> None:
    at_call = task_of(store, 'with Priority($.n * 2) with TaskList("l" ++ $.s)', s="x")
    assert (at_call.priority, at_call.task_list_name) == (6, "lx")
    in_signature = task_of(store, "", 'with Concurrency("t-" ++ $.k, limit = $.n)')
    assert (in_signature.concurrency_key, in_signature.concurrency_limit) == ("t-key", 3)


def test_a_policy_may_use_what_an_earlier_step_answered(store: MemoryStore) -> None:
    text = source(
        more="""workflow Later(n: Long) => (m: Long) andThen {
            first = Double($.n)
            second = Double($.n) with Priority(first.m)
            yield Later(m = second.m)
        }"""
    )
    run = begin(store, "ns.Later", {"n": 3}, text)
    service, _ = serve(store, failing(0), max_concurrent=1)
    service.run_once()
    assert [task.priority for task in store.get_tasks_by_workflow(run)] == [0, 6]


def test_a_facet_of_ones_own_with_that_name_is_no_policy(store: MemoryStore) -> None:
    text = "facet Retry(attempts: Long)\n" + source("with Retry(3)")
    task = only_task(store, begin(store, inputs={"n": 3}, source=text))
    assert task.retry is None


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("Retry($.n)", "Retry: attempts is 0; expected at least 1"),
        ("Retry(2, backoff = $.n - 1)", "Retry: backoff is -1; expected at least 0"),
        ("Retry(2, factor = $.x)", "Retry: factor is 0.5; expected at least 1"),
        ("Retry(2, max = $.n - 1)", "Retry: max is -1; expected at least 0"),
        ("Timeout($.n)", "Timeout: its sum in milliseconds is 0; expected at least 1"),
        ("Timeout(seconds = 1, ms = $.n - 5)", "Timeout: ms is -5; expected at least 0"),
        ('Concurrency("k", limit = $.n)', "Concurrency: limit is 0; expected at least 1"),
        ("Concurrency($.s, limit = 1)", "Concurrency: the key is empty"),
        (
            'Concurrency("rate:x", limit = 1)',
            "Concurrency: the key is 'rate:x'; 'rate:' begins the keys of rates",
        ),
        ('Rate("k", perMinute = $.n)', "Rate: perMinute is 0; expected at least 1"),
        ("Rate($.s, perMinute = 1)", "Rate: the key is empty"),
        ("Rate($.j, perMinute = 1)", "Rate: the key is 5; expected a text"),
        ("TaskList($.s)", "TaskList: the name is empty"),
        ("Retry(null)", "Retry: attempts is None; expected at least 1"),
        ("Priority(null)", "Priority: n is None"),
        ("TaskList(null)", "TaskList: the name is"),
        ("Concurrency(null, limit = 1)", "Concurrency: the key is"),
        ("Retry(2, on = $.j)", "Retry: on is 5; expected a list of names of error types"),
        ("TaskList($.j)", "TaskList: the name is 5; expected a text"),
        (f'TaskList("{"x" * 513}")', f"TaskList: the name is '{'x' * 80}'; expected 1 to 512 characters"),
        ('Concurrency("a\\nb", limit = 1)', "Concurrency: the key is 'a\\nb'; expected 1 to 512 characters"),
        ("Concurrency($.j, limit = 1)", "Concurrency: the key is 5; expected a text"),
        ("Timeout(hours = 1000000)", "Timeout: its sum in milliseconds is 3600000000000; expected at most"),
        ("Priority(9223372036854775807)", "Priority: n is 9223372036854775807; expected at most"),
        ("Retry(2, max = 9223372036854775807)", "Retry: max is 9223372036854775807; expected at most"),
    ],
)
def test_a_value_that_makes_no_sense_fails_the_step(store: MemoryStore, policy: str, message: str) -> None:
    run = begin(store, inputs={"n": 0, "x": 0.5}, source=source(f"with {policy}"))
    found = run_of(store, run)
    assert found.state == RunnerState.FAILED
    assert found.error is not None
    assert found.error["message"].startswith(message)
    assert found.error["error_type"] == "BadPolicy"
    assert store.get_tasks_by_workflow(run) == []


def test_a_bad_policy_can_be_caught(store: MemoryStore) -> None:
    run = begin(store, inputs={"n": 0}, source=source("with Retry($.n) catch { yield Double(m = 1) }"))
    assert run_of(store, run).outputs == {"m": 1}


# -- retry ----------------------------------------------------------------------------------------------------


def test_waits_grow_by_the_factor_up_to_the_longest() -> None:
    task = TaskDefinition("t", "F", "", "", "", "")
    task.retry = {"attempts": 6, "backoff": 100, "factor": 3.0, "max": 1000, "on": []}
    waits = []
    for failures in range(6):
        task.failures = failures
        waits.append(retry_delay(task, "ValueError"))
    assert waits == [100, 300, 900, 1000, 1000, None]


@pytest.mark.parametrize(
    ("on", "error", "again"),
    [([], "ValueError", True), (["ValueError"], "ValueError", True), (["Timeout"], "ValueError", False)],
)
def test_only_failures_of_the_types_that_are_named_are_retried(
    on: list[str], error: str, again: bool
) -> None:
    task = TaskDefinition("t", "F", "", "", "", "")
    task.retry = {"attempts": 2, "backoff": 1, "factor": 1.0, "max": 1, "on": on}
    assert (retry_delay(task, error) is not None) == again


@pytest.mark.parametrize(
    ("never", "error", "again"),
    [
        (["ValueError"], ValueError(), False),
        (["ValueError"], UnicodeError(), False),
        (["KeyError"], ValueError(), True),
    ],
)
def test_failures_of_some_types_are_never_retried(never: list[str], error: Exception, again: bool) -> None:
    task = TaskDefinition("t", "F", "", "", "", "")
    task.retry = {
        "attempts": 2,
        "backoff": 1,
        "factor": 1.0,
        "max": 1,
        "on": ["Exception"],
        "nonRetryable": never,
    }
    result = TaskResult(task, error=error)
    assert (retry_delay(task, result.error_type, result.error_bases) is not None) == again


@pytest.mark.parametrize(
    ("on", "again"), [(["OSError"], True), (["ConnectionError"], True), (["KeyError"], False)]
)
def test_a_type_includes_those_that_derive_from_it(on: list[str], again: bool) -> None:
    task = TaskDefinition("t", "F", "", "", "", "")
    task.retry = {"attempts": 2, "backoff": 1, "factor": 1.0, "max": 1, "on": on}
    result = TaskResult(task, error=ConnectionResetError("gone"))
    assert result.error_bases == ["ConnectionError", "OSError", "Exception", "BaseException"]
    assert (retry_delay(task, result.error_type, result.error_bases) is not None) == again


@pytest.mark.parametrize(
    ("asked", "delay"),
    [(2.5, 2_500), (0.001, 10), (-1, 10), (float("nan"), 10), ("soon", 10), (None, 10), (1e12, 86_400_000)],
)
def test_an_error_may_ask_for_more_time(asked: object, delay: int) -> None:
    task = TaskDefinition("t", "F", "", "", "", "")
    task.retry = {"attempts": 2, "backoff": 10, "factor": 1.0, "max": 10, "on": []}
    error = ValueError()
    error.retry_after = asked  # type: ignore[attr-defined]
    result = TaskResult(task, error=error)
    assert retry_delay(task, result.error_type, (), result.retry_after) == delay


def test_without_the_policy_nothing_is_retried() -> None:
    assert retry_delay(TaskDefinition("t", "F", "", "", "", ""), "ValueError") is None


@pytest.mark.parametrize(("failures", "state"), [(0, "completed"), (2, "completed"), (3, "failed")])
def test_attempts_count_every_run_of_the_handler(store: MemoryStore, failures: int, state: str) -> None:
    run = begin(store, source=source("with Retry(3, backoff = 1)"))
    service, recorder = serve(store, failing(failures))
    with serving(service, recorder):
        assert ended(store, run).state == state
    task = only_task(store, run)
    assert (task.deliveries, task.failures) == (min(failures + 1, 3), min(failures, 2))
    assert (task.deaths, task.state) == (0, state)


def test_a_failure_of_another_type_is_final(store: MemoryStore) -> None:
    run = begin(store, source=source('with Retry(5, backoff = 1, on = ["OSError"])'))
    service, recorder = serve(store, failing(9))
    with serving(service, recorder):
        assert ended(store, run).state == RunnerState.FAILED
    assert only_task(store, run).deliveries == 1


def test_the_last_error_shows_while_the_next_attempt_is_awaited(store: MemoryStore) -> None:
    run = begin(store, source=source("with Retry(2, backoff = 600000, max = 600000)"))
    service, _ = serve(store, failing(1))
    assert service.run_once() == 1
    task = only_task(store, run)
    assert (task.state, task.failures) == (TaskState.PENDING, 1)
    assert task.error == {"message": "not yet", "type": "ValueError"}
    due = store.next_due()
    assert due is not None
    assert 500_000 < due <= 600_000
    assert service.run_once() == 0
    assert run_of(store, run).state == RunnerState.RUNNING


def test_an_answer_that_does_not_fit_is_no_failure_of_the_handler(store: MemoryStore) -> None:
    """It would not fit the next time either, unless the handler is a model; that is asked again by itself."""
    run = begin(store, source=source("with Retry(3, backoff = 1)"))
    service, recorder = serve(store, lambda payload: {"m": "x"})
    with serving(service, recorder):
        assert ended(store, run).state == RunnerState.FAILED
    assert only_task(store, run).deliveries == 1


# -- priority, lists, concurrency -----------------------------------------------------------------------------


def test_the_highest_priority_goes_first_then_the_oldest(store: MemoryStore) -> None:
    for n, priority in enumerate([0, 5, -1, 5]):
        begin(store, inputs={"n": n}, source=source(f"with Priority({priority})"))
    order: list[int] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        order.append(payload["n"])
        return {"m": 0}

    service, _ = serve(store, work, max_concurrent=4)
    assert service.run_once() == 4
    assert order == [1, 3, 0, 2]


def test_a_task_goes_to_the_workers_of_its_list(store: MemoryStore) -> None:
    run = begin(store, source=source('with TaskList("gpu")'))
    usual, _ = serve(store, failing(0))
    assert usual.run_once() == 0
    special, recorder = serve(store, failing(0), task_list="gpu")
    with serving(special, recorder):
        assert ended(store, run).outputs == {"m": 6}


def test_a_worker_does_not_keep_a_task_that_is_born_for_another_list(store: MemoryStore) -> None:
    text = source(
        more="""workflow Two(n: Long) => (m: Long) andThen {
            a = Double($.n)
            b = Double(a.m) with TaskList("gpu")
            yield Two(m = b.m)
        }"""
    )
    run = begin(store, "ns.Two", {"n": 1}, text)
    service, recorder = serve(store, failing(0))
    with serving(service, recorder):
        received(store, "nothing", lambda: len(store.get_tasks_by_workflow(run)) == 2)
        polled = recorder.count("claim_tasks")
        recorder.until(lambda r: r.count("claim_tasks") > polled + 2)
        assert [task.state for task in store.get_tasks_by_workflow(run)] == ["completed", "pending"]


def test_no_more_than_the_limit_work_at_once(store: MemoryStore) -> None:
    text = source(
        more="""workflow Many(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
            d = Double(n) with Concurrency("k", limit = 2)
            yield Many(all = [d.m])
        }"""
    )
    run = begin(store, "ns.Many", {"list": list(range(12))}, text)
    waiting = [task for task in store.get_tasks_by_workflow(run) if task.hold == TaskHold.CONCURRENCY]
    assert len(waiting) == 10
    most: list[int] = []

    def work(payload: dict[str, Any]) -> dict[str, Any]:
        open_tasks = store.find_tasks(TaskFilter(key="k", state=TaskState.RUNNING))
        most.append(len(open_tasks))
        return {"m": payload["n"]}

    service, recorder = serve(store, work, max_concurrent=6)
    with serving(service, recorder):
        assert ended(store, run).outputs == {"all": list(range(12))}
    assert len(most) == 12
    assert max(most) <= 2


def test_the_tasks_of_a_rate_begin_evenly_spaced(store: MemoryStore) -> None:
    text = source(
        more="""workflow Many(list: [Long]) => (all: [Long]) andThen foreach n in $.list {
            d = Double(n) with Rate("api", perMinute = 3000)
            yield Many(all = [d.m])
        }"""
    )
    first, second = (begin(store, "ns.Many", {"list": [1, 2, 3]}, text) for _ in range(2))
    service, recorder = serve(store, failing(0), max_concurrent=6)
    with serving(service, recorder):
        assert ended(store, first).outputs == ended(store, second).outputs == {"all": [2, 4, 6]}
    tasks = [*store.get_tasks_by_workflow(first), *store.get_tasks_by_workflow(second)]
    slots = sorted(task.not_before for task in tasks)
    assert min(after - before for before, after in itertools.pairwise(slots)) >= 20


def test_runs_share_a_key(store: MemoryStore) -> None:
    first = begin(store, source=source('with Concurrency("k", limit = 1)'))
    second = begin(store, source=source('with Concurrency("k", limit = 1)'))
    assert (only_task(store, first).hold, only_task(store, second).hold) == ("", TaskHold.CONCURRENCY)
    service, recorder = serve(store, failing(0))
    with serving(service, recorder):
        assert ended(store, first).outputs == ended(store, second).outputs == {"m": 6}
