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
import signal
import time
import traceback
import warnings
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import partial, wraps
from pathlib import Path
from typing import Any, overload

from afl.client.client import Client
from afl.kernel.errors import InputError
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
    if isinstance(pure, str):  # a sequence too, of letters
        raise InputError(f"pure is a list of facets, such as [{pure!r}], got a text")
    if function is None:
        return partial(_decorated, pure=pure, timeout=timeout)
    return _decorated(function, pure=pure, timeout=timeout)


def _decorated(function: Test, *, pure: Sequence[str], timeout: float) -> Test:
    signature = inspect.signature(function)
    _check(function, signature)
    method = [each for name, each in signature.parameters.items() if name == "self"]
    own = [each for name, each in signature.parameters.items() if name not in (*_PROVIDED, "self")]
    wants_folder = "folder" in signature.parameters

    @wraps(function)
    def test(*instance: Any, tmp_path: Path, **fixtures: Any) -> None:
        __tracebackhide__ = True  # the message says it all
        given = {**fixtures, **({"tmp_path": tmp_path} if "tmp_path" in signature.parameters else {})}
        work = partial(function, *instance)
        found = CrashMatrix(work, given, tmp_path, wants_folder=wants_folder, timeout=timeout).run()
        wrong = differences(found, lambda facet: any(fnmatchcase(facet, pattern) for pattern in pure))
        if wrong:
            raise AssertionError(report(found, wrong))

    tmp_path = inspect.Parameter("tmp_path", inspect.Parameter.KEYWORD_ONLY)
    others = [each.replace(kind=each.KEYWORD_ONLY) for each in own if each.name != "tmp_path"]
    test.__signature__ = inspect.Signature([*method, tmp_path, *others])  # type: ignore[attr-defined]
    return test


def _check(function: Test, signature: inspect.Signature) -> None:
    name = getattr(function, "__name__", "the function")
    if inspect.iscoroutinefunction(function):
        raise InputError(
            f"{name} is a coroutine function; survives_crashes takes a function, which may call asyncio.run"
        )
    variable = any(each.kind is each.VAR_POSITIONAL for each in signature.parameters.values())
    if "flow" not in signature.parameters and not variable:
        raise InputError(f"{name} has no parameter 'flow', the client that survives_crashes gives it")


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
        plain = self._crash(stores, "", 0)
        if plain.record.error or not plain.record.ended:
            return [plain]
        places = [(point, n + 1) for point in POINTS for n in range(plain.record.points[point])]
        _at_a_time(2 * (os.cpu_count() or 1), [partial(self._save_crash, stores, *each) for each in places])
        return [
            plain,
            *(pickle.loads(self._of(*each).joinpath("crash.pickle").read_bytes()) for each in places),
        ]

    def _save_crash(self, stores: SqliteStores, point: str, count: int) -> None:
        crash = self._crash(stores, point, count)
        self._of(point, count).joinpath("crash.pickle").write_bytes(pickle.dumps(crash))

    def _crash(self, stores: SqliteStores, point: str, count: int) -> Crash:
        folder = self._of(point, count)
        (folder / "left").mkdir(parents=True)
        given = {**self._given, **({"folder": folder / "left"} if self._wants_folder else {})}
        with stores.fresh(folder) as url:
            act = partial(live, self._function, given, url, folder / "record.jsonl")
            code = _wait(_fork(partial(act, point, count)), self._timeout)
            if code == CRASHED:
                code = _wait(_fork(partial(act, "", 0)), self._timeout)
        record = Record.read(folder / "record.jsonl")
        if code is None:
            record.error = f"it had not ended after {self._timeout:g} seconds"
        return Crash(point, count, record)

    def _of(self, point: str, count: int) -> Path:
        return self._folder / (f"{point}-{count}" if point else "without")


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


def _at_a_time(most: int, works: list[Callable[[], None]]) -> None:
    """Do the works in processes, so many at a time: most of the time each waits for the disk."""
    running: set[int] = set()
    for work in works:
        if len(running) == most:
            running.discard(os.wait()[0])
        running.add(_fork(work))
    for pid in running:
        os.waitpid(pid, 0)


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


def _wait(pid: int, timeout: float) -> int | None:
    """The exit code of a process; None if it had to be killed because it took too long."""
    until = time.monotonic() + timeout
    while True:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGKILL)
            os.waitpid(pid, 0)
            return None
        time.sleep(_POLL_SECONDS)


__all__ = ["Crash", "CrashMatrix", "Difference", "survives_crashes"]
