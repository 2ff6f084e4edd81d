"""After a story that is known, the figures are known."""

from __future__ import annotations

import asyncio
import socket
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families
from support.agents import DOUBLE, submit
from support.turns_office import Office, Place

from afl.kernel import small_server, telemetry
from afl.kernel.errors import SettingError
from afl.kernel.metrics import Meters
from afl.kernel.metrics_server import MetricsServer
from afl.kernel.settings import load_settings
from afl.operations.metrics import metrics
from afl.operations.run.control import cancel, pause
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore
from afl.runtime.runner.config import RunnerConfig
from afl.runtime.runner.service import RunnerService
from afl.runtime.task_handlers.handler import Handlers
from afl.turns.model import Limits

ASKS = """
namespace pay {
    event facet Approve(amount: Long) => (ok: Boolean)
    workflow Pay(amount: Long) => (ok: Boolean) andThen {
        asked = Approve(amount = $.amount) with Human("finance")
        yield Pay(ok = asked.ok)
    }
}
"""
NOBODY = {"redis": "redis://127.0.0.1:9/0"}


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    opened = MemoryStore()
    yield opened
    opened.close()


@pytest.fixture
def kept(monkeypatch: pytest.MonkeyPatch) -> Iterator[Meters]:
    """Figures that begin at nothing."""
    fresh = Meters()
    monkeypatch.setattr("afl.operations.metrics.process_meters", lambda: fresh)
    monkeypatch.setattr("afl.runtime.runner.service.process_meters", lambda: fresh)
    monkeypatch.setenv("CDKTR_PRINCIPAL_PORT", "9")
    telemetry.meter(fresh)
    yield fresh
    telemetry.meter(None)


def figures(text: str) -> dict[str, float]:
    """By name and labels, as they stand in the text."""
    found = {}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            labels = ",".join(f"{name}={value}" for name, value in sample.labels.items())
            found[f"{sample.name}{{{labels}}}" if labels else sample.name] = sample.value
    return found


def test_runs_tasks_and_approvals(store: MemoryStore, kept: Meters) -> None:
    done, waiting, paused, gone = (submit(store, "ns.Once", {"n": n}, DOUBLE) for n in range(4))
    asked = submit(store, "pay.Pay", {"amount": 5}, ASKS)
    submit(store, "ns.Once", {"n": 9}, DOUBLE, task_list="night")
    evaluator = Evaluator(store)
    for run in (done, waiting, paused, gone, asked):
        evaluator.resume(run)
    evaluator.continue_step(f"{done}/0/d", {"m": 1})  # type: ignore[arg-type]
    evaluator.resume(done)
    pause(store, paused, by="ada")
    cancel(store, gone, by="ada")
    settings = replace(load_settings({"store": "memory://"}, environ={}), **NOBODY)
    found = figures(metrics(store, settings))
    assert {name: found[name] for name in found if name.startswith("afl_runs{")} == {
        "afl_runs{state=created}": 1,
        "afl_runs{state=running}": 2,
        "afl_runs{state=paused}": 1,
        "afl_runs{state=completed}": 1,
        "afl_runs{state=failed}": 0,
        "afl_runs{state=canceled}": 1,
    }
    assert {name: found[name] for name in found if name.startswith("afl_tasks{")} == {
        "afl_tasks{list=default,facet=ns.Double,state=pending,hold=}": 1,
        "afl_tasks{list=default,facet=ns.Double,state=pending,hold=paused}": 1,
        "afl_tasks{list=default,facet=pay.Approve,state=pending,hold=elsewhere}": 1,
    }
    assert found["afl_approvals_waiting{group=finance}"] == found["afl_elsewhere_tasks{via=human}"] == 1
    assert 0 <= found["afl_oldest_task_seconds{list=default}"] < 600
    assert (
        found["afl_runs_ended_total{state=completed}"] == found["afl_runs_ended_total{state=canceled}"] == 1
    )
    assert [found[f"afl_part_up{{part={part}}}"] for part in ("store", "turns", "fleet", "messages")] == [
        1,
        1,
        0,
        0,
    ]


def test_a_runner_tells_what_it_did(store: MemoryStore, kept: Meters) -> None:
    run = submit(store, "ns.Twice", {"n": 3}, DOUBLE)
    config = RunnerConfig(http_port=0, poll_interval_ms=50)
    text: list[str] = []

    def look() -> None:
        with store.subscribe([f"run:{run}"]) as subscription:
            while not store.get_run(run).is_over:  # type: ignore[union-attr]
                subscription.wait(1.0)
        with urllib.request.urlopen(f"http://127.0.0.1:{service.http_port}/metrics") as reply:
            text.append(reply.read().decode())
        service.stop()

    looking = threading.Thread(target=look)
    handlers = Handlers.of({"Double": lambda n: {"m": 2 * n}})
    service = RunnerService(store, Evaluator(store), config, handlers=handlers, started=looking.start)
    service.start()
    looking.join()
    found = figures(text[0])
    assert found["afl_runner_tasks_total{facet=ns.Double,outcome=handled}"] == 2
    assert found["afl_handler_seconds_count{facet=ns.Double}"] == 2
    assert found["afl_claims_total{list=default}"] == 2
    assert found["afl_claim_wait_seconds_count{list=default}"] == 2
    assert found["afl_runs_ended_total{state=completed}"] == 1
    assert found["afl_commit_seconds_count"] >= 1 and found["afl_evaluation_seconds_count"] >= 1
    assert found["afl_runs{state=completed}"] == 1 and found["afl_part_up{part=store}"] == 1
    assert found["afl_runner_up"] == 1 and "afl_store_errors_total" not in found


def test_turns(store: MemoryStore, kept: Meters) -> None:
    async def story() -> None:
        there = Office(store.database, Place("memory://", None), Limits())
        await there.engine.bus.start()
        await there.agents.define("ada")
        await there.agents.define("bob")
        for agent in ("ada", "ada", "bob"):
            await there.agents.send(agent, "go")
        found = figures(metrics(store, replace(load_settings({"store": "memory://"}, environ={}), **NOBODY)))
        project = f"project={there.project}"
        assert found[f"afl_turns_active{{{project},status=dispatched}}"] == 2
        assert found[f"afl_turn_inbox{{{project},status=pending}}"] == 2
        assert found[f"afl_turn_inbox{{{project},status=queued}}"] == 1
        assert found[f"afl_turn_inbox_oldest_seconds{{{project}}}"] >= 0
        await there.engine.close()

    asyncio.run(story())


def test_a_process_without_a_server_of_its_own(kept: Meters) -> None:
    kept.count("afl.claims", 7, {"list": "default"})
    server = MetricsServer("0", kept.render)
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/metrics") as reply:
            assert figures(reply.read().decode()) == {"afl_claims_total{list=default}": 7}
        with pytest.raises(urllib.error.HTTPError, match="404") as refused:
            urllib.request.urlopen(f"http://127.0.0.1:{server.port}/else")
        refused.value.close()
        with pytest.raises(SettingError, match="cannot listen there"):
            MetricsServer(f"127.0.0.1:{server.port}", kept.render)
    finally:
        server.close()
    with pytest.raises(SettingError, match="expected a port"):
        MetricsServer("here", kept.render)


def test_who_asks_for_no_figures_is_not_kept(kept: Meters, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(small_server, "REQUEST_SECONDS", 0.2)
    server = MetricsServer("0", kept.render)
    try:
        with socket.create_connection(("127.0.0.1", server.port), timeout=30) as idle:
            assert idle.recv(1) == b""
    finally:
        server.close()
