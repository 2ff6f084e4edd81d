"""Whose token it is, and what happens to those who guess. Every face that is reached by HTTP asks here."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict
from collections.abc import Callable

from afl.kernel.errors import Throttled, Unauthenticated
from afl.operations.access import User, Users

_MOST_ADDRESSES = 10_000
_FAILURES = 10
_WINDOW_SECONDS = 60.0
_NETWORK_BITS = 64


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
            return len(self._recent(neighbourhood(address))) >= self._most

    def add(self, address: str) -> bool:
        """Count one; False, and not counted, when there were as many as there may be."""
        place = neighbourhood(address)
        with self._lock:
            recent = self._recent(place)
            if len(recent) >= self._most:
                return False
            self._times[place] = [*recent, self._clock()]
            self._times.move_to_end(place)
            if len(self._times) > _MOST_ADDRESSES:
                self._times.popitem(last=False)
            return True

    def _recent(self, place: str) -> list[float]:
        since = self._clock() - self._seconds
        return [each for each in self._times.get(place, ()) if each > since]


class Turnstile:
    """Lets those through whose token is known. Whoever was wrong too often has to wait, with the right one too."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
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


def neighbourhood(address: str) -> str:
    """What counts as one place: an address; of IPv6 its network, since everybody there has more than can be counted."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK_BITS), strict=False))
