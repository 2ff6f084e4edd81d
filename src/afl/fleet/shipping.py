"""Delivery from the spool to the principal: batches in order, one at a time, until each is acknowledged."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Protocol

import msgspec

from afl.fleet.errors import PrincipalAway, PrincipalFailed, RequestRefused
from afl.fleet.messages import Acked
from afl.fleet.requests import JsonRequest
from afl.fleet.spool import Spool
from afl.kernel.errors import StoreError

_log = logging.getLogger(__name__)
_BATCH_BYTES = 1024 * 1024
_LONGEST_PAUSE = 5.0


class RequestSender(Protocol):
    """The part of a client that is needed here."""

    async def call(self, request: Any, *, retry: bool = False) -> Any: ...


class ShipRaw(JsonRequest[Acked], frozen=True, kw_only=True):
    """The request Ship, with records as the spool stores them, so that they need no decoding."""

    verb = "SHIP"
    answer = Acked
    agent_id: str
    incarnation: str
    stream: str = "main"
    records: list[msgspec.Raw]
    oldest: int = 1


class Shipper:
    """Delivers one spool. While the principal is unavailable it retries; `failures` counts the failures in a row."""

    def __init__(
        self, sender: RequestSender, spool: Spool, pause: float, away: Callable[[], None] | None = None
    ) -> None:
        """`away` is called when the principal does not answer."""
        self._sender, self.spool = sender, spool
        self._pause, self._away = pause, away
        self.failures = 0

    async def run(self) -> None:
        """Run until canceled."""
        while True:
            await self._step()

    async def run_empty(self, attempts: int | None = None) -> bool:
        """Run until everything is delivered (True), or `attempts` in a row failed."""
        while not self.spool.delivered:
            await self._step()
            if attempts is not None and self.failures >= attempts:
                return False
        return True

    async def _step(self) -> None:
        if await self._ship_next():
            self.failures = 0
        else:
            self.failures += 1
            await asyncio.sleep(min(self._pause * self.failures, _LONGEST_PAUSE))

    async def _ship_next(self) -> bool:
        try:
            records = await self.spool.batch(self.spool.acked, _BATCH_BYTES)
            return await self._ship(records)
        except StoreError as error:
            _log.error("the spool cannot be read: %s", error)
        except Exception:  # the records stay in the spool, and are retried
            _log.exception("records of %s cannot be shipped now", self.spool.name.incarnation)
        return False

    async def _ship(self, records: list[bytes]) -> bool:
        """Send one batch; whether the principal acknowledged any of it."""
        name, before = self.spool.name, self.spool.acked
        request = ShipRaw(
            agent_id=name.agent_id,
            incarnation=name.incarnation,
            records=[msgspec.Raw(record) for record in records],
            oldest=before + 1,
        )
        try:
            answer: Acked = await self._sender.call(request)
        except PrincipalAway as error:
            _log.debug("records up to %d wait in the spool: %s", self.spool.durable, error)
            if self._away is not None:
                self._away()
            return False
        except (RequestRefused, PrincipalFailed) as error:
            _log.error("the principal refuses record %d of %s: %s", before + 1, name.incarnation, error)
            return False
        self.spool.acknowledge(answer.acked)
        return self.spool.acked > before
