"""Who may do what: roles, users, tokens with a limit on failures, and users in the configuration file.

A token is 32 random bytes; only its hash is kept, so that nobody who reads a configuration file can use it.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import os
import re
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from afl.kernel.address import is_loopback
from afl.kernel.config_file import DEFAULT_CONFIG_FILENAME, find_file, parse_file, require_file
from afl.kernel.errors import InputError, NotFoundError, SettingError, Throttled, Unauthenticated
from afl.kernel.private_files import make_private_folder, open_private
from afl.kernel.settings import Settings
from afl.operations.roles import Role

_HASH = "sha256:"
_FIELDS = {"role", "token"}


@dataclass(frozen=True, slots=True)
class User:
    """Somebody with a name, a role and the hash of a token."""

    name: str
    role: Role
    token_hash: str


class Users:
    """Everybody a server knows."""

    def __init__(self, users: list[User]) -> None:
        self._users = users

    def __bool__(self) -> bool:
        return bool(self._users)

    def owner_of(self, token: str) -> User | None:
        """Whose token it is. All are compared, each in constant time: the time tells nothing."""
        given, found = hash_token(token), None
        for user in self._users:
            if hmac.compare_digest(given, user.token_hash):
                found = user
        return found

    def named(self, name: str) -> User | None:
        """The user of a name."""
        return next((user for user in self._users if user.name == name), None)


def load_users(settings: Settings) -> Users:
    """The users of the settings; the token of AFL_TOKEN belongs to an admin called `token`."""
    found = [_user(name, given) for name, given in settings.users]
    if settings.token:
        found.append(User("token", Role.ADMIN, hash_token(settings.token)))
    return Users(found)


def check_address(settings: Settings, host: str) -> None:
    """SettingError for an address that other machines reach if there are neither a token nor users."""
    if not is_loopback(host) and not load_users(settings):
        raise SettingError(
            f"{host} can be reached from other machines: set AFL_TOKEN, or add users with `afl dashboard user add`"
        )


def _user(name: str, given: Any) -> User:
    where = f"user {name!r} in the settings"
    if not isinstance(given, dict) or set(given) != _FIELDS:
        raise SettingError(
            f"{where} needs a role and a token, and nothing else; `afl dashboard user add` writes both"
        )
    token = given["token"]
    if not isinstance(token, str) or not _is_hash(token):
        raise SettingError(f"{where} has no hash of a token; `afl dashboard user add` makes one")
    return User(name, read_role(given["role"], where), token)


def read_role(text: Any, where: str = "") -> Role:
    """A role by its word."""
    if text not in list(Role):
        raise InputError(
            f"{where + ' has' if where else 'got'} the role {text!r}; there are {', '.join(Role)}"
        )
    return Role(text)


def hash_token(token: str) -> str:
    """What is kept of a token. It is random and long, so a plain hash cannot be turned back."""
    return _HASH + hashlib.sha256(token.encode()).hexdigest()


def new_token() -> str:
    """A token that nobody guesses."""
    return secrets.token_urlsafe(32)


def _is_hash(text: str) -> bool:
    digits = text.removeprefix(_HASH)
    return text.startswith(_HASH) and len(digits) == 64 and all(each in "0123456789abcdef" for each in digits)


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


_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._@-]{0,63}")


def config_path(path: str | Path | None = None) -> Path:
    """The configuration file: the one named or found, else the one that would be found here."""
    return find_file(path) or Path(path or os.environ.get("AFL_CONFIG") or DEFAULT_CONFIG_FILENAME)


def existing_config_path(path: str | Path | None = None) -> Path:
    """As `config_path`; a name that leads to no file is a SettingError."""
    require_file(path)
    return config_path(path)


def add_user(path: Path, name: str, role: Role) -> str:
    """Add somebody, or give them a new role and token; the token, which nobody can look up later."""
    if not _NAME.fullmatch(name) or name == "token":
        raise InputError(
            f"{name!r} is not a valid user name; expected letters, digits and . _ @ -, at most 64"
        )
    document = _read(path)
    token = new_token()
    users: dict[str, Any] = {**document.get("users", {}), name: {"role": role, "token": hash_token(token)}}
    _write(path, {**document, "users": users})
    return token


def remove_user(path: Path, name: str) -> None:
    """Forget somebody; NotFoundError if they are not there."""
    document = _read(path)
    users = dict(document.get("users", {}))
    if users.pop(name, None) is None:
        raise NotFoundError(f"{path} has no user {name!r}; it has {', '.join(users) or 'none'}")
    _write(path, {**document, "users": users})


def list_users(path: Path) -> dict[str, str]:
    """The roles by name."""
    return {name: str(user.get("role", "")) for name, user in _read(path).get("users", {}).items()}


def _read(path: Path) -> dict[str, Any]:
    return parse_file(path) if path.exists() else {}


def _write(path: Path, document: dict[str, Any]) -> None:
    """Replace the file atomically."""
    text = msgspec.json.format(msgspec.json.encode(document), indent=2)
    draft = path.with_name(f"{path.name}.new")
    mode = path.stat().st_mode & 0o777 if path.exists() else 0o600
    try:
        make_private_folder(path.parent)
        descriptor = open_private(draft, os.O_WRONLY | os.O_TRUNC, mode)
        with os.fdopen(descriptor, "wb") as file:
            file.write(text + b"\n")
        draft.replace(path)
    except OSError as error:
        raise InputError(f"{path} cannot be written: {error.strerror}") from error
