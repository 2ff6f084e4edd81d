"""Ends the servers of a stack when the process that owns them is gone: `python -m afl.devstack.watchdog`."""

from __future__ import annotations

import sys
import time

from afl.devstack.process import ProcessMark
from afl.devstack.stack import Stack

_POLL_SECONDS = 0.2


def main(folder: str, pid: str, started: str) -> None:
    """Wait for the owner's end, however it comes, then stop its servers and delete the folder."""
    owner = ProcessMark(int(pid), started)
    while owner.alive:
        time.sleep(_POLL_SECONDS)
    Stack(folder).down(remove=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
