"""A store with its doorbell, and a neighbour: what the doorbell tests share."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.notify import Doorbell, Ear, open_doorbell

SECONDS = 60.0  # far more than anything here takes: a ring that needs it is a lost ring
CREATE = Query.of("create table if not exists touched (topic text not null)", name="create")
TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")
PROGRAM = Path(__file__).with_name("doorbell_process.py")


@dataclass
class House:
    """A store and the setting of its doorbell."""

    store: str
    doorbell: str
    database: Database
    bell: Doorbell

    def ring(self, topic: str) -> None:
        """A commit that rings."""
        with self.bell.rings() as rings:

            def touch(tx: Transaction) -> None:
                tx.run(TOUCH, topic=topic)
                rings.add(tx, topic)

            self.database.write(touch)

    @contextmanager
    def neighbour(self) -> Iterator[subprocess.Popen[str]]:
        """Another process with the same store and doorbell."""
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
def opened(store: str, doorbell: str = "auto") -> Iterator[House]:
    with connect(store) as database:
        database.write(lambda tx: tx.run(CREATE))
        with open_doorbell(database, doorbell) as bell:
            assert bell.connected(SECONDS)
            yield House(store, doorbell, database, bell)


def hear(ear: Ear, topic: str) -> bool:
    """Whether a topic is heard, whatever else is."""
    while heard := ear.wait(SECONDS):
        if topic in heard:
            return True
    return False
