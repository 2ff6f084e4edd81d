"""Every tool and resource, by the package's own client, on a store in memory."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError
from support.agents import DOUBLE, run_of
from support.mcp_clients import bad, good, tell

from afl.operations.audit import read_audit
from afl.operations.roles import Role
from afl.runtime.evaluator import Evaluator
from afl.runtime.local_runner import LocalRunner
from afl.runtime.memory_store import MemoryStore
from afl.runtime.task_handlers.handler import HandlerContext, Handlers

ASKS = """
namespace pay {
    event facet Approve(amount: Long) => (amount: Long, note: String)
    workflow Pay(amount: Long) => (paid: Long) andThen {
        ok = Approve(amount = $.amount) with Human("finance")
        yield Pay(paid = ok.amount)
    }
}
"""


@pytest.fixture
def store() -> Any:
    opened = MemoryStore()
    yield opened
    opened.close()


def work(store: MemoryStore, run: str) -> None:
    """The agent of DOUBLE, for one run."""

    def double(n: int, context: HandlerContext) -> dict[str, int]:
        context.log(f"doubling {n}")
        return {"m": 2 * n}

    with LocalRunner(Evaluator(store), Handlers.of({"Double": double})) as runner:
        runner.resume(run)  # type: ignore[arg-type]


@pytest.mark.parametrize("run", ["a\0b", "a\nb", "x" * 100_000])
def test_a_name_that_nothing_can_have_is_refused(store: MemoryStore, run: str) -> None:
    async def story(client: Client) -> None:
        for tool in ("show_run", "cancel_run", "pause_run", "read_log"):
            said = await bad(client, tool, run=run)
            assert "expected 1 to 512 characters" in said and len(said) < 1_000

    tell(store, story)
    assert read_audit(store).entries == []


def test_each_tool_says_what_it_does_and_takes(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        tools = {each.name: each for each in (await client.list_tools()).tools}
        assert set(tools) == {
            *("validate", "compile", "list_workflows", "show_workflow", "publish_workflows"),
            *("list_flows", "show_flow"),
            *("count_states", "preview_bulk", "bulk_runs"),
            *("run", "wait_for_run", "list_runs", "show_run", "show_step", "read_log", "query_run", "why"),
            *("continue_step", "retry", "rerun", "fork", "pause_run", "unpause_run", "cancel_run"),
            *("send_signal", "list_signals", "compare_runs"),
            *("list_tasks", "list_servers"),
            *("list_sessions", "show_session", "send_to_session", "show_turn", "wait_for_turn"),
            *("list_approvals", "show_approval", "answer_approval", "reject_approval"),
        }
        for each in tools.values():
            assert each.title and len(each.description or "") > 15
            assert each.output_schema is not None and each.output_schema["type"] == "object"
            assert "context" not in each.input_schema.get("properties", {})
            assert each.annotations is not None
        kinds = {name: each.annotations for name, each in tools.items()}
        looks = {name for name, kind in kinds.items() if kind is not None and kind.read_only_hint}
        assert looks == {name for name in tools if name.split("_")[0] in _LOOKING}
        ends = {name for name, kind in kinds.items() if kind is not None and kind.destructive_hint}
        assert ends == {"cancel_run", "bulk_runs", "reject_approval"}
        assert tools["continue_step"].input_schema["required"] == ["step"]
        assert "files" not in tools["send_to_session"].input_schema["properties"]
        assert "AgentFlow" in (client.instructions or "")

    tell(store, story)


_LOOKING = {
    "compare",
    "count",
    "preview",
    "validate",
    "compile",
    "list",
    "show",
    "wait",
    "read",
    "query",
    "why",
}


def test_a_source_is_examined_and_compiled(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        found = await good(client, "validate", source=DOUBLE)
        assert found["valid"] and found["program"] is None
        assert [each["name"] for each in found["workflows"]] == ["ns.Once", "ns.Twice", "ns.Many"]
        assert (await good(client, "compile", source=DOUBLE))["program"]["type"] == "Program"
        broken = await good(client, "validate", source="workflow W( => {", name="w.afl")
        assert not broken["valid"] and broken["findings"][0]["line"] == 1

    tell(store, story)


def test_a_run_from_its_start_to_its_log(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        begun = await good(
            client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 4}, idempotency_key="k"
        )
        again = await good(
            client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 4}, idempotency_key="k"
        )
        run = begun["run"]
        assert again["run"] == run and (begun["state"], begun["over"]) == ("created", False)
        assert (await good(client, "why", name=run))["code"] == "run-no-evaluator"
        await asyncio.to_thread(work, store, run)
        ended = await good(client, "wait_for_run", run=run, wait_seconds=30)
        assert (ended["over"], ended["state"], ended["outputs"]) == (True, "completed", {"m": 8})
        shown = await good(client, "show_run", run=run)
        assert shown["line"]["state"] == "completed" and shown["tree"]["root"]["counts"]["completed"] == 1
        step = await good(client, "show_step", step=f"{run}/0/d")
        assert (step["inputs"], step["outputs"], step["state"]) == ({"n": 4}, {"m": 8}, "completed")
        log = await good(client, "read_log", run=run)
        assert [line["message"] for line in log["lines"]] == ["doubling 4"]
        found = await good(client, "read_log", run=run, grep="DOUBLING", step="d", attempt=1)
        assert [line["message"] for line in found["lines"]] == ["doubling 4"]
        assert (await good(client, "read_log", run=run, level="warning"))["lines"] == []
        page = await good(client, "list_runs", state="completed")
        assert [line["run"] for line in page["runs"]] == [run]
        (task,) = (await good(client, "list_tasks", run=run))["result"]
        assert (task["name"], task["state"]) == ("ns.Double", "completed")
        assert (await good(client, "list_servers"))["result"] == []
        assert (await good(client, "list_workflows"))["result"][0]["name"] == "ns.Once"
        assert (await good(client, "run", workflow="ns.Once", inputs={"n": 1}))["workflow"] == "ns.Once"

    tell(store, story)


def test_whoever_waits_is_told_that_it_goes_on(store: MemoryStore, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.mcp.tools._POLL_SECONDS", 0.01)
    told: list[str] = []

    async def received(progress: float, total: float | None, message: str | None) -> None:
        told.append(message or "")

    async def story(client: Client) -> None:
        given = {"source": DOUBLE, "workflow": "ns.Once", "inputs": {"n": 4}, "wait_seconds": 0.2}
        result = await client.call_tool("run", given, progress_callback=received)
        assert result.structured_content is not None and not result.structured_content["over"]
        assert told and told[0] == f"run {result.structured_content['run']} is created"

    tell(store, story)


def test_a_step_is_continued_in_its_agents_place(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        run = (await good(client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 4}))["run"]
        await asyncio.to_thread(Evaluator(store).resume, run)
        assert "m" in await bad(client, "continue_step", step=f"{run}/0/d", result={"m": "eight"})
        done = await good(client, "continue_step", step=f"{run}/0/d", result={"m": 9})
        assert done["run"] == run
        await asyncio.to_thread(Evaluator(store).resume, run)
        assert run_of(store, run).outputs == {"m": 9}
        assert "does not wait" in await bad(client, "continue_step", step=f"{run}/0/d", result={"m": 9})

    tell(store, story)


def test_a_run_is_paused_canceled_and_retried(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        run = (await good(client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 4}))["run"]
        await asyncio.to_thread(Evaluator(store).resume, run)
        assert (await good(client, "pause_run", run=run))["state"] == "paused"
        assert (await good(client, "unpause_run", run=run))["changed"] is True
        assert (await good(client, "cancel_run", run=run))["state"] == "canceled"
        assert (await good(client, "cancel_run", run=run))["why"] == f"run {run} is canceled"
        assert (await good(client, "retry", name=run))["steps"] == 1

    tell(store, story)
    acts = [entry.operation for entry in read_audit(store).entries]
    assert set(acts) >= {"submit_run", "pause_run", "unpause_run", "cancel_run", "retry"}


def test_a_run_is_started_again_and_forked(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        run = (await good(client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 4}))["run"]
        await asyncio.to_thread(Evaluator(store).resume, run)
        again = (await good(client, "rerun", run=run, inputs={"n": 5}))["run"]
        assert run_of(store, again).inputs == {"n": 5}
        forked = await good(client, "fork", run=run, step="d", inputs={"n": 6})
        assert (forked["origin"], forked["kept"], forked["again"]) == (run, 0, 1)
        assert "nope" in await bad(client, "fork", run=run, step="nope")

    tell(store, story)
    acts = [entry.operation for entry in read_audit(store).entries]
    assert set(acts) >= {"rerun", "fork"}


def test_a_person_is_asked_and_answers(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        first = (await good(client, "run", source=ASKS, inputs={"amount": 10}))["run"]
        second = (await good(client, "run", source=ASKS, inputs={"amount": 20}))["run"]
        for run in (first, second):
            await asyncio.to_thread(Evaluator(store).resume, run)
        waiting = (await good(client, "list_approvals", group="finance"))["result"]
        assert [each["run"] for each in waiting] == [first, second]
        refused = await bad(client, "show_approval", id="\u202eoff")
        assert "\\u202eoff" in refused and "\u202e" not in refused
        shown = await good(client, "show_approval", id=waiting[0]["id"])
        assert shown["given"] == {"amount": 10}
        assert [each["name"] for each in shown["form"]["fields"]] == ["amount", "note"]
        assert "note" in await bad(client, "answer_approval", id=waiting[0]["id"], values={"amount": 5})
        answered = await good(client, "answer_approval", id=waiting[0]["id"], values={"note": "as it is"})
        assert (answered["by"], answered["values"]) == ("ada", {"amount": 10, "note": "as it is"})
        assert "answered by ada already" in await bad(client, "answer_approval", id=waiting[0]["id"])
        assert (await good(client, "reject_approval", id=waiting[1]["id"], feedback="no money"))["rejected"]
        for run in (first, second):
            await asyncio.to_thread(Evaluator(store).resume, run)
        assert run_of(store, first).outputs == {"paid": 10}
        assert "no money" in str(run_of(store, second).error)
        assert (await good(client, "list_approvals"))["result"] == []

    tell(store, story)


AWAITS = """
namespace shop {
    event facet Paid(order: String) => (amount: Long) with Signal("paid")
    workflow Order(order: String) => (amount: Long) andThen {
        p = Paid(order = $.order)
        yield Order(amount = p.amount)
    }
}
"""


def test_a_signal_is_delivered(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        run = (await good(client, "run", source=AWAITS, inputs={"order": "7"}))["run"]
        await asyncio.to_thread(Evaluator(store).resume, run)
        (awaited,) = (await good(client, "list_signals", run=run))["awaited"]
        assert (awaited["name"], awaited["step"], awaited["facet"]) == ("paid", "p", "shop.Paid")
        assert "expected Long" in await bad(
            client, "send_signal", run=run, name="paid", value={"amount": "x"}
        )
        assert "it waits for: paid" in await bad(client, "send_signal", run=run, name="sold", value={})
        sent = {"run": run, "name": "paid", "value": {"amount": 5}, "id": "one"}
        assert [(await good(client, "send_signal", **sent))["delivered"] for _ in range(2)] == [True, False]
        await asyncio.to_thread(Evaluator(store).resume, run)
        assert run_of(store, run).outputs == {"amount": 5}
        assert "receives no signals" in await bad(client, "send_signal", run=run, name="paid", value={})

    tell(store, story)
    assert "send_signal" in [entry.operation for entry in read_audit(store).entries]


def test_errors_are_those_of_the_product(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        told = await bad(client, "show_run", run="nope")
        assert told.splitlines()[0] == "there is no run nope in this store"
        assert "give a source, or the name of a workflow" in await bad(client, "run")
        told = await bad(client, "run", source=DOUBLE, workflow="ns.Onec")
        assert "did you mean" in told
        assert "n" in await bad(client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": "four"})
        told = await bad(client, "list_runs", limit=0, state=7)
        assert told.splitlines() == [
            "state: Input should be a valid string",
            "limit: Input should be greater than or equal to 1",
        ]
        assert await bad(client, "nothing") == "Unknown tool: nothing"

    tell(store, story)
    assert store.find_runs() == []


def test_an_argument_that_a_tool_does_not_take_is_refused(store: MemoryStore) -> None:
    """A filter that is misspelled would cancel what nobody meant."""

    async def story(client: Client) -> None:
        begun = await good(client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 1})
        told = await bad(client, "bulk_runs", action="cancel", state="created", worfklow="ns.Other")
        assert told == "worfklow: Extra inputs are not permitted"
        assert "not permitted" in await bad(client, "run", workflow="ns.Once", input={"n": 1})
        assert [each["run"] for each in (await good(client, "list_runs", state="created"))["runs"]] == [
            begun["run"]
        ]

    tell(store, story)


def test_a_viewer_looks_and_does_not_act(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        assert (await good(client, "list_runs"))["runs"] == []
        assert "ada has the role viewer" in await bad(
            client, "run", source=DOUBLE, workflow="ns.Once", inputs={"n": 1}
        )

    tell(store, story, Role.VIEWER)
    assert store.find_runs() == []
    assert [entry.outcome for entry in read_audit(store).entries] == ["refused"]


def test_resources_are_read_by_their_address(store: MemoryStore) -> None:
    async def read(client: Client, uri: str) -> Any:
        (content,) = (await client.read_resource(uri)).contents
        assert content.mime_type == "application/json"
        return json.loads(content.text)  # type: ignore[union-attr]

    async def story(client: Client) -> None:
        await good(client, "publish_workflows", source=DOUBLE, name="double")
        run = (await good(client, "run", workflow="ns.Once", inputs={"n": 4}))["run"]
        await asyncio.to_thread(work, store, run)
        assert (await read(client, f"afl://runs/{run}"))["line"]["state"] == "completed"
        assert (await read(client, f"afl://runs/{run}/log"))["lines"][0]["message"] == "doubling 4"
        assert (await read(client, f"afl://runs/{run}/steps/0/d"))["outputs"] == {"m": 8}
        assert [each["run"] for each in (await read(client, "afl://runs?state=completed"))["runs"]] == [run]
        assert (await read(client, "afl://workflows/ns.Once"))["source"] == DOUBLE
        assert len(await read(client, "afl://workflows")) == 3
        (flow,) = (await read(client, "afl://flows"))["flows"]
        assert (flow["name"], flow["runs"]) == ("double", 1)
        assert (await read(client, f"afl://flows/{flow['id']}"))["sources"][0]["content"] == DOUBLE
        assert (await good(client, "list_flows"))["flows"] == [flow]
        assert (await good(client, "show_flow", flow="double"))["program"] is None
        assert await read(client, "afl://approvals") == []
        templates = (await client.list_resource_templates()).resource_templates
        assert {each.uri_template for each in templates} >= {"afl://runs/{run}", "afl://workflows/{name}"}
        with pytest.raises(MCPError, match="there is no run nope"):
            await client.read_resource("afl://runs/nope")

    tell(store, story)


def test_sessions_of_agents(store: MemoryStore) -> None:
    async def story(client: Client) -> None:
        assert await good(client, "list_sessions") == {"result": []}
        assert "has no session 'x'" in await bad(client, "show_session", session="x")
        assert "has no agent 'guide'" in await bad(
            client, "send_to_session", session="x", text="Hello", agent="guide"
        )
        assert "has no turn and no agent 'x'" in await bad(client, "show_turn", name="x")
        assert "has no turn and no agent 'x'" in await bad(client, "wait_for_turn", turn="x", timeout=1)

    tell(store, story)
