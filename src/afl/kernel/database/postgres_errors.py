"""PostgreSQL's errors in our words, and which of them are worth another try."""

from __future__ import annotations

import psycopg
from psycopg import errors

from afl.kernel.errors import FencedError, PayloadError, StoreConflict, StoreError, StoreUnavailable

FENCED = (
    "AF001"  # the SQLSTATE that our functions raise where a write misses the row that its epoch must hold
)
# A table was altered since a statement was prepared: the statement is refused in every session that prepared it.
STALE = errors.FeatureNotSupported
# The server rolled the transaction back, which may be run again.
TRY_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected, STALE)
_GOING_AWAY = (errors.AdminShutdown, errors.CrashShutdown, errors.CannotConnectNow, errors.DatabaseDropped)


def lost(error: Exception, connection: psycopg.Connection[dict[str, object]]) -> bool:
    """Whether the connection is gone, and with it whatever was not committed."""
    return connection.closed or isinstance(error, _GOING_AWAY)


def failure(error: Exception, doing: str, store: str) -> StoreError | PayloadError | FencedError:
    """What went wrong, where, and what to do about it."""
    text = str(error).strip().partition("\n")[0]
    if isinstance(error, psycopg.Error) and error.sqlstate == FENCED:
        return FencedError(f"{doing}: {text}")
    if isinstance(error, psycopg.IntegrityError):
        return StoreConflict(f"{doing}: {text}")
    if isinstance(error, psycopg.DataError | UnicodeEncodeError):
        return PayloadError(f"{doing}: a value does not fit the store: {text}")
    if isinstance(error, errors.ReadOnlySqlTransaction):
        return StoreError(
            f"{doing} writes inside a read; call write instead (or {store} is a read-only replica)"
        )
    if isinstance(error, errors.InsufficientPrivilege):
        return StoreError(f"{doing} failed on {store}: {text}; grant the role the right, or use another role")
    if isinstance(error, psycopg.OperationalError):
        return StoreUnavailable(f"{doing} failed on {store}: {text}")
    return StoreError(f"{doing} failed on {store}: {text}")


def unreachable(error: Exception, store: str) -> StoreUnavailable:
    """Why no connection could be made."""
    text = " ".join(str(error).split())
    return StoreUnavailable(
        f"cannot connect to {store}: {text}; check that the server runs, and host, port, user and database"
    )


def unreadable(store: str) -> StoreUnavailable:
    """For a URL the driver cannot read; its own words are not repeated, since they may hold a password."""
    return StoreUnavailable(
        f"the URL {store} cannot be read; expected postgresql://user:password@host:port/database "
        "with special characters in the password percent-encoded"
    )
