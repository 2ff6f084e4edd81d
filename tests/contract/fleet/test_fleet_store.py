"""What the principal's store promises, on every database it runs on."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from threading import Event
from typing import Any

import msgspec
import pytest
from support.fleet_stores import LEASE_MS, START_MS, Keeper, log_record

from afl.fleet.errors import ProtocolError, RequestRefused
from afl.fleet.messages import LogPage, RunRecord, Status
from afl.fleet.principal import logs, monitor, old_peers, runs, views
from afl.fleet.principal.store import Change
from afl.fleet.requests import AgentTaskStatus, AgentWorkflowStatus, GetLogs, ListRuns, QueryLogs
from afl.kernel.database import Query

S = Status
Work = Callable[[Change], object]


def history(keeper: Keeper, run_id: str) -> list[tuple[str, int]]:
    query = Query.of("select status, late from workflow_run_status where run_id = :run_id order by position")
    rows = keeper.store.read(lambda tx: tx.all(query, run_id=run_id))
    return [(row["status"], row["late"]) for row in rows]


def test_runs_are_handed_out_in_the_order_they_came(keeper: Keeper) -> None:
    for name in "abc":
        assert keeper.enqueue(name)
    taken = [keeper.claim("i") for _ in range(4)]
    assert [run and run["run_id"] for run in taken] == ["a", "b", "c", None]
    assert keeper.run("a").epoch == 1 and keeper.run("a").status is S.PENDING


def test_the_same_run_id_is_the_same_run(keeper: Keeper) -> None:
    assert keeper.enqueue("a") and not keeper.enqueue("a")
    with pytest.raises(RequestRefused, match="is of workflow w"):
        keeper.enqueue("a", "other")
    assert keeper.claim("i") is not None and keeper.claim("i") is None


def test_a_run_whose_answer_was_lost_is_given_again(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.enqueue("b")
    first, again = keeper.claim("i", []), keeper.claim("i", [])
    assert first and (first["run_id"], first["epoch"]) == ("a", 1)
    assert again and (again["run_id"], again["epoch"]) == ("a", 2)
    # The answer that was lost is noticed late: it must not take the run from who has it now.
    assert not keeper.change(lambda change: runs.unclaim(change, "a", 1))
    following = keeper.claim("i", ["a"])
    assert following and following["run_id"] == "b"
    assert keeper.claim("other", []) is None


def test_a_run_that_could_not_be_delivered_goes_back_under_another_epoch(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    assert keeper.change(lambda change: runs.unclaim(change, "a", 1))
    assert not keeper.change(lambda change: runs.unclaim(change, "a", 1))
    taken = keeper.claim("j")
    assert taken and taken["epoch"] == 3


def test_from_start_to_end(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.say_task("i", "a", 1, S.RUNNING)
    keeper.say_task("i", "a", 1, S.COMPLETED)
    version = keeper.run("a").version
    keeper.say("i", "a", 1, S.COMPLETED)
    detail = keeper.detail("a")
    assert (detail.run.status, detail.run.started_at, detail.run.ended_at) == (
        S.COMPLETED,
        START_MS,
        START_MS,
    )
    assert detail.run.version > version
    [task] = detail.tasks
    assert (task.status, task.started_at, task.ended_at) == (S.COMPLETED, START_MS, START_MS)
    assert history(keeper, "a") == [("PENDING", 0), ("RUNNING", 0), ("COMPLETED", 0)]


def test_a_silent_agent_loses_its_run_after_the_timeout_and_not_before(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.say_task("i", "a", 1, S.RUNNING)
    keeper.now += LEASE_MS
    assert keeper.expire() == []
    keeper.now += 1
    [expired] = keeper.expire()
    assert (expired.status, expired.crashed) == (S.CRASHED, True)
    detail = keeper.detail("a")
    assert (detail.run.status, detail.tasks[0].status) == (S.CRASHED, S.CRASHED)
    assert "agent i" in detail.run.error


def test_a_heartbeat_renews_what_it_names_and_nothing_else(keeper: Keeper) -> None:
    for name in "ab":
        keeper.enqueue(name)
        keeper.claim("i")
        keeper.say("i", name, 1, S.RUNNING)
    keeper.now += LEASE_MS
    assert keeper.beat("i", ("a", 1)) == keeper.beat("i")
    keeper.now += 1
    assert [expired.run_id for expired in keeper.expire()] == ["b"]


def test_an_agent_that_dies_between_fetch_and_running_loses_nothing(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    keeper.now += LEASE_MS + 1
    [expired] = keeper.expire()
    assert (expired.status, expired.crashed) == (S.PENDING, False)
    taken = keeper.claim("j")
    assert taken and (taken["run_id"], taken["epoch"], taken["requeued"]) == ("a", 3, 0)


def crashed(keeper: Keeper, requeues: int) -> None:
    keeper.enqueue("a", requeues=requeues)
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.say_task("i", "a", 1, S.RUNNING)
    keeper.now += LEASE_MS + 1
    keeper.expire()


def test_a_crashed_run_is_queued_again_as_often_as_its_workflow_says(keeper: Keeper) -> None:
    crashed(keeper, requeues=1)
    assert keeper.run("a").status is S.PENDING and keeper.detail("a").tasks == []
    taken = keeper.claim("j")
    assert taken and taken["requeued"] == 1
    keeper.say("j", "a", taken["epoch"], S.RUNNING)
    keeper.now += LEASE_MS + 1
    [expired] = keeper.expire()
    assert expired.status is S.CRASHED and keeper.run("a").attempt == 2
    words = [status for status, _ in history(keeper, "a")]
    assert words == ["PENDING", "RUNNING", "CRASHED", "PENDING", "RUNNING", "CRASHED"]


def test_after_a_requeue_late_statuses_are_for_the_record_and_late_lines_are_kept(keeper: Keeper) -> None:
    crashed(keeper, requeues=1)
    assert keeper.beat("i", ("a", 1)).lost == ["a"]
    keeper.say("i", "a", 1, S.COMPLETED)
    keeper.say_task("i", "a", 1, S.COMPLETED)
    keeper.ship("i", log_record(keeper.next("i"), "late line", run_id="a"))
    assert keeper.run("a").status is S.PENDING and keeper.detail("a").tasks == []
    assert history(keeper, "a")[-1] == ("COMPLETED", 1)
    page = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="a")))
    assert [line.payload for line in page.lines] == ["late line"]


def test_crashed_gives_way_to_a_later_report_of_the_same_epoch(keeper: Keeper) -> None:
    crashed(keeper, requeues=0)
    keeper.say_task("i", "a", 1, S.COMPLETED)
    keeper.say("i", "a", 1, S.COMPLETED)
    assert keeper.run("a").status is S.COMPLETED and keeper.detail("a").tasks[0].status is S.COMPLETED
    keeper.say("i", "a", 1, S.FAILED)
    assert keeper.run("a").status is S.COMPLETED and history(keeper, "a")[-1] == ("FAILED", 1)


def test_an_agent_that_comes_back_goes_on(keeper: Keeper) -> None:
    crashed(keeper, requeues=0)
    assert keeper.beat("i", ("a", 1)).lost == []
    assert keeper.run("a").status is S.RUNNING and keeper.detail("a").tasks[0].status is S.RUNNING
    keeper.now += LEASE_MS
    assert keeper.expire() == []


def test_a_principal_that_starts_waits_one_timeout(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.now += 10 * LEASE_MS
    keeper.change(monitor.renew_all)
    keeper.now += LEASE_MS
    assert keeper.expire() == []
    keeper.now += 1
    assert len(keeper.expire()) == 1


def test_an_agent_that_lets_go_of_a_run_says_crashed_itself(keeper: Keeper) -> None:
    keeper.enqueue("a", requeues=1)
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.say("i", "a", 1, S.CRASHED)
    taken = keeper.claim("j")
    assert taken and (taken["epoch"], taken["requeued"]) == (3, 1)
    keeper.say("j", "a", 3, S.CRASHED)
    assert keeper.run("a").status is S.CRASHED


def test_cancel(keeper: Keeper) -> None:
    for name in "ab":
        keeper.enqueue(name)
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    assert keeper.cancel("b")["status"] == "CANCELED"
    assert keeper.cancel("a")["status"] == "RUNNING"
    assert keeper.claim("i") is None
    assert keeper.beat("i", ("a", 1)).cancel == ["a"]
    keeper.say("i", "a", 1, S.CANCELED)
    assert keeper.run("a").status is S.CANCELED
    assert keeper.cancel("a")["status"] == "CANCELED"
    with pytest.raises(RequestRefused, match="No run exists with id x"):
        keeper.cancel("x")


def test_a_canceled_run_whose_agent_dies_is_canceled_and_never_queued_again(keeper: Keeper) -> None:
    keeper.enqueue("a", requeues=5)
    keeper.claim("i")
    keeper.say("i", "a", 1, S.RUNNING)
    keeper.cancel("a")
    keeper.now += LEASE_MS + 1
    [expired] = keeper.expire()
    assert expired.status is S.CANCELED and keeper.beat("i", ("a", 1)).cancel == ["a"]


def test_runs_behind_open_ones_wait_their_turn(keeper: Keeper) -> None:
    for name in "abc":
        keeper.enqueue(name, behind=True)
    assert [keeper.run(name).status for name in "abc"] == [S.PENDING, S.WAITING, S.WAITING]
    keeper.claim("i")
    assert keeper.claim("i") is None
    keeper.say("i", "a", 1, S.FAILED)
    assert [keeper.run(name).status for name in "bc"] == [S.PENDING, S.WAITING]
    keeper.cancel("b")
    assert keeper.run("c").status is S.PENDING


def at_the_same_time(keeper: Keeper, first: Work, second: Work) -> None:
    """Let the second begin while the first is not committed, which waits until the second is done or held up."""
    begun, done = Event(), Event()

    def linger(change: Change) -> None:
        first(change)
        begun.set()
        done.wait(0.3)

    def follow() -> None:
        assert begun.wait(30)
        keeper.change(second)
        done.set()

    with ThreadPoolExecutor(2) as pool:
        for ending in [pool.submit(keeper.change, linger), pool.submit(follow)]:
            ending.result()


def ending(run_id: str) -> Work:
    return lambda change: runs.finish(change, runs.get_run(change, run_id), S.COMPLETED)


def test_no_run_waits_for_ever_behind_runs_that_end_while_it_is_queued(keeper: Keeper) -> None:
    keeper.enqueue("a")
    order = runs.NewRun("b", "w", "W", "{}", 0, {}, "test")
    at_the_same_time(keeper, ending("a"), lambda change: runs.enqueue(change, order, behind=True))
    assert keeper.run("b").status is S.PENDING


def test_no_run_waits_for_ever_behind_two_that_end_at_the_same_time(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.enqueue("b")
    keeper.enqueue("c", behind=True)
    at_the_same_time(keeper, ending("a"), ending("b"))
    assert keeper.run("c").status is S.PENDING


def test_a_stream_is_stored_once_in_order_up_to_a_gap(keeper: Keeper) -> None:
    one, two, three, four = (log_record(number, f"line {number}") for number in (1, 2, 3, 4))
    assert keeper.ship("i", one, two) == 2
    assert keeper.ship("i", one, two, three) == 3
    assert keeper.ship("i") == 3
    assert keeper.ship("j", four) == 0
    assert keeper.ship("j", two, four, oldest=2) == 2
    page = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="r")))
    assert [line.payload for line in page.lines] == ["line 1", "line 2", "line 3", "line 2"]
    assert [line.position for line in page.lines] == [1, 2, 3, 4]


def test_a_record_that_cannot_be_stored_leaves_no_trace(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    status = RunRecord(seq=1, run_id="a", epoch=1, status=S.RUNNING, at=START_MS)
    for lines in (b'["one"]', b"{}", b"[1, 2]", b"[]"):
        bad = msgspec.structs.replace(log_record(2, "x", "y"), lines=msgspec.Raw(lines))
        with pytest.raises(ProtocolError, match="log record 2"):
            keeper.ship("i", status, bad)
    assert keeper.run("a").status is S.PENDING and keeper.ship("i") == 0


def test_characters_that_a_server_cannot_hold(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.claim("i")
    end = RunRecord(seq=1, run_id="a", epoch=1, status=S.FAILED, at=START_MS, error="no\0good")
    named = msgspec.structs.replace(log_record(2, "x", run_id="a"), task_name="T\0")
    assert keeper.ship("i", end, named) == 2
    assert keeper.run("a").error == "no\ufffdgood"
    [line] = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="a"))).lines
    assert line.task_name == "T\ufffd"


def test_pages_of_lines(keeper: Keeper) -> None:
    for number in range(1, 41):
        keeper.ship(
            "i", log_record(number, *(f"{number}.{line}" for line in range(10)), at=START_MS + number)
        )
    every = [f"{number}.{line}" for number in range(1, 41) for line in range(10)]
    found: list[str] = []
    position, more = 0, True
    while more:
        request = GetLogs(run_id="r", after=position, limit=33)
        page = keeper.store.read(lambda tx, request=request: logs.page(tx, request))  # type: ignore[misc]
        found += [line.payload for line in page.lines]
        position, more = page.position, bool(page.lines)
    assert found == every
    everything = keeper.store.read(lambda tx: logs.page(tx, GetLogs(after=395)))
    assert [line.payload for line in everything.lines] == every[395:] and not everything.more


def test_a_page_of_long_lines_has_fewer_of_them(keeper: Keeper) -> None:
    lines = [f"{number}" + "x" * 60_000 for number in range(100)]
    for seq, line in enumerate(lines, start=1):
        keeper.ship("i", log_record(seq, line))
    page = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="r", limit=100)))
    assert page.more and 1 < len(page.lines) < 100
    rest = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="r", after=page.position)))
    assert [line.payload for line in (*page.lines, *rest.lines)] == lines and not rest.more
    last = keeper.store.read(lambda tx: logs.page(tx, GetLogs(run_id="r", last=100)))
    assert [line.payload for line in last.lines] == lines


def test_the_last_lines_and_where_to_go_on(keeper: Keeper) -> None:
    def page(**filters: Any) -> LogPage:
        return keeper.store.read(lambda tx: logs.page(tx, GetLogs(**filters)))

    assert page(last=3) == LogPage(lines=[], position=0, more=False)
    for number in range(1, 21):
        record = log_record(number, f"{number}.a", f"{number}.b", run_id="r" if number % 2 else "s")
        keeper.ship("i", record)
    assert [line.payload for line in page(last=3).lines] == ["19.b", "20.a", "20.b"]
    assert [line.payload for line in page(last=3, run_id="r").lines] == ["17.b", "19.a", "19.b"]
    assert len(page(last=1000).lines) == 40 and page(last=3).position == 40
    # Whoever waits for lines of another run does not look at these again.
    assert page(run_id="other", after=1) == LogPage(lines=[], position=40, more=False)
    assert page(workflow_id="other", last=5) == LogPage(lines=[], position=40, more=False)
    assert page(run_id="r", after=36).position == 40
    assert page(run_id="r", limit=2).position == 2


def test_lines_by_time_with_any_text(keeper: Keeper) -> None:
    odd = ["a\x01b", "nul\0", "tab\t", "ünïcode ☃", "'; drop table fleet_runs; --", "", "%s {now} :x"]
    keeper.ship("i", log_record(1, "second", at=START_MS + 5), log_record(2, *odd, at=START_MS))
    request = QueryLogs(end_ms=START_MS + 6, start_ms=START_MS, workflow_id="w")
    lines = keeper.store.read(lambda tx: logs.query(tx, request, 0))
    kept = [text.replace("\0", "\ufffd") for text in odd]
    assert [line.partition("] [r/t-1] ")[2] for line in lines] == [*kept, "second"]
    none = QueryLogs(end_ms=START_MS, start_ms=0, workflow_id="w' or '1'='1")
    assert keeper.store.read(lambda tx: logs.query(tx, none, 0)) == []
    rows = keeper.store.read(lambda tx: tx.all(Query.of("select payload from logstore order by position")))
    assert [row["payload"] for row in rows] == ["second", *kept]


def test_a_query_of_an_old_peer_reads_block_by_block_and_has_an_end(
    keeper: Keeper, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "_QUERIED_BLOCKS", 2)
    monkeypatch.setattr(logs, "_MOST_QUERIED", 7)
    times = [START_MS, START_MS + 1, START_MS + 1, START_MS + 1, START_MS]
    for seq, at in enumerate(times, start=1):
        keeper.ship("i", log_record(seq, f"{seq}a", f"{seq}b", at=at))

    def asked(request: QueryLogs) -> list[str]:
        lines = keeper.store.read(lambda tx: logs.query(tx, request, START_MS + 2))
        return [line.rpartition(" ")[2] for line in lines]

    for request in (QueryLogs(), QueryLogs(workflow_id="w"), QueryLogs(workflow_instance_id="r")):
        assert asked(request) == ["5b", "2a", "2b", "3a", "3b", "4a", "4b"]
    assert asked(QueryLogs(end_ms=START_MS + 1)) == ["1a", "1b", "5a", "5b"]
    monkeypatch.setattr(logs, "_MOST_TEXT", 1)
    assert asked(QueryLogs()) == ["4b"]


def test_lists_of_runs(keeper: Keeper) -> None:
    for number in range(5):
        keeper.enqueue(f"r{number}", "even" if number % 2 == 0 else "odd")
    keeper.cancel("r4")

    def listed(**filters: object) -> list[str]:
        request = ListRuns(**filters)  # type: ignore[arg-type]
        return [run.run_id for run in keeper.store.read(lambda tx: views.list_runs(tx, request))]

    assert listed() == ["r4", "r3", "r2", "r1", "r0"]
    assert listed(limit=2, before="r3") == ["r2", "r1"]
    assert listed(workflow_id="even") == ["r4", "r2", "r0"]
    assert listed(statuses=[S.CANCELED]) == ["r4"]
    assert listed(workflow_id="odd", statuses=[S.CANCELED]) == []


def test_recent_statuses_are_the_latest_of_ten_workflows(keeper: Keeper) -> None:
    for number in range(12):
        keeper.enqueue(f"r{number}", f"w{number}")
    keeper.cancel("r3")
    recent = keeper.store.read(views.recent_statuses)
    assert [status.workflow_id for status in recent][:3] == ["w3", "w11", "w10"] and len(recent) == 10
    assert recent[0].status == "FAILED"


def test_old_agents_after_a_crash(keeper: Keeper) -> None:
    keeper.enqueue("a", requeues=1)
    keeper.change(lambda change: old_peers.fetch(change, "old"))
    running = AgentWorkflowStatus("old", "w", "slug", S.RUNNING)
    keeper.change(lambda change: old_peers.report_workflow(change, running))
    task = AgentTaskStatus("old", "t", "t1", "slug", S.RUNNING)
    keeper.change(lambda change: old_peers.report_task(change, task))
    assert keeper.detail("a").tasks[0].status is S.RUNNING
    keeper.now += LEASE_MS
    assert keeper.change(lambda change: old_peers.heartbeat(change, "old")) == 1
    keeper.now += LEASE_MS + 1
    assert [expired.status for expired in keeper.expire()] == [S.PENDING]
    late = AgentWorkflowStatus("old", "w", "slug", S.COMPLETED)
    keeper.change(lambda change: old_peers.report_workflow(change, late))
    assert keeper.run("a").status is S.PENDING and history(keeper, "a")[-1] == ("COMPLETED", 1)


def test_a_fetch_of_an_old_agent_that_is_never_confirmed_goes_back(keeper: Keeper) -> None:
    keeper.enqueue("a")
    keeper.change(lambda change: old_peers.fetch(change, "old"))
    keeper.now += LEASE_MS
    assert keeper.change(lambda change: old_peers.heartbeat(change, "old")) == 0
    keeper.now += 1
    keeper.expire()
    assert keeper.claim("i") is not None
