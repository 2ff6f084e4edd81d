"""Where a MongoDB store keeps its collections, for whoever adds some; without the extra `mongo` there is none."""

from __future__ import annotations

from typing import TYPE_CHECKING

from afl.kernel.errors import MissingExtraError

if TYPE_CHECKING:
    from afl.runtime.stores.mongo.connection import Connection


def mongo_connection(store: object) -> Connection | None:
    """The connection of a MongoDB store; None for any other."""
    try:
        from afl.runtime.mongo_store import MongoStore  # noqa: PLC0415  needs an extra
    except MissingExtraError:  # then the store is none either
        return None
    return store.connection if isinstance(store, MongoStore) else None
