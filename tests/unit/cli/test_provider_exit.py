"""What a command that worked on turns waits for at its end."""

from __future__ import annotations

import importlib
import os
import threading
from collections.abc import Iterator

import pytest

from afl.cli.interruption import left_behind
from afl.models import provider_loop


class Ended(BaseException):
    """The process would be gone."""


@pytest.fixture(autouse=True)
def exits(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def ended(code: int) -> None:
        raise Ended

    with monkeypatch.context() as patched:
        patched.setattr(os, "_exit", ended)
        yield


def test_a_call_of_a_model_that_was_given_up_ends_the_process() -> None:
    free = threading.Event()
    with pytest.raises(Ended), left_behind():
        threading.Thread(target=free.wait, name="afl-model", daemon=True).start()
    free.set()


def test_the_idle_loop_of_providers_is_not_waited_for() -> None:
    async def asked() -> str:
        return "answered"

    importlib.reload(provider_loop)  # it starts with the first call
    with left_behind():
        assert provider_loop.run(asked()) == "answered"
