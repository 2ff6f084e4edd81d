"""A principal and an agent in processes of their own run a DAG of shell scripts.

From the root of the repository:

    python examples/fleet/main.py

It needs `pip install "agentflow-afl[fleet]"`.

Look at: the shops are asked at the same time; the one in the south is tried again; the closed one may fail; the sum
waits for all three. The printer fails, so what hangs on it is skipped, but for the bell, which rings in any case. The
run is FAILED, and every line of it is there.
"""

import asyncio
import os
import subprocess
import sys
import tempfile
from dataclasses import replace
from pathlib import Path

from afl.kernel.extras import require_extras

require_extras("fleet")

from afl.cli.fleet_display import graph
from afl.fleet.settings import FleetSettings
from afl.kernel.clock import wall_ms
from afl.operations.fleet import fleet
from afl.operations.fleet.fleet_dag import RunStanding
from afl.operations.fleet.fleet_follow import follow_run

HERE = Path(__file__).parent


def started(*args: str, folder: str, **environment: str) -> subprocess.Popen[str]:
    """`afl fleet ...` in a process of its own; what it keeps goes to a folder."""
    return subprocess.Popen(
        [sys.executable, "-m", "afl", "fleet", *args],
        cwd=HERE,
        env={**os.environ, "CDKTR_APP_DATA_DIRECTORY": folder, "CDKTR_LOG_LEVEL": "WARN", **environment},
        stdout=subprocess.PIPE,
        text=True,
    )


async def followed(settings: FleetSettings, run_id: str) -> RunStanding:
    """Print the lines of a run as they come; how it ended."""
    async for news in follow_run(settings, run_id):
        if isinstance(news, list):
            for line in news:
                print(f"  {line.task_name}: {line.payload}")
        elif isinstance(news, RunStanding):
            end = news
    return end


def main(folder: str) -> None:
    free = {
        "CDKTR_LOGS_LISTENING_PORT": "0",
        "CDKTR_LOGS_PUBLISHING_PORT": "0",
        "CDKTR_DB_PATH": f"{folder}/fleet.db",
    }
    principal = started("principal", "--port", "0", folder=folder, **free)
    assert principal.stdout is not None
    ready = principal.stdout.readline()
    port = ready.partition("tcp://127.0.0.1:")[2].partition(" ")[0]
    agent = started("agent", "--suffix", "-one", "--port", port, folder=folder)
    try:
        settings = replace(FleetSettings(), principal_port=int(port), app_data_directory=folder)
        with fleet.connected(settings) as client:
            run_id = fleet.start(client, "report", {"day": "tuesday; rm -rf /"})
        end = asyncio.run(followed(settings, run_id))
        print(f"\n{end.run.workflow_name}: {end.run.status.value}")
        for row in graph(end.tasks, wall_ms()):
            print(row.plain)
    finally:
        for process in (agent, principal):
            process.terminate()
            process.wait()
            assert process.stdout is not None
            process.stdout.close()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(folder)
