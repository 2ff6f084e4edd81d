"""`make bench` takes minutes and no test runs it; but all of its parts can be loaded."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
LOAD = """
import importlib
from bench.__main__ import PARTS
for part in PARTS:
    print(part, callable(importlib.import_module(f"bench.{part}").measure))
"""


def test_every_part_of_the_bench_can_be_loaded() -> None:
    done = subprocess.run([sys.executable, "-c", LOAD], cwd=ROOT, capture_output=True, text=True, check=False)
    parts = [
        "engine",
        "agents",
        "concurrency",
        "primitives",
        "client",
        "coordination",
        "fleet",
        "turns",
        "dashboard",
        "hostile",
        "startup",
    ]
    assert (done.stdout.split("\n"), done.stderr) == ([*(f"{part} True" for part in parts), ""], "")
