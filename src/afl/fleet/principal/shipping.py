"""SHIP: an agent's records go into the store once and in order, and are acknowledged by the highest number stored."""

from __future__ import annotations

import logging
from dataclasses import dataclass, field

from afl.fleet.principal.logs import Block, append, block_of_record
from afl.fleet.principal.reports import report_run, report_task
from afl.fleet.principal.store import Change, Q
from afl.fleet.records import LogRecord, RunRecord
from afl.fleet.requests import Ship

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Cargo:
    """What was stored of one SHIP, to be acknowledged and published."""

    acked: int
    blocks: list[Block] = field(default_factory=list)


def store_records(change: Change, ship: Ship) -> Cargo:
    """Store what is new up to the first gap. What the sender no longer has cannot be waited for."""
    stream = {"incarnation": ship.incarnation, "stream": ship.stream}
    row = change.tx.one(Q.open_stream, **stream)
    assert row is not None
    before: int = row["acked"]
    if ship.oldest > before + 1:
        _log.warning(
            "records %d to %d of %s went to another store", before + 1, ship.oldest - 1, ship.incarnation
        )
    cargo = Cargo(max(before, ship.oldest - 1))
    for record in ship.records:
        if record.seq <= cargo.acked:
            continue
        if record.seq != cargo.acked + 1:
            break
        cargo.acked = record.seq
        if isinstance(record, LogRecord):
            cargo.blocks.append(block_of_record(record))
        elif isinstance(record, RunRecord):
            report_run(change, record, ship.agent_id, ship.incarnation)
        else:
            report_task(change, record)
    append(change, cargo.blocks)
    if cargo.acked != before:
        change.tx.run(Q.set_acked, acked=cargo.acked, **stream)
    return cargo
