"""ZeroMQ for the fleet, or a clear word when it is not installed; the rest of the part imports it from here."""

from __future__ import annotations

from afl.kernel.errors import MissingExtraError

try:
    import zmq
    import zmq.asyncio
    import zmq.utils.z85
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "zmq":
        raise
    raise MissingExtraError(
        "pyzmq is required for the fleet. Install it with: pip install 'agentflow[fleet]'"
    ) from missing

__all__ = ["zmq"]
