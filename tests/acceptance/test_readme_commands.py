"""The two commands of the README: `make run` does what it says, and CI runs `make test`.

The blocks with `$ afl ...` are executed by tests/unit/test_docs.py.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from support.command_line import environment

ROOT = Path(__file__).parents[2]


def test_the_readme_names_these_two() -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```$", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    named = [line.partition("#")[0].strip() for block in blocks for line in block.splitlines()]
    assert named == ["make run", "make test"]
    assert (ROOT / ".ci" / "run").read_text().rstrip().endswith("make test")


def test_make_run(tmp_path: Path) -> None:
    # What the tests run in has been set up: `-o` keeps make from doing that again.
    command = ["make", "-o", ".venv/.base-installed", "run"]
    done = subprocess.run(
        command,
        cwd=ROOT,
        env=environment(AFL_STORE=f"sqlite:///{tmp_path}/run.db"),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "Completed" in done.stderr and '"page"' in done.stdout
