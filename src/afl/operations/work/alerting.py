"""Alerts in a process: sent while it works, if the settings name a destination."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext

from afl.kernel.settings import Settings
from afl.operations.run.run_store import opened
from afl.runtime.persistence import PersistenceAPI


@contextmanager
def alerting(store: PersistenceAPI, settings: Settings) -> Iterator[None]:
    """Send alerts while the block runs. SettingError for a destination that is none, MissingExtraError."""
    service = None
    if settings.alerts:
        module = importlib.import_module("afl.operations.alerts.service")  # only some processes need it
        service = module.alert_service(store, settings)
    with service or nullcontext():
        yield


@contextmanager
def alerting_beside(settings: Settings) -> Iterator[None]:
    """The same for a process without a store of its own at hand."""
    if not settings.alerts:
        yield
        return
    with opened(settings) as store, alerting(store, settings):
        yield
