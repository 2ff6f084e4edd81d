from __future__ import annotations

import threading

import pytest

from afl.kernel.joinable_thread import JoinableThread


def test_one_that_was_interrupted_while_it_began_is_joined(monkeypatch: pytest.MonkeyPatch) -> None:
    # The main thread waits there until the new thread says that it runs; this is where Ctrl-C finds it.
    go, done = threading.Event(), list[str]()
    here, wait = threading.current_thread(), threading.Event.wait

    def interrupted(event: threading.Event, timeout: float | None = None) -> bool:
        if threading.current_thread() is here:
            raise KeyboardInterrupt
        return wait(event, timeout)

    def work() -> None:
        go.wait()
        done.append("worked")

    thread = JoinableThread(work, "afl-test")
    with monkeypatch.context() as patch:
        patch.setattr(threading.Event, "wait", interrupted)
        with pytest.raises(KeyboardInterrupt):
            thread.start()
    go.set()
    thread.join()
    assert done == ["worked"]


def test_one_that_never_began_has_ended() -> None:
    thread = JoinableThread(pytest.fail, "afl-test", "it ran")
    thread.join(0.0)
    assert not thread.is_alive()


def test_one_that_has_not_got_a_turn_yet_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    go, done = threading.Event(), list[str]()
    join = threading.Thread.join

    class Late(JoinableThread):
        """Runs, and does nothing yet, until somebody waits for the end of its thread."""

        def run(self) -> None:
            go.wait()
            super().run()

    def joined(thread: threading.Thread, timeout: float | None = None) -> None:
        go.set()
        join(thread, timeout)

    thread = Late(lambda: done.append("worked"), "afl-test")
    thread.start()
    monkeypatch.setattr(threading.Thread, "join", joined)
    thread.join()
    assert done == ["worked"]


def test_it_is_a_daemon_with_a_name_and_its_arguments() -> None:
    received = list[int]()
    thread = JoinableThread(received.append, "afl-test", 7)
    thread.start()
    thread.join()
    assert (thread.daemon, thread.name, received) == (True, "afl-test", [7])
