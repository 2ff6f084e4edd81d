"""What tables a store has, in a form that can be compared: two stores with equal structure behave the same.

A test makes one store fresh and one by its migrations, and compares. The order of columns does not count.
"""

from __future__ import annotations

import re

from afl.kernel.database.base import Database, Transaction
from afl.kernel.database.dialect import pieces
from afl.kernel.database.queries import Query
from afl.kernel.database.schema import Schema

_STRUCTURE = Query(
    "structure",
    sqlite="""select tbl_name as owner, sql from sqlite_master where sql is not null""",
    postgres=r"""-- Constraints are told by their definition: a name that the server chose counts for nothing.
with own as (
    select c.oid, c.relname, c.relkind, c.relpersistence from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname not like 'pg\_%' and n.nspname <> 'information_schema' and c.relname <> 'afl_schema'
)
select format('table %s %s %s', relname, relkind, relpersistence) as line from own where relkind in ('r', 'p', 'v', 'm')
union all
select format('column %s.%s %s not null=%s identity=%s default=%s', own.relname, a.attname,
              format_type(a.atttypid, a.atttypmod), a.attnotnull, a.attidentity, pg_get_expr(d.adbin, d.adrelid))
       || coalesce(' collate ' || (select collname from pg_collation where oid = nullif(a.attcollation, 100)), '')
from own join pg_attribute a on a.attrelid = own.oid and a.attnum > 0 and not a.attisdropped
left join pg_attrdef d on d.adrelid = own.oid and d.adnum = a.attnum
where own.relkind in ('r', 'p')
union all
select format('constraint %s %s', own.relname, pg_get_constraintdef(k.oid))
from own join pg_constraint k on k.conrelid = own.oid where k.contype <> 'n'
union all
select format('index %s', pg_get_indexdef(i.indexrelid)) from own join pg_index i on i.indrelid = own.oid
where not exists (select 1 from pg_constraint k where k.conindid = i.indexrelid)
union all
select format('trigger %s %s', own.relname, pg_get_triggerdef(t.oid))
from own join pg_trigger t on t.tgrelid = own.oid where not t.tgisinternal
union all
select format('function %s', pg_get_functiondef(p.oid)) from pg_proc p join pg_namespace n on n.oid = p.pronamespace
where n.nspname not like 'pg\_%' and n.nspname <> 'information_schema' and p.prokind = 'f'""",
)
_OWN = ("afl_schema", "afl_clock", "sqlite_")


def structure(database: Database) -> list[str]:
    """One line per column, constraint, index and trigger, sorted."""
    rows = database.select(_STRUCTURE)
    if database.dialect == "postgres":
        return sorted(row["line"] for row in rows)
    return sorted(line for row in rows if not row["owner"].startswith(_OWN) for line in _lines(row["sql"]))


def _lines(sql: str) -> list[str]:
    """An SQLite definition in its parts, without the accidents of spacing, case and quoting."""
    text = "".join(_plain(part) if is_code else part.strip('"') for is_code, part in pieces(sql))
    text = re.sub(r" ?([(),=<>]) ?", r"\1", text).strip()
    if not text.startswith("create table"):
        return [text]
    head, _, rest = text.partition("(")
    body, _, options = rest.rpartition(")")
    return [f"{head}:{part}" for part in _split(body)] + [f"{head}:{options.strip()}"]


def _plain(code: str) -> str:
    return re.sub(r"\s+", " ", code).lower()


def _split(body: str) -> list[str]:
    """At commas outside brackets; a comma in a string literal may cut it, on both sides alike."""
    parts, depth = [""], 0
    for character in body:
        depth += (character == "(") - (character == ")")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts]


def replay(database: Database, schema: Schema) -> None:
    """Make the tables in an empty store by the migrations alone."""

    def work(tx: Transaction) -> None:
        for script in schema.migrations(database.dialect).values():
            for statement in script:
                tx.run(statement)

    database.write(work)
