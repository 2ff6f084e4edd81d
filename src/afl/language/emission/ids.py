"""Ids of compiled nodes: a UUID made from the node's path, so equal programs have equal ids everywhere."""

from __future__ import annotations

from hashlib import sha1
from uuid import UUID

_NAMESPACE = UUID("6f1d8b0e-5f0c-5a53-9d0c-0a7a0f3c1e55").bytes
_VARIANT = "89ab"


def path_id(path: str) -> str:
    """The version 5 UUID of a path. Formatted by hand: `uuid.uuid5` takes several times as long."""
    digest = sha1(_NAMESPACE + path.encode(), usedforsecurity=False).hexdigest()
    variant = _VARIANT[int(digest[16], 16) & 3]
    return f"{digest[:8]}-{digest[8:12]}-5{digest[13:16]}-{variant}{digest[17:20]}-{digest[20:32]}"
