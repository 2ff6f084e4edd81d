"""Several real processes on one SQLite file."""

from __future__ import annotations

import subprocess
import sys
import threading
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

from conversation import SCRIPT, received, tell
from notes_table import ADD, ids, make_notes
from support.processes import python

from afl.kernel.database import Database, Query, connect


def test_four_processes_open_a_new_file_at_once_and_share_it_fairly(folder_on_disk: Path) -> None:
    sqlite_url, total = f"sqlite:///{folder_on_disk}/store.db", 2000
    with ExitStack() as stack:
        processes = [
            stack.enter_context(python(SCRIPT, "share", sqlite_url, f"p{number}", str(total)))
            for number in range(4)
        ]
        for word in ("ready", "open", "done"):
            for process in processes:
                assert received(process) == word
            for process in processes if word != "done" else ():
                tell(process)
        assert [process.wait() for process in processes] == [0, 0, 0, 0]
    with connect(sqlite_url) as database:
        rows = database.select(Query.of("select who, count(*) as rows from shares group by who"))
    shares = Counter({row["who"]: row["rows"] for row in rows})
    assert len(shares) == 4
    assert min(shares.values()) >= shares.total() / 4 / 2, shares


def test_a_writer_killed_in_its_transaction_leaves_the_file_usable(sqlite_url: str, sqlite: Database) -> None:
    make_notes(sqlite)
    with python(SCRIPT, "stuck", sqlite_url) as process:
        assert received(process) == "inside"
        waiting = threading.Thread(target=lambda: sqlite.write(lambda tx: tx.run(ADD, id=2, text="waited")))
        waiting.start()
        assert ids(sqlite) == []  # a reader does not wait for the writer
        process.kill()
        waiting.join()
    assert ids(sqlite) == [2]
    assert sqlite.select(Query.of("pragma integrity_check"))[0]["integrity_check"] == "ok"


def test_a_file_whose_only_user_was_killed_opens_again(sqlite_url: str) -> None:
    with connect(sqlite_url) as database:
        make_notes(database)
    with python(SCRIPT, "stuck", sqlite_url) as process:
        assert received(process) == "inside"
        process.kill()
        process.wait()
    with connect(sqlite_url) as database:
        database.write(lambda tx: tx.run(ADD, id=3, text="after"))
        assert ids(database) == [3]


def test_a_forked_child_has_connections_and_presence_of_its_own(sqlite_url: str) -> None:
    with python(SCRIPT, "fork", sqlite_url) as process:
        report = received(process)
        assert process.wait() == 0
    assert report["child_sees"] == [1, 2]
    assert report["parent_sees"] == [1, 2, 3]
    assert report["parent_as_seen_by_child"] == "alive"
    assert report["parent_id_kept"]
    assert report["child_as_seen_later"] == "dead"


def test_a_forked_child_loses_no_commit_when_its_parent_closes_the_store(sqlite_url: str) -> None:
    with python(SCRIPT, "outlive", sqlite_url) as process:
        assert received(process) == [1, 2]


def test_a_fork_beside_transactions_of_other_threads_blocks_neither_side(sqlite_url: str) -> None:
    with python(SCRIPT, "fork_busy", sqlite_url) as process:
        report = received(process)
    assert report == {"statuses": [0] * 20, "written": list(range(1, 21))}


def test_a_forked_child_has_a_copy_of_a_store_in_memory() -> None:
    with python(SCRIPT, "fork", "memory://") as process:
        report = received(process)
        assert process.wait() == 0
    assert (report["child_sees"], report["parent_sees"]) == ([1, 2], [1, 3])
    assert report["parent_as_seen_by_child"] == report["child_as_seen_later"] == "unknown"


def test_a_process_forks_after_it_has_closed_a_store_in_memory() -> None:
    program = (
        "import os; from afl.kernel.database import connect\n"
        "database = connect('memory://'); database.close()\n"
        "child = os.fork()\n"
        "if child: os.waitpid(child, 0)"
    )
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stderr == ""
