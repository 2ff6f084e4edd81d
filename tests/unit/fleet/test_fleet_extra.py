"""Without pyzmq the fleet says what to install."""

from __future__ import annotations

import subprocess
import sys

_WITHOUT = "import sys; sys.modules['zmq'] = None; import afl.fleet.client"


def test_a_missing_zeromq_is_named() -> None:
    ended = subprocess.run([sys.executable, "-c", _WITHOUT], capture_output=True, text=True, check=False)
    assert ended.returncode == 1
    assert "MissingExtraError: pyzmq is required" in ended.stderr and "agentflow-afl[fleet]" in ended.stderr
