"""Heads and inbox under random operations in random order, against a simple model."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.databases import fresh_postgres_database
from support.kept_memory import kept_memory
from support.properties import tries
from support.turns_house import House
from support.turns_model import Model

from afl.kernel.database import Database, connect

AGENTS = ("ada", "bob")
OPERATIONS = (
    "enqueue",
    "enqueue",
    "act",
    "enter",
    "enter",
    "step",
    "suspend",
    "suspend",
    "report",
    "report",
    "apply",
    "apply",
    "resume",
    "finish",
    "stop",
    "cancel",
    "takeover",
    "forget",
)
LIVES = st.lists(
    st.tuples(st.sampled_from(OPERATIONS), st.sampled_from(AGENTS), st.integers(0, 5)),
    min_size=10,
    max_size=50,
)
_projects = itertools.count()


def live(database: Database, life: list[tuple[str, str, int]]) -> int:
    """One project of its own, so that examples need no new database; how many turns ended."""
    model = Model(House(database, f"project-{next(_projects)}"), AGENTS)
    for operation, agent, number in life:
        model.do(operation, agent, number)
        model.check()
    for agent in AGENTS:  # whatever is left can be brought to an end
        while model.actors[agent].status != "idle":
            model.do("finish", agent, 0)
    model.check()
    assert all(not actor.queue for actor in model.actors.values())
    return len(model.ended)


@tries(60)
@given(LIVES)
def test_heads_and_inbox_do_as_the_model_on_sqlite(life: list[tuple[str, str, int]]) -> None:
    with kept_memory() as database:
        begun = sum(operation == "enqueue" for operation, _, _ in life)
        assert live(database, life) >= begun


@pytest.fixture(scope="module")
def postgres(postgres_url: str) -> Iterator[Database]:
    with fresh_postgres_database(postgres_url) as url, connect(url) as database:
        yield database


@tries(12)
@given(life=LIVES)
def test_heads_and_inbox_do_as_the_model_on_postgres(
    postgres: Database, life: list[tuple[str, str, int]]
) -> None:
    begun = sum(operation == "enqueue" for operation, _, _ in life)
    assert live(postgres, life) >= begun
