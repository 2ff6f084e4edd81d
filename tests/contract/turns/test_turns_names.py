"""The names of the protocol: tables, primitives, and who makes ids and epochs."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.turns_house import House

import afl.turns
from afl.kernel.database import Query
from afl.kernel.errors import StoreError
from afl.turns.engine import L0Engine

PACKAGE = Path(afl.turns.__file__).parent
TABLES = (
    "state.agent_state_head",
    "state.agent_inbox",
    "state.execution_edges",
    "state.turn_waiting_tools",
    "cardbox.cards",
    "cardbox.card_boxes",
    "resource.project_agents",
    "resource.tools",
    "resource.profiles",
)
PRIMITIVES = [
    "enqueue",
    "report",
    "join",
    "command_intent",
    "wakeup",
    "dispatch_next",
    "lease_agent_turn_with_conn",
    "takeover",
    "cancel",
    "stop",
]


@pytest.mark.parametrize("table", TABLES)
def test_tables_have_the_names_of_the_protocol(house: House, table: str) -> None:
    name = table if house.database.dialect == "postgres" else table.replace(".", "_")
    row = house.read(lambda tx: tx.one(Query.of(f"select count(*) as n from {name}")))
    assert row is not None and row["n"] >= 0


def test_there_is_no_resume_ledger(house: House) -> None:
    for name in ("state.turn_resume_ledger", "state_turn_resume_ledger", "turn_resume_ledger"):
        with pytest.raises(StoreError):
            house.read(lambda tx, name=name: tx.all(Query.of(f"select 1 from {name}")))  # type: ignore[misc]
    sources = [path.read_text() for path in PACKAGE.rglob("*.py")] + [
        path.read_text() for path in PACKAGE.rglob("*.sql")
    ]
    assert len(sources) > 50 and not any("ledger" in source for source in sources)


def test_the_primitives_are_methods_of_the_engine() -> None:
    assert [name for name in PRIMITIVES if not callable(getattr(L0Engine, name, None))] == []


def test_only_l0_makes_turns_and_epochs() -> None:
    others = [
        path
        for folder in ("worker", "tools", "orchestration")
        for path in (PACKAGE / folder).rglob("*")
        if path.suffix in (".py", ".sql")
    ]
    assert len(others) > 20
    for path in others:
        text = path.read_text()
        assert 'new_id("turn")' not in text, path
        assert "turn_epoch +" not in text and "set turn_epoch" not in text, path
