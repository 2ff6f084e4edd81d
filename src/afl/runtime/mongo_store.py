"""The MongoDB store's public name; it needs the extra `mongo`."""

from __future__ import annotations

from afl.kernel.errors import MissingExtraError, pip_install

try:
    from afl.runtime.stores.mongo.store import MongoStore
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] not in ("pymongo", "bson"):
        raise
    raise MissingExtraError(
        f"pymongo is required for MongoStore. Install it with: {pip_install('mongo')}"
    ) from missing

__all__ = ["MongoStore"]
