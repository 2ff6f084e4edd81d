"""What the small HTTP servers of processes have in common: they tell probes and scrapers, and take nothing."""

from __future__ import annotations

import logging
import socket
import sys
from abc import ABC, abstractmethod
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

REQUEST_SECONDS = 10.0  # within which a request has to come
_log = logging.getLogger(__name__)


class SmallServer(ThreadingHTTPServer):
    """Listens on an address of any family, and is not troubled by who connects and breaks off, as many probes do."""

    daemon_threads = True

    def __init__(self, address: tuple[str, int], handler: type[BaseHTTPRequestHandler]) -> None:
        self.address_family = socket.AF_INET6 if ":" in address[0] else socket.AF_INET
        super().__init__(address, handler)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """What a request has raised."""
        error = sys.exception()
        if isinstance(error, ConnectionError):
            _log.debug("%s left before its answer: %s", client_address, error)
        else:
            _log.error("the request of %s failed", client_address, exc_info=error)


class SmallHandler(BaseHTTPRequestHandler, ABC):
    """Answers GET and HEAD."""

    def setup(self) -> None:
        """Begin a connection, which holds a thread."""
        super().setup()
        self.connection.settimeout(REQUEST_SECONDS)

    @abstractmethod
    def do_GET(self) -> None:
        """Answer, by `answer`."""

    def do_HEAD(self) -> None:
        """The same without a body."""
        self.do_GET()

    def answer(self, code: int, body: bytes, kind: str) -> None:
        """Send an answer."""
        self.send_response(code)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not worth a line each."""
