"""What tests of a whole fleet share: workflows that stop at gates, and how runs and their lines are looked up."""

from __future__ import annotations

import sys
from pathlib import Path

import yaml

from afl.fleet.client import Client
from afl.fleet.errors import PrincipalAway
from afl.fleet.messages import RunDetail
from afl.fleet.requests import GetLogs, GetRun, WatchRun

LINES = 1_000
PHASES = 5
# Prints numbered lines. In the middle of each phase it says that it is `ready` and waits for the gate; it says what it
# `wrote` when lines that come after the gate have left it.
NUMBERED = """
import pathlib, sys, time
folder, name, code = pathlib.Path(sys.argv[1]), sys.argv[2], int(sys.argv[3])
for number in range(1000):
    phase, place = divmod(number, 200)
    if place == 100:
        sys.stdout.flush()
        (folder / f"ready-{phase}-{name}").touch()
        while not (folder / f"open-{phase}").exists():
            time.sleep(0.02)
    print(number)
    if place == 149:
        sys.stdout.flush()
        (folder / f"wrote-{phase}-{name}").touch()
sys.exit(code)
"""


def numbered_workflow(gates: Path) -> str:
    """A workflow whose run prints 1,000 numbered lines and ends with the exit code it is given."""
    gates.mkdir(exist_ok=True)
    script = gates / "numbered.py"
    script.write_text(NUMBERED)
    args = ["-S", "-E", str(script), str(gates), "{{ params.name }}", "{{ params.code }}"]
    body = {"cmd": sys.executable, "args": args}
    return (
        "name: Numbered\nparams: {name: string, code: {type: integer, default: 0}}\n"
        f"tasks: {{count: {{name: Count, config: !Subprocess {yaml.safe_dump(body, default_flow_style=True)}}}}}\n"
    )


def marked(gates: Path, kind: str, phase: int) -> int:
    """How many runs have come so far."""
    return len(list(gates.glob(f"{kind}-{phase}-*")))


def ended(client: Client, run_id: str) -> RunDetail:
    """The run once it has ended."""
    version, wait_ms = 0, 0
    while True:
        try:
            detail = client.call(WatchRun(run_id, version, wait_ms))
        except PrincipalAway:
            continue
        if detail.run.status.is_final:
            return detail
        version, wait_ms = detail.run.version, 5_000


def shown(client: Client, run_id: str) -> RunDetail:
    return client.call(GetRun(run_id), retry=True)


def lines(client: Client, run_id: str) -> list[str]:
    """Every stored line of a run, in the order of arrival."""
    found: list[str] = []
    page = client.call(GetLogs(run_id=run_id, limit=10_000))
    while page.lines:
        found += [line.payload for line in page.lines]
        page = client.call(GetLogs(run_id=run_id, limit=10_000, after=page.position))
    return found
