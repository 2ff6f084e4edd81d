"""The research example, as somebody runs it for the first time: the command of its header, no key."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MAIN = "examples/research/main.py"


def test_the_example_runs_without_a_key() -> None:
    assert f"    python {MAIN} [TOPIC]\n" in (ROOT / MAIN).read_text()
    clean = {name: value for name, value in os.environ.items() if not name.startswith("ANTHROPIC_")}
    command = [sys.executable, "-W", "error", MAIN]
    done = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, env=clean, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    lines = done.stdout.splitlines()
    assert lines[:5] == [
        "Three questions will do. ",
        "A blue whale is up to 30 meters long. (Animals in Numbers)",
        "Whales near Tonga took over a new song within two years. (Songs of the Sea)",
        "Whales travel 8,000 kilometers a year between cold water and warm. (The Long Winter)",
        "Filed on shelf 3.",
    ]
    calls = {line.split()[0]: int(line.split()[1]) for line in lines[6:]}
    assert calls == {
        "0/plan": 1,
        "0/all/0/#0/found": 2,  # the tool, then the answer
        "0/all/0/#1/found": 2,
        "0/all/0/#2/found": 2,
        "0/written": 2,  # the first answer did not fit
    }
