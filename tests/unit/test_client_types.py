"""What a type checker knows of the client."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

SNIPPET = """
import afl

async def asynchronous() -> None:
    async with afl.connect("x.db") as flow:
        reveal_type(flow)
        handle = await flow.start("x.afl", n=1)
        reveal_type(handle)
        reveal_type(await handle.result(timeout=1))
        async for event in handle.events():
            reveal_type(event.kind)
        reveal_type((await handle.status()).state)
        reveal_type(await flow.list(state="failed"))
        reveal_type(await flow.turns.agents())
        async with flow.worker() as worker:
            reveal_type(worker.facets)

def synchronous() -> None:
    with afl.connect() as flow:
        reveal_type(flow)
        handle = flow.start("x.afl", n=1)
        reveal_type(handle)
        reveal_type(handle.result(timeout=1))
        for event in handle.events():
            reveal_type(event)
        reveal_type(handle.why())
"""
REVEALED = [
    "AsyncClient",
    "AsyncRunHandle",
    "dict[str, Any]",
    "str",
    "str",
    "list[RunLine]",
    "list[AgentLine]",
    "list[str]",
    "Client",
    "RunHandle",
    "dict[str, Any]",
    "RunEvent",
    "Reason",
]


def test_mypy_reveals_precise_types(tmp_path: Path) -> None:
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    root = Path(__file__).parents[2]
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(root / ".mypy_cache"), str(file)]
    told = subprocess.run(command, cwd=root, capture_output=True, text=True).stdout
    revealed = re.findall(r'Revealed type is "(.*)"', told)
    assert [re.sub(r"[\w.]+\.(\w+)", r"\1", each) for each in revealed] == REVEALED, told


def test_pyright_reveals_precise_types(tmp_path: Path) -> None:
    """By the build of Pyright that needs no Node.js of its own."""
    file = tmp_path / "snippet.py"
    file.write_text(SNIPPET)
    command = [sys.executable, "-m", "basedpyright", "--pythonpath", sys.executable, str(file)]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True).stdout
    revealed = re.findall(r'information: Type of ".*" is "(.*)"', told)
    assert revealed == REVEALED, told
