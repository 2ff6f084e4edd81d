"""Empty tables of stores in memory: a process makes them once, and each store after the first gets a copy.

To make the tables takes SQLite several milliseconds, to copy their pages less than one.
"""

from __future__ import annotations

import sqlite3
from contextlib import closing

from afl.kernel.database.queries import Query
from afl.kernel.database.schema import Schema

Made = tuple[str, int, tuple[Query, ...]]  # of one schema: its name, its version, and how its tables are made

_images: dict[tuple[Made, ...], bytes] = {}  # by all that was made, in its order; safe in threads and forks


def made_of(schema: Schema) -> Made:
    """The tables of a schema as its files are now."""
    return schema.name, schema.version, schema.fresh("sqlite")


def copy_tables(made: tuple[Made, ...], connection: sqlite3.Connection) -> bool:
    """Let the database have these tables, and nothing else; False if they were never kept."""
    image = _images.get(made)
    if image is None:
        return False
    with closing(sqlite3.connect(":memory:")) as source:
        source.deserialize(image)
        source.backup(connection)
    return True


def keep_tables(made: tuple[Made, ...], connection: sqlite3.Connection) -> None:
    """The database has these tables and nothing else: keep them for those who open one later."""
    if hasattr(connection, "serialize"):  # Python may be built without it
        _images[made] = connection.serialize()
