"""ZeroMQ for the fleet, or MissingExtraError when it is not installed; other modules import it from here."""

from __future__ import annotations

from afl.kernel.errors import MissingExtraError, pip_install

try:
    import zmq
    import zmq.asyncio
    import zmq.utils.z85
except ModuleNotFoundError as missing:
    if missing.name is None or missing.name.partition(".")[0] != "zmq":
        raise
    raise MissingExtraError(
        f"pyzmq is required for the fleet. Install it with: {pip_install('fleet')}"
    ) from missing

__all__ = ["zmq"]
