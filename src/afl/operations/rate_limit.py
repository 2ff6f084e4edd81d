"""Token checks with a rate limit on failures, for every server that is reached over HTTP."""

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


class RateLimiter:
    """Counts events per client network in a sliding window; the oldest networks are dropped beyond a maximum."""

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = most
        self._seconds = seconds
        self._clock = clock
        self._times: OrderedDict[str, list[float]] = OrderedDict()
        self._lock = threading.Lock()

    def is_full(self, address: str) -> bool:
        """Whether the network of the address has reached the limit."""
        with self._lock:
            return len(self._recent(network_of(address))) >= self._most

    def add(self, address: str) -> bool:
        """Count one event; False, and not counted, if the limit is reached."""
        place = network_of(address)
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


class TokenCheck:
    """Finds the owner of a token. A network with too many failures is refused for a while, with a valid token too."""

    def __init__(self, users: Users, clock: Callable[[], float] = time.monotonic) -> None:
        self._users = users
        self._failures = RateLimiter(_FAILURES, _WINDOW_SECONDS, clock)
        self._notes = RateLimiter(_FAILURES, _WINDOW_SECONDS, clock)

    @property
    def demands_token(self) -> bool:
        """Whether requests need a token."""
        return bool(self._users)

    def check(self, token: str, address: str) -> User:
        """The owner of the token; Throttled, without looking at it, after too many failures from this network."""
        if self._failures.is_full(address):
            raise Throttled(f"too many wrong tokens from {address}")
        user = self._users.owner_of(token)
        if user is None:
            self._failures.add(address)
            raise Unauthenticated("the token is not known")
        return user

    def worth_noting(self, address: str) -> bool:
        """Whether one more refusal from there is still recorded in the audit log."""
        return self._notes.add(address)


def network_of(address: str) -> str:
    """What the limits count by: an IPv4 address, or the /64 network of an IPv6 address."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, _NETWORK_BITS), strict=False))
