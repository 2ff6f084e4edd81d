"""Where commands ask: the store of the settings, or the server that --server names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from afl.kernel.observing import start_tracing
from afl.kernel.settings import Settings, load_settings
from afl.operations.client import OperationsClient, open_client


def chosen(store: str | None, server: str | None, **values: Any) -> Settings:
    """The settings, with what was said on the command line: a store that is named there counts before AFL_SERVER."""
    if store is not None and server is not None:
        raise typer.BadParameter("give --store or --server, not both")
    asked = "" if store is not None else server
    return load_settings({"store": store, "server": asked, **values})


@contextmanager
def client_for(
    store: str | None, server: str | None, *, create: bool = False, **values: Any
) -> Iterator[OperationsClient]:
    """The client of these settings."""
    settings = chosen(store, server, **values)
    start_tracing(settings.telemetry, "afl")
    with open_client(settings, create=create) as client:
        yield client
