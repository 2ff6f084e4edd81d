"""The client of NATS, with TLS wherever the address asks for it."""

from __future__ import annotations

import nats.errors
from nats.aio.client import Client


class NatsClient(Client):
    """Sends nothing over a connection without TLS if the address is `tls://`: the library goes by the server alone."""

    def _connect_command(self) -> bytes:
        server = self._current_server
        if server is not None and server.uri.scheme == "tls" and not self._server_info.get("tls_required"):
            raise nats.errors.Error("the address begins with tls:// and the server does not require TLS")
        return super()._connect_command()
