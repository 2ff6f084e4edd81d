"""The seams by which a run of a Pydantic AI agent is stored: each request of its model, and each call of a tool."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any, Protocol

from pydantic_ai.capabilities.abstract import AbstractCapability, CapabilityOrdering
from pydantic_ai.messages import (
    ModelMessage,
    ModelResponse,
    PartDeltaEvent,
    PartStartEvent,
    TextPart,
    TextPartDelta,
    ToolCallPart,
)
from pydantic_ai.models import Model, ModelRequestContext, ModelRequestParameters
from pydantic_ai.models.function import FunctionModel
from pydantic_ai.models.wrapper import WrapperModel
from pydantic_ai.settings import ModelSettings
from pydantic_ai.tools import RunContext, ToolDefinition

OnText = Callable[[str], None]


class StepStore(Protocol):
    """Where a run is stored, and read from when it is run again."""

    async def response(
        self,
        index: int,
        messages: list[ModelMessage],
        outputs: frozenset[str],
        ask: Callable[[], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        """The response to the request number `index`: the stored one, else that of `ask`, which is then stored."""

    async def result(self, call: ToolCallPart, execute: Callable[[], Awaitable[Any]]) -> Any:
        """The result of a call: the stored one, else that of `execute`, which is then stored."""

    def words(self) -> AbstractContextManager[OnText | None]:
        """What is called with the words of a model while they come, for one request."""


@dataclass
class StoredRun(AbstractCapability[Any]):
    """The outermost capability of one run: what is stored is neither asked for nor executed again."""

    store: StepStore
    requests: int = field(default=0, init=False)

    def get_ordering(self) -> CapabilityOrdering:
        return CapabilityOrdering(position="outermost")

    def get_wrapper_model(self, model: Model) -> Model | None:
        if isinstance(model, FunctionModel) and model.stream_function is None:
            return None
        return _StreamingModel(model, self.store)

    async def wrap_model_request(
        self,
        ctx: RunContext[Any],
        *,
        request_context: ModelRequestContext,
        handler: Callable[[ModelRequestContext], Awaitable[ModelResponse]],
    ) -> ModelResponse:
        index, self.requests = self.requests, self.requests + 1
        outputs = frozenset(tool.name for tool in request_context.model_request_parameters.output_tools)
        return await self.store.response(
            index, request_context.messages, outputs, lambda: handler(request_context)
        )

    async def wrap_tool_execute(
        self,
        ctx: RunContext[Any],
        *,
        call: ToolCallPart,
        tool_def: ToolDefinition,
        args: dict[str, Any],
        handler: Callable[[dict[str, Any]], Awaitable[Any]],
    ) -> Any:
        return await self.store.result(call, lambda: handler(args))


class _StreamingModel(WrapperModel):
    """Asks for a stream where a whole response is asked for, so that its words can be published."""

    def __init__(self, wrapped: Model, store: StepStore) -> None:
        super().__init__(wrapped)
        self._store = store

    async def request(
        self,
        messages: list[ModelMessage],
        model_settings: ModelSettings | None,
        model_request_parameters: ModelRequestParameters,
    ) -> ModelResponse:
        with self._store.words() as say:
            if say is None:
                return await self.wrapped.request(messages, model_settings, model_request_parameters)
            async with self.wrapped.request_stream(
                messages, model_settings, model_request_parameters
            ) as stream:
                async for event in stream:
                    if word := _word(event):
                        say(word)
                return stream.get()


def _word(event: Any) -> str:
    if isinstance(event, PartStartEvent) and isinstance(event.part, TextPart):
        return event.part.content
    if isinstance(event, PartDeltaEvent) and isinstance(event.delta, TextPartDelta):
        return event.delta.content_delta
    return ""
