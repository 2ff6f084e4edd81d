"""The pytest plugin: its fixtures. pytest loads this module before any test, so what they need is imported by them."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from afl.client.client import Client
    from afl.testing.stubs import Stubs
    from afl.testing.time_skipping import TimeSkipping

_OPTION = "afl_store_url"
_HELP = (
    "URL of a PostgreSQL database: the fixture afl_store creates databases beside it (default: SQLite files)"
)


def pytest_addoption(parser: pytest.Parser) -> None:
    """The option and the setting in the configuration file; the option wins."""
    parser.getgroup("afl", "AgentFlow").addoption("--afl-store-url", dest=_OPTION, default=None, help=_HELP)
    parser.addini(_OPTION, _HELP, default="")


@pytest.fixture(scope="session")
def _afl_stores(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    url = pytestconfig.getoption(_OPTION) or pytestconfig.getini(_OPTION)
    stores = importlib.import_module("afl.testing.stores")
    with closing(stores.stores_at(url, tmp_path_factory.mktemp("afl"))) as found:
        yield found


@pytest.fixture
def afl_store(_afl_stores: Any, tmp_path: Path) -> Iterator[str]:
    """The URL of a fresh store: an SQLite file in tmp_path, or a PostgreSQL database (`afl_store_url`)."""
    with _afl_stores.fresh(tmp_path) as url:
        yield url


@pytest.fixture
def _afl_connected(afl_store: str) -> Iterator[tuple[Client, TimeSkipping]]:
    with importlib.import_module("afl.testing.client").connected(afl_store) as connected:
        yield connected


@pytest.fixture
def flow(_afl_connected: tuple[Client, TimeSkipping]) -> Client:
    """A client on a fresh store. While it waits for a result, time is skipped."""
    return _afl_connected[0]


@pytest.fixture
def afl_time(_afl_connected: tuple[Client, TimeSkipping]) -> TimeSkipping:
    """The clock of the store of `flow`: `afl_time.now()`, `afl_time.advance(days=1)`."""
    return _afl_connected[1]


@pytest.fixture
def afl_stubs(flow: Client) -> Callable[[Mapping[str, Any]], Stubs]:
    """Makes stub handlers for `flow`: `afl_stubs({"shop.Charge": {"id": "ch_1"}})`."""
    make = importlib.import_module("afl.testing.stubs").Stubs
    return lambda answers: make(flow, answers)
