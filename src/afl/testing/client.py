"""The client of a test: it skips time while it waits for a result."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from afl.client.calls import Calls
from afl.client.client import Client
from afl.client.store_client import OperationsClient, open_client
from afl.kernel.settings import Settings, load_settings
from afl.operations.run.waiting import RunEnd
from afl.testing.time_skipping import TimeSkipping


class SkippingCalls(Calls):
    """Calls on a store whose time may be skipped."""

    def __init__(self, client: OperationsClient, settings: Settings) -> None:
        super().__init__(client, settings)
        self.time = TimeSkipping(self.open_store())

    def end_of(self, run: str, timeout: float | None) -> RunEnd:
        """Where a run stands when it is over; meanwhile no time is waited for."""
        with self.time.skipping():
            return super().end_of(run, timeout)


@contextmanager
def open_calls(url: str) -> Iterator[SkippingCalls]:
    """Calls on a store of `afl.testing.stores`."""
    settings = load_settings({"store": url, "server": ""})
    with open_client(settings, create=True) as operations:
        yield SkippingCalls(operations, settings)


@contextmanager
def connected(url: str) -> Iterator[tuple[Client, TimeSkipping]]:
    """A client on a store of `afl.testing.stores`, and the clock of that store."""
    with open_calls(url) as calls:
        yield Client(calls), calls.time
