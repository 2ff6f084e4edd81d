"""The address of a MongoDB database: server, login and database in one URL."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from urllib.parse import quote_plus

_PARTS = re.compile(
    r"(?P<scheme>[^:/?]+)://(?P<hosts>[^/?]*)/?(?P<database>[^?]*)\??(?P<query>.*)", re.DOTALL
)


def with_login(url: str, username: str, password: str, auth_source: str) -> str:
    """The address with a login in it; one that the address already has is kept."""
    address = _parsed(url)
    if address is None or not username or address.has_login:
        return url
    login = f"{quote_plus(username)}:{quote_plus(password)}"
    return replace(address, hosts=f"{login}@{address.hosts}", query=address.query_with(auth_source)).text


def with_database(url: str, database: str) -> str:
    """The address with another database in it; the one that knows its login stays the same."""
    address = _parsed(url)
    if address is None:
        return url
    query = address.query_with(address.database or "admin") if address.has_login else address.query
    return replace(address, database=quote_plus(database), query=query).text


@dataclass(frozen=True, slots=True)
class _Address:
    scheme: str
    hosts: str
    database: str
    query: str

    @property
    def has_login(self) -> bool:
        return "@" in self.hosts

    @property
    def text(self) -> str:
        query = f"?{self.query}" if self.query else ""
        return f"{self.scheme}://{self.hosts}/{self.database}{query}"

    def query_with(self, auth_source: str) -> str:
        """The query with the database that knows the login, unless it already names one."""
        if "authsource=" in self.query.lower():
            return self.query
        return f"{self.query}&authSource={quote_plus(auth_source)}".lstrip("&")


def _parsed(url: str) -> _Address | None:
    found = _PARTS.fullmatch(url)
    return _Address(**found.groupdict()) if found else None
