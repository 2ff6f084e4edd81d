"""A principal for tests of the agent: in the same process, and away when it is told to be."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from afl.fleet.errors import PrincipalAway
from afl.fleet.messages import Acked, Commands, FetchedRun, Record, RunRecord, Status
from afl.fleet.requests import FetchRun, Heartbeat, RegisterAgent
from afl.fleet.shipping import ShipRaw
from support.fleet_records import Report

_RECORDS = msgspec.json.Decoder(list[Record])


class FakePrincipal:
    """Hands out the runs it is given, keeps what is shipped once, and notes who asked for what."""

    def __init__(self) -> None:
        self._gone = asyncio.Event()
        self.runs: asyncio.Queue[FetchedRun] = asyncio.Queue()
        self.acked: dict[str, int] = {}
        self.records: dict[str, list[Record]] = {}
        self.agents: set[str] = set()
        self.beats: list[Heartbeat] = []
        self.fetches: list[FetchRun] = []
        self.cancel: list[str] = []
        self.news = asyncio.Condition()

    @property
    def away(self) -> bool:
        return self._gone.is_set()

    @away.setter
    def away(self, away: bool) -> None:
        (self._gone.set if away else self._gone.clear)()

    async def call(self, request: Any, *, retry: bool = False) -> Any:
        if self.away:
            await asyncio.sleep(0.005)
            raise PrincipalAway("away")
        answer = await self._answer(request)
        async with self.news:
            self.news.notify_all()
        return answer

    async def until(self, condition: Any) -> None:
        """Wait until something the agent does makes it true."""
        async with asyncio.timeout(60), self.news:
            await self.news.wait_for(condition)

    def report(self, incarnation: str) -> Report:
        return Report(self.records.get(incarnation, []))

    def ended(self, run_id: str) -> bool:
        """Whether the end of a run was reported."""
        return any(
            isinstance(record, RunRecord) and record.run_id == run_id and record.status.is_final
            for records in self.records.values()
            for record in records
        )

    def status(self, run_id: str) -> Status:
        return [
            record.status
            for records in self.records.values()
            for record in records
            if isinstance(record, RunRecord) and record.run_id == run_id
        ][-1]

    async def _answer(self, request: Any) -> Any:
        if isinstance(request, RegisterAgent):
            self.agents.add(request.agent_id)
        elif isinstance(request, FetchRun):
            self.fetches.append(request)
            return await self._fetch(request.wait_ms / 1000)
        elif isinstance(request, Heartbeat):
            self.beats.append(request)
            await asyncio.sleep(0.01)
            return Commands(cancel=list(self.cancel))
        elif isinstance(request, ShipRaw):
            return self._ship(request)
        return None

    async def _fetch(self, seconds: float) -> FetchedRun | None:
        getting, going = asyncio.ensure_future(self.runs.get()), asyncio.ensure_future(self._gone.wait())
        try:
            await asyncio.wait([getting, going], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
            if going.done():
                raise PrincipalAway("away")
            return getting.result() if getting.done() else None
        finally:
            getting.cancel()
            going.cancel()

    def _ship(self, request: ShipRaw) -> Acked:
        records = _RECORDS.decode(msgspec.json.encode(request.records))
        kept = self.records.setdefault(request.incarnation, [])
        for record in records:
            if record.seq == self.acked.get(request.incarnation, 0) + 1:
                kept.append(record)
                self.acked[request.incarnation] = record.seq
        return Acked(acked=self.acked.get(request.incarnation, 0))
