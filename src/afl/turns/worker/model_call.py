"""One call of the model: its request, the stream of its text, and its cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import count
from typing import Any

from afl.kernel.error_text import text_of
from afl.kernel.unraisable import raised_in
from afl.kernel.user_thread import awaited, result_of
from afl.models import Message as Said
from afl.models import ModelError, Prices, Reply, Request, Usage
from afl.models.model import OnText
from afl.turns.context import context_of_head, stamped
from afl.turns.message import Message
from afl.turns.protocol.subjects import chunk_subject
from afl.turns.tools.dependencies import AgentContext
from afl.turns.tools.submit import SUBMIT_RESULT
from afl.turns.worker.conversation import messages
from afl.turns.worker.metering import metered
from afl.turns.worker.services import WorkerLimits, WorkerServices
from afl.turns.worker.turn_state import TurnState

_BEGIN = "Begin."  # the Messages API refuses a request without messages


async def call_model(services: WorkerServices, state: TurnState) -> Reply:
    """The model's reply to the conversation so far; ModelError when there is none."""
    request = request_of(state, services.limits, await system_prompt(services, state))
    if not state.llm.stream or state.profile.checks.output:  # unchecked words are told to nobody
        return await metered(services, state, request, None)
    with text_stream(services, state) as stream:
        reply = await metered(services, state, request, stream.say)
        stream.end = {"usage": reply.usage, "cost": services.prices.cost(reply.model, reply.usage)}
    return reply


@contextmanager
def text_stream(services: WorkerServices, state: TurnState) -> Iterator[TextStream]:
    """Publishes the words of a model between the start and the end of a stream, and stores them."""
    with services.texts.of(state.head, state.step_id) as store:
        stream = TextStream(services, state, store)
        stream.publish("start")
        try:
            yield stream
        except Exception as error:
            stream.publish("end", metadata={"error": str(error)})
            raise
    stream.publish("end", **stream.end)


def request_of(state: TurnState, limits: WorkerLimits, prompt: str) -> Request:
    """The request; in its last step the model can only end the turn."""
    left = limits.steps_left(state.head.steps) + 1  # including the current one
    tools = state.toolkit.offered(last=left == 1)
    ends = [tool.name for tool in tools if tool.name in (SUBMIT_RESULT, *state.profile.must_end_with)]
    said = [part for part in (prompt, warning(left, ends)) if part]
    told, llm = messages(state.conversation), state.llm
    return Request(
        told or (Said.user(_BEGIN),),
        system="\n\n".join(said),
        tools=tools,
        model=llm.model,
        max_tokens=llm.max_tokens,
        settings=llm,
    )


def warning(left: int, ends: Sequence[str]) -> str:
    """The note for a model whose steps run out; `left` includes the current one, `ends` are tools that end the turn."""
    end = f"call {' or '.join(ends)} now" if ends else "give your final answer now"
    if left == 1:
        return f"This is your last step: no other tool can be called any more; {end}."
    if left == 2:
        return "Two steps are left: the next one is your last, so come to a result."
    return ""


def usage_metadata(reply: Reply, prices: Prices) -> dict[str, Any]:
    """The cost of a step and why its reply ended, for its row; None: the price of the model is not known."""
    return {
        "model": reply.model,
        "stop_reason": str(reply.stop_reason),
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


class TextStream:
    """Publishes `str.agent.*.chunk` of one step, best effort. `end` is what is told of the call when it is over."""

    def __init__(self, services: WorkerServices, state: TurnState, store: OnText) -> None:
        self.end: dict[str, Any] = {}
        self._store = store
        self._services = services
        self._step_id = state.step_id
        self._turn_id = state.turn_id
        self._index = count()
        context = context_of_head(state.head, state.step_id)
        self._headers = stamped(context.headers(topology=False), "str.agent.chunk", state.head.agent_id)
        self._subject = chunk_subject(context.project_id, context.channel_id, context.agent_id)

    def say(self, text: str) -> None:
        """The next piece of the model's text."""
        self.publish("content", text)
        self._store(text)

    def publish(
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
        self._services.engine.tell(Message(self._subject, self._headers, payload))


async def system_prompt(services: WorkerServices, state: TurnState) -> str:
    """The prompt; ModelError when its function is not known here, raises, or gives no text."""
    name = state.profile.prompt_function
    if not name:
        return state.profile.system_prompt
    function = services.toolbox.prompts.get(name)
    if function is None:
        raise ModelError(f"the prompt of {name} is a function that this worker's module does not have")
    head = state.head
    context = AgentContext(services.deps.value, head.project_id, head.agent_id, state.turn_id)
    try:
        made = await awaited(result_of(function, (context,)))
    except Exception as error:
        raised = raised_in(error)
        raise ModelError(
            f"the prompt of {name} failed: {type(raised).__name__}: {text_of(raised)}"
        ) from error
    if not isinstance(made, str):
        raise ModelError(f"the prompt of {name} is {made!r}; expected text")
    return made
