"""`afl mcp` as a process of its own, spoken to by the package's own client: stdio, HTTP, and by way of a server."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.streamable_http import streamable_http_client
from support.agents import DOUBLE
from support.command_line import environment
from support.warm_processes import WarmPopen, afl_warm, shared

from afl.kernel.settings import load_settings
from afl.operations.access import hash_token
from afl.operations.audit import read_audit
from afl.operations.run.runs import opened

SECONDS = 60.0
TOKEN = "a token that nobody guesses"
VIEWER = "another one, of somebody who looks"
_URL = re.compile(r"(http://\S+?)[;\s]")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/mcp.db"


def tell(server: Any, story: Callable[[Client], Awaitable[None]]) -> None:
    async def connected() -> None:
        async with Client(server) as client:
            await asyncio.wait_for(story(client), SECONDS)

    asyncio.run(connected())


def stdio(*options: str, **changes: str) -> StdioServerParameters:
    command, *args = shared().command(["-m", "afl", "mcp", *options])
    return StdioServerParameters(command=command, args=args, env=environment(**changes))


@contextmanager
def serving(*command: str, **changes: str) -> Iterator[str]:
    """A server in a process of its own, by the address that it prints."""
    with WarmPopen(
        ["-m", "afl", *command],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env=environment(**changes),
    ) as process:
        try:
            assert process.stdout is not None
            for line in process.stdout:
                if found := _URL.search(line):
                    yield found[1]
                    break
            else:
                raise AssertionError("it ended without an address")
        finally:
            process.terminate()
            process.wait(SECONDS)


async def begin_and_look(client: Client) -> None:
    begun = await client.call_tool("run", {"source": DOUBLE, "workflow": "ns.Once", "inputs": {"n": 4}})
    assert begun.structured_content is not None, begun.content
    run = begun.structured_content["run"]
    (content,) = (await client.read_resource(f"afl://runs/{run}")).contents
    assert json.loads(content.text)["line"]["state"] == "created"  # type: ignore[union-attr]
    why = await client.call_tool("why", {"name": run})
    assert why.structured_content is not None and why.structured_content["code"] == "run-no-evaluator"
    wrong = await client.call_tool("show_run", {"run": "nope"})
    assert wrong.is_error and "there is no run nope" in str(wrong.content)


def test_over_standard_input_and_output(store: str) -> None:
    tell(stdio("--store", store), begin_and_look)
    with opened(load_settings({"store": store}, environ={})) as kept:
        assert [entry.operation for entry in read_audit(kept).entries] == ["submit_run"]


def test_over_streamable_http(store: str) -> None:
    with serving("mcp", "--http", "--port", "0", "--store", store) as url:
        tell(url, begin_and_look)
        strange = httpx2.post(url, headers={"Host": "evil.example"}, json={})
        assert strange.status_code == 421
        elsewhere = httpx2.post(url, headers={"Origin": "http://evil.example"}, json={})
        assert elsewhere.status_code == 403


def test_tokens_have_roles(store: str, tmp_path: Path) -> None:
    config = tmp_path / "afl.config.json"
    users = {"grace": {"role": "viewer", "token": hash_token(VIEWER)}}
    config.write_text(json.dumps({"users": users}))
    changes = {"AFL_TOKEN": TOKEN, "AFL_CONFIG": str(config)}
    with serving("mcp", "--http", "--port", "0", "--store", store, **changes) as url:
        assert httpx2.post(url, json={}).status_code == 401
        assert httpx2.post(url, json={}, headers={"Authorization": "Bearer wrong"}).status_code == 401
        tell(transport(url, TOKEN), begin_and_look)

        async def look_only(client: Client) -> None:
            assert not (await client.call_tool("list_runs", {})).is_error
            refused = await client.call_tool(
                "run", {"source": DOUBLE, "workflow": "ns.Once", "inputs": {"n": 4}}
            )
            assert refused.is_error and "grace has the role viewer" in str(refused.content)

        tell(transport(url, VIEWER), look_only)


@asynccontextmanager
async def transport(url: str, token: str) -> AsyncIterator[Any]:
    async with (
        httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http,
        streamable_http_client(url, http_client=http) as streams,
    ):
        yield streams


def test_other_addresses_demand_a_token(store: str, tmp_path: Path) -> None:
    done = afl_warm("mcp", "--http", "--host", "0.0.0.0", "--store", store, folder=tmp_path)
    assert done.code == 1 and "set AFL_TOKEN" in done.err


def test_by_way_of_a_server(store: str) -> None:
    with serving("dashboard", "--port", "0", "--store", store) as url:
        tell(stdio("--server", url), begin_and_look)
    with opened(load_settings({"store": store}, environ={})) as kept:
        assert [entry.operation for entry in read_audit(kept).entries] == ["submit_run"]
