"""MongoDB's errors in our words, without the secrets of an address, and which of them are worth another try."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

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
_TOO_MUCH = frozenset(
    {257, 388}
)  # in one transaction: for the log of the replica set, for the server's cache
_INSTEAD = "keep large values elsewhere and pass their address, or use PostgreSQL or SQLite"
_LOGIN = frozenset({13, 18, 8000})
_WRITE_CONFLICT = 112
_OTHER_INDEX = frozenset({85, 86})
_NO_PRIMARY = frozenset({91, 189, 10107, 11600, 11602, 13435, 13436})  # it steps down, or is shut down


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
    text = _said(error)
    if is_duplicate(error):
        return StoreConflict(f"{store} already has such a document: {_detail(error)}")
    if not isinstance(error, PyMongoError) or isinstance(error, DocumentTooLarge):
        return PayloadError(f"a value does not fit a MongoDB document: {text}")
    if _code(error) in _TOO_LARGE:
        return PayloadError(f"{_document(error)} is over MongoDB's limit of 16 MiB: {text}; {_INSTEAD}")
    if _code(error) in _TOO_MUCH:
        return PayloadError(
            f"what is to be stored at once is too large for a transaction of MongoDB: {text}; {_INSTEAD}"
        )
    if isinstance(error, ConnectionFailure | ExecutionTimeout) or _code(error) in _NO_PRIMARY:
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
        return int(_first(error).get("code", 0))
    return error.code if isinstance(error, OperationFailure) else None


def _said(error: Exception) -> str:
    """The server's words on one line; of several writes, those on the first that failed."""
    told = _first(error).get("errmsg") if isinstance(error, BulkWriteError) else None
    return " ".join(str(told or error).partition(", full error:")[0].split())


def _document(error: Exception) -> str:
    """The document of a write that failed, where the error has it."""
    write = _first(error).get("op") or {}
    name = (write.get("q") or write).get("uuid")
    return f"the document {name}" if isinstance(name, str) else "a document"


def _detail(error: Exception) -> str:
    return f"{_first(error).get('keyValue', 'the same key')}"


def _first(error: Exception) -> Mapping[str, Any]:
    """The details of the first write that failed, or that no majority has."""
    details: Mapping[str, Any] = getattr(error, "details", None) or {}
    failed = details.get("writeErrors") or details.get("writeConcernErrors") or [details]
    found: Mapping[str, Any] = failed[0]
    return found
