"""Log lines of old agents: whatever has arrived is stored in one commit, and then published."""

from __future__ import annotations

import asyncio
import logging

from afl.fleet.errors import ProtocolError
from afl.fleet.log_frame import LogFrame, parse_log_frame
from afl.fleet.principal.desk import Desk
from afl.fleet.principal.logs import Block, append, blocks_of_frames
from afl.fleet.zeromq import zmq
from afl.kernel.backoff import Backoff
from afl.kernel.errors import AgentFlowError, StoreUnavailable

_log = logging.getLogger(__name__)
_BATCH = 5000
_PAUSES = Backoff(0.2, cap=5.0)


class Intake:
    """While a batch is being stored nothing is read, so that agents feel it instead of this process's memory."""

    def __init__(self, socket: zmq.asyncio.Socket, desk: Desk) -> None:
        self._socket = socket
        self._desk = desk

    async def serve(self) -> None:
        """Until cancelled."""
        while True:
            frames = _parsed(await self._read())
            blocks = blocks_of_frames(frames)
            if blocks:
                await self._store(blocks)
                await self._desk.publish(blocks)

    async def _read(self) -> list[bytes]:
        """What has arrived; waits for the first."""
        raw = [await self._socket.recv()]
        while len(raw) < _BATCH:
            try:
                raw.append(await self._socket.recv(zmq.NOBLOCK))
            except zmq.Again:
                break
        return raw

    async def _store(self, blocks: list[Block]) -> None:
        """A store that does not answer is waited for: the sender has nothing left to send again.

        Lines that it refuses would be refused for ever, and must not keep back those behind them.
        """
        for pause in _PAUSES.delays():
            try:
                await self._desk.change(lambda change: append(change, blocks))
                return
            except StoreUnavailable as error:
                _log.error("log lines wait for the store: %s", error)
                await asyncio.sleep(pause)
            except AgentFlowError as error:
                _log.error("%d blocks of log lines were dropped: %s", len(blocks), error)
                return


def _parsed(raw: list[bytes]) -> list[LogFrame]:
    found = []
    for frame in raw:
        try:
            found.append(parse_log_frame(frame))
        except ProtocolError as error:
            _log.warning("a log line was dropped: %s", error)
    return found
