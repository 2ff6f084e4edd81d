"""The database: transitions over an open transaction, on SQLite, PostgreSQL or in memory."""

from afl.kernel.database.address import DEFAULT_URL, connect
from afl.kernel.database.base import Database, Row, Statement, Transaction
from afl.kernel.database.queries import Queries, Query, queries
from afl.kernel.database.schema import Schema

__all__ = [
    "DEFAULT_URL",
    "Database",
    "Queries",
    "Query",
    "Row",
    "Schema",
    "Statement",
    "Transaction",
    "connect",
    "queries",
]
