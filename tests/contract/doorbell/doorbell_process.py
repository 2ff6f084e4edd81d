"""The other process of the doorbell tests: obeys lines on standard input, answers on standard output.

ring TOPIC     commit a change that rings
echo IN OUT    until the end: answer every change of IN with one of OUT

With a topic on the command line it only rings that, in as short a life as it can.
"""

from __future__ import annotations

import sys

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.notify import Doorbell, open_doorbell

TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")
COUNT = Query.of("select count(*) as n from touched where topic = :topic", name="count")


def main(store: str, doorbell: str, topic: str | None = None) -> None:
    with connect(store) as database, open_doorbell(database, doorbell) as bell:
        if topic is not None:
            return ring(database, bell, topic)
        if not bell.connected(60):
            raise SystemExit("the doorbell is not connected")
        print("ready", flush=True)
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == "ring":
                ring(database, bell, words[0])
                print("rung", flush=True)
            else:
                echo(database, bell, *words)


def ring(database: Database, bell: Doorbell, topic: str) -> None:
    with bell.rings() as rings:

        def touch(tx: Transaction) -> None:
            tx.run(TOUCH, topic=topic)
            rings.add(tx, topic)

        database.write(touch)


def echo(database: Database, bell: Doorbell, heard: str, reply: str) -> None:
    """The store says how many answers are missing, the bell only when to look."""
    answered = 0
    with bell.listen([heard]) as ear:
        print("listening", flush=True)
        while True:
            asked = database.select(COUNT, topic=heard)[0]["n"]
            if asked == answered and not ear.wait(60):
                raise SystemExit(f"nothing heard after {answered} answers")
            for _ in range(asked - answered):
                ring(database, bell, reply)
            answered = asked


if __name__ == "__main__":
    main(*sys.argv[1:])
