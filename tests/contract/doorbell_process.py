"""The other process of the doorbell tests: obeys lines on standard input, answers on standard output.

ring TOPIC     commit a change that rings
echo IN OUT    until the end: whenever IN rings, ring OUT
"""

from __future__ import annotations

import sys

from afl.kernel.database import Query, connect
from afl.kernel.doorbell import open_doorbell

TOUCH = Query.of("insert into touched (topic) values (:topic)", name="touch")


def main(store: str, doorbell: str) -> None:
    with connect(store) as database, open_doorbell(database, doorbell) as bell:

        def ring(topic: str) -> None:
            with bell.rings() as rings:
                database.write(lambda tx: (tx.run(TOUCH, topic=topic), rings.add(tx, topic)))

        if not bell.connected(60):
            raise SystemExit("the doorbell is not connected")
        print("ready", flush=True)
        for line in sys.stdin:
            verb, *words = line.split()
            if verb == "ring":
                ring(words[0])
                print("rung", flush=True)
            else:
                answer(database, bell, ring, *words)


def answer(database, bell, ring, heard, reply) -> None:  # type: ignore[no-untyped-def]
    """Answer every question once: the store says which are open, the bell only when to look."""
    count = Query.of("select count(*) as n from touched where topic = :topic", name="count")
    answered = 0
    with bell.listen([heard]) as ear:
        print("listening", flush=True)
        while True:
            asked = database.select(count, topic=heard)[0]["n"]
            if asked == answered and not ear.wait(60):
                raise SystemExit(f"nothing heard after {answered} answers")
            for _ in range(asked - answered):
                ring(reply)
            answered = max(asked, answered)


if __name__ == "__main__":
    main(*sys.argv[1:])
