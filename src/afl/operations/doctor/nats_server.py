"""Checks of a NATS server: that it answers, and that the streams of turns are kept on its disk."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from afl.kernel.errors import MissingExtraError, pip_install
from afl.kernel.setting_kinds import mask_url
from afl.operations.doctor.store_checks import Finding, error, fine, note

try:
    import nats.errors
    import nats.js.errors
    from nats.js import JetStreamContext

    from afl.kernel.nats_client import NatsClient
    from afl.turns.bus.nats import STREAMS
except ModuleNotFoundError as missing:
    if missing.name is None or not missing.name.startswith("nats"):
        raise
    raise MissingExtraError(f"NATS needs its client: {pip_install('nats')}") from missing

_CHECK = "nats"
_SECONDS = 5
_LOST = (nats.errors.Error, OSError, TimeoutError)


@dataclass
class _Told:
    """What a server says of itself. `streams` is the storage of those that are there."""

    version: str
    has_jetstream: bool = False
    most_storage: int = 0
    streams: dict[str, str] = field(default_factory=dict)


def check_nats(url: str, *, carries_turns: bool) -> list[Finding]:
    """All of it; notifications alone need no JetStream."""
    problems: list[Exception] = []
    try:
        told = asyncio.run(asyncio.wait_for(_ask(url, problems), _SECONDS))
    except _LOST as problem:
        reason = problems[0] if problems else problem  # the client tries again until its time is over
        return error(
            _CHECK,
            f"NATS at {mask_url(url)} does not answer: {str(reason) or type(reason).__name__}",
            "Start it (`afl up --nats`), or correct AFL_BUS and AFL_DOORBELL.",
        )
    found = fine(_CHECK, f"NATS {told.version} at {mask_url(url)}")
    return found + (_storage(told) if carries_turns else [])


async def _ask(url: str, problems: list[Exception]) -> _Told:
    async def keep(problem: Exception) -> None:
        problems.append(problem)

    client = NatsClient()
    await client.connect(
        url, connect_timeout=_SECONDS, max_reconnect_attempts=1, reconnect_time_wait=0, error_cb=keep
    )
    try:
        told = _Told(str(client.connected_server_version))
        await _ask_jetstream(client.jetstream(timeout=_SECONDS), told)
        return told
    finally:
        await client.close()


async def _ask_jetstream(jetstream: JetStreamContext, told: _Told) -> None:
    try:
        account = await jetstream.account_info()
    except (nats.js.errors.Error, nats.errors.NoRespondersError):
        return
    told.has_jetstream = True
    told.most_storage = account.limits.max_storage if account.limits.max_storage is not None else -1
    for name, _ in STREAMS.values():
        try:
            info = await jetstream.stream_info(name)
        except nats.js.errors.NotFoundError:
            continue
        told.streams[name] = str(getattr(info.config.storage, "value", info.config.storage))


def _storage(told: _Told) -> list[Finding]:
    if not told.has_jetstream:
        return error(
            _CHECK,
            "JetStream is off: turns cannot be announced",
            "Start the server with -js and a folder (-sd).",
        )
    if told.most_storage == 0:
        return error(
            _CHECK, "JetStream may store nothing on its disk", "Raise max_file_store, or the account's limit."
        )
    forgetful = [name for name, storage in told.streams.items() if storage != "file"]
    if forgetful:
        return error(
            _CHECK,
            f"{', '.join(forgetful)} is kept in memory: a restart of the server loses commands of turns",
            "Delete the stream while no worker runs (`nats stream rm`); the next worker makes it anew, on the disk.",
        )
    if not told.streams:
        return note(_CHECK, "JetStream is on; the first worker of turns makes its streams")
    return fine(_CHECK, f"the streams {', '.join(told.streams)} are kept on the disk")
