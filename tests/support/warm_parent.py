"""A process that has everything imported and forks Python programs: a start costs milliseconds, not half a second.

It listens on a Unix socket; each connection is one process. The first message is `{"argv": [...], "cwd": ...,
"env": {...}}`, as after `python`, and brings the three standard files with it. The answer is a line with the process
id, and when the process has ended a line with its wait status. Whoever closes the connection before kills the process.

Its arguments are the path of the socket and modules that it imports at once; what commands need beyond that is imported
when the first of them comes. When its standard input ends, so does everything it started; with `--until PID` instead of
modules, when that process does, and the folder of the socket is removed.

The variable WARM_PYTHON of a program is what it takes for its interpreter, so that what it starts itself is forked too.
"""

from __future__ import annotations

import atexit
import ctypes
import gc
import importlib
import json
import os
import runpy
import selectors
import shutil
import signal
import socket
import sys
import threading
import time
import types
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import afl.cli
import afl.cli.app
import afl.kernel.crashpoint
import afl.language
from afl.kernel.database.queries import Queries
from afl.kernel.errors import MissingExtraError

_LIBC = ctypes.CDLL(None)
_PR_SET_PDEATHSIG = 1  # of prctl: which signal to get when the parent ends
_LARGEST = 1 << 20  # bytes that are read of a message at once
_EXAMPLES = Path(__file__).parents[2] / "examples"
_AT_ONCE = (
    *(f"afl.cli.{entry.module}" for entry in afl.cli.app.COMMANDS.values() if entry.module != "mcp_command"),
    "afl.cli.displays",
    "afl.cli.live_display",
    "afl.cli.problems",
    "afl.cli.progress",
    "afl.cli.run_work",
    "afl.kernel.database.async_call",
    "afl.kernel.database.postgres",
    "afl.kernel.notify.postgres",
    "afl.runtime.mongo_store",
    "afl.runtime.postgres_store",
    "afl.runtime.sqlite_store",
    "afl.turns.bus.nats",
    "encodings.ascii",
    "rich.spinner",
    "typer._adapters",
    "typer._click.decorators",
)
# What the first program of a kind imports for those that follow; the word may stand anywhere among the arguments, or be
# a variable with its value.
_NEEDED = {
    "dashboard": (
        "afl.dashboard.server",
        "afl.dashboard.pages",
        "uvicorn.loops.asyncio",
        "uvicorn.loops.auto",
        "uvicorn.lifespan.on",
    ),
    "mcp": ("afl.cli.mcp_command",),
    "mcp-server": ("mcp.server.mcpserver",),
    "turns": ("afl.operations.turn.turn_service", "afl.turns.mcp.sessions"),
    "afl.fleet.principal": ("afl.fleet.principal.service",),
    "afl.fleet.agent_process": ("afl.fleet.agent",),
    "clerk.py": (  # of docs/agents.md
        "anthropic.resources.messages",
        "anyio._backends._asyncio",
        "genai_prices.data",
        "openai.lib.streaming.responses._responses",
        "openai.resources.responses.responses",
        "pydantic_ai.models.anthropic",
        "pydantic_ai.models.openai",
        "pydantic_ai.providers.openai",
        "afl.models.claude",
        "afl.models.provider_model",
        "afl.turns.mcp.connection",
    ),
    "keyless.py": ("pydantic_ai.models.anthropic", "afl.models.claude"),  # of test_turns_processes.py
    "stock.py": ("mcp.server.mcpserver",),
    "AFL_TELEMETRY=otlp": (
        "opentelemetry.exporter.otlp.proto.http.trace_exporter",
        "opentelemetry.sdk.resources",
        "opentelemetry.sdk.trace.export",
    ),
    "uvicorn": ("uvicorn.main", "fastapi"),
}


class Parent:
    """The loop: requests come in, processes end."""

    def __init__(self, path: str, ends_with: int) -> None:
        self._selector = selectors.DefaultSelector()
        self._listening = socket.socket(socket.AF_UNIX)
        self._listening.bind(path)
        self._listening.listen(128)
        self._children: dict[int, tuple[int, socket.socket]] = {}  # by process id: pidfd and connection
        self._selector.register(self._listening, selectors.EVENT_READ, self._accept)
        self._selector.register(ends_with, selectors.EVENT_READ, self._end)
        self._running = True

    def serve(self) -> None:
        while self._running:
            for key, _ in self._selector.select():
                key.data()
        for pid in self._children:
            os.kill(pid, signal.SIGKILL)

    def _end(self) -> None:
        self._running = False

    def _accept(self) -> None:
        connection, _ = self._listening.accept()
        order, files = _receive(connection)
        if not order:
            connection.close()
            return
        _prepare(order["argv"], order["env"])
        pid = os.fork()
        if not pid:
            self._close_in_child(connection)
            _live(order, files)
        for file in files:
            os.close(file)
        watched = os.pidfd_open(pid)
        self._children[pid] = (watched, connection)
        self._selector.register(watched, selectors.EVENT_READ, lambda: self._ended(pid))
        self._selector.register(connection, selectors.EVENT_READ, lambda: self._left(pid))
        connection.sendall(f"{pid}\n".encode())

    def _left(self, pid: int) -> None:
        """Nobody waits for the process any more."""
        if pid in self._children:
            self._selector.unregister(self._children[pid][1])
            os.kill(pid, signal.SIGKILL)

    def _ended(self, pid: int) -> None:
        _, status = os.waitpid(pid, 0)
        watched, connection = self._children.pop(pid)
        self._selector.unregister(watched)
        os.close(watched)
        with suppress(KeyError):
            self._selector.unregister(connection)
        with suppress(OSError):
            connection.sendall(f"{status}\n".encode())
        connection.close()

    def _close_in_child(self, connection: socket.socket) -> None:
        self._selector.close()
        self._listening.close()
        connection.close()
        for watched, other in self._children.values():
            os.close(watched)
            other.close()


def _receive(connection: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """One message, which ends in a newline, and the files that came with its beginning."""
    data, files, _, _ = socket.recv_fds(connection, _LARGEST, 3)
    while data and not data.endswith(b"\n"):
        data += connection.recv(_LARGEST)
    return (json.loads(data) if data else {}), list(files)


def _prepare(argv: list[str], env: dict[str, str]) -> None:
    """Import and make what a program is about to need, unless that was done before."""
    words = [*argv, f"AFL_TELEMETRY={env.get('AFL_TELEMETRY')}"]
    names = [name for word in words for name in _NEEDED.get(word, ()) if name not in sys.modules]
    for name in names:
        with suppress(Exception):  # whoever needs it says what is wrong with it
            importlib.import_module(name)
    if argv[:2] == ["-m", "afl"] and argv[2:] and argv[2] in afl.cli.app.COMMANDS:
        with suppress(MissingExtraError):
            afl.cli.app.load_command(argv[2])
    if names:
        _make_queries()
        gc.collect()
        gc.freeze()


def _make_queries() -> None:
    """The queries of all modules that are imported: a process makes each one that it uses."""
    for module in [module for name, module in sys.modules.items() if name.startswith("afl.")]:
        for found in [value for value in vars(module).values() if isinstance(value, Queries)]:
            for name in found:
                getattr(found, name)


def _live(order: dict[str, Any], files: list[int]) -> None:
    """The life of a child; it does not return."""
    code = 70
    try:
        _become(order, files)
        code = _code_of(_run, order["argv"])
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
        code = 1
    finally:
        with suppress(BaseException):
            threading._shutdown()  # type: ignore[attr-defined]  # as at the end of every interpreter
            atexit._run_exitfuncs()
        for file in (sys.stdout, sys.stderr):
            with suppress(BaseException):
                file.flush()
        if code == -signal.SIGINT:
            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        os._exit(code)


def _code_of(work: Any, *args: Any) -> int:
    """The exit code that an interpreter would end with."""
    try:
        work(*args)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return (ended.code or 0) & 255
        print(ended.code, file=sys.stderr)
        return 1
    except KeyboardInterrupt as error:
        sys.excepthook(type(error), error, error.__traceback__)
        return -signal.SIGINT
    return 0


def _become(order: dict[str, Any], files: list[int]) -> None:
    """Take on the folder, the environment and the standard files of the program, and the clock it is to believe in."""
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # nobody is left behind, however the parent ends
    os.chdir(order["cwd"])
    os.environ.clear()
    os.environ.update(order["env"])
    if os.environ.get("PYTHONWARNINGS") == "error":
        warnings.simplefilter("error")
    time.tzset()
    if order.get("session"):
        os.setsid()
    for number, file in enumerate(files):
        os.dup2(file, number)
        os.close(file)
    if os.isatty(1):
        sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    sys.executable = os.environ.pop("WARM_PYTHON", sys.executable)
    if "AFL_CRASH_AT" in os.environ:
        importlib.reload(afl.kernel.crashpoint)
    if "CLOCK_FILE" in os.environ:
        _believe(Path(os.environ["CLOCK_FILE"]))


def _run(argv: list[str]) -> None:
    """`python ARGV`: a module, a command or a file."""
    if argv[0] == "-m":
        sys.path[0] = os.getcwd()
        sys.argv = argv[1:]
        if argv[1] == "afl":
            sys.exit(afl.cli.main())
        runpy.run_module(argv[1], run_name="__main__", alter_sys=True)
    elif argv[0] == "-c":
        sys.path[0] = ""
        sys.argv = ["-c", *argv[2:]]
        module = types.ModuleType("__main__")
        sys.modules["__main__"] = module
        exec(compile(argv[1], "<string>", "exec"), vars(module))
    else:
        sys.path[0] = str(Path(argv[0]).resolve().parent)
        sys.argv = argv
        runpy.run_path(argv[0], run_name="__main__")


def _believe(path: Path) -> None:
    """From now on the clock on the wall goes wrong by as many seconds as the file says, once it is there."""
    seconds, nanoseconds = time.time, time.time_ns

    def wrong_by() -> int:
        return int(path.read_text() or "0") if path.exists() else 0

    time.time = lambda: seconds() + wrong_by()
    time.time_ns = lambda: nanoseconds() + wrong_by() * 1_000_000_000


if __name__ == "__main__":
    address, *modules = sys.argv[1:]
    of_session = modules[:1] == ["--until"]
    ends_with = os.pidfd_open(int(modules[1])) if of_session else 0
    for name in (*_AT_ONCE, *([] if of_session else modules)):
        with suppress(
            ModuleNotFoundError
        ):  # with the lowest versions of what we depend on not every module is there
            importlib.import_module(name)
    for source in _EXAMPLES.glob("*/*.afl"):  # the tables of the parser, which every process makes for itself
        afl.language.compile_source(source.read_text())
    _make_queries()
    parent = Parent(address, ends_with)
    gc.collect()
    gc.freeze()
    serving = os.getpid()
    print("ready", flush=True)
    try:
        parent.serve()
    finally:
        if of_session and os.getpid() == serving:
            shutil.rmtree(Path(address).parent, ignore_errors=True)
