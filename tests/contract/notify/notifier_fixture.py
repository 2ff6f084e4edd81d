"""A store with its notifier, and a neighbor: what the notifier tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.notify import Notifier, Subscription, open_notifier

SECONDS = 60.0  # far more than anything here takes: a notification that needs it was lost
CREATE = Query.of("create table if not exists touched (topic text not null)", name="create")
TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")
PROGRAM = Path(__file__).with_name("notifier_process.py")


@dataclass
class Served:
    """A store and the setting of its notifier."""

    store: str
    doorbell: str
    database: Database
    notifier: Notifier

    def notify(self, topic: str) -> None:
        """A commit that notifies."""
        with self.notifier.batch() as notifications:

            def touch(tx: Transaction) -> None:
                tx.run(TOUCH, topic=topic)
                notifications.add(tx, topic)

            self.database.write(touch)

    @contextmanager
    def neighbor(self) -> Iterator[subprocess.Popen[str]]:
        """Another process with the same store and notifier."""
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), self.store, self.doorbell],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                assert tell(process, None) == "ready"
                yield process
            finally:
                process.kill()


def tell(process: subprocess.Popen[str], line: str | None) -> str:
    assert process.stdin is not None and process.stdout is not None
    if line is not None:
        process.stdin.write(line + "\n")
        process.stdin.flush()
    return process.stdout.readline().strip()


@contextmanager
def opened(store: str, doorbell: str = "auto") -> Iterator[Served]:
    with connect(store) as database:
        database.write(lambda tx: tx.run(CREATE))
        with open_notifier(database, doorbell) as notifier:
            assert notifier.connected(SECONDS)
            yield Served(store, doorbell, database, notifier)


def receive(subscription: Subscription, topic: str) -> bool:
    """Whether a topic is received, whatever else is."""
    while received := subscription.wait(SECONDS):
        if topic in received:
            return True
    return False
