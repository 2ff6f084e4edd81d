"""Two agents in two processes on one SQLite file; one is killed at work, and the work goes on.

From the root of the repository:

    python examples/two_agents/main.py

Look at: both clerks take letters; `first` is killed (as by kill -9) while it has some in hand; `second` is given those
letters again within a second or so, and the run completes as if nothing had happened. No letter is lost, and no
result is stored twice.
"""

import os
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import afl
from afl.operations.work.task_queue import list_tasks
from afl.operations.work.workers import Server, servers
from afl.runtime.persistence import PersistenceAPI
from afl.runtime.store import open_store

HERE = Path(__file__).parent
LETTERS = [f"letter {number}" for number in range(1, 25)]


def clerk(name: str, url: str) -> subprocess.Popen[bytes]:
    """`afl agent agents.py` in a process of its own."""
    command = ["-m", "afl", "agent", str(HERE / "agents.py"), "--name", name, "--concurrency", "3", "--quiet"]
    return subprocess.Popen(
        [sys.executable, *command, "--store", url],
        env={**os.environ, "CLERK": name},
        stderr=subprocess.DEVNULL,
    )


def until(found: Callable[[], bool]) -> None:
    while not found():
        time.sleep(0.02)


def at_work(store: PersistenceAPI) -> dict[str, Server]:
    return {server.name: server for server in servers(store) if server.is_live}


def strike(process: subprocess.Popen[bytes], busy: Callable[[], bool]) -> None:
    """Kill it while it is busy: held still, so that what we see stays true until then."""
    process.send_signal(signal.SIGSTOP)
    while not busy():
        process.send_signal(signal.SIGCONT)
        time.sleep(0.02)
        process.send_signal(signal.SIGSTOP)
    process.kill()


def main(url: str) -> None:
    store = open_store(url)
    clerks = {name: clerk(name, url) for name in ("first", "second")}
    try:
        until(lambda: len(at_work(store)) == 2)
        with afl.connect(url) as flow:
            handle = flow.start(HERE / "letters.afl", letters=LETTERS)
            print(f"{len(LETTERS)} letters for two clerks (run {handle.id})")

            until(lambda: len(list_tasks(store, state="completed")) >= 6)  # well under way
            strike(clerks["first"], lambda: at_work(store)["first"].load > 0)
            print("killed first, who had letters in hand")

            tally = Counter(handle.result()["by"])
            print("\n".join(f"  {line.text}" for line in handle.logs(grep="again")))
            print(f"completed: first sorted {tally['first']}, second sorted {tally['second']}")
            lost = sum(task.deaths for task in list_tasks(store, run=handle.id, limit=100))
            print(f"{lost} letter{'' if lost == 1 else 's'} had to be handed out again")
    finally:
        for process in clerks.values():
            process.terminate()
            process.wait()
        store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(f"sqlite:///{folder}/post.db")
