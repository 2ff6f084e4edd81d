"""One event task passes through few functions."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_a_task_takes_at_most_twenty_hops_between_files() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "bench.hops"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(done.stdout.splitlines()) > 10
