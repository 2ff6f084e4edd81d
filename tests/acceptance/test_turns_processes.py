"""`afl turns worker` and those who ask it, as processes on one SQLite file, and on PostgreSQL with NATS."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from support.eventually import eventually
from support.warm_processes import Warm, WarmPopen, WarmProcesses, afl_warm

AGENTS = """import time
from pathlib import Path

from afl.models import Reply, Request, ScriptedModel, ToolUse
from afl.models.messages import StopReason, ToolResult
from afl.turns import agent


def wait(n: int) -> str:
    "Wait for the gate."
    Path("waiting").touch()
    while not Path("open").exists():
        time.sleep(0.01)
    return "through"


def answer(request: Request):
    last = request.messages[-1].content[-1]
    if isinstance(last, ToolResult):
        return last.content
    if last.text == "wait":
        return Reply((ToolUse("w", "wait", {"n": 1}),), StopReason.TOOL_USE)
    if request.tools[-1].name == "submit_result":
        return Reply((ToolUse("s", "submit_result", {"result": {"word": "yes"}}),), StopReason.TOOL_USE)
    return f"heard: {last.text}"


model = ScriptedModel(answer)
porter = agent("porter", tools=[wait])
"""


class OperationsClient:
    """One folder, one place, and the commands that are given there."""

    def __init__(self, folder: Path, warm: WarmProcesses, place: dict[str, str]) -> None:
        self.folder = folder
        self._warm = warm
        self.place = place
        self._place = {"AFL_POLL_INTERVAL_MS": "100", **place}
        (folder / "agents.py").write_text(AGENTS)

    def start(self, *args: str, until: str) -> Warm:
        process = self._warm.start("turns", *args, folder=self.folder, **self._place)
        eventually(lambda: until in process.said(), process.said)
        return process

    def worker(self) -> Warm:
        return self.start("worker", "agents.py", "--shutdown-timeout", "0.2", until="serves porter")

    def afl(self, *args: str, code: int = 0) -> str:
        process = self._warm.start("turns", *args, folder=self.folder, **self._place)
        assert process.wait() == code, process.said()
        return process.said()


@pytest.fixture(params=["sqlite", "postgres"])
def client(request: pytest.FixtureRequest, tmp_path: Path, warm: WarmProcesses) -> OperationsClient:
    if request.param == "sqlite":
        return OperationsClient(tmp_path, warm, {})
    url, bus = request.getfixturevalue("postgres_database"), request.getfixturevalue("nats_url")
    return OperationsClient(
        tmp_path, warm, {"AFL_STORE": url, "AFL_BUS": bus, "AFL_PROJECT": f"p-{tmp_path.name}"}
    )


def test_a_worker_answers_those_who_ask(client: OperationsClient) -> None:
    worker = client.worker()
    assert client.afl("send", "porter", "hello", "--wait") == "heard: hello\n"
    asked = client.afl("send", "porter", "hello", "--wait", "--json", "--field", "word=just one")
    delivered = json.loads(asked)
    assert (delivered["status"], delivered["fields"]) == ("success", {"word": "yes"})
    assert worker.terminate() == 0
    assert "Stopped." in worker.said()


def test_events_are_heard_while_they_happen(client: OperationsClient) -> None:
    worker = client.worker()
    tail = client.start("tail", "porter", "--json", until="Listening.")
    assert client.afl("send", "porter", "hello", "--wait") == "heard: hello\n"
    lines = eventually(lambda: [line for line in tail.said().splitlines() if '"task"' in line], tail.said)
    told = json.loads(lines[0])
    assert (told["kind"], told["agent"], told["payload"]["status"]) == ("task", "porter", "success")
    assert set(told["payload"]) >= {"agent_turn_id", "status", "output_box_id", "deliverable_card_id"}
    tail.signal(signal.SIGINT)
    assert tail.wait() == 0
    plain = client.start("tail", "--count", "1", until="Listening.")
    client.afl("send", "porter", "again", "--wait")
    assert plain.wait() == 0 and "porter" in plain.said()
    assert worker.terminate() == 0


def test_a_turn_at_work_is_stopped(client: OperationsClient) -> None:
    worker = client.worker()
    turn = client.afl("send", "porter", "wait").strip()
    eventually((client.folder / "waiting").exists, worker.said)
    assert "a worker runs step 1" in client.afl("why", "porter")
    assert "was told to stop" in client.afl("stop", "porter", "--reason", "enough")
    eventually(lambda: json.loads(client.afl("show", turn, "--json"))["turn"]["over"], worker.said)
    shown = json.loads(client.afl("show", turn, "--json"))
    assert (shown["turn"]["status"], shown["turn"]["error_code"]) == ("canceled", "stopped")
    assert shown["cards"][-1]["type"] == "task.deliverable"
    (client.folder / "open").touch()
    assert client.afl("send", "porter", "still there?", "--wait") == "heard: still there?\n"
    assert worker.terminate() == 0


def test_a_worker_that_is_told_to_end_leaves_its_turns_to_others(client: OperationsClient) -> None:
    first = client.worker()
    turn = client.afl("send", "porter", "wait").strip()
    eventually((client.folder / "waiting").exists, first.said)
    first.signal(signal.SIGTERM)
    second = client.worker()
    (client.folder / "open").touch()
    assert first.wait() == 0
    eventually(lambda: json.loads(client.afl("show", turn, "--json"))["turn"]["over"], second.said)
    assert json.loads(client.afl("show", turn, "--json"))["cards"][-1]["text"] == "through"
    assert second.terminate() == 0


def test_workers_that_start_together_bring_the_same_agents(client: OperationsClient) -> None:
    command = ("worker", "agents.py", "--shutdown-timeout", "0")
    started = [client._warm.start("turns", *command, folder=client.folder, **client._place) for _ in range(4)]
    eventually(lambda: all("serves porter" in each.said() for each in started), started[0].said)
    assert client.afl("send", "porter", "hello", "--wait") == "heard: hello\n"
    assert [each.terminate() for each in started] == [0] * 4


def test_a_worker_without_a_key_for_its_model_says_so(tmp_path: Path, warm: WarmProcesses) -> None:
    mute = """from afl.models import ScriptedModel
from afl.turns import agent

models = {"script": ScriptedModel(["here"])}
porter = agent("porter")
clerk = agent("clerk", llm_config={"model": "script"})
"""
    (tmp_path / "keyless.py").write_text(mute)
    for key, said in (("", 1), ("sk-test", 0)):
        worker = warm.start("turns", "worker", "keyless.py", folder=tmp_path, ANTHROPIC_API_KEY=key)
        eventually(lambda worker=worker: "serves porter, clerk" in worker.said(), worker.said)  # type: ignore[misc]
        assert worker.terminate() == 0
        lines = [line for line in worker.said().splitlines() if "ANTHROPIC_API_KEY" in line]
        assert len(lines) == said, worker.said()
        assert all("porter" in line and "clerk" not in line for line in lines)


def test_without_nats_a_turn_is_asked_for_all_the_same(tmp_path: Path, postgres_database: str) -> None:
    (tmp_path / "agents.py").write_text(AGENTS)
    chat = ("turns", "chat", "--module", "agents.py", "--say", "hello")
    assert afl_warm(*chat, folder=tmp_path, AFL_STORE=postgres_database).out == "heard: hello\n"
    nowhere = {"AFL_STORE": postgres_database, "AFL_BUS": "nats://127.0.0.1:9"}
    asked = afl_warm("turns", "send", "porter", "hello", folder=tmp_path, **nowhere)
    assert asked.code == 0 and asked.out.startswith("turn_")
    assert "does not answer" in asked.err
    refused = afl_warm("turns", "worker", "agents.py", folder=tmp_path, **nowhere)
    assert refused.code == 1 and "does not answer" in refused.err


SENDER = """import asyncio, os, sys, time
from pathlib import Path

from afl.models import ScriptedModel
from afl.turns.agents import open_agents


def answer(request):
    Path("thinking").touch()
    while True:
        time.sleep(1)


async def main():
    store, bus, project = sys.argv[1:]
    async with open_agents(store, bus=bus or None, project=project, model=ScriptedModel(answer)) as agents:
        await agents.define("porter", tools=["wait"])
        print((await agents.send("porter", "hello")).agent_turn_id, flush=True)
        await asyncio.Event().wait()


asyncio.run(main())
"""


def test_who_sends_and_works_in_one_process_may_die_with_the_turn_in_hand(client: OperationsClient) -> None:
    (client.folder / "sender.py").write_text(SENDER)
    place = client.place
    store = place.get("AFL_STORE", f"sqlite:///{client.folder}/.afl/afl.db")
    where = [store, place.get("AFL_BUS", ""), place.get("AFL_PROJECT", "main")]
    (client.folder / ".afl").mkdir(exist_ok=True)
    sender = WarmPopen(["sender.py", *where], cwd=client.folder, stdout=subprocess.PIPE)
    try:
        assert sender.stdout is not None
        turn = sender.stdout.readline().strip()
        eventually((client.folder / "thinking").exists, lambda: turn)
    finally:
        sender.kill()
        sender.communicate()
    client.worker()
    shown = eventually(lambda: "heard: hello" in (said := client.afl("show", turn)) and said, lambda: turn)
    assert "heard: hello" in str(shown)
