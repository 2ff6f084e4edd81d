"""Time skipping on SQLite and PostgreSQL: nothing is waited for, everything keeps its order, nobody loses a lease.

That nothing is waited for shows by itself: a test that waited for a day would never end.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from contextlib import closing
from datetime import timedelta

import pytest

import afl
from afl.client.client import Client
from afl.kernel.errors import CapabilityError, InputError
from afl.operations.program.sources import program_of
from afl.runtime.evaluator import Evaluator
from afl.runtime.schedules import WorkflowSchedules
from afl.runtime.store import open_store
from afl.runtime.stores.sql_store import SqlStore
from afl.testing import Stubs, TimeSkipping, raises
from afl.turns.bus import outbox
from afl.turns.store.tables import ensure_tables

DAY_MS = 86_400_000
HOUR_MS = 3_600_000
SAY = "event facet Say(word: String) => (word: String)\n"


def echo(word: str) -> dict[str, str]:
    return {"word": word}


def words(stubs: Stubs) -> list[str]:
    return [values["word"] for values in stubs.calls("Say")]


def test_a_year_and_hours_of_retries_pass_in_their_order(flow: Client, clock: TimeSkipping) -> None:
    source = f"""{SAY} event facet Flaky() => (n: Int)
    workflow Year() => (n: Int, word: String) andThen {{
        year = sys.Sleep(ms = {365 * DAY_MS})
        late = Say(word = "year") with After(year)
        day = sys.Sleep(ms = {DAY_MS})
        early = Say(word = "day") with After(day)
        flaky = Flaky() with Retry(attempts = 4, backoff = {HOUR_MS})
        flaked = Say(word = "flaky") with After(flaky)
        yield Year(n = flaky.n, word = late.word)
    }}"""
    begun = clock.now()
    stubs = Stubs(flow, {"Flaky": [raises(OSError("not yet"))] * 3 + [{"n": 4}], "Say": echo})
    assert stubs.run(source) == {"n": 4, "word": "year"}
    assert words(stubs) == ["flaky", "day", "year"]
    assert timedelta(days=365) <= clock.now() - begun < timedelta(days=365, hours=1)


def test_times_of_the_calendar_and_durations_are_of_one_clock(flow: Client, clock: TimeSkipping) -> None:
    start = clock.now()
    source = f"""{SAY} workflow W(first: String, second: String) => (word: String) andThen {{
        monday = sys.Until(time = $.first)
        one = Say(word = "1: monday") with After(monday)
        noon = sys.Sleep(ms = {12 * HOUR_MS}) with After(monday)
        two = Say(word = "2: half a day after") with After(noon)
        tuesday = sys.Until(time = $.second) with After(noon)
        three = Say(word = "3: tuesday") with After(tuesday)
        last = sys.Sleep(ms = {50 * HOUR_MS})
        four = Say(word = "4: 50 hours") with After(last)
        yield W(word = four.word)
    }}"""
    days = [(start + timedelta(days=n)).isoformat() for n in (1, 2)]
    stubs = Stubs(flow, {"Say": echo})
    stubs.run(source, first=days[0], second=days[1])
    assert [word[0] for word in words(stubs)] == ["1", "2", "3", "4"]


SIGNAL = """
event facet Paid() => (amount: Int)
workflow Pay() => (amount: Int) andThen {
    paid = Paid() with Signal("paid") with Timeout(ms = 86400000) catch {
        yield Paid(amount = 0)
    }
    yield Pay(amount = paid.amount)
}
"""


def test_the_deadline_of_a_signal_comes_only_while_somebody_waits_for_the_result(
    flow: Client, clock: TimeSkipping
) -> None:
    with flow.worker():
        begun = clock.now()
        paid = flow.start(SIGNAL)
        paid.signal("paid", {"amount": 3})
        assert paid.result(timeout=60) == {"amount": 3}
        assert clock.now() - begun < timedelta(days=1)
        assert flow.run(SIGNAL, timeout=60) == {"amount": 0}
        assert clock.now() - begun >= timedelta(days=1)


def test_an_asynchronous_client_skips_time_while_a_block_lasts(clock: TimeSkipping, store_url: str) -> None:
    async def story() -> dict[str, object]:
        async with afl.connect(store_url) as flow, flow.worker():
            with clock.skipping():
                return await flow.run(SIGNAL, timeout=60)

    assert asyncio.run(story()) == {"amount": 0}


def test_a_paused_run_keeps_no_other_from_its_time(flow: Client) -> None:
    source = f"workflow W() => (n: Int) andThen {{ s = sys.Sleep(ms = {DAY_MS})\n yield W(n = 2) }}"
    paused = flow.start(source)
    paused.pause()
    with flow.worker():
        assert flow.run(source.replace(str(DAY_MS), str(3 * DAY_MS)), timeout=60) == {"n": 2}
        paused.unpause()
        assert paused.result(timeout=60) == {"n": 2}


def test_a_rate_spaces_its_tasks_evenly(flow: Client, clock: TimeSkipping) -> None:
    source = f"""{SAY} facet Each(n: Int) => (word: String) andThen {{
        said = Say(word = "x") with Rate(key = "say", perMinute = 1)
        yield Each(word = said.word)
    }}
    workflow Rated() => (words: [String]) andThen foreach n in [1, 2, 3, 4, 5] {{
        each = Each(n = n)
        yield Rated(words = [each.word])
    }}"""
    begun = clock.now()
    stubs = Stubs(flow, {"Say": echo})
    assert stubs.run(source) == {"words": ["x"] * 5}
    assert timedelta(minutes=4) <= clock.now() - begun < timedelta(minutes=6)


def test_advance_fires_schedules_and_timers_in_between(
    flow: Client, clock: TimeSkipping, store_url: str
) -> None:
    with closing(open_store(store_url)) as store:
        program = program_of("workflow Daily() => (n: Int) andThen { yield Daily(n = 1) }", "Daily")
        WorkflowSchedules(store).put("daily", program, cron="0 12 * * *")
    with flow.worker():
        sleeping = flow.start(
            "workflow W() => (n: Int) andThen { s = sys.Sleep(ms = 129600000)\n yield W(n = 2) }"
        )
        clock.advance(days=1)
        assert [run.state for run in flow.list(workflow="Daily")] == ["completed"]
        assert sleeping.status().state == "running"
        clock.advance(days=2)
        assert [run.state for run in flow.list(workflow="Daily")] == ["completed"] * 3
        assert sleeping.status().state == "completed"


def test_time_is_not_set_back(clock: TimeSkipping) -> None:
    with pytest.raises(InputError, match="time can be advanced, not set back"):
        clock.advance(hours=-1)


def test_whoever_holds_something_keeps_it(flow: Client, clock: TimeSkipping, store_url: str) -> None:
    source = f"""{SAY} workflow W() => (word: String) andThen {{
        said = Say(word = "a")
        yield W(word = said.word)
    }}"""

    def refused(reason: str) -> None:
        before = clock.now()
        with pytest.raises(TimeoutError, match=reason):
            clock.advance(days=1, timeout=0.05)
        assert clock.now() - before < timedelta(days=1)

    with closing(open_store(store_url)) as store:
        assert store.acquire_lock("mine", 1000)
        clock.advance(days=1)
        assert store.check_lock("mine") is not None
        run = flow.start(source)
        refused("a run waits for a worker")
        Evaluator(store).resume(run.id)
        refused("a task waits for a worker")
        (task,) = store.claim_tasks(["Say"], limit=1)
        refused("a task runs")
        assert store.renew_task(task, 1000)


def test_leases_of_other_parts_move_along(clock: TimeSkipping, store_url: str) -> None:
    with closing(open_store(store_url)) as store:
        assert isinstance(store, SqlStore)
        ensure_tables(store.database)

        def take(owner: str) -> bool:
            lease = {"name": "relay", "owner": owner, "lease_ms": HOUR_MS, "dead": []}
            return store.database.write(lambda tx: tx.one(outbox.Q.take_relay, **lease)) is not None

        assert take("first")
        clock.advance(days=1)
        assert not take("second")
        assert take("first")


def test_the_run_that_a_worker_holds_stays_with_it(flow: Client, store_url: str) -> None:
    source = f"""workflow W() => (n: Int) andThen {{
        a = sys.Sleep(ms = {DAY_MS})
        b = sys.Sleep(ms = {DAY_MS}) with After(a)
        c = sys.Sleep(ms = {DAY_MS}) with After(b)
        yield W(n = 1)
    }}"""
    with flow.worker():
        handle = flow.start(source)
        assert handle.result(timeout=60) == {"n": 1}
    with closing(open_store(store_url)) as store:
        tasks = store.get_tasks_by_workflow(handle.id)
        assert [(task.deaths, task.expiries) for task in tasks] == [(0, 0)] * 3


CLOCK = """
import sys
from afl.runtime.store import open_store
from afl.runtime.stores.sql_store import SqlStore
store = open_store(sys.argv[1])
for line in sys.stdin:
    print(store.now(), flush=True)
"""


def test_every_process_sees_the_skipped_time(clock: TimeSkipping, store_url: str) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CLOCK, store_url], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdin is not None and other.stdout is not None

        def there() -> int:
            print("now", file=other.stdin, flush=True)
            return int(other.stdout.readline())

        before = there()
        clock.advance(days=1)
        assert DAY_MS <= there() - before < DAY_MS + HOUR_MS
        other.stdin.close()


def test_the_time_of_other_stores_is_left_alone(empty_sqlite_url: str, empty_postgres_url: str) -> None:
    for url in (empty_sqlite_url, empty_postgres_url):
        with (
            closing(open_store(url)) as store,
            pytest.raises(CapabilityError, match=r"afl\.testing has made"),
        ):
            TimeSkipping(store)


def test_a_run_that_fails_while_time_is_skipped_says_so(flow: Client) -> None:
    stubs = Stubs(flow, {"Say": raises(OSError("no voice"))})
    source = f"""{SAY} workflow W() => (word: String) andThen {{
        said = Say(word = "a") with Retry(attempts = 3, backoff = {DAY_MS})
        yield W(word = said.word)
    }}"""
    with pytest.raises(afl.RunFailed, match="no voice"):
        stubs.run(source)
    assert len(stubs.calls("Say")) == 3
