"""Rings of the MongoDB store. It has no wire of its own: stores of one process hear each other, and with a NATS
server in the setting AFL_DOORBELL those of all processes do; else other processes rely on their poll interval.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakValueDictionary

from afl.kernel.errors import InputError, MissingExtraError, pip_install
from afl.kernel.notify import Doorbell
from afl.kernel.notify.transport import Wire
from afl.kernel.setting_kinds import mask_url


def open_bell(place: str, url: str) -> Doorbell:
    """The doorbell of a database, named by its place; `url` as in AFL_DOORBELL."""
    if url.startswith(("nats://", "tls://")):
        return Doorbell(_nats_wire(url), lambda wire: wire.close())
    if url not in ("auto", "none"):
        raise InputError(
            f"doorbell {mask_url(url)!r}: expected auto, none or an address nats://... or tls://..."
        )
    with _guard:
        wire = _local_wires.get(place)
        if wire is None:
            wire = _local_wires[place] = Wire(f"local:{place}")
    return Doorbell(wire, lambda _: None)  # it has neither thread nor connection: nothing to end


def _nats_wire(url: str) -> Wire:
    try:
        from afl.kernel.notify.nats import NatsWire  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the doorbell needs {error.name}, which is not installed; `{pip_install('nats')}`"
        ) from error
    return NatsWire(url)


_guard = threading.Lock()
_local_wires: WeakValueDictionary[str, Wire] = WeakValueDictionary()


def _forked() -> None:
    global _guard
    _guard = threading.Lock()  # the copied one may be held by a thread that does not exist here


os.register_at_fork(after_in_child=_forked)
