"""From a database, and perhaps an address, to a notifier."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import cast

from afl.kernel.database import Database
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import InputError, MissingExtraError, pip_install
from afl.kernel.notify.notifier import Notifier
from afl.kernel.notify.transport import Transport
from afl.kernel.setting_kinds import mask_url

_Key = tuple[str, object]


def open_notifier(database: Database, url: str | None = None) -> Notifier:
    """The notifier of a database. `url` is the setting AFL_DOORBELL:

    `auto` (or None) uses the store itself; `none` reaches this process only; `nats://host` uses that server.
    Notifiers with one address share one transport, and so one thread and one connection, in each process.
    """
    key, make = _choose(database, url or "auto")
    with _registry:
        transport = _open_transports.get(key)
        if transport is None:
            transport = _open_transports[key] = make()
        transport.users += 1
    return Notifier(transport, _release)


def separate_notifier(database: Database, url: str | None = None) -> Notifier:
    """As `open_notifier`, with a transport of its own: it receives from this process as another process would."""
    _, make = _choose(database, url or "auto")
    return Notifier(make(), lambda transport: transport.close())


def _choose(database: Database, url: str) -> tuple[_Key, Callable[[], Transport]]:
    if url == "none" or (url == "auto" and database.url == "memory://"):
        # By the object: every database in memory is another one.
        return ("local", database), lambda: Transport("local")
    if url == "auto" and database.url.startswith("sqlite:"):
        path = cast(SqliteDatabase, database).path
        return ("sqlite", path), lambda: _watching(path)
    if url == "auto" and database.url.startswith(("postgresql://", "postgres://")):
        return ("postgres", database.url), lambda: _extra("postgres", "PostgresTransport", database.url)
    if url.startswith(("nats://", "tls://")):
        return ("nats", url), lambda: _extra("nats", "NatsTransport", url)
    raise InputError(f"doorbell {mask_url(url)!r}: expected auto, none or an address nats://... or tls://...")


def _watching(path: str) -> Transport:
    from afl.kernel.notify.sqlite import SqliteTransport  # noqa: PLC0415  ctypes, for those who wait or notify

    return SqliteTransport(path)


def _extra(module: str, name: str, url: str) -> Transport:
    """A transport whose client library is an optional dependency."""
    try:
        found = importlib.import_module(f"afl.kernel.notify.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the notifier needs {error.name}, which is not installed; `{pip_install(module)}`"
        ) from error
    transport: Transport = getattr(found, name)(url)
    return transport


def _release(transport: Transport) -> None:
    with _registry:
        transport.users -= 1
        unused = not transport.users
        if unused:
            for key in [key for key, known in _open_transports.items() if known is transport]:
                del _open_transports[key]
    if unused:
        transport.close()
    else:  # a program may end before its other notifiers are closed
        transport.flush()


_registry = threading.Lock()
_open_transports: dict[_Key, Transport] = {}


def _forked() -> None:
    global _registry
    _registry = threading.Lock()


os.register_at_fork(after_in_child=_forked)
