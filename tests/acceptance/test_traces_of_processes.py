"""One run is one trace, however many processes take part: they send their spans to one collector."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest
from support.agents import DOUBLE
from support.collector import Collector, collecting
from support.command_line import Outcome, environment
from support.warm_processes import WarmPopen, run_python, shared

from afl.kernel.telemetry import trace_id_of

ROOT = Path(__file__).parents[2]
SECONDS = 120.0
AGENT = """
from afl import handler

@handler("ns.Double")
def double(n: int, context) -> dict:
    context.log(f"doubling {n}")
    if n < 0:
        raise ValueError("less than nothing")
    return {"m": 2 * n}
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "double.afl").write_text(DOUBLE)
    (tmp_path / "agents.py").write_text(AGENT)
    return tmp_path


def variables(collector: Collector, **more: str) -> dict[str, str]:
    return environment(
        AFL_TELEMETRY="otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT=collector.url,
        OTEL_BSP_SCHEDULE_DELAY="100",
        **more,
    )


def afl(folder: Path, environ: dict[str, str], *args: str) -> Outcome:
    return run_python(["-m", "afl", *args], folder=folder, env=environ)


def test_two_processes_tell_one_trace(folder: Path) -> None:
    store = f"sqlite:///{folder}/traced.db"
    with collecting() as collector:
        environ = variables(collector, AFL_STORE=store, OTEL_EXPORTER_OTLP_HEADERS="X-Who=me%20too")
        begun = afl(folder, environ, "run", "double.afl", "ns.Twice", "--input", "n=4", "--quiet", "--json")
        run = json.loads(begun.out)["run"]
        assert {span.service for span in collector.spans} == {"afl-run"}
        with WarmPopen(["-m", "afl", "agent", str(folder / "agents.py"), "--quiet"], env=environ) as agent:
            assert json.loads(afl(folder, environ, "wait", run).out) == {"m": 16}
            agent.terminate()
            agent.wait(SECONDS)
    assert collector.traces == {trace_id_of(run)}
    assert collector.parents() == {
        "afl.evaluation < afl.run",
        "afl.handler < afl.task",
        "afl.run < -",
        "afl.task < afl.run",
    }
    assert {span.service for span in collector.spans} == {"afl-run", "afl-agent"}
    assert [span.service for span in collector.named("afl.handler")] == ["afl-agent"] * 2
    assert all(headers["X-Who"] == "me too" for headers in collector.headers)


def test_all_the_ways_to_do_a_step_are_one_trace(tmp_path: Path) -> None:
    """An agent with a tool, the fleet, a person, a handler and a message: each is told in its place."""
    with collecting() as collector:
        place = {"AFL_STORE": f"sqlite:///{tmp_path}/all.db", "WARM_PYTHON": shared().python()}
        environ = variables(collector, **place)
        done = run_python([str(ROOT / "examples/everything/main.py")], folder=ROOT, env=environ)
    assert done.code == 0, done.err
    (run,) = collector.named("afl.run")
    told = [span for span in collector.spans if span.trace == run.trace]
    assert [span.name for span in collector.spans if span.trace != run.trace] == []
    assert {span.name for span in told} >= {
        "afl.turn",
        "afl.tool",
        "afl.fleet.run",
        "afl.message",
        "afl.handler",
    }
    assert collector.parents() == {
        "afl.evaluation < afl.run",
        "afl.fleet.run < afl.task",
        "afl.fleet.task < afl.fleet.run",
        "afl.handler < afl.task",
        "afl.message < afl.task",
        "afl.model < afl.turn.step",
        "afl.run < -",
        "afl.task < afl.run",
        "afl.tool < afl.turn.step",
        "afl.turn < afl.task",
        "afl.turn.step < afl.turn",
    }
    assert len(collector.named("afl.task")) == 5


def test_a_log_line_is_one_object_with_the_ids(folder: Path) -> None:
    store = f"sqlite:///{folder}/logged.db"
    environ = environment(AFL_STORE=store, AFL_LOG_FORMAT="json", AFL_LOG_LEVEL="DEBUG")
    (folder / "noisy.py").write_text(AGENT.replace("context.log(", "logging.getLogger('afl.mine').info("))
    text = (folder / "noisy.py").read_text()
    (folder / "noisy.py").write_text("import logging\n" + text)
    run = afl(folder, environ, "submit", "double.afl", "ns.Once", "--input", "n=4").out.strip()
    command = ["-m", "afl", "agent", str(folder / "noisy.py"), "--quiet"]
    with WarmPopen(command, env=environ, stderr=subprocess.PIPE) as agent:
        assert json.loads(afl(folder, environ, "wait", run).out) == {"m": 8}
        agent.terminate()
        _, errors = agent.communicate(timeout=SECONDS)
    entries = [json.loads(line) for line in errors.splitlines() if line.startswith("{")]
    (mine,) = [entry for entry in entries if entry["logger"] == "afl.mine"]
    assert (mine["message"], mine["level"], mine["run"]) == ("doubling 4", "INFO", run)
    assert mine["step"] == f"{run}/0/d" and len(mine["task"]) == 26 and mine["time"].endswith("+00:00")


def test_a_collector_that_is_away_costs_a_warning(folder: Path) -> None:
    environ = environment(
        AFL_STORE="memory://",
        AFL_TELEMETRY="otlp",
        OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:9",
        OTEL_EXPORTER_OTLP_TIMEOUT="1",  # it tries again for so many seconds
    )
    done = afl(folder, environ, "run", "double.afl", "ns.Once", "-i", "n=4", "-a", "agents.py", "--quiet")
    assert json.loads(done.out) == {"m": 8} and done.code == 0


def test_spans_on_the_console_are_one_object_per_line(folder: Path) -> None:
    environ = environment(AFL_STORE="memory://", AFL_TELEMETRY="console")
    done = afl(folder, environ, "run", "double.afl", "ns.Once", "-i", "n=-1", "-a", "agents.py", "--quiet")
    spans = [json.loads(line) for line in done.err.splitlines() if line.startswith('{"name"')]
    assert done.code == 1
    assert {span["name"] for span in spans} == {"afl.evaluation", "afl.handler", "afl.task", "afl.run"}
    (handler,) = [span for span in spans if span["name"] == "afl.handler"]
    assert handler["status"]["status_code"] == "ERROR"
