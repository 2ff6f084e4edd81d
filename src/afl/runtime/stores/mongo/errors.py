"""MongoDB's errors in our words, without the secrets of an address, and which of them are worth another try."""

from __future__ import annotations

from bson.errors import BSONError
from pymongo.errors import (
    BulkWriteError,
    ConfigurationError,
    ConnectionFailure,
    DocumentTooLarge,
    DuplicateKeyError,
    ExecutionTimeout,
    InvalidName,
    OperationFailure,
    PyMongoError,
    ServerSelectionTimeoutError,
)

from afl.kernel.errors import (
    AgentFlowError,
    InputError,
    PayloadError,
    StoreConflict,
    StoreError,
    StoreUnavailable,
)

DRIVER_ERRORS = (PyMongoError, BSONError, OverflowError)
_DUPLICATE_KEY = 11000
_TOO_LARGE = frozenset({10334, 17280, 17419, 17420})
_LOGIN = frozenset({13, 18, 8000})
_WRITE_CONFLICT = 112
_OTHER_INDEX = frozenset({85, 86})


def is_transient(error: Exception) -> bool:
    """Whether the server undid the transaction and asks to run it again; a server that is away does not."""
    if not isinstance(error, PyMongoError) or isinstance(error, ServerSelectionTimeoutError):
        return False
    return error.has_error_label("TransientTransactionError") or _code(error) == _WRITE_CONFLICT


def is_duplicate(error: Exception) -> bool:
    """Whether a unique index refused a document."""
    return isinstance(error, DuplicateKeyError) or _code(error) == _DUPLICATE_KEY


def failure(error: Exception, store: str) -> AgentFlowError:
    """What went wrong, where, and what to do about it."""
    text = " ".join(str(error).partition(", full error:")[0].split())
    if is_duplicate(error):
        return StoreConflict(f"{store} already has such a document: {_detail(error)}")
    if not isinstance(error, PyMongoError) or isinstance(error, DocumentTooLarge):
        return PayloadError(f"a value does not fit a MongoDB document: {text}")
    if _code(error) in _TOO_LARGE:
        return PayloadError(f"a document is over MongoDB's limit of 16 MiB: {text}")
    if isinstance(error, ConnectionFailure | ExecutionTimeout):
        reason = text.partition(", Timeout:")[0].partition(" (configured timeouts")[0]
        return StoreUnavailable(
            f"cannot reach {store}: {reason}; check that the server runs, and host, port and replica set"
        )
    if isinstance(error, ConfigurationError | InvalidName):
        return unreadable(store)
    if _code(error) in _LOGIN:
        return StoreError(
            f"{store} refused the login or the right to do this: check user, password, authSource"
        )
    if _code(error) in _OTHER_INDEX:
        return StoreError(f"{store} has another index under a name of ours; drop it and open again: {text}")
    return StoreError(f"{store} failed: {text}")


def unreadable(store: str) -> InputError:
    """For an address the driver cannot read; its own words are not repeated, since they may hold a password."""
    return InputError(
        f"the address {store} cannot be used; expected mongodb://user:password@host:port/database?replicaSet=name "
        "with special characters in the password percent-encoded"
    )


def not_a_replica_set(store: str) -> StoreError:
    """For a lone server: it has no transactions."""
    return StoreError(
        f"{store} is not a replica set, and only a replica set has transactions; start mongod with --replSet rs0, "
        "run rs.initiate() once, and add ?replicaSet=rs0 to the address"
    )


def _code(error: Exception) -> int | None:
    if isinstance(error, BulkWriteError):
        found = (error.details or {}).get("writeErrors") or [{}]
        return int(found[0].get("code", 0))
    return error.code if isinstance(error, OperationFailure) else None


def _detail(error: Exception) -> str:
    details = getattr(error, "details", None) or {}
    first = (details.get("writeErrors") or [details])[0]
    return f"{first.get('keyValue', 'the same key')}"
