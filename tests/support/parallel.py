"""`--processes N`: the tests run in N processes, which are forked when all tests have been read.

To read them takes ten seconds of processor time, and so is done once. The processes take pieces of work from a pipe,
one after another, and send their reports to the first process, which prints them. Each process makes the fixtures of
the session that its tests ask for.
"""

from __future__ import annotations

import atexit
import ctypes
import faulthandler
import os
import random
import signal
import sys
import traceback
from collections import defaultdict
from collections.abc import Iterator
from multiprocessing.connection import Connection, Pipe, wait
from tempfile import TemporaryFile
from typing import Any

import pytest

from support.timing import FixtureTimes

PROCESS = "AFL_TEST_PROCESS"  # the number of a process, from 0, for what must not be shared
_BROWSER = "tests/browser/"
_CLIENTS = ("tests/unit/models/", "tests/unit/runtime/test_claude_agent_runner.py")
_SINGLE = ("tests/properties/", "tests/unit/test_")
_STILL_SECONDS = (
    900  # a test that hangs is ended by its own time limit; this is for a hang that is in no test
)
_NUMBER_BYTES = 4
_PR_SET_PDEATHSIG = 1


def piece_of(nodeid: str) -> str:
    """The piece of work that a test belongs to.

    A file's tests run in one process, one after another: what its fixtures start is started once. The browser tests
    share one browser and one system to look at, so they are one piece; those that ask models by the client libraries of
    their providers are another, since to import these takes seconds. Properties, and the unit tests of no single
    package, take seconds each: they go one by one.
    """
    if nodeid.startswith(_BROWSER):
        return _BROWSER
    if nodeid.startswith(_CLIENTS):
        return _CLIENTS[0]
    return nodeid if nodeid.startswith(_SINGLE) else nodeid.partition("::")[0]


def longest_first(nodeid: str) -> bool:
    """A key to sort by: the browser tests are the longest piece, and one that begins last would be waited for."""
    return not nodeid.startswith(_BROWSER)


class ParallelRun:
    """The plugin of the first process: it runs no test itself."""

    def __init__(self, processes: int, fixture_times: FixtureTimes) -> None:
        self._processes = processes
        self._times = fixture_times
        self._running: dict[Connection, _Running] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool | None:
        if session.config.option.collectonly or session.testsfailed:  # a file that cannot be read is told of
            return None
        pieces: dict[str, list[pytest.Item]] = defaultdict(list)
        for item in session.items:
            pieces[piece_of(item.nodeid)].append(item)
        self._numbers, filled = os.pipe()
        with os.fdopen(filled, "wb") as queue:
            for number in range(len(pieces)):
                queue.write(number.to_bytes(_NUMBER_BYTES, "big"))
        reporter: Any = session.config.pluginmanager.get_plugin("terminalreporter")
        reporter.showfspath = False  # the files of several processes are mixed
        session.config._tmp_path_factory.getbasetemp()  # type: ignore[attr-defined]  # one folder, removed at the end
        for number in range(self._processes):
            self._fork(session, list(pieces.values()), number)
        try:
            while self._running:
                self._listen(session)
        finally:
            for each in self._running.values():
                os.kill(each.pid, signal.SIGKILL)
        return True

    def _fork(self, session: pytest.Session, pieces: list[list[pytest.Item]], number: int) -> None:
        here, there = Pipe(duplex=False)
        sys.stdout.flush()
        pid = os.fork()
        if pid == 0:
            here.close()
            _be_a_process(session, self._times, there, _taken(self._numbers, pieces), number)
        there.close()
        self._running[here] = _Running(pid)

    def _listen(self, session: pytest.Session) -> None:
        """Pass on what some of the processes have to say."""
        ready = wait(list(self._running), _STILL_SECONDS)
        if not ready:
            tests = ", ".join(each.test[0] for each in self._running.values() if each.test) or "none"
            raise session.Failed(f"nothing happened for {_STILL_SECONDS} s; tests under way: {tests}")
        for connection in ready:
            assert isinstance(connection, Connection)
            try:
                said = connection.recv()
            except EOFError:
                self._ended(session, connection)
            else:
                for hook, content in said:
                    self._pass_on(session.config, self._running[connection], hook, content)
        if session.shouldfail:
            raise session.Failed(session.shouldfail)
        if session.shouldstop:
            raise session.Interrupted(session.shouldstop)

    def _pass_on(self, config: pytest.Config, process: _Running, hook: str, content: Any) -> None:
        if hook == "fixtures":
            self._times.add(content)
        elif hook == "report":
            report = config.hook.pytest_report_from_serializable(config=config, data=content)
            config.hook.pytest_runtest_logreport(report=report)
        else:
            process.test = content if hook == "logstart" else None
            nodeid, location = content
            getattr(config.hook, f"pytest_runtest_{hook}")(nodeid=nodeid, location=location)

    def _ended(self, session: pytest.Session, connection: Connection) -> None:
        process = self._running.pop(connection)
        _, status = os.waitpid(process.pid, 0)
        code = os.waitstatus_to_exitcode(status)
        if process.test is not None:
            nodeid, location = process.test
            text = f"The process of this test ended in the middle, with exit code {code}"
            report = pytest.TestReport(nodeid, location, {}, "failed", text, "call")
            session.config.hook.pytest_runtest_logreport(report=report)
        if code:
            raise session.Failed(f"a process of the tests ended with exit code {code}")


class _Running:
    """What the first process knows of another."""

    def __init__(self, pid: int) -> None:
        self.pid = pid
        self.test: tuple[str, tuple[str, int | None, str]] | None = None


class _Terminal:
    """What is left of the reporter in the other processes: where the stacks of a test that hangs are written."""

    def __init__(self, reporter: pytest.TerminalReporter) -> None:
        self._tw = reporter._tw


class _Sender:
    """The plugin of the other processes: it sends once per test, when it starts, what there is to say by then."""

    def __init__(self, config: pytest.Config, connection: Connection) -> None:
        self._config = config
        self._connection = connection
        self._said: list[tuple[str, Any]] = []

    def pytest_runtest_logstart(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self.send("logstart", (nodeid, location))

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        data = self._config.hook.pytest_report_to_serializable(config=self._config, report=report)
        self._said.append(("report", data))

    def pytest_runtest_logfinish(self, nodeid: str, location: tuple[str, int | None, str]) -> None:
        self._said.append(("logfinish", (nodeid, location)))

    def send(self, hook: str, content: Any) -> None:
        """Send this, after what was said before."""
        self._connection.send([*self._said, (hook, content)])
        self._said.clear()


def _taken(numbers: int, pieces: list[list[pytest.Item]]) -> Iterator[pytest.Item]:
    """The tests of the pieces that this process takes from the pipe, which nobody fills any more."""
    while number := os.read(numbers, _NUMBER_BYTES):
        yield from pieces[int.from_bytes(number, "big")]


class _Following:
    """The test after the one under way, which tells its teardown what fixtures are still needed.

    It is taken no earlier, so no piece waits behind a long test while other processes have nothing to do.
    """

    def __init__(self, tests: Iterator[pytest.Item]) -> None:
        self._tests = tests
        self._taken: list[pytest.Item | None] = []

    def get(self) -> pytest.Item | None:
        if not self._taken:
            self._taken.append(next(self._tests, None))
        return self._taken[0]

    def listchain(self) -> list[Any]:
        item = self.get()
        return [] if item is None else item.listchain()


def _be_a_process(
    session: pytest.Session,
    times: FixtureTimes,
    connection: Connection,
    tests: Iterator[pytest.Item],
    number: int,
) -> None:
    """Run tests, and do not return."""
    code = 1
    try:
        ctypes.CDLL(None).prctl(
            _PR_SET_PDEATHSIG, signal.SIGKILL
        )  # nobody is left behind, however the first one ends
        _set_apart(session.config, number)
        sender = _Sender(session.config, connection)
        session.config.pluginmanager.register(sender)
        item = next(tests, None)
        while item is not None:
            following = _Following(tests)
            item.config.hook.pytest_runtest_protocol(item=item, nextitem=following)
            item = following.get()
        sender.send("fixtures", dict(times.seconds))
        atexit._run_exitfuncs()  # type: ignore[attr-defined]
        code = 0
    except KeyboardInterrupt:
        pass  # the first process tells of it
    except BaseException:
        traceback.print_exc(file=sys.__stderr__)
        faulthandler.dump_traceback(file=sys.__stderr__)
    finally:
        sys.stdout.flush()
        os._exit(code)


def _set_apart(config: pytest.Config, number: int) -> None:
    """What a fork would share with its siblings: output that is captured, the folder of files, random numbers."""
    os.environ[PROCESS] = str(number)
    random.seed()
    plugins = config.pluginmanager
    plugins.unregister(name="afl-run-times")
    reporter: Any = plugins.unregister(name="terminalreporter")
    plugins.register(_Terminal(reporter), "terminalreporter")
    if config.option.capture == "fd":
        capture: Any = plugins.get_plugin("capturemanager")
        capture.resume_global_capture()
        for stream in (
            sys.stdout,
            sys.stderr,
        ):  # the same objects, which modules may have kept, on files of its own
            with TemporaryFile() as file:
                os.dup2(file.fileno(), stream.fileno())
        capture.suspend_global_capture()
    factory: Any = config._tmp_path_factory  # type: ignore[attr-defined]
    factory._basetemp = factory.mktemp("process")
