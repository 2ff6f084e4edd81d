"""Another process that uses a store: what it does is its first argument, the store's URL its second.

It prints one line when it has come to a point that the test waits for, and goes on when it reads one.
"""

from __future__ import annotations

import itertools
import json
import os
import sys
import threading

from notes_table import ADD, ids, make_notes

from afl.kernel.database import Database, Query, Transaction, connect
from afl.kernel.notify import open_notifier

SHARE = Query.of("insert into shares (who) values (:who) returning id")


def say(word: object) -> None:
    print(json.dumps(word), flush=True)


def wait() -> None:
    sys.stdin.readline()


def share(url: str, who: str, total: str) -> None:
    """Open together with others, then write until all have written `total` rows between them."""
    say("ready")
    wait()
    database = connect(url)
    make = Query.of("create table if not exists shares (id {identity}, who text) {strict}")
    database.write(lambda tx: tx.run(make))
    say("open")
    wait()
    while database.write(lambda tx: tx.all(SHARE, who=who)[0]["id"]) < int(total):
        pass
    database.close()
    say("done")


def stuck(url: str) -> None:
    """Stop inside a write transaction, after its first statement."""

    def work(tx: Transaction) -> None:
        tx.run(ADD, id=1, text="never committed")
        say("inside")
        wait()

    connect(url).write(work)
    say("committed")


def present(url: str) -> None:
    """Be there, say under which id, and stay until told to leave in order."""
    database = connect(url)
    say(database.presence.id)
    wait()
    database.close()
    say("left")


def fork(url: str) -> None:
    """Use the store on both sides of a fork."""
    database = connect(url)
    make_notes(database)
    mine = database.presence.id
    database.write(lambda tx: tx.run(ADD, id=1, text="parent before"))
    read_end, write_end = os.pipe()
    child = os.fork()
    if child == 0:
        os.write(write_end, json.dumps(_in_child(database, mine)).encode())
        os._exit(0)
    os.close(write_end)
    with os.fdopen(read_end) as pipe:
        report = json.loads(pipe.read())
    os.waitpid(child, 0)
    database.write(lambda tx: tx.run(ADD, id=3, text="parent after"))
    report |= {"parent_sees": ids(database), "parent_id_kept": database.presence.id == mine}
    report["child_as_seen_later"] = database.presence.proof(report["child_id"]).value
    database.close()
    say(report)


def outlive(url: str) -> None:
    """Fork a child that writes on after the parent has closed the store; the parent's notifier was waiting."""
    database = connect(url)
    make_notes(database)
    notifier = open_notifier(database)
    with notifier.subscribe(["any"]) as subscription:
        subscription.wait(0)
    closed, close = os.pipe()
    child = os.fork()
    if child == 0:
        database.write(lambda tx: tx.run(ADD, id=1, text="beside the parent"))
        os.read(closed, 1)
        database.write(lambda tx: tx.run(ADD, id=2, text="without the parent"))
        os._exit(0)
    notifier.close()
    database.close()
    os.write(close, b"!")
    os.waitpid(child, 0)
    with connect(url) as later:
        say(ids(later))


def fork_busy(url: str) -> None:
    """Fork while other threads read and write: each child writes one row."""
    database = connect(url, lock_timeout_ms=2000)
    make_notes(database)
    stop = threading.Event()
    numbers = itertools.count(1000)

    def work() -> None:
        while not stop.is_set():
            database.write(lambda tx: tx.run(ADD, id=next(numbers), text="thread"))
            ids(database)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    statuses = [_child_writes(database, number) for number in range(1, 21)]
    stop.set()
    for thread in threads:
        thread.join()
    say({"statuses": statuses, "written": [number for number in ids(database) if number < 1000]})


def _child_writes(database: Database, number: int) -> int:
    child = os.fork()
    if child == 0:
        status = 1
        try:
            database.write(lambda tx: tx.run(ADD, id=number, text="child"))
            status = 0
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def orphan(url: str) -> None:
    """Leave a child behind that has inherited everything and does nothing with it."""
    mine = connect(url).presence.id
    if os.fork() != 0:
        say(mine)
    wait()
    os._exit(0)


def _in_child(database: Database, parent: str) -> dict[str, object]:
    database.write(lambda tx: tx.run(ADD, id=2, text="child"))
    return {
        "child_sees": ids(database),
        "child_id": database.presence.id,
        "parent_as_seen_by_child": database.presence.proof(parent).value,
    }


if __name__ == "__main__":
    globals()[sys.argv[1]](*sys.argv[2:])
