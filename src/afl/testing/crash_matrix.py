"""The crash matrix: a workflow that ends in the middle, at each commit in turn, and is resumed by another process.

    @afl.testing.survives_crashes
    def test_an_order(flow):
        with flow.worker({"shop.Charge": charge}):
            return flow.run("order.afl", amount=5)

The function runs once without a crash, then once for each handler's end and each commit that this run had: a process
runs it and ends there by `os._exit`, and another one calls it again on the same store, which resumes the run. What it
returns must be the same each time, and a handler that is called more often than without a crash must have asked for its
idempotency key.
"""

from __future__ import annotations

import gc
import importlib
import inspect
import os
import pickle
import select
import signal
import time
import traceback
import warnings
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from fnmatch import fnmatchcase
from functools import partial, wraps
from pathlib import Path
from typing import Any, overload

from afl.client.client import Client
from afl.testing.client import open_calls
from afl.testing.crash_process import CRASHED, POINTS, Record, live
from afl.testing.crash_report import Crash, Difference, differences, report
from afl.testing.stores import SqliteStores

_WARM = """event facet Work() => (n: Int)
workflow Warm() => (n: Int) andThen {
    work = Work()
    yield Warm(n = work.n)
}
"""
_POLL_SECONDS = 0.002
_PROVIDED = ("flow", "folder")
# What a worker imports when it starts, so that it is there before the first fork.
_AT_ONCE = ("afl.bridges.service", "afl.runtime.runner.service", "afl.runtime.sqlite_store")
Test = Callable[..., Any]


@overload
def survives_crashes(function: Test, /) -> Test: ...


@overload
def survives_crashes(*, pure: Sequence[str] = (), timeout: float = 60) -> Callable[[Test], Test]: ...


def survives_crashes(
    function: Test | None = None, /, *, pure: Sequence[str] = (), timeout: float = 60
) -> Test | Callable[[Test], Test]:
    """Make a test of a function that runs a workflow: crashes must change nothing.

    Its parameter `flow` is a client on a fresh SQLite store. A parameter `folder` is a fresh folder, for what handlers
    leave behind; others are pytest's fixtures. It is called in many processes, and what it returns (anything that can
    be pickled) is compared: the outputs of the run, and what its handlers left behind, say. `pure` names facets, as
    patterns (`news.*`), whose handlers change nothing outside, so that calling them twice does no harm. Each process
    may take `timeout` seconds.
    """
    if function is None:
        return partial(_decorated, pure=pure, timeout=timeout)
    return _decorated(function, pure=pure, timeout=timeout)


def _decorated(function: Test, *, pure: Sequence[str], timeout: float) -> Test:
    signature = inspect.signature(function)
    own = [each for name, each in signature.parameters.items() if name not in _PROVIDED]
    wants_folder = "folder" in signature.parameters

    @wraps(function)
    def test(tmp_path: Path, **fixtures: Any) -> None:
        __tracebackhide__ = True  # the message says it all
        given = {**fixtures, **({"tmp_path": tmp_path} if "tmp_path" in signature.parameters else {})}
        found = CrashMatrix(function, given, tmp_path, wants_folder=wants_folder, timeout=timeout).run()
        wrong = differences(found, lambda facet: any(fnmatchcase(facet, pattern) for pattern in pure))
        if wrong:
            raise AssertionError(report(found, wrong))

    tmp_path = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
    others = [each.replace(kind=each.KEYWORD_ONLY) for each in own if each.name != "tmp_path"]
    test.__signature__ = inspect.Signature([tmp_path, *others])  # type: ignore[attr-defined]
    return test


class CrashMatrix:
    """All the processes of one test. They are forked by one process that has everything imported and one thread."""

    def __init__(
        self,
        function: Test,
        given: Mapping[str, Any],
        folder: Path,
        *,
        wants_folder: bool = False,
        timeout: float = 60,
    ) -> None:
        self._function = function
        self._given = given
        self._folder = folder
        self._wants_folder = wants_folder
        self._timeout = timeout

    def run(self) -> list[Crash]:
        """What happened without a crash, which comes first, and with each."""
        for module in _AT_ONCE:
            importlib.import_module(module)
        stores = SqliteStores(self._folder)
        outcome = self._folder / "matrix.pickle"
        problem = self._folder / "problem.txt"

        def work() -> None:
            try:
                _warm_up(stores, self._folder)
                outcome.write_bytes(pickle.dumps(self._crashes(stores)))
            except BaseException:
                problem.write_text(traceback.format_exc())

        _wait_for_group(_fork(work, own_group=True))
        if problem.exists() or not outcome.exists():
            text = problem.read_text() if problem.exists() else "its process ended early"
            raise RuntimeError(f"the crash matrix failed:\n{text}")
        crashes: list[Crash] = pickle.loads(outcome.read_bytes())
        return crashes

    def _crashes(self, stores: SqliteStores) -> list[Crash]:
        [plain] = self._at(stores, [("", 0)])
        if plain.record.error or not plain.record.ended:
            return [plain]
        places = [(point, n + 1) for point in POINTS for n in range(plain.record.points[point])]
        return [plain, *self._at(stores, places)]

    def _at(self, stores: SqliteStores, places: list[tuple[str, int]]) -> list[Crash]:
        """What happens with a crash at each of these places."""
        with ExitStack() as urls:
            cases = [self._case(stores, urls, *each) for each in places]
            _run(cases, at_a_time=2 * (os.cpu_count() or 1))  # most of the time each waits for the disk
        return [case.outcome() for case in cases]

    def _case(self, stores: SqliteStores, urls: ExitStack, point: str, count: int) -> _Case:
        folder = self._folder / (f"{point}-{count}" if point else "without")
        (folder / "left").mkdir(parents=True)
        given = {**self._given, **({"folder": folder / "left"} if self._wants_folder else {})}
        record = folder / "record.jsonl"
        act = partial(live, self._function, given, urls.enter_context(stores.fresh(folder)), record)
        return _Case(point, count, act, record, self._timeout)


class _Case:
    """A process that ends at a place, and then the one that resumes its run."""

    def __init__(
        self, point: str, count: int, act: Callable[[str, int], None], record: Path, timeout: float
    ) -> None:
        self._place = (point, count)
        self._act = act
        self._record = record
        self._timeout = timeout
        self._left = [(point, count), ("", 0)]
        self._code: int | None = None
        self.until = 0.0

    def start(self) -> int:
        """The id of the next process."""
        self.until = time.monotonic() + self._timeout
        return _fork(partial(self._act, *self._left.pop(0)))

    def is_over(self, code: int | None) -> bool:
        """Whether no other process follows one that ended with this code; None if it had to be killed."""
        self._code = code
        return code != CRASHED or not self._left

    def outcome(self) -> Crash:
        """What its processes wrote down."""
        record = Record.read(self._record)
        if self._code is None:
            record.error = f"it had not ended after {self._timeout:g} seconds"
        return Crash(*self._place, record)


def _warm_up(stores: SqliteStores, folder: Path) -> None:
    """Run a workflow in this process: what is made once, such as the parser, is there for those that it forks."""
    where = folder / "warm"
    where.mkdir()
    with stores.fresh(where) as url, open_calls(url) as calls:
        flow = Client(calls)
        with flow.worker({"Work": lambda: {"n": 1}}):
            flow.run(_WARM, timeout=60)
    gc.collect()
    gc.freeze()


def _run(cases: list[_Case], *, at_a_time: int) -> None:
    """Run the processes of the cases, so many at a time."""
    waiting, running = deque(cases), dict[int, _Case]()
    while waiting or running:
        while waiting and len(running) < at_a_time:
            case = waiting.popleft()
            running[case.start()] = case
        for pid, code in _ended(running):
            case = running.pop(pid)
            if not case.is_over(code):
                running[case.start()] = case


def _ended(running: Mapping[int, _Case]) -> list[tuple[int, int | None]]:
    """The processes that end next with their exit codes; None for one that had to be killed: it took too long."""
    found: list[tuple[int, int | None]] = []
    while not found:
        for pid, case in running.items():
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                found.append((pid, os.waitstatus_to_exitcode(status)))
            elif time.monotonic() > case.until:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
                found.append((pid, None))
        if not found:
            until = min(case.until for case in running.values())
            _until_one_ends(running, max(0.0, until - time.monotonic()))
    return found


def _until_one_ends(pids: Iterable[int], timeout: float) -> None:
    """Wait until one of these processes has ended or the time is over; where there are no pidfds, a moment."""
    with ExitStack() as closing:
        descriptors: list[int] = []
        try:
            for pid in pids:
                descriptors.append(os.pidfd_open(pid))
                closing.callback(os.close, descriptors[-1])
        except (AttributeError, OSError):  # no Linux, or an old one
            time.sleep(_POLL_SECONDS)
            return
        select.select(descriptors, (), (), timeout)


def _fork(work: Callable[[], None], *, own_group: bool = False) -> int:
    """Do the work in a process of its own, in a process group of its own if asked; its process id."""
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", DeprecationWarning
        )  # of Python 3.12 on, if there are other threads here
        pid = os.fork()
    if own_group:  # on both sides, since nobody knows which comes first
        with suppress(OSError):
            os.setpgid(pid, pid)
    if pid:
        return pid
    try:
        work()
    finally:
        os._exit(0)


def _wait_for_group(pid: int) -> None:
    """Until the first process of a group has ended. Whoever interrupts that ends them all."""
    try:
        os.waitpid(pid, 0)
    except BaseException:
        os.killpg(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        raise


__all__ = ["Crash", "CrashMatrix", "Difference", "survives_crashes"]
