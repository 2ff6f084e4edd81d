"""On PostgreSQL the principal's looks read no more because there were many runs, states and lines before.

Plans are made once, here while there is next to nothing, and without statistics, as on a new server.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from support.databases import fresh_postgres_database
from support.reading import rows_read

from afl.fleet.principal.store import SCHEMA, Q
from afl.kernel.database import Database, Query, connect

MORE = 3000
FEW = 60
ALWAYS = {"start": 0, "end": 2**60}
EVERYTHING = {"workflow_id": "", "task_instance_id": "", "level": "", **ALWAYS, "limit": 5}

LOOKS = {
    "leases that ended": (Q.expired, {"moment": 1000, "limit": 10}),
    "the last states": (Q.recent_statuses, {}),
    "lines after": (Q.blocks_after, {"after": MORE - 3, **EVERYTHING}),
    "lines before": (Q.blocks_before, {"before": MORE, **EVERYTHING}),
    "runs": (
        Q.list_runs,
        {"workflow_id": "", "agent_id": "", "any_status": 1, "statuses": [], "before": "", "limit": 5},
    ),
    "what ended long ago": (Q.old_runs, {"before": 100, "limit": 5}),
    "the next in the queue": (Q.claim, {"agent_id": "a", "incarnation": "i", "old": 0, "lease_until": 5000}),
}

_RUNS = Query.of(
    "insert into fleet_runs (run_id, workflow_id, workflow_name, workflow, params, instance_id, origin, status,"
    " requeues, created_at) select 'run-' || n, 'w', 'w', '{}', '{}', 'run-' || n, 'cli',"
    f" case when n = {MORE} then 'PENDING' else 'COMPLETED' end, 0, n from generate_series(1, {MORE}) as n",
    name="runs",
)
_ENDED = Query.of("update fleet_runs set ended_at = created_at where status = 'COMPLETED'", name="ended")
_HELD = Query.of(
    "insert into fleet_runs (run_id, workflow_id, workflow_name, workflow, params, instance_id, origin, status,"
    " requeues, created_at, incarnation, lease_until)"
    " values ('held', 'w', 'w', '{}', '{}', 'held', 'cli', 'RUNNING', 0, 1, 'i', 500)",
    name="held",
)
_STATES = Query.of(
    "insert into workflow_run_status (workflow_id, workflow_instance_id, status, timestamp_ms, run_id, agent_id,"
    " epoch, late) select 'w', 'run-' || n, 'COMPLETED', n, 'run-' || n, 'a', 1, 0"
    f" from generate_series(1, {MORE}) as n",
    name="states",
)
_LATEST = Query.of(
    "insert into fleet_latest (workflow_id, position) select 'w', max(position) from workflow_run_status",
    name="latest",
)
_LINES = Query.of(
    "insert into fleet_log_blocks (position, last, workflow_id, workflow_name, workflow_instance_id, task_name,"
    " task_instance_id, timestamp_ms, level, lines)"
    f" select n, n, 'w', 'w', 'run', 't', 't', n, 'INFO', '[\"x\"]' from generate_series(1, {MORE}) as n",
    name="lines",
)


@pytest.fixture(scope="module")
def grown(postgres_url: str) -> Iterator[Database]:
    with fresh_postgres_database(postgres_url) as url, connect(url) as database:
        database.ensure(SCHEMA)
        for query, given in LOOKS.values():
            for _ in range(3):
                database.atomic(query, **given)
        for growth in (_RUNS, _ENDED, _HELD, _STATES, _LATEST, _LINES):
            database.write(lambda tx, growth=growth: tx.run(growth))  # type: ignore[misc]
        yield database


@pytest.mark.parametrize("name", list(LOOKS))
def test_a_look_reads_what_it_finds_and_no_more(grown: Database, name: str) -> None:
    query, given = LOOKS[name]
    found: list[int] = []
    read = rows_read(grown, lambda: found.append(len(grown.atomic(query, **given))))
    assert found[0] > 0
    assert read < FEW
