"""The plugin in a test suite of its own, as a user has it."""

from __future__ import annotations

import subprocess
import sys

import psycopg
import pytest
from psycopg.rows import scalar_row

pytest_plugins = ("pytester",)

SUITE = '''
ORDER = """
namespace shop {
    event facet Charge(amount: Int) => (id: String)
    workflow Order(amount: Int) => (charge: String) andThen {
        charged = Charge(amount = $.amount)
        yield Order(charge = charged.id)
    }
}
"""

import pytest

@pytest.fixture(autouse=True)
def noted(afl_store):
    with open("urls.txt", "a") as urls:
        print(afl_store, file=urls)

def test_first(afl_stubs, flow, afl_store):
    stubs = afl_stubs({"shop.Charge": {"id": "ch_1"}})
    assert stubs.run(ORDER, amount=5) == {"charge": "ch_1"}
    assert stubs.calls("shop.Charge") == [{"amount": 5}]
    assert afl_store.startswith("STORE")
    assert len(flow.list()) == 1

def test_second(flow, afl_time):
    assert flow.list() == []
    before = afl_time.now()
    afl_time.advance(days=1)
    assert (afl_time.now() - before).days == 1
'''


@pytest.fixture(autouse=True)
def _no_other_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that are installed here take most of the time of such a run."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")


def run(pytester: pytest.Pytester, store: str, *options: str) -> None:
    pytester.makepyfile(SUITE.replace("STORE", store))
    result = pytester.runpytest_inprocess("-p", "afl.testing.plugin", *options)
    result.assert_outcomes(passed=2)


def test_every_test_has_a_fresh_sqlite_store(pytester: pytest.Pytester) -> None:
    run(pytester, "sqlite:///")


def test_the_option_names_a_postgresql_server(pytester: pytest.Pytester, postgres_url: str) -> None:
    run(pytester, "postgresql://", f"--afl-store-url={postgres_url}")
    pytester.makeini(f"[pytest]\nafl_store_url = {postgres_url}")
    run(pytester, "postgresql://")
    used = [url.rpartition("/")[2] for url in (pytester.path / "urls.txt").read_text().split()]
    with psycopg.connect(postgres_url, row_factory=scalar_row) as connection:
        kept = connection.execute(
            "select datname from pg_database where datname = any(%s)", [used]
        ).fetchall()
    assert (len(set(used)), kept) == (4, [])


def test_a_store_that_cannot_be_fresh_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile("def test_it(afl_store): ...")
    result = pytester.runpytest_inprocess("-p", "afl.testing.plugin", "--afl-store-url=mongodb://localhost/x")
    result.assert_outcomes(errors=1)
    result.stdout.fnmatch_lines(["*takes the URL of a PostgreSQL database, not mongodb"])


def test_a_suite_that_does_not_use_it_does_not_pay_for_it() -> None:
    program = (
        "import sys, afl.testing.plugin;"
        "print(sorted(name for name in sys.modules if name.startswith(('afl', 'sqlite3', 'msgspec', 'lark'))))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "['afl', 'afl.testing', 'afl.testing.plugin']"
