"""Who may do what: roles, users and their tokens.

A token is 32 random bytes; only its hash is kept, so a configuration file that somebody reads lets nobody in.
"""

from __future__ import annotations

import getpass
import hashlib
import hmac
import secrets
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from afl.kernel.address import is_loopback
from afl.kernel.errors import InputError, SettingError
from afl.kernel.settings import Settings

_HASH = "sha256:"
_FIELDS = {"role", "token"}


class Role(StrEnum):
    """What somebody may do: look, act, or also change what others rely on."""

    VIEWER = "viewer"
    OPERATOR = "operator"
    ADMIN = "admin"

    def allows(self, needed: Role) -> bool:
        """Whether whoever has this role may do what needs that one."""
        ranks = list(Role)
        return ranks.index(self) >= ranks.index(needed)


@dataclass(frozen=True, slots=True)
class Caller:
    """Who asks, with which role, and from where."""

    name: str
    role: Role
    origin: str = ""


def operator() -> str:
    """Who gives the order: the user of this process."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # no such user on this machine, as in some containers
        return "unknown"


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
    """The users of the settings; whoever has the token of AFL_TOKEN is an admin called `token`."""
    found = [_user(name, given) for name, given in settings.users]
    if settings.token:
        found.append(User("token", Role.ADMIN, hash_token(settings.token)))
    return Users(found)


def check_address(settings: Settings, host: str) -> None:
    """Whoever can be reached from elsewhere has to know who asks."""
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
