"""Where commands run operations: on the store of the settings, or on the server that --server names."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from afl.client.store_client import OperationsClient, open_client
from afl.kernel.errors import NotFoundError
from afl.kernel.observing import start_tracing
from afl.kernel.settings import Settings, load_settings
from afl.operations.store_file import store_place

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
    """The client of these settings. An error about a name that is not there says where it was looked for."""
    settings = chosen(store, server, **values)
    start_tracing(settings.telemetry, "afl")
    with open_client(settings, create=create) as client:
        try:
            yield client
        except NotFoundError as error:
            error.hint = f"{error.hint} This was looked up in {_place(settings)}."
            raise


def looked_at(store: str | None, server: str | None = None) -> str:
    """Where a command looks that is given these options, for a message that there is nothing."""
    return _place(chosen(store, server))


def _place(settings: Settings) -> str:
    return settings.server or store_place(settings.store)
