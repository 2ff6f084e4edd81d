"""Runs a Ray cluster for the `!Ray` tasks of an agent: prints its address, and ends it when standard input closes.

It is run by its path. A cluster that `ray start` made on this machine is used as it is; else one is started.
"""

from __future__ import annotations

import contextlib
import logging
import os
import signal
import sys
from typing import Any

import ray


def address() -> str:
    """The address of the cluster, once it can be used."""
    options: dict[str, Any] = {
        "include_dashboard": False,
        "log_to_driver": False,
        "logging_level": logging.ERROR,
    }
    try:
        ray.init(**options)
    except ConnectionError:  # one was started here and has ended
        ray.init(address="local", **options)
    return str(ray.get_runtime_context().gcs_address)


def main() -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # it ends only with its agent
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    answers = os.fdopen(os.dup(1), "w")
    with contextlib.redirect_stdout(sys.stderr):
        try:
            print(f"at {address()}", file=answers, flush=True)
        except Exception as error:
            print(f"no {type(error).__name__}: {error}".splitlines()[0], file=answers, flush=True)
            return 1
        sys.stdin.buffer.read()
        ray.shutdown()
    return 0


if __name__ == "__main__":
    sys.exit(main())
