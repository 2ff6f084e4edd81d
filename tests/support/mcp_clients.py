"""A client of the MCP server in this process, and what it is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from typing import Any

from mcp import Client

from afl.client.store_client import StoreClient
from afl.kernel.settings import load_settings
from afl.mcp.clients import SingleClient
from afl.mcp.server import make_server
from afl.operations.roles import Caller, Role
from afl.runtime.memory_store import MemoryStore

SECONDS = 60.0
Story = Callable[[Client], Awaitable[None]]


def tell(store: MemoryStore, story: Story, role: Role = Role.ADMIN) -> None:
    """A client that is connected to a server on the store, as somebody of that role."""
    client = StoreClient(
        store, load_settings({"store": "memory://"}, environ={}), Caller("ada", role, "test")
    )

    async def connected() -> None:
        async with Client(make_server(SingleClient(client))) as connection:
            await asyncio.wait_for(story(connection), SECONDS)

    asyncio.run(connected())


async def good(client: Client, name: str, /, **given: Any) -> Any:
    result = await client.call_tool(name, given)
    assert not result.is_error, result.content
    assert json.loads(result.content[0].text) == result.structured_content  # type: ignore[union-attr]
    return result.structured_content


async def bad(client: Client, name: str, /, **given: Any) -> str:
    result = await client.call_tool(name, given)
    assert result.is_error and result.structured_content is None
    return str(result.content[0].text)  # type: ignore[union-attr]
