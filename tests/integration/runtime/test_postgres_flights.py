"""Workers on PostgreSQL whose commits are under way while they evaluate: also when the line is cut in the middle."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from random import Random

import pytest
from support.databases import fresh_postgres_database
from support.judging import Trial, check
from support.late_store import drive_worker
from support.postgres_proxy import Proxy
from support.telling_workflows import telling

from afl.runtime.changes import IterationChanges
from afl.runtime.pace import Pace
from afl.runtime.postgres_store import PostgresStore

PACE = Pace(launch_tasks=1)
TRIAL = Trial.of(
    telling(
        """andThen foreach r in $.list {
            a = lib.Echo(p = r)
            b = lib.Echo(p = r + 1)
            yield main.W(all = [a.u, b.u])
        }""",
        list=[*range(20)],
    )
)


class Flyer(PostgresStore):
    """Counts its flights; cuts the line of one of them."""

    def __init__(self, proxy: Proxy, cut: int = 0) -> None:
        super().__init__(proxy.url)
        self._proxy = proxy
        self._cut = cut
        self.flights = 0

    def launch(self, changes: IterationChanges) -> Callable[[], None]:
        self.flights += 1
        if self.flights == self._cut:
            self._proxy.cut_at = b'"lease_ms"'
        return super().launch(changes)


@pytest.fixture
def proxy(postgres_url: str) -> Iterator[Proxy]:
    with fresh_postgres_database(postgres_url) as url, Proxy(url) as between:
        yield between


def test_a_run_comes_to_its_end_while_its_commits_fly(proxy: Proxy) -> None:
    store = Flyer(proxy)
    check(TRIAL, store, drive_worker(TRIAL, store, Random(3), PACE))
    assert store.flights > 5
    store.close()


@pytest.mark.parametrize("deliver", [True, False], ids=["after it was stored", "before"])
@pytest.mark.parametrize("cut", [1, 2, 3])
def test_a_line_that_is_cut_costs_nothing(proxy: Proxy, cut: int, deliver: bool) -> None:
    store = Flyer(proxy, cut)
    proxy.deliver = deliver
    check(TRIAL, store, drive_worker(TRIAL, store, Random(cut), PACE))
    assert proxy.cut_at is None
    assert store.flights > cut
    store.close()
