"""Ears against a naive model, and doorbells whose library is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule

from afl.kernel.database import connect
from afl.kernel.errors import MissingExtraError
from afl.kernel.notify import Ear, open_doorbell

TOPICS = st.sampled_from(["a", "b", "c"])


class Listening(RuleBasedStateMachine):
    """An ear that waits gets exactly what rang on its topics since it listened or last waited."""

    def __init__(self) -> None:
        super().__init__()
        self.database = connect("memory://")
        self.bell = open_doorbell(self.database)
        self.model: dict[Ear, set[str]] = {}

    def teardown(self) -> None:
        self.bell.close()
        self.database.close()
        assert all(ear.closed for ear in self.model)

    @rule(topics=st.sets(TOPICS, min_size=1))
    def listen(self, topics: set[str]) -> None:
        self.model[self.bell.listen(topics)] = set()

    @rule(topic=TOPICS)
    def ring(self, topic: str) -> None:
        self.bell.ring(topic)
        for ear, expected in self.model.items():
            if topic in ear.topics:
                expected.add(topic)

    @rule(topics=st.sets(TOPICS))
    def ring_by_commit(self, topics: set[str]) -> None:
        with self.bell.rings() as rings:
            self.database.write(lambda tx: [rings.add(tx, topic) for topic in topics])  # type: ignore[func-returns-value]
        for ear, expected in self.model.items():
            expected |= topics & ear.topics

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        ear = data.draw(st.sampled_from(list(self.model)))
        assert ear.wait(0) == self.model[ear]
        self.model[ear] = set()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        ear = data.draw(st.sampled_from(list(self.model)))
        ear.close()
        assert ear.wait() == self.model.pop(ear)


TestListening = Listening.TestCase


@pytest.mark.parametrize("timeout", [0.0, -0.5, -1.0])
def test_a_time_that_is_up_already_is_not_waited_for(timeout: float) -> None:
    with connect("memory://") as database, open_doorbell(database) as bell, bell.listen(["a"]) as ear:
        assert ear.wait(timeout) == frozenset()


@pytest.mark.parametrize("library", ["nats", "psycopg"])
def test_a_missing_library_names_its_extra(
    library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    extra = {"nats": "nats", "psycopg": "postgres"}[library]
    for name in [name for name in sys.modules if name.split(".")[0] == library]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, library, None)
    monkeypatch.delitem(sys.modules, f"afl.kernel.notify.{extra}", raising=False)
    with connect(f"sqlite:///{tmp_path}/afl.db") as database:
        if extra == "postgres":
            monkeypatch.setattr(database, "dialect", "postgres")
            monkeypatch.setattr("afl.kernel.notify.opening.SqliteDatabase", type("Other", (), {}))
        with pytest.raises(MissingExtraError, match=rf"agentflow\[{extra}\]"):
            open_doorbell(database, "nats://127.0.0.1:4222" if extra == "nats" else None)
