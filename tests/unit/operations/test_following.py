"""Waiting through a client."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from afl.client.run_waits import read_log, wait_for_run
from afl.client.store_client import StoreClient
from afl.kernel.errors import StoreUnavailable
from afl.kernel.ids import sortable_id
from afl.kernel.settings import load_settings
from afl.operations.program.submission import RunExists, submit_source
from afl.operations.run import control
from afl.runtime.entities import LogDefinition, RunDefinition
from afl.runtime.evaluator import Evaluator
from afl.runtime.memory_store import MemoryStore

SOURCE = "workflow W(n: Int = 1) => (n: Int) andThen {\n    yield W(n = $.n)\n}\n"


@pytest.fixture
def store() -> Iterator[MemoryStore]:
    store = MemoryStore()
    yield store
    store.close()


@pytest.fixture
def client(store: MemoryStore) -> StoreClient:
    return StoreClient(store, load_settings({}, environ={}))


@pytest.fixture
def run(client: StoreClient) -> str:
    return client.call(submit_source, SOURCE).run


def entry(run: str, message: str) -> LogDefinition:
    return LogDefinition(sortable_id(), 0, run, message=message)


def test_a_long_log_is_read_in_pieces_and_each_line_once(
    store: MemoryStore, client: StoreClient, run: str
) -> None:
    store.save_logs([entry(run, str(number)) for number in range(2_500)])
    assert [line.message for line in read_log(client, run)] == [str(number) for number in range(2_500)]


def test_a_log_is_followed_until_the_run_is_over(store: MemoryStore, client: StoreClient, run: str) -> None:
    store.save_log(entry(run, "one"))
    received = []
    for line in read_log(client, run, follow=True):
        received.append(line.message)
        if line.message == "one":
            store.save_logs([entry(run, "two"), entry(run, "three")])
            control.cancel(store, run)
    assert received == ["one", "two", "three"]


def test_entries_that_appear_out_of_order_are_not_lost(
    store: MemoryStore, client: StoreClient, run: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer took position 1 and commits after the one who took 2."""
    late, early = entry(run, "late"), entry(run, "early")
    looks = [[(2, early)], [(3, early)], [(1, late), (2, early)]]

    def get_logs_after(runner_id: str, position: int, limit: int = 0) -> list[tuple[int, LogDefinition]]:
        if len(looks) == 1:
            control.cancel(store, run)
        return looks.pop(0) if looks else []

    monkeypatch.setattr(store, "get_logs_after", get_logs_after)
    assert [line.message for line in read_log(client, run, follow=True)] == ["early", "late"]


def test_a_run_is_awaited_for_as_long_as_asked(store: MemoryStore, client: StoreClient, run: str) -> None:
    assert wait_for_run(client, run, 0.0).timed_out
    Evaluator(store).resume(run)  # type: ignore[arg-type]
    assert wait_for_run(client, run).outputs == {"n": 1}


def test_a_submission_that_broke_off_is_taken_up_by_its_key(
    store: MemoryStore, client: StoreClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(run: RunDefinition) -> bool:
        raise StoreUnavailable("it went away")

    with monkeypatch.context() as patch:
        patch.setattr(store, "insert_run", broken)
        with pytest.raises(StoreUnavailable):
            client.call(submit_source, SOURCE, key="k")
    assert store.find_runs() == []
    first = client.call(submit_source, SOURCE, key="k")
    assert client.call(submit_source, SOURCE, key="k") == first
    assert [each.workflow_id for each in store.find_runs()] == [first.run]
    with pytest.raises(RunExists, match="the idempotency key 'k' is that of run"):
        client.call(submit_source, SOURCE, inputs={"n": 2}, key="k")
