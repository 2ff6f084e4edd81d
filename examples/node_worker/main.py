"""Two workers in JavaScript, without a line of AgentFlow in them, claim tasks over HTTP; one is killed at work.

From the root of the repository:

    python examples/node_worker/main.py

It needs `pip install "agentflow-afl[dashboard]"`, and Node 18 or newer (NODE names another than `node`).

Look at: worker.mjs has nothing but the address of the server and a token of the role `worker`. `first` is killed (as by
kill -9) with a poem in hand; when its lease of two seconds is over, `second` is given that poem, and the run completes
with one result.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

from afl.kernel.extras import require_extras

require_extras("dashboard")

import afl
from afl.operations.work.task_queue import list_tasks, show_task
from afl.runtime.store import open_store

HERE = Path(__file__).parent
NODE = os.environ.get("NODE", "node")
AFL = [sys.executable, "-m", "afl"]


@contextmanager
def running(command: list[str], environment: dict[str, str]) -> Iterator[subprocess.Popen[str]]:
    """A process of its own, ended at the end."""
    process = subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        try:
            yield process
        finally:
            process.terminate()
            process.wait()


def worker(name: str, server: str, token: str) -> AbstractContextManager[subprocess.Popen[str]]:
    """`node worker.mjs`, with nothing of our environment; each word of a poem takes it a fifth of a second."""
    given = {"AFL_SERVER": server, "AFL_TOKEN": token, "WORKER_NAME": name}
    pace = {"LEASE_MS": "2000", "WORD_MS": "200"}
    return running([NODE, str(HERE / "worker.mjs")], {"PATH": os.environ["PATH"], **given, **pace})


def add_worker_user(config: str) -> str:
    """The token of a new user whose role is `worker`."""
    command = [*AFL, "dashboard", "user", "add", "node", "--role", "worker", "--config", config]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def main(folder: str) -> None:
    url, config = f"sqlite:///{folder}/poems.db", f"{folder}/afl.json"
    token = add_worker_user(config)
    place = {**os.environ, "AFL_STORE": url, "AFL_CONFIG": config}
    with (
        afl.connect(url) as flow,
        flow.worker(),  # evaluates runs, and has no handlers
        running([*AFL, "dashboard", "--port", "0"], place) as server,
    ):
        store = open_store(url)
        assert server.stdout is not None
        address = server.stdout.readline().strip()
        run = flow.start(HERE / "poem.afl", text="the rain in Spain falls on the plain")
        with worker("first", address, token) as first:
            while not (held := list_tasks(store, state="running", run=run.id)):
                time.sleep(0.02)
            first.kill()
        print(f"killed first, who had {held[0].name} in hand")
        with worker("second", address, token):
            print(json.dumps(run.result(timeout=120)))
        for attempt in show_task(store, held[0].task).attempts:
            print(f"  attempt {attempt.number} of {attempt.worker}: {attempt.outcome}")
        store.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
