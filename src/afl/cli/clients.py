"""Where commands run operations: on the store of the settings, or on the server that --server names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from afl.client.store_client import OperationsClient, open_client
from afl.kernel.observing import start_tracing
from afl.kernel.settings import Settings, load_settings

_SERVERS_OWN = ("bus", "project")


def chosen(store: str | None, server: str | None = None, **values: Any) -> Settings:
    """The settings with what the command line says; a store that is named there overrides AFL_SERVER."""
    if store is not None and server is not None:
        raise typer.BadParameter("give --store or --server, not both")
    if server is not None and any(values.get(name) is not None for name in _SERVERS_OWN):
        raise typer.BadParameter("--bus and --project are the server's own; leave them out with --server")
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
