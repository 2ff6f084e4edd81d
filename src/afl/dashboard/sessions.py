"""Who is logged in: tokens, sessions of browsers, and what happens to those who guess."""

from __future__ import annotations

import hashlib
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass

from afl.kernel.errors import Throttled, Unauthenticated
from afl.operations.access import User, Users, new_token

COOKIE = "afl-session"
SESSION_SECONDS = 12 * 3600
_MOST_SESSIONS = 10_000
_MOST_ADDRESSES = 10_000
_FAILURES = 10
_WINDOW_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class _Session:
    user: User
    until: float


class Throttle:
    """Counts by address, within a while; it forgets the oldest addresses rather than grow."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = threading.Lock()

    def is_full(self, address: str) -> bool:
        """Whether there were as many as there may be."""
        with self._lock:
            return len(self._recent(address)) >= self._most

    def add(self, address: str) -> bool:
        """Count one; False, and not counted, when there were as many as there may be."""
        with self._lock:
            recent = self._recent(address)
            if len(recent) >= self._most:
                return False
            self._times[address] = [*recent, self._clock()]
            self._times.move_to_end(address)
            if len(self._times) > _MOST_ADDRESSES:
                self._times.popitem(last=False)
            return True

    def _recent(self, address: str) -> list[float]:
        since = self._clock() - self._seconds
        return [each for each in self._times.get(address, ()) if each > since]


class Doorkeeper:
    """Knows the users, and who of them logged in. Sessions live as long as the process: a restart ends them."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._clock = clock
        self._sessions: OrderedDict[str, _Session] = OrderedDict()
        self._lock = threading.Lock()
        self._failures = Throttle(_FAILURES, _WINDOW_SECONDS, clock)
        self._notes = Throttle(_FAILURES, _WINDOW_SECONDS, clock)

    @property
    def demands_token(self) -> bool:
        """Whether only those who are known come in."""
        return bool(self._users)

    def check(self, token: str, address: str) -> User:
        """Whose token it is. Throttled before it is even looked at when too many from there were wrong."""
        if self._failures.is_full(address):
            raise Throttled(f"too many wrong tokens from {address}")
        user = self._users.owner_of(token)
        if user is None:
            self._failures.add(address)
            raise Unauthenticated("the token is not known")
        return user

    def worth_noting(self, address: str) -> bool:
        """Whether one more refusal from there is still written down."""
        return self._notes.add(address)

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
