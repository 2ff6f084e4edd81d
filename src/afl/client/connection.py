"""Opening a client on a store, or on a server over HTTP.

What the client consists of takes a while to import. It is imported when a connection is opened, and not on the event
loop of an asynchronous client, which has other things to do.
"""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from afl.kernel.errors import InputError
from afl.kernel.setting_kinds import file_url
from afl.kernel.settings import Settings, load_settings

if TYPE_CHECKING:
    from afl.client.async_calls import AsyncCalls
    from afl.client.async_client import AsyncClient
    from afl.client.client import Client
    from afl.client.store_client import OperationsClient


def connect(
    address: str | Path | None = None, *, token: str | None = None, settings: Settings | None = None
) -> Connection:
    """A connection to be opened by `with` (a Client) or `async with` (an AsyncClient).

    `address` is the URL of a store, the path of an SQLite file, or a dashboard's `http://` or `https://` address,
    which takes a `token` where the dashboard has users. Without one the settings name the store or the server.
    `settings` replace those of the environment and the configuration file; they name the address and the token, too.
    """
    if settings is not None and (address is not None or token is not None):
        raise InputError("connect takes settings, or an address and a token; settings name both")
    return Connection(_settings(address, token) if settings is None else settings)


def _settings(address: str | Path | None, token: str | None) -> Settings:
    if address is None:
        return load_settings({"token": token})
    if not isinstance(address, str | Path):
        raise InputError(f"the address is a text or a path, got {address!r:.80}")
    text = str(address)
    if text.startswith(("http://", "https://")):
        return load_settings({"server": text, "token": token})
    if isinstance(address, str) and text.strip(":/") == "memory" and text != "memory://":
        raise InputError(
            f"{text!r} names no store; write memory:// for one in memory, or ./{text} for a file"
        )
    if isinstance(address, Path) or "://" not in text:
        text = file_url(text)
    return load_settings({"store": text, "server": ""})


class Connection:
    """What `connect` returns. It can be opened once at a time."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._stack = ExitStack()
        self._calls: AsyncCalls | None = None
        self._is_open = False

    def __getattr__(self, name: str) -> NoReturn:
        if hasattr(import_module("afl.client.client").Client, name):
            raise AttributeError(
                f"a connection has no {name!r} before it is opened: 'with afl.connect(...) as flow:' gives a client "
                "that has it, and 'async with' an asynchronous one"
            )
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")

    def __enter__(self) -> Client:
        from afl.client.calls import Calls  # noqa: PLC0415
        from afl.client.client import Client  # noqa: PLC0415

        calls = Calls(self._open(), self._settings)
        self._stack.callback(calls.close)
        return Client(calls)

    def __exit__(self, *error: Any) -> None:
        self._close()

    async def __aenter__(self) -> AsyncClient:
        with ThreadPoolExecutor(1) as importer:  # that of the loop would keep its thread
            await asyncio.get_running_loop().run_in_executor(
                importer, import_module, "afl.client.async_client"
            )
        from afl.client.async_calls import AsyncCalls  # noqa: PLC0415
        from afl.client.async_client import AsyncClient  # noqa: PLC0415

        self._calls = AsyncCalls(self._open(), self._settings)
        return AsyncClient(self._calls)

    async def __aexit__(self, *error: Any) -> None:
        if self._calls is not None:
            await self._calls.close()
        await asyncio.to_thread(self._close)

    def _open(self) -> OperationsClient:
        from afl.client.store_client import open_client  # noqa: PLC0415

        if self._is_open:  # the block that exits first would close it for the other one
            raise InputError("the connection is open already; share its client, or connect once more")
        operations = self._stack.enter_context(open_client(self._settings, create=True))
        self._is_open = True
        return operations

    def _close(self) -> None:
        try:
            self._stack.close()
        finally:
            self._is_open = False
