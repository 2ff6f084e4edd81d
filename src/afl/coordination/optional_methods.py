"""Methods that an agent may have, each a plain function or a coroutine function."""

from __future__ import annotations

import inspect
from typing import Any


async def call_optional(agent: object, method: str, *arguments: Any) -> Any:
    """What the method returns, awaited if need be; None when the agent has no such method."""
    function = getattr(agent, method, None)
    returned = None if function is None else function(*arguments)
    return await returned if inspect.isawaitable(returned) else returned
