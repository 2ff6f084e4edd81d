from __future__ import annotations

import threading

import pytest

from afl.kernel import companion
from afl.kernel.companion import Companion


def interrupted(*_: object) -> bool:
    raise KeyboardInterrupt


def test_one_that_was_interrupted_while_it_began_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    # The main thread waits there until the new thread says that it runs; this is where Ctrl-C finds it.
    go, done = threading.Event(), list[str]()

    def work() -> None:
        go.wait()
        done.append("worked")

    thread = Companion(work, "afl-test")
    begun = thread._started  # type: ignore[attr-defined]
    with monkeypatch.context() as patch:
        patch.setattr(begun, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
    go.set()
    thread.join()
    assert done == ["worked"]


def test_one_that_never_began_has_ended(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "_BEGINNING_SECONDS", 0.0)
    thread = Companion(pytest.fail, "afl-test", "it ran")
    thread.join()
    assert not thread.is_alive()


def test_one_that_has_not_got_a_turn_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(companion, "_BEGINNING_SECONDS", 0.0)
    go, done = threading.Event(), list[str]()
    thread = Companion(lambda: done.append("worked"), "afl-test")
    monkeypatch.setattr(thread._begun, "set", go.wait)
    thread.start()
    threading.Thread(target=go.set).start()
    thread.join()
    assert done == ["worked"]


def test_it_is_a_daemon_with_a_name_and_its_arguments() -> None:
    heard = list[int]()
    thread = Companion(heard.append, "afl-test", 7)
    thread.start()
    thread.join()
    assert (thread.daemon, thread.name, heard) == (True, "afl-test", [7])
