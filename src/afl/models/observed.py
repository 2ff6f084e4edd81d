"""Calling a model so that it can be seen from outside: a span of the trace, with tokens and cost, and figures."""

from __future__ import annotations

import time

from afl.kernel import telemetry
from afl.models.messages import Reply, Request
from afl.models.model import Model, OnText
from afl.models.usage import PRICES, Prices


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
