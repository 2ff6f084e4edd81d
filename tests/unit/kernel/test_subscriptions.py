"""Subscriptions against a naive model, and notifiers whose library is missing."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule
from support.properties import tries

from afl.kernel.database import connect
from afl.kernel.errors import MissingExtraError
from afl.kernel.notify import Subscription, open_notifier

TOPICS = st.sampled_from(["a", "b", "c"])


class Listening(RuleBasedStateMachine):
    """A subscription that waits gets exactly what was notified on its topics since it subscribed or last waited."""

    def __init__(self) -> None:
        super().__init__()
        self.database = connect("memory://")
        self.notifier = open_notifier(self.database)
        self.model: dict[Subscription, set[str]] = {}

    def teardown(self) -> None:
        self.notifier.close()
        self.database.close()
        assert all(subscription.closed for subscription in self.model)

    @rule(topics=st.sets(TOPICS, min_size=1))
    def subscribe(self, topics: set[str]) -> None:
        self.model[self.notifier.subscribe(topics)] = set()

    @rule(topic=TOPICS)
    def notify(self, topic: str) -> None:
        self.notifier.notify(topic)
        for subscription, expected in self.model.items():
            if topic in subscription.topics:
                expected.add(topic)

    @rule(topics=st.sets(TOPICS))
    def notify_by_commit(self, topics: set[str]) -> None:
        with self.notifier.batch() as notifications:
            self.database.write(lambda tx: [notifications.add(tx, topic) for topic in topics])  # type: ignore[func-returns-value]
        for subscription, expected in self.model.items():
            expected |= topics & subscription.topics

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def wait(self, data: st.DataObject) -> None:
        subscription = data.draw(st.sampled_from(list(self.model)))
        assert subscription.wait(0) == self.model[subscription]
        self.model[subscription] = set()

    @precondition(lambda self: self.model)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        subscription = data.draw(st.sampled_from(list(self.model)))
        subscription.close()
        assert subscription.wait() == self.model.pop(subscription)


TestListening = Listening.TestCase
TestListening.settings = tries(50, deep=100)


@pytest.mark.parametrize("timeout", [0.0, -0.5, -1.0])
def test_a_time_that_is_up_already_is_not_waited_for(timeout: float) -> None:
    with (
        connect("memory://") as database,
        open_notifier(database) as notifier,
        notifier.subscribe(["a"]) as subscription,
    ):
        assert subscription.wait(timeout) == frozenset()


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
            monkeypatch.setattr(database, "url", "postgresql://127.0.0.1/db")
            monkeypatch.setattr("afl.kernel.notify.opening.SqliteDatabase", type("Other", (), {}))
        with pytest.raises(MissingExtraError, match=rf"agentflow-afl\[{extra}\]"):
            open_notifier(database, "nats://127.0.0.1:4222" if extra == "nats" else None)
