"""The other process of the notifier tests: obeys lines on standard input, answers on standard output.

notify TOPIC   commit a change that notifies
echo IN OUT    until the end: answer every change of IN with one of OUT

With a topic on the command line it only notifies that, in as short a life as it can.
"""

from __future__ import annotations

import sys

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.notify import Notifier, open_notifier

TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")
COUNT = Query.of("select count(*) as n from touched where topic = :topic", name="count")


def main(store: str, doorbell: str, topic: str | None = None) -> None:
    with connect(store) as database, open_notifier(database, doorbell) as notifier:
        if topic is not None:
            return notify(database, notifier, topic)
        if not notifier.connected(60):
            raise SystemExit("the notifier is not connected")
        print("ready", flush=True)
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == "notify":
                notify(database, notifier, words[0])
                print("notified", flush=True)
            else:
                echo(database, notifier, *words)


def notify(database: Database, notifier: Notifier, topic: str) -> None:
    with notifier.batch() as notifications:

        def touch(tx: Transaction) -> None:
            tx.run(TOUCH, topic=topic)
            notifications.add(tx, topic)

        database.write(touch)


def echo(database: Database, notifier: Notifier, received: str, reply: str) -> None:
    """The store says how many answers are missing, the notifier only when to look."""
    answered = 0
    with notifier.subscribe([received]) as subscription:
        print("listening", flush=True)
        while True:
            asked = database.select(COUNT, topic=received)[0]["n"]
            if asked == answered and not subscription.wait(60):
                raise SystemExit(f"nothing received after {answered} answers")
            for _ in range(asked - answered):
                notify(database, notifier, reply)
            answered = asked


if __name__ == "__main__":
    main(*sys.argv[1:])
