"""The transport of an SQLite file, with reports of the kernel and without."""

from __future__ import annotations

import errno
import os
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest
from notifier_fixture import PROGRAM, SECONDS, Served, opened, receive, tell
from test_notifier_between import forked

from afl.kernel.database import Query
from afl.kernel.notify import Subscription
from afl.kernel.notify.file_watch import FileWatch, file_identity
from afl.kernel.notify.sqlite import SqliteTransport

COUNT = Query.of("select count(*) as n from touched where topic = :topic", name="count")


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    with opened(f"sqlite:///{tmp_path}/afl.db") as served:
        yield served


@pytest.fixture
def reported_only(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without the read that would find a lost notification after a second."""
    monkeypatch.setattr("afl.kernel.notify.file_watch.LONGEST_SECONDS", 3600.0)


class Deaf(FileWatch):
    """As on a file system that tells of no writes."""

    def wait(self, seconds: float) -> bool:
        super().wait(0)
        return False


def refused(path: str) -> FileWatch:
    raise OSError(errno.EMFILE, "inotify_init1: too many")


@contextmanager
def listening(
    path: Path,
    watch: Callable[[str], FileWatch] = FileWatch,
    topics: Iterable[str] = ("t",),
    early: Iterable[str] = (),
) -> Iterator[Subscription]:
    """A subscription on a transport that no database of this process shares."""
    transport = SqliteTransport(str(path), watch)
    subscription = Subscription(transport, transport, frozenset(topics), frozenset(early))
    transport.attach(subscription)
    try:
        yield subscription
    finally:
        subscription.close()
        transport.close()


def commit(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection, connection:
        connection.execute("insert into touched (topic) values ('t')")


def create(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table if not exists touched (topic text not null)")


@pytest.mark.usefixtures("reported_only")
def test_the_kernel_reports_each_commit_of_another_process(served: Served, topic: str) -> None:
    with served.neighbor() as neighbor, served.notifier.subscribe([topic]) as subscription:
        for _ in range(20):
            assert tell(neighbor, f"notify {topic}") == "notified"
            assert receive(subscription, topic)


@pytest.mark.usefixtures("reported_only")
def test_the_log_stays_while_there_are_subscriptions_and_others_come_and_go(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    with opened(f"sqlite:///{path}"):
        pass
    log = f"{path}-wal"
    assert file_identity(log) is None, "who closes last removes it"
    with listening(path) as subscription:
        known = file_identity(log)
        for _ in range(5):
            subprocess.run([sys.executable, str(PROGRAM), f"sqlite:///{path}", "auto", "t"], check=True)
            assert subscription.wait(SECONDS) == {"t"}
            assert file_identity(log) == known is not None


@pytest.mark.usefixtures("reported_only")
def test_a_log_that_is_emptied_still_notifies(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path) as subscription, closing(sqlite3.connect(path)) as other:
        for _ in range(5):
            commit(path)
            assert subscription.wait(SECONDS) == {"t"}
            assert other.execute("pragma wal_checkpoint(truncate)").fetchone()[0] == 0
            assert os.path.getsize(f"{path}-wal") == 0
            subscription.wait(0)


def test_a_log_or_a_database_that_is_replaced_is_found_again(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path) as subscription:
        for _ in range(2):
            for name in (f"{path}-wal", f"{path}-shm", path):
                os.unlink(name)
            create(path)
            assert subscription.wait(SECONDS) == {"t"}, "anything may be in the new one"
            commit(path)
            assert subscription.wait(SECONDS) == {"t"}


def test_where_the_kernel_refuses_the_file_is_read_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="afl.kernel.notify")
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, refused) as subscription:
        for _ in range(5):
            commit(path)
            assert subscription.wait(SECONDS) == {"t"}
    assert "every 0.002 s: [Errno 24] inotify_init1: too many" in caplog.text
    assert {record.levelname for record in caplog.records} == {"DEBUG"}


def test_where_the_kernel_reports_nothing_the_file_is_read_often(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG", logger="afl.kernel.notify")
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, Deaf) as subscription:
        for _ in range(5):
            commit(path)
            assert subscription.wait(SECONDS) == {"t"}
    assert caplog.text.count("the kernel does not report commits") == 1


@pytest.mark.usefixtures("reported_only")
@pytest.mark.parametrize("commits", [1, 50])
def test_what_is_committed_while_nobody_waits_ends_the_next_wait(tmp_path: Path, commits: int) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path) as subscription:
        assert subscription.wait(0) == frozenset()
        for _ in range(commits):
            commit(path)
        assert subscription.wait(SECONDS) == {"t"}


@pytest.mark.usefixtures("reported_only")
def test_closing_ends_the_thread_that_waits_for_the_kernel(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    create(path)
    before = set(threading.enumerate())
    descriptors = len(os.listdir("/proc/self/fd"))
    for _ in range(20):
        with listening(path) as subscription:
            commit(path)
            assert subscription.wait(SECONDS) == {"t"}
    assert set(threading.enumerate()) <= before
    assert len(os.listdir("/proc/self/fd")) == descriptors


@pytest.mark.usefixtures("reported_only")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_takes_no_report_from_its_parent(served: Served, topic: str) -> None:
    def in_child() -> None:
        with served.neighbor() as neighbor, served.notifier.subscribe([topic]) as subscription:
            for _ in range(5):
                assert tell(neighbor, f"notify {topic}") == "notified"
                assert receive(subscription, topic)

    with served.notifier.subscribe([topic]) as subscription:
        served.notify(topic)
        assert receive(subscription, topic)
        assert forked(in_child) == 0
        assert receive(subscription, topic), "the child's neighbor has committed"
        with served.neighbor() as neighbor:
            for _ in range(5):
                assert tell(neighbor, f"notify {topic}") == "notified"
                assert receive(subscription, topic)


@pytest.mark.usefixtures("reported_only")
def test_no_notification_is_lost_however_two_processes_interleave(served: Served, topic: str) -> None:
    """The neighbor answers each commit with one; bursts and work of any length shift them against each other."""
    chance = random.Random(topic)
    question, reply = f"{topic}:question", f"{topic}:reply"
    asked = 0
    with served.neighbor() as neighbor, served.notifier.subscribe([reply]) as subscription:
        assert tell(neighbor, f"echo {question} {reply}") == "listening"
        for _ in range(300):
            for _ in range(chance.choice([1, 1, 1, 2, 5])):
                served.notify(question)
                asked += 1
            sum(range(chance.choice([0, 100, 10_000, 100_000])))
            while served.database.select(COUNT, topic=reply)[0]["n"] < asked:
                assert subscription.wait(SECONDS), (
                    f"a reply to question {asked} was committed without a notification ({topic})"
                )
    assert served.database.select(COUNT, topic=reply)[0]["n"] == asked


@contextmanager
def under_way(path: Path) -> Iterator[sqlite3.Connection]:
    """A transaction that has written to the log and is not committed."""
    with closing(sqlite3.connect(path, isolation_level=None)) as writer:
        writer.execute("pragma cache_size = 1")
        writer.execute("begin immediate")
        before = os.path.getsize(f"{path}-wal")
        while os.path.getsize(f"{path}-wal") <= before:
            writer.execute("insert into touched (topic) values (?)", ["x" * 4000])
        yield writer


@pytest.mark.usefixtures("reported_only")
def test_an_early_subscription_is_notified_while_a_commit_is_under_way(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, topics={"t", "u"}, early={"t"}) as subscription, under_way(path) as writer:
        assert subscription.wait(SECONDS) == {"t"}
        monkeypatch.setattr("afl.kernel.notify.sqlite.QUIET_SECONDS", 3600.0)
        subscription.wait(0)  # should it have notified once more
        writer.execute("commit")
        assert subscription.wait(SECONDS) == {"t", "u"}


@pytest.mark.usefixtures("reported_only")
def test_the_others_are_notified_of_commits_only(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, topics={"t", "u"}, early={"t"}) as early:
        transport = early.owner
        assert isinstance(transport, SqliteTransport)
        plain = Subscription(transport, transport, frozenset({"t", "u"}))
        transport.attach(plain)
        with under_way(path) as writer:
            assert early.wait(SECONDS) == {"t"}
            assert plain.wait(0) == set()
            writer.execute("commit")
            assert plain.wait(SECONDS) == {"t", "u"}


def test_a_rolled_back_write_notifies_early_subscriptions_only(tmp_path: Path) -> None:
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, early={"t"}) as subscription:
        with under_way(path) as writer:
            assert subscription.wait(SECONDS) == {"t"}
            writer.execute("rollback")
        commit(path)
        assert subscription.wait(SECONDS) == {"t"}


def test_among_many_commits_none_is_notified_early(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("afl.kernel.notify.sqlite.QUIET_SECONDS", 3600.0)
    path = tmp_path / "afl.db"
    create(path)
    with listening(path, topics={"t", "u"}, early={"t"}) as subscription:
        commit(path)
        assert subscription.wait(SECONDS) == {"t", "u"}
        with under_way(path) as writer:
            told = threading.Thread(target=lambda: received.append(subscription.wait(SECONDS)))
            received: list[frozenset[str]] = []
            told.start()
            writer.execute("commit")
            told.join()
        assert received == [{"t", "u"}], "by the commit, and by nothing before"
