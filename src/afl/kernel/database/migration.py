"""Making the tables of a schema in a store, and bringing them to the version that this code knows."""

from __future__ import annotations

from afl.kernel.database.base import Database, Transaction
from afl.kernel.database.dialect import Dialect
from afl.kernel.database.queries import queries
from afl.kernel.database.schema import Schema
from afl.kernel.errors import StoreVersionError

Q = queries("afl.kernel.database", "sql")


def ensure(database: Database, schema: Schema) -> None:
    """Bring the tables of a part to the version this code knows; several processes may do so at the same time."""
    wanted = schema.version
    if database.read(lambda tx: _version(tx, schema, wanted, database)) != wanted:
        database.write(lambda tx: _advance(tx, schema, database))


def is_made(database: Database, schema: Schema) -> bool:
    """Whether a store has the tables of a part, of any version; makes none."""
    return database.read(lambda tx: _version(tx, schema, schema.version, database)) > 0


def stored_versions(database: Database) -> dict[str, int]:
    """The version of each part's tables that a store has; nothing is made or brought forward."""

    def look(tx: Transaction) -> dict[str, int]:
        rows = tx.all(Q.schema_versions) if tx.one(Q.schema_table) is not None else []
        return {row["component"]: int(row["version"]) for row in rows}

    return database.read(look)


def _advance(tx: Transaction, schema: Schema, database: Database) -> None:
    tx.all(Q.schema_lock)
    tx.run(Q.create_schema_table)
    dialect, wanted = database.dialect, schema.version
    version = _version(tx, schema, wanted, database)
    if version == wanted:
        return
    if version == 0:
        for statement in schema.fresh(dialect):
            tx.run(statement)
    else:
        _climb(tx, schema, dialect, version)
    tx.run(Q.set_schema_version, component=schema.name, version=wanted)


def _climb(tx: Transaction, schema: Schema, dialect: Dialect, version: int) -> None:
    for number, script in schema.migrations(dialect).items():
        if number > version:
            for statement in script:
                tx.run(statement)


def _version(tx: Transaction, schema: Schema, wanted: int, database: Database) -> int:
    if tx.one(Q.schema_table) is None:
        return 0
    row = tx.one(Q.schema_version, component=schema.name)
    version: int = row["version"] if row is not None else 0
    if version > wanted:
        raise StoreVersionError(
            f"{database!r} has version {version} of the tables of {schema.name!r}, this AgentFlow knows them "
            f"up to {wanted}; upgrade agentflow-afl here, or use another store"
        )
    if 0 < version < schema.base:
        raise StoreVersionError(
            f"{database!r} has version {version} of the tables of {schema.name!r}, made by an AgentFlow before its "
            f"first release; this one reads them from version {schema.base} on. Use a new store"
        )
    return version
