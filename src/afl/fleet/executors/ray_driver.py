"""Runs one task on a Ray cluster, and passes on its output and exit code.

It is run by its path with the work as JSON. So its functions belong to `__main__`, which Ray sends by value: the
machines of the cluster need Ray and what the task itself needs, not AgentFlow. Commands are started there without a
shell, and end with the worker that started them.
"""

from __future__ import annotations

import contextlib
import ctypes
import importlib
import json
import logging
import os
import queue
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Iterator
from typing import Any, BinaryIO

import ray

_OUT, _ERR, _CODE = 1, 2, 0
_CHUNK = 64 * 1024
_LOOK_SECONDS = 0.1  # Ray interrupts a task between two of its own steps, so none may block for long
_CANCEL_SECONDS = 2.0

Piece = tuple[int, Any]


def run_command(argv: list[str], env: dict[str, str], folder: str | None) -> Iterator[Piece]:
    """On the cluster: the output of a program in pieces, then its exit code."""
    process = subprocess.Popen(
        argv,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, **env},
        cwd=folder,
        start_new_session=True,
        preexec_fn=_die_with_parent,
    )
    assert process.stdout is not None and process.stderr is not None
    pieces: queue.SimpleQueue[Piece] = queue.SimpleQueue()
    for stream, pipe in ((_OUT, process.stdout), (_ERR, process.stderr)):
        threading.Thread(target=_forward, args=(stream, pipe, pieces), daemon=True).start()
    try:
        yield from _until_silent(pieces, 2)
        yield _CODE, process.wait()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)


def run_function(path: str, args: list[str], env: dict[str, str], folder: str | None) -> Iterator[Piece]:
    """On the cluster: the output of a Python function, then 0, or 1 when it raised."""
    os.environ.update(env)
    if folder is not None:
        os.chdir(folder)
        sys.path.insert(0, folder)
    pieces: queue.SimpleQueue[Piece] = queue.SimpleQueue()
    codes: list[int] = []

    def work() -> None:
        with (
            contextlib.redirect_stdout(_Writer(_OUT, pieces)),
            contextlib.redirect_stderr(_Writer(_ERR, pieces)),
        ):
            codes.append(_called(path, args))
        pieces.put((_OUT, b""))

    threading.Thread(target=work, daemon=True).start()
    yield from _until_silent(pieces, 1)
    yield _CODE, codes[0]


class _Writer:
    """A text file whose writes become pieces."""

    def __init__(self, stream: int, pieces: queue.SimpleQueue[Piece]) -> None:
        self._stream, self._pieces = stream, pieces

    def write(self, text: str) -> int:
        if text:
            self._pieces.put((self._stream, text.encode("utf-8", "replace")))
        return len(text)

    def flush(self) -> None:
        """Nothing is buffered."""


def _called(path: str, args: list[str]) -> int:
    try:
        module, _, name = path.partition(":")
        target: Any = importlib.import_module(module)
        for part in name.split("."):
            target = getattr(target, part)
        target(*args)
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
        return 1
    return 0


def _forward(stream: int, pipe: BinaryIO, pieces: queue.SimpleQueue[Piece]) -> None:
    while data := os.read(pipe.fileno(), _CHUNK):
        pieces.put((stream, data))
    pieces.put((stream, b""))


def _until_silent(pieces: queue.SimpleQueue[Piece], streams: int) -> Iterator[Piece]:
    while streams:
        try:
            stream, data = pieces.get(timeout=_LOOK_SECONDS)
        except queue.Empty:
            continue
        if data:
            yield stream, data
        else:
            streams -= 1


def _die_with_parent() -> None:
    """Linux: SIGKILL when the worker ends for any reason."""
    if sys.platform.startswith("linux"):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)


def connect(address: str | None) -> None:
    """Connect to the named cluster, by default that of RAY_ADDRESS; `local` starts one that ends with this process."""
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.ERROR}
    if address == "local":
        options["include_dashboard"] = False
    ray.init(address=address or "auto", **options)


def follow(work: dict[str, Any]) -> int:
    """Submit the work and pass on its output; its exit code."""
    options = {"num_returns": "streaming", "max_retries": 0, **work["options"]}
    function: Any = run_function if work["argv"] is None else run_command
    first = (work["argv"],) if work["argv"] is not None else (work["function"], work["args"])
    pieces: Any = ray.remote(function).options(**options).remote(*first, work["env"], work["folder"])
    try:
        for reference in pieces:
            stream, data = ray.get(reference)
            if stream == _CODE:
                return int(data)
            os.write(stream, data)
    except SystemExit:
        _cancel(pieces)
        raise
    raise RuntimeError("the task ended without an exit code")


def _cancel(pieces: Any) -> None:
    """Interrupt the task and allow it a moment to end what it started."""
    ray.cancel(pieces, force=False)
    with contextlib.suppress(ray.exceptions.RayError):
        for reference in pieces:
            ray.get(reference, timeout=_CANCEL_SECONDS)


def main(text: str) -> int:
    """The exit code of the task; 1 when it could not be run, with the reason on standard error."""
    signal.signal(signal.SIGTERM, lambda number, _frame: sys.exit(128 + number))
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    work = json.loads(text)
    connect(work["address"])
    try:
        return follow(work)
    except (ray.exceptions.RayError, RuntimeError) as error:
        print(f"Ray: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        ray.shutdown()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
