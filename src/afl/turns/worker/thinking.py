"""One call of the model: what it is sent, what is shown of its words while they come, and what it cost."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import count
from typing import Any

from afl.models import Message as Said
from afl.models import Prices, Reply, Request, Usage
from afl.turns.context import context_of_head, stamped
from afl.turns.message import Message
from afl.turns.protocol.subjects import chunk_subject
from afl.turns.worker.desk import Desk
from afl.turns.worker.limits import WorkerLimits, warning
from afl.turns.worker.prompting import messages
from afl.turns.worker.scene import Scene

_BEGIN = "Begin."  # a model wants to be told something, even by one who said nothing


async def think(desk: Desk, scene: Scene) -> Reply:
    """The model's reply to the conversation so far; ModelError when there is none."""
    request = request_of(scene, desk.limits)
    if not scene.profile.llm.stream:
        return await desk.complete(request, None)
    stream = _Stream(desk, scene)
    stream.tell("start")
    try:
        reply = await desk.complete(request, lambda text: stream.tell("content", text))
    except Exception as error:
        stream.tell("end", metadata={"error": str(error)})
        raise
    stream.tell("end", usage=reply.usage, cost=desk.prices.cost(reply.model, reply.usage))
    return reply


def request_of(scene: Scene, limits: WorkerLimits) -> Request:
    """What the model is sent: in its last step it can only end."""
    left = limits.steps_left(scene.head.steps) + 1  # with the one it takes now
    tools = scene.toolkit.offered(last=left == 1)
    submits = any(tool.name == "submit_result" for tool in tools)
    said = [part for part in (scene.profile.system_prompt, warning(left, submits)) if part]
    told = messages(scene.conversation)
    return Request(
        told or (Said.user(_BEGIN),),
        system="\n\n".join(said),
        tools=tools,
        model=scene.profile.llm.model,
        max_tokens=scene.profile.llm.max_tokens,
    )


def usage_metadata(reply: Reply, prices: Prices) -> dict[str, Any]:
    """What a step's row tells of its cost; None: the price of the model is not known."""
    return {
        "model": reply.model,
        "llm_usage": usage_data(reply.usage),
        "llm_response_cost": prices.cost(reply.model, reply.usage),
    }


def usage_data(usage: Usage) -> dict[str, int]:
    return {
        "input_tokens": usage.input_tokens,
        "output_tokens": usage.output_tokens,
        "cache_read_tokens": usage.cache_read_tokens,
        "cache_write_tokens": usage.cache_write_tokens,
    }


class _Stream:
    """`str.agent.*.chunk` of one step; told once, and lost if nobody listens."""

    def __init__(self, desk: Desk, scene: Scene) -> None:
        self._desk = desk
        self._step_id = scene.step_id
        self._turn_id = scene.turn_id
        self._index = count()
        context = context_of_head(scene.head, scene.step_id)
        self._headers = stamped(context.headers(topology=False), "str.agent.chunk", scene.head.agent_id)
        self._subject = chunk_subject(context.project_id, context.channel_id, context.agent_id)

    def tell(
        self,
        kind: str,
        content: str = "",
        *,
        metadata: Mapping[str, Any] | None = None,
        usage: Usage | None = None,
        cost: float | None = None,
    ) -> None:
        payload: dict[str, Any] = {
            "agent_turn_id": self._turn_id,
            "step_id": self._step_id,
            "chunk_type": kind,
            "content": content,
            "index": next(self._index),
            "metadata": dict(metadata or {}),
            "usage": None if usage is None else usage_data(usage),
            "response_cost": cost,
        }
        self._desk.engine.tell(Message(self._subject, self._headers, payload))
