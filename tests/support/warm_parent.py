"""A process that has everything imported and forks `afl` commands: a start costs milliseconds, not half a second.

It obeys lines of JSON on its standard input. `{"args": [...], "folder": ..., "out": ..., "env": {...}}` starts a
command and answers with its process id; `{"wait": pid}` answers with its status, once it has ended. When the input
ends, so does everything it started. Its arguments are modules that it imports as well.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import time
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import afl.cli.agent_command
import afl.cli.turns_command
import afl.runtime.mongo_store
import afl.runtime.runner.__main__ as module_runner
import afl.turns.bus.nats
from afl.cli import main


def start(order: dict[str, Any]) -> int:
    """Fork a child that runs the command; its process id."""
    pid = os.fork()
    if pid:
        return pid
    code = 70
    try:
        _become(order)
        args = order["args"]
        code = module_runner.main(args[1:]) if args[:1] == ["-m"] else main(args)
    except BaseException as error:
        sys.excepthook(type(error), error, error.__traceback__)
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _become(order: dict[str, Any]) -> None:
    """Take on the folder, the environment and the output of the command, and the clock it is to believe in."""
    warnings.simplefilter("error")
    os.chdir(order["folder"])
    os.environ.update(order["env"])
    sys.argv = ["afl", *order["args"]]
    out = os.open(order["out"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(out, 1)
    os.dup2(out, 2)
    if "CLOCK_FILE" in os.environ:
        _believe(Path(os.environ["CLOCK_FILE"]))


def _believe(path: Path) -> None:
    """From now on the clock on the wall goes wrong by as many seconds as the file says, once it is there."""
    seconds, nanoseconds = time.time, time.time_ns

    def wrong_by() -> int:
        return int(path.read_text() or "0") if path.exists() else 0

    time.time = lambda: seconds() + wrong_by()
    time.time_ns = lambda: nanoseconds() + wrong_by() * 1_000_000_000


def serve() -> None:
    children: set[int] = set()
    for line in sys.stdin:
        order = json.loads(line)
        if "wait" in order:
            _, status = os.waitpid(order["wait"], 0)
            children.discard(order["wait"])
            answer = os.waitstatus_to_exitcode(status)
        else:
            answer = start(order)
            children.add(answer)
        print(json.dumps(answer), flush=True)
    for child in children:
        with suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)


if __name__ == "__main__":
    # Imported for the children.
    assert afl.cli.agent_command and afl.cli.turns_command and afl.runtime.mongo_store and afl.turns.bus.nats
    for name in sys.argv[1:]:
        importlib.import_module(name)
    print(json.dumps("ready"), flush=True)
    serve()
