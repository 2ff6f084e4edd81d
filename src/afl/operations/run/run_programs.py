"""The compiled programs of a store's runs, kept for as long as the store is open."""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary

from afl.runtime.persistence import PersistenceAPI
from afl.runtime.program.cache import ProgramCache

_caches: WeakKeyDictionary[PersistenceAPI, ProgramCache] = WeakKeyDictionary()
_lock = threading.Lock()


def program_cache(store: PersistenceAPI) -> ProgramCache:
    """The programs of a store."""
    with _lock:
        found = _caches.get(store)
        if found is None:
            found = _caches[store] = ProgramCache(store)
        return found
