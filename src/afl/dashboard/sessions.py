"""Cookies, and who is logged in with a browser: sessions, and what ends with them."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from starlette.requests import HTTPConnection

from afl.kernel.errors import Unauthenticated
from afl.operations.access import TokenCheck, User, Users, new_token


def cookie_of(request: HTTPConnection, name: str) -> str:
    """The value of a cookie of ours; empty if there is none."""
    for header in request.headers.getlist("cookie"):
        for pair in header.split(";"):
            key, _, value = pair.partition("=")
            if key.strip() == name:
                return value.strip().strip('"')
    return ""


COOKIE = "afl-session"
SESSION_SECONDS = 12 * 3600
_MOST_SESSIONS = 10_000


@dataclass(frozen=True, slots=True, eq=False)
class _Session:
    """`farewells` are called when it ends before its time."""

    user: User
    until: float
    farewells: set[Callable[[], None]] = field(default_factory=set)

    def end(self) -> None:
        for farewell in list(self.farewells):
            farewell()


class Sessions(TokenCheck):
    """Knows the users, and who of them logged in. Sessions live as long as the process: a restart ends them."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(users, clock)
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, user: User) -> str:
        """A session for a browser: the value of its cookie."""
        value, oldest = new_token(), None
        with self._lock:
            self._sessions[_digest(value)] = _Session(user, self._clock() + SESSION_SECONDS)
            if len(self._sessions) > _MOST_SESSIONS:
                _, oldest = self._sessions.popitem(last=False)
        if oldest is not None:
            oldest.end()
        return value

    def session(self, value: str) -> User:
        """Whose session a cookie is."""
        with self._lock:
            found = self._sessions.get(_digest(value))
            if found is None or found.until < self._clock():
                self._sessions.pop(_digest(value), None)
                raise Unauthenticated("a token is needed")
        return found.user

    def end(self, value: str) -> None:
        """Log out."""
        with self._lock:
            ended = self._sessions.pop(_digest(value), None)
        if ended is not None:
            ended.end()

    @contextmanager
    def lasting(self, value: str, farewell: Callable[[], None]) -> Iterator[float]:
        """For what lives as long as a session: how many seconds that is at most. `farewell` tells of an earlier end.

        Sessions know what depends on them, so nothing that does has to ask whether they are still there.
        """
        with self._lock:
            found = self._sessions.get(_digest(value))
            if found is not None:
                found.farewells.add(farewell)
        try:
            yield 0.0 if found is None else max(0.0, found.until - self._clock())
        finally:
            if found is not None:
                with self._lock:
                    found.farewells.discard(farewell)


def _digest(value: str) -> str:
    """A look-up of a hash tells nothing by its time."""
    return hashlib.sha256(value.encode()).hexdigest()
