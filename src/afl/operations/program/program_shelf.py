"""Prepared programs of a store, kept for as long as the store is: those who look at runs look at them again."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.cache import ProgramCache

_shelves: WeakKeyDictionary[PersistenceAPI, ProgramCache] = WeakKeyDictionary()
_lock = threading.Lock()


def shelf(store: PersistenceAPI) -> ProgramCache:
    """The programs of a store."""
    with _lock:
        found = _shelves.get(store)
        if found is None:
            found = _shelves[store] = ProgramCache(store)
        return found
