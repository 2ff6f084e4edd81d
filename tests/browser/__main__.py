"""The live system of the browser tests, to look at: `PYTHONPATH=tests python -m browser`, until Enter is pressed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from support.warm_processes import WarmProcesses

from afl.devstack import temporary_stack
from browser.live_system import PRELOADED, LiveSystem
from browser.seeds import sow


def main() -> None:
    with (
        temporary_stack() as stack,
        tempfile.TemporaryDirectory(prefix="afl-live-") as folder,
        WarmProcesses(*PRELOADED) as processes,
    ):
        system = LiveSystem(Path(folder), processes, stack.up(["redis"])["redis"])
        try:
            system.start()
            print(sow(system))
            input(f"{system.url} (Enter ends it) ")
        finally:
            system.close()


if __name__ == "__main__":
    main()
