"""From a database, and perhaps an address, to a doorbell."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Callable
from typing import cast

from afl.kernel.database import Database
from afl.kernel.database.sqlite import SqliteDatabase
from afl.kernel.errors import InputError, MissingExtraError, pip_install
from afl.kernel.notify.notifier import Doorbell
from afl.kernel.notify.sqlite import SqliteWire
from afl.kernel.notify.transport import Wire
from afl.kernel.setting_kinds import mask_url

_Key = tuple[str, object]


def open_doorbell(database: Database, url: str | None = None) -> Doorbell:
    """The doorbell of a database. `url` is the setting AFL_DOORBELL:

    `auto` (or None) uses the store itself; `none` reaches this process only; `nats://host` uses that server.
    Doorbells with one address share one wire, and so one thread and one connection, in each process.
    """
    key, make = _choose(database, url or "auto")
    with _registry:
        wire = _open_wires.get(key)
        if wire is None:
            wire = _open_wires[key] = make()
        wire.users += 1
    return Doorbell(wire, _release)


def separate_doorbell(database: Database, url: str | None = None) -> Doorbell:
    """As `open_doorbell`, on a wire of its own: it hears this process as another process would."""
    _, make = _choose(database, url or "auto")
    return Doorbell(make(), lambda wire: wire.close())


def _choose(database: Database, url: str) -> tuple[_Key, Callable[[], Wire]]:
    if url == "none" or (url == "auto" and database.url == "memory://"):
        # By the object itself: every database in memory is another one.
        return ("local", database), lambda: Wire("local")
    if url == "auto" and database.dialect == "sqlite":
        path = cast(SqliteDatabase, database).path
        return ("sqlite", path), lambda: SqliteWire(path)
    if url == "auto" and database.dialect == "postgres":
        return ("postgres", database.url), lambda: _extra("postgres", "PostgresWire", database.url)
    if url.startswith(("nats://", "tls://")):
        return ("nats", url), lambda: _extra("nats", "NatsWire", url)
    raise InputError(f"doorbell {mask_url(url)!r}: expected auto, none or an address nats://... or tls://...")


def _extra(module: str, name: str, url: str) -> Wire:
    """A wire whose client library is an optional dependency."""
    try:
        found = importlib.import_module(f"afl.kernel.notify.{module}")
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the doorbell needs {error.name}, which is not installed; `{pip_install(module)}`"
        ) from error
    wire: Wire = getattr(found, name)(url)
    return wire


def _release(wire: Wire) -> None:
    with _registry:
        wire.users -= 1
        if wire.users:
            return
        for key in [key for key, known in _open_wires.items() if known is wire]:
            del _open_wires[key]
    wire.close()


_registry = threading.Lock()
_open_wires: dict[_Key, Wire] = {}


def _forked() -> None:
    global _registry
    _registry = threading.Lock()


os.register_at_fork(after_in_child=_forked)
