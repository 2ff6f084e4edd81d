"""Which files are in the blob store, and which cards have them.

A file is entered here before its bytes are written, and they are before its card is. The cleaning deletes bytes while
it has the row locked, so whoever gives the same file at that moment waits, and then writes the bytes again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from afl.kernel.database import Transaction, queries
from afl.turns.model import Limits

Q = queries("afl.turns.store", "sql/blobs")
GRACE_MS = Limits().blob_grace_ms


def enter_blobs(
    tx: Transaction, project: str, card: str, sizes: Mapping[str, int], grace_ms: int = GRACE_MS
) -> None:
    """Note that a card is about to be written that has these files."""
    for digest, size in sorted(sizes.items()):  # one order of locks for all
        tx.run(Q.touch_blob, sha256=digest, size=size, grace_ms=grace_ms)
        tx.run(Q.add_card, sha256=digest, project=project, card=card)


def is_kept(tx: Transaction, digest: str) -> bool:
    """Whether a file should be in the blob store; else it was deleted because of its age."""
    return tx.one(Q.is_kept, sha256=digest) is not None


def blobs_to_check(tx: Transaction, limit: int) -> list[str]:
    """Files that may have no card."""
    return [row["sha256"] for row in tx.all(Q.to_check, limit=limit)]


def expired_blobs(tx: Transaction, keep_ms: int, limit: int) -> list[str]:
    """Files that nobody has given for so long."""
    return [row["sha256"] for row in tx.all(Q.expired, keep_ms=keep_ms, limit=limit)]


def delete_unused(tx: Transaction, digest: str, delete: Callable[[str], None]) -> bool:
    """Delete a file if no card has it; `delete` removes the bytes, under the lock of its row. Whether it did."""
    if tx.one(Q.lock_to_check, sha256=digest) is None:
        return False
    tx.run(Q.drop_missing_cards, sha256=digest)
    if tx.one(Q.has_card, sha256=digest) is not None:
        tx.run(Q.checked, sha256=digest)
        return False
    delete(digest)
    tx.run(Q.drop_blob, sha256=digest)
    return True


def delete_expired(tx: Transaction, digest: str, keep_ms: int, delete: Callable[[str], None]) -> bool:
    """Delete a file that is older than files are kept, also if cards have it. Whether it did."""
    if tx.one(Q.lock_expired, sha256=digest, keep_ms=keep_ms) is None:
        return False
    delete(digest)
    tx.run(Q.drop_cards, sha256=digest)
    tx.run(Q.drop_blob, sha256=digest)
    return True


def cards_removed(tx: Transaction, project: str, cards: Sequence[str], grace_ms: int = GRACE_MS) -> None:
    """Have the files of deleted cards checked."""
    if cards:
        tx.run(Q.check_again, project=project, cards=list(cards), grace_ms=grace_ms)
