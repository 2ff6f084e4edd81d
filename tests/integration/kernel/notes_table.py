"""A small table that the tests of the database write to."""

from __future__ import annotations

from afl.kernel.database import Database, Query

CREATE = Query.of(
    "create table notes (id {bigint} primary key, text text, check (id > 0)) {strict}", name="create"
)
ADD = Query.of("insert into notes (id, text) values (:id, :text)", name="add")
ADD_RETURNING = Query.of(
    "insert into notes (id, text) values (:id, :text) returning id", name="add_returning"
)
SET = Query.of("update notes set text = :text where id = :id", name="set")
SET_ALL = Query.of("update notes set text = :text returning id", name="set_all")
GET = Query.of("select id, text from notes where id = :id", name="get")
ALL = Query.of("select id, text from notes order by id", name="all")
BROKEN = Query.of("select * from no_such_table", name="broken")


def make_notes(database: Database) -> None:
    database.write(lambda tx: tx.run(CREATE))


def ids(database: Database) -> list[int]:
    return [row["id"] for row in database.select(ALL)]
