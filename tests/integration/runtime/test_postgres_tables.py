"""What the tables on PostgreSQL ask of the server."""

from __future__ import annotations

from afl.kernel.database import Query, connect
from afl.runtime.postgres_store import PostgresStore

OPTIONS = Query.of("select unnest(reloptions) as option from pg_class where relname = 'afl_tasks'")


def test_the_server_vacuums_the_queue_early(postgres_url: str) -> None:
    """After a small part of a large table: every claim reads past the dead entries of earlier ones."""
    PostgresStore(postgres_url).close()
    with connect(postgres_url) as database:
        options = {row["option"] for row in database.select(OPTIONS)}
    assert options == {"autovacuum_vacuum_threshold=1000", "autovacuum_vacuum_scale_factor=0.02"}
