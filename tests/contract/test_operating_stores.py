"""Operations on every store: what an operator sees and does is the same on all four."""

from __future__ import annotations

from dataclasses import replace

from afl.client.run_waits import read_log
from afl.client.store_client import StoreClient
from afl.kernel.clock import wall_ms
from afl.kernel.ids import random_id
from afl.kernel.settings import load_settings
from afl.language import compile_source
from afl.operations.program.sources import choose_workflow
from afl.operations.program.submission import submit
from afl.operations.reason.why import why
from afl.operations.run import control, runs
from afl.operations.run.run_list import list_runs
from afl.operations.run.waiting import wait
from afl.operations.work.task_queue import list_tasks
from afl.operations.work.workers import servers
from afl.runtime.entities import LogDefinition, ServerDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.task_handlers.handler import Handlers
from afl.runtime.types import StepId

SOURCE = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Twice(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Double(n = a.m)
        yield Twice(m = b.m)
    }
}
"""
BESIDE = """namespace t {
    event facet Double(n: Long) => (m: Long)
    workflow Both(n: Long) => (m: Long) andThen {
        a = Double(n = $.n)
        b = Double(n = 1) catch { yield Double(m = 0) }
        yield Both(m = a.m + b.m)
    }
}
"""
GOOD = Handlers.of({"t.Double": lambda n: {"m": n * 2}})


def refuse(n: int) -> dict[str, int]:
    raise ValueError("refused")


def submitted(store: PersistenceAPI, source: str = SOURCE) -> str:
    return submit(store, choose_workflow(compile_source(source, name="twice.afl")), {"n": 3}).run


def test_from_submission_to_the_end(store: PersistenceAPI) -> None:
    run = submitted(store)
    assert why(store, run).code == "run-no-evaluator"
    assert runs.resume(store, run, handlers=Handlers()).status == "PAUSED"
    reason = why(store, run[:-1])
    assert [each.code for each in reason.chain] == ["run-waits", "step-waits-for-agent", "task-unserved"]
    (task,) = list_tasks(store)
    assert why(store, task.task[:-1]).code == "task-unserved"
    assert why(store, f"{run}/b").code == "step-waits-for-step"
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 12}
    assert wait(store, run).outputs == {"m": 12}
    assert why(store, run).code == "run-completed"


def test_pause_unpause_cancel(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=Handlers())
    assert control.pause(store, run, by="ada").changed
    assert why(store, run).sentence == "it is paused by operator ada."
    assert store.claim_task(["t.Double"]) is None
    assert control.unpause(store, run).changed
    assert control.cancel(store, run, by="ada").changed
    assert [line.state for line in list_runs(store).runs] == ["canceled"]
    assert [task.state for task in list_tasks(store, run=run)] == ["canceled"]


def test_retry(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=Handlers.of({"t.Double": refuse}))
    assert why(store, run).code == "run-failed"
    assert control.retry(store, run).steps == 1
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 12}


def test_retry_does_not_work_again_on_what_had_a_result(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=Handlers())
    control.pause(store, run)
    control.continue_step(store, f"{run}/a", {"m": 6})
    control.cancel(store, run)
    assert control.retry(store, run).steps == 1
    called: list[int] = []
    handlers = Handlers.of({"t.Double": lambda n: called.append(n) or {"m": n * 2}})
    assert (runs.resume(store, run, handlers=handlers).outputs, called) == ({"m": 12}, [6])


def test_retry_works_again_on_what_failed_while_the_run_was_paused(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=Handlers())
    control.pause(store, run)
    Evaluator(store).fail_step(StepId(f"{run}/0/a"), "refused")
    control.cancel(store, run)
    assert control.retry(store, run).steps == 1
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 12}


def test_retry_of_one_step_of_a_canceled_run_lets_the_others_wait_again(store: PersistenceAPI) -> None:
    run = submitted(store, BESIDE)
    runs.resume(store, run, handlers=Handlers())
    Evaluator(store).fail_step(StepId(f"{run}/0/a"), "refused")
    runs.resume(store, run, handlers=Handlers())
    control.cancel(store, run)
    assert control.retry(store, f"{run}/a").steps == 2
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 8}


def test_retry_of_one_step_works_again_on_what_had_failed_unnoticed(store: PersistenceAPI) -> None:
    run, evaluator = submitted(store, BESIDE), Evaluator(store)
    runs.resume(store, run, handlers=Handlers())
    evaluator.fail_step(StepId(f"{run}/0/a"), "refused")
    runs.resume(store, run, handlers=Handlers())
    evaluator.fail_step(StepId(f"{run}/0/b"), "refused")
    control.cancel(store, run)
    assert control.retry(store, f"{run}/a").steps == 2
    assert runs.resume(store, run, handlers=GOOD).outputs == {"m": 8}


def test_servers_and_running_tasks(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=Handlers())
    now = wall_ms()
    server = ServerDefinition(random_id(), "default", "afl-agent", "host-7", start_time=now, ping_time=now)
    fields = {"state": "running", "handlers": ["t.Double"], "manager": store.owner_id, "capacity": 1}
    store.save_server(replace(server, **fields))  # type: ignore[arg-type]
    assert why(store, run).cause.code == "task-ready"
    task = store.claim_task(["t.Double"], lease_ms=60_000)
    assert task is not None
    (seen,) = servers(store)
    assert (seen.liveness, seen.load, seen.is_full) == ("running", 1, True)
    assert "lease held by afl-agent on host-7 until " in why(store, task.uuid).sentence
    assert why(store, server.uuid).code == "server-full"


def test_following_a_log(store: PersistenceAPI) -> None:
    run = submitted(store)
    store.save_logs([LogDefinition(random_id(), 1, run, f"{run}/0/a", message="one", time=wall_ms())])
    received = []
    client = StoreClient(store, load_settings({}, environ={}))
    for line in read_log(client, run, follow=True):
        received.append((line.step, line.message))
        if line.message == "one":
            store.save_logs([LogDefinition(random_id(), 2, run, message="two", time=wall_ms())])
            control.cancel(store, run)
    assert received == [("a", "one"), ("", "two")]


def test_prune(store: PersistenceAPI) -> None:
    run = submitted(store)
    runs.resume(store, run, handlers=GOOD)
    assert control.prune(store, -60_000, dry_run=True).runs == 1
    assert control.prune(store, -60_000).runs == 1
    assert list_runs(store).runs == []
