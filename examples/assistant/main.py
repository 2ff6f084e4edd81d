"""An assistant with tools and experts. Its worker is killed in the middle of a booking; the turn goes on elsewhere.

From the root of the repository:

    python examples/assistant/main.py

Look at: calendar and weather are asked at once, the two experts side by side; the second worker, which takes over, does
not ask any of them again, since their answers are cards in the store. Only the call that was under way is made again,
under the same idempotency key, and nothing is booked twice. No key is needed: script.py says what the model says.
"""

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import afl
from afl.cli import main as command

HERE = Path(__file__).parent


def worker(bookings: Path) -> subprocess.Popen[str]:
    """`afl turns worker agents.py` in a process of its own, once it works."""
    process = subprocess.Popen(
        [sys.executable, "-m", "afl", "turns", "worker", str(HERE / "agents.py"), "--shutdown-timeout", "1"],
        env={**os.environ, "BOOKINGS": str(bookings)},
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stderr is not None and "serves" in process.stderr.readline()
    return process


def until(found: Callable[[], bool]) -> None:
    while not found():
        time.sleep(0.02)


def main(folder: Path) -> None:
    bookings = folder / "bookings"
    first = worker(bookings)
    with afl.connect() as flow:
        turn = flow.turns.send("assistant", "Plan my Friday in Rome.")
        until(bookings.exists)
        first.kill()
        first.communicate()
        print("The first worker is killed in the middle of a booking.")
        second = worker(bookings)
        delivered = flow.turns.result(turn.agent_turn_id)
    print(f"{delivered.text}\n")
    second.terminate()
    second.communicate()
    command(["turns", "show", turn.agent_turn_id])
    print(f"\nBookings made: {len(bookings.read_text().splitlines())}")


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        main(Path(folder))
