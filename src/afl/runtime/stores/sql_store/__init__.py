"""The SQL store: one implementation over the kernel's database, for SQLite and PostgreSQL alike."""

from afl.runtime.stores.sql_store.store import SqlStore

__all__ = ["SqlStore"]
