"""The bus: wake-ups for workers, commands for tools, and the events of turns."""

from __future__ import annotations

import importlib

from afl.kernel.database import Database
from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import mask_url
from afl.turns.bus.base import Bus, Callback, Published, Subscription, WakeupSubscription
from afl.turns.bus.local import LocalBus

__all__ = ["Bus", "Callback", "LocalBus", "Published", "Subscription", "WakeupSubscription", "open_bus"]


def open_bus(database: Database, url: str | None = None) -> Bus:
    """The bus of a database: `local` (or None) needs no server, `nats://host` uses that one."""
    if url in (None, "", "local"):
        return LocalBus(database)
    if url.startswith(("nats://", "tls://")):
        bus: Bus = importlib.import_module("afl.turns.bus.nats").NatsBus(url)
        return bus
    raise InputError(f"bus {mask_url(url)!r}: expected local, nats://... or tls://...")
