"""One workflow whose steps are done by an agent, the fleet, a person, a handler and a message, on one SQLite file.

From the root of the repository:

    python examples/everything/main.py [--ask]

It needs `pip install "agentflow-afl[fleet,coordination]"`.

Look at: refund.afl says who does what by one word behind `with`. The agent's turn, the fleet's run and the message have
the ids of the steps' tasks, so a crash on either side neither loses nor doubles them. With --ask you are finance. The
same runs on servers: set AFL_STORE=postgresql://..., AFL_BUS=nats://... and AFL_REDIS=redis://... first.
"""

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from afl.kernel.extras import require_extras

require_extras("fleet", "coordination")

from afl.cli import main as afl
from afl.kernel.settings import load_settings
from afl.operations.people import approvals
from afl.operations.run import runs

HERE = Path(__file__).parent
AGENTS = ["--agent", str(HERE / "agents.py"), "--quiet"]


@contextmanager
def fleet(folder: str) -> Iterator[None]:
    """A principal with an agent in a process of its own; its address goes into our environment."""
    os.environ |= {
        "CDKTR_APP_DATA_DIRECTORY": folder,
        "CDKTR_DB_PATH": f"{folder}/fleet.db",
        "CDKTR_WORKFLOW_DIR": str(HERE / "workflows"),
        "CDKTR_LOGS_LISTENING_PORT": "0",
        "CDKTR_LOGS_PUBLISHING_PORT": "0",
        "CDKTR_LOG_LEVEL": "WARN",
    }
    command = [sys.executable, "-m", "afl", "fleet", "principal", "--with-agent", "--port", "0"]
    principal = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert principal.stdout is not None
    ready = principal.stdout.readline()
    os.environ["CDKTR_PRINCIPAL_PORT"] = ready.partition("tcp://127.0.0.1:")[2].partition(" ")[0]
    try:
        yield
    finally:
        principal.terminate()
        principal.communicate()


def decide(*, ask: bool) -> str:
    """Answer what waits for finance; the run it belongs to."""
    with runs.opened(load_settings()) as store:
        (question,) = approvals.list_approvals(store, group="finance")[-1:]
        given = approvals.show_approval(store, question.id).given
        print(f"finance is asked: {given['summary']} Pay {given['amount']} euros?")
        amount = given["amount"]
        if ask:
            amount = float(input(f"amount [{amount}]: ") or amount)
        approvals.answer(store, question.id, {"amount": amount}, by="grace")
        print(f"grace agrees to {amount} euros")
        return question.run


def main(folder: str) -> None:
    with fleet(folder):
        afl(["run", str(HERE / "refund.afl"), *AGENTS])
        run = decide(ask="--ask" in sys.argv)
        afl(["resume", run, *AGENTS])
        afl(["show", run])


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
