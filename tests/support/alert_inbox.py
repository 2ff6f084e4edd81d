"""Somebody who is sent alerts: an HTTP server that takes what Apprise posts to a `json://` address."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


@dataclass
class AlertInbox:
    """What was delivered: (path, title, body). While `refuses` is set, everything is answered with 503."""

    port: int = 0
    refuses: bool = False
    refused: int = 0
    messages: list[tuple[str, str, str]] = field(default_factory=list)
    kinds: set[tuple[str, str]] = field(default_factory=set)  # titles, and what Apprise calls their type
    _arrived: threading.Condition = field(default_factory=threading.Condition)

    def address(self, path: str = "all") -> str:
        return f"json://127.0.0.1:{self.port}/{path}"

    def take(self) -> list[tuple[str, str]]:
        """Titles and bodies since the last call."""
        found, self.messages = self.messages, []
        return [(title, body) for _, title, body in found]

    def next(self) -> tuple[str, str]:
        """The next message, waited for."""
        with self._arrived:
            assert self._arrived.wait_for(lambda: self.messages, 60), "no message came"
            _, title, body = self.messages.pop(0)
        return title, body

    def receive(self, path: str, content: bytes) -> int:
        with self._arrived:
            if self.refuses:
                self.refused += 1
                return 503
            said = json.loads(content)
            self.messages.append((path, said["title"], said["message"]))
            self.kinds.add((said["title"], said["type"]))
            self._arrived.notify_all()
        return 200


@contextmanager
def alert_inbox() -> Iterator[AlertInbox]:
    inbox = AlertInbox()

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            content = self.rfile.read(int(self.headers["Content-Length"]))
            self.send_response(inbox.receive(self.path, content))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *arguments: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        inbox.port = server.server_address[1]
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield inbox
        finally:
            server.shutdown()
            thread.join()
