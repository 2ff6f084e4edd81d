"""The interface of a model, and calling one with a span and metrics."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol, runtime_checkable

from afl.kernel import telemetry
from afl.kernel.user_thread import to_thread
from afl.models.messages import Reply, Request
from afl.models.usage import PRICES, Prices

OnText = Callable[[str], None]


@runtime_checkable
class Model(Protocol):
    """Anything that answers requests. Safe to be called by several threads at once."""

    @property
    def name(self) -> str:
        """The model that answers a request which names none."""

    def resolve(self, name: str) -> str:
        """The full name of what a request calls `name`; empty: this one's own."""

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        """The reply. `on_text` is given its words while they come. ModelError if there will be none."""


async def complete_async(model: Model, request: Request, on_text: OnText | None = None) -> Reply:
    """`complete` for asyncio, on a thread of its own; `on_text` is called in the loop.

    Whoever is canceled here leaves at once; the call itself ends unheard.
    """
    loop = asyncio.get_running_loop()

    def relay(text: str) -> None:
        assert on_text is not None
        loop.call_soon_threadsafe(on_text, text)

    return await to_thread(model.complete, request, None if on_text is None else relay)


def complete(model: Model, request: Request, on_text: OnText | None = None, prices: Prices = PRICES) -> Reply:
    """`model.complete`. The names of attributes are those of OpenTelemetry's conventions for generative models."""
    if not telemetry.is_tracing() and not telemetry.is_metering():
        return model.complete(request, on_text)
    name = model.resolve(request.model)
    begun = time.monotonic()
    about: dict[str, telemetry.Attribute] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": name}
    with telemetry.span("afl.model", **about) as span:
        reply = model.complete(request, on_text)
        span.note(**_told(reply, prices))
    telemetry.record("afl.model.seconds", time.monotonic() - begun, model=name)
    telemetry.count("afl.model.tokens", reply.usage.input_tokens, model=name, kind="input")
    telemetry.count("afl.model.tokens", reply.usage.output_tokens, model=name, kind="output")
    return reply


def _told(reply: Reply, prices: Prices) -> dict[str, telemetry.Attribute]:
    usage = reply.usage
    found: dict[str, telemetry.Attribute] = {
        "gen_ai.response.model": reply.model,
        "gen_ai.response.finish_reasons": str(reply.stop_reason),
        "gen_ai.usage.input_tokens": usage.input_tokens,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }
    cost = prices.cost(reply.model, usage)
    return found if cost is None else found | {"afl.cost_usd": cost}
