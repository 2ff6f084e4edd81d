"""A model whose use is recorded for the step it works for, within the budget of its run."""

from __future__ import annotations

from dataclasses import dataclass

from afl.kernel import codec
from afl.kernel.clock import wall_ms
from afl.models.errors import ModelError
from afl.models.exchange import Exchange
from afl.models.messages import Reply, Request
from afl.models.model import Model, OnText
from afl.models.usage import PRICES, Prices, Usage
from afl.runtime.persistence.usage import UsageRecord, UsageStore

_BYTES_PER_TOKEN = 3  # on the safe side: English has four letters to a token, and JSON fewer


@dataclass(frozen=True, slots=True)
class Place:
    """What a model works for."""

    workflow_id: str
    step_id: str
    task_id: str = ""


class MeteredModel:
    """The same model. BudgetExceeded, and no call, when the run's budget has no room for what a call may cost."""

    def __init__(
        self,
        model: Model,
        kept: UsageStore,
        place: Place,
        prices: Prices = PRICES,
        *,
        keep_exchanges: bool = False,
    ) -> None:
        self._model = model
        self._keep_exchanges = keep_exchanges
        self._kept = kept
        self._place = place
        self._prices = prices

    @property
    def name(self) -> str:
        return self._model.name

    def resolve(self, name: str) -> str:
        return self._model.resolve(name)

    def complete(self, request: Request, on_text: OnText | None = None) -> Reply:
        asked = self._model.resolve(request.model)
        reservation = self._reserve(request, asked)
        try:
            reply = self._model.complete(request, on_text)
        except ModelError as error:
            self._settle(reservation, asked, error.usage)
            raise
        except BaseException:
            self._settle(reservation, asked, Usage())
            raise
        exchange = Exchange.of(request, reply) if self._keep_exchanges else None
        self._settle(reservation, reply.model or asked, reply.usage, asked, exchange)
        return reply

    def _reserve(self, request: Request, model: str) -> str | None:
        budgets = self._kept.budgets
        if budgets is None:
            return None
        most = most_used(request)
        cost = self._prices.cost(model, most)
        return budgets.reserve(self._place.workflow_id, model=model, usd=cost, tokens=most.total_tokens)

    def _settle(
        self,
        reservation: str | None,
        model: str,
        usage: Usage,
        asked: str = "",
        exchange: Exchange | None = None,
    ) -> None:
        record = self._record(model, usage, asked) if usage.total_tokens else None
        budgets = self._kept.budgets
        if budgets is not None:
            budgets.settle(reservation, record, exchange)
        elif record is not None:
            self._kept.record_usage(record, exchange)

    def _record(self, model: str, usage: Usage, asked: str) -> UsageRecord:
        cost = self._prices.cost(model, usage)
        return UsageRecord(
            workflow_id=self._place.workflow_id,
            step_id=self._place.step_id,
            task_id=self._place.task_id,
            model=model,
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cache_read_tokens=usage.cache_read_tokens,
            cache_write_tokens=usage.cache_write_tokens,
            cost_usd=cost if cost is not None or not asked else self._prices.cost(asked, usage),
            time=wall_ms(),
        )


def most_used(request: Request) -> Usage:
    """What a request may use at most: about its own length, and all that it lets the model say."""
    text = codec.encode(
        [request.system, request.tools, request.messages], what="a request to a model", limit=1 << 40
    )
    return Usage(len(text.encode()) // _BYTES_PER_TOKEN + 1, request.max_tokens)
