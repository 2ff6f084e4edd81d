"""Who is logged in with a browser: sessions."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from afl.kernel.errors import Unauthenticated
from afl.operations.access import User, Users, new_token
from afl.operations.turnstile import Turnstile

COOKIE = "afl-session"
SESSION_SECONDS = 12 * 3600
_MOST_SESSIONS = 10_000


@dataclass(frozen=True, slots=True)
class _Session:
    user: User
    until: float


class Doorkeeper(Turnstile):
    """Knows the users, and who of them logged in. Sessions live as long as the process: a restart ends them."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(users, clock)
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()

    def begin(self, user: User) -> str:
        """A session for a browser: the value of its cookie."""
        value = new_token()
        with self._lock:
            self._sessions[_digest(value)] = _Session(user, self._clock() + SESSION_SECONDS)
            if len(self._sessions) > _MOST_SESSIONS:
                self._sessions.popitem(last=False)
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
            self._sessions.pop(_digest(value), None)


def _digest(value: str) -> str:
    """A look-up of a hash tells nothing by its time."""
    return hashlib.sha256(value.encode()).hexdigest()
