"""Notifications of the MongoDB store. They reach this process, and with a NATS server in the setting AFL_DOORBELL all
processes; without one other processes rely on their poll interval.
"""

from __future__ import annotations

import os
import threading
from weakref import WeakValueDictionary

from afl.kernel.errors import InputError, MissingExtraError, pip_install
from afl.kernel.notify import Notifier
from afl.kernel.notify.transport import Transport
from afl.kernel.setting_kinds import mask_url


def open_notifier_of(place: str, url: str) -> Notifier:
    """The notifier of a database, named by its place; `url` as in AFL_DOORBELL."""
    if url.startswith(("nats://", "tls://")):
        return Notifier(_nats_transport(url), lambda transport: transport.close())
    if url not in ("auto", "none"):
        raise InputError(
            f"doorbell {mask_url(url)!r}: expected auto, none or an address nats://... or tls://..."
        )
    with _guard:
        transport = _local_transports.get(place)
        if transport is None:
            transport = _local_transports[place] = Transport(f"local:{place}")
    return Notifier(transport, lambda _: None)  # it has neither thread nor connection: nothing to end


def _nats_transport(url: str) -> Transport:
    try:
        from afl.kernel.notify.nats import NatsTransport  # noqa: PLC0415  needs an extra
    except ModuleNotFoundError as error:
        raise MissingExtraError(
            f"the notifier needs {error.name}, which is not installed; `{pip_install('nats')}`"
        ) from error
    return NatsTransport(url)


_guard = threading.Lock()
_local_transports: WeakValueDictionary[str, Transport] = WeakValueDictionary()


def _forked() -> None:
    global _guard
    _guard = threading.Lock()  # the copied one may be held by a thread that does not exist here


os.register_at_fork(after_in_child=_forked)
