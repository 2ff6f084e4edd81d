"""What an agent says while it says it: server-sent events with pieces of text, where a bus carries them.

A bus of its own (NATS) carries what models say to everybody; without one the words stay in the worker's process, and
the transcript grows step by step.
"""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator

from starlette.requests import Request
from starlette.responses import Response

from afl.dashboard.streams import apart, event_stream
from afl.kernel.errors import AgentFlowError
from afl.kernel.settings import Settings
from afl.operations.turn.turn_events import follow

LOCAL = "local"


def has_words(settings: Settings) -> bool:
    """Whether words of other processes can be heard."""
    return settings.bus != LOCAL


async def words(request: Request) -> Response:
    """Pieces of text of one turn, for as long as the browser listens."""
    settings: Settings = request.app.state.settings
    agent, turn = request.path_params["agent"], request.path_params["turn"]
    return event_stream(request, _pieces(settings, agent, turn))


async def _pieces(settings: Settings, agent: str, turn: str) -> AsyncGenerator[str, None]:
    yield "retry: 3000\n\n"
    if not has_words(settings):
        return
    try:
        async for event in apart(follow(settings, agent, words=True)):
            if event.payload.get("agent_turn_id") != turn:
                continue
            if event.kind == "chunk" and event.payload.get("chunk_type") == "content":
                yield f"event: words\ndata: {json.dumps(event.payload.get('content', ''))}\n\n"
            elif event.kind == "task":
                yield "event: over\ndata: {}\n\n"
                return
    except AgentFlowError:
        yield "event: over\ndata: {}\n\n"  # no such agent, or no bus: the transcript itself still grows
