"""The address that `afl.connect` takes."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import afl
from afl.kernel.errors import InputError
from afl.kernel.settings import load_settings


@pytest.mark.parametrize("address", ["memory", "memory:", ":memory:", "memory:/"])
def test_a_misspelled_store_in_memory_makes_no_file(
    address: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="write memory:// for one in memory"):
        afl.connect(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("address", [5, b"x.db", ["x.db"]])
def test_what_is_neither_a_text_nor_a_path_makes_no_file(
    address: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match="the address is a text or a path, got "):
        afl.connect(address)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("source", [None, b"workflow W() andThen { }", 5])
def test_a_source_of_another_type_is_refused(source: Any) -> None:
    with (
        afl.connect("memory://") as flow,
        pytest.raises(InputError, match="a source is a path, a text in AFL, a compiled program or the name"),
    ):
        flow.start(source)


def test_a_path_may_have_any_characters(tmp_path: Path) -> None:
    path = tmp_path / "50% of my flows"
    for address in (path, str(path)):
        with afl.connect(address) as flow:
            assert flow.list() == []
    assert path.is_file()


@pytest.mark.parametrize("given", [{"address": "http://127.0.0.1:1"}, {"token": "secret"}])
def test_settings_and_an_address_do_not_go_together(given: dict[str, str]) -> None:
    with pytest.raises(InputError, match="settings name both"):
        afl.connect(**given, settings=load_settings({}, environ={}))


@pytest.mark.parametrize("name", ["start", "worker", "get"])
def test_a_connection_that_is_not_opened_says_how(name: str) -> None:
    connection = afl.connect("memory://")
    with pytest.raises(AttributeError, match=rf"has no {name!r} before it is opened: 'with afl.connect"):
        getattr(connection, name)
    assert not hasattr(connection, "nothing")


def test_a_connection_that_is_open_is_not_opened_once_more(tmp_path: Path) -> None:
    """The first block that exits would close the clients of both."""
    connection = afl.connect(tmp_path / "o.db")

    async def story() -> None:
        with pytest.raises(InputError, match="the connection is open already; share its client"):
            async with connection:
                raise AssertionError("not opened")

    with connection as flow:
        with pytest.raises(InputError, match="the connection is open already; share its client"), connection:
            raise AssertionError("not opened")
        asyncio.run(story())
        assert flow.list() == []
    with connection as flow:
        assert flow.list() == []
