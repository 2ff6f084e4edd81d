"""Where operations find turns: in the database that this process has open, or in one of their own."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from afl.client.store_client import StoreClient
from afl.kernel.errors import CapabilityError, StoreUnavailable
from afl.kernel.settings import Settings
from afl.operations.turn import turns
from afl.runtime.store import open_store


def test_a_client_with_an_open_store_connects_no_second_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"sqlite:///{tmp_path}/one.db"

    def refuse(*given: object, **named: object) -> None:
        raise AssertionError("it connects again")

    with closing(open_store(url)) as store:
        monkeypatch.setattr("afl.operations.turn.turn_store.connect", refuse)
        client = StoreClient(store, Settings(store=url))
        assert client.call(turns.agents) == []
        assert client.call(turns.turns) == []
        assert store.get_runs() == []  # it stays open


def test_turns_of_another_store_are_looked_for_there(tmp_path: Path) -> None:
    other = f"sqlite:///{tmp_path}/other.db"
    open_store(other).close()
    with closing(open_store(f"sqlite:///{tmp_path}/one.db")) as store:
        assert StoreClient(store, Settings(store=other)).call(turns.turns) == []
        with pytest.raises(StoreUnavailable, match=r"no store .*missing\.db"):
            StoreClient(store, Settings(store=f"sqlite:///{tmp_path}/missing.db")).call(turns.turns)
        with pytest.raises(CapabilityError, match="MongoDB"):
            StoreClient(store, Settings(store="mongodb://localhost/x")).call(turns.turns)
