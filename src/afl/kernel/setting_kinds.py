"""Kinds of settings: how a value is read, what is expected of it, and how it may be shown."""

from __future__ import annotations

import dataclasses
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import quote

import msgspec

from afl.kernel.errors import SettingError

MASK = "***"

# Linear, for they meet texts from outside: what repeats cannot run past the place where the next match may begin.
_WORD = re.compile(r"\S+")
_USER_PASSWORD = re.compile(r"(?<=://)([^/?#:@]*):[^/?#]*@")
_LONE_TOKEN = re.compile(r"(?i)\b((?:nats|tls)://)[^/?#:@]+@")  # NATS takes a token in the place of a user
_SECRET_PARAMETER = re.compile(r"(?i)([?&](?=[^=&?]*?(?:password|token|secret))[^=&?]*=)[^&#]*")


class Kind(ABC):
    """Reads and checks one value."""

    @property
    @abstractmethod
    def expects(self) -> str:
        """What a good value is, to follow the word "expected"."""

    @abstractmethod
    def read(self, value: Any) -> Any:
        """The value from text or from JSON; ValueError when it is not as expected."""

    def show(self, value: Any) -> str:
        """The value as a person may see it."""
        return repr(value)

    def secret(self, value: Any) -> str:
        """The secret part of the value; empty if there is none."""
        return ""


@dataclass(frozen=True, slots=True)
class Integer(Kind):
    """A whole number within a range, both ends included."""

    least: int
    most: int

    @property
    def expects(self) -> str:
        return f"a whole number from {self.least} to {self.most}"

    def read(self, value: Any) -> int:
        if isinstance(value, str):
            if not re.fullmatch(r"\s*[+-]?[0-9]+\s*", value):  # int() would also take `1_000`
                raise ValueError
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int) or not self.least <= value <= self.most:
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Text(Kind):
    """Any text on one line."""

    required: bool = False

    @property
    def expects(self) -> str:
        return "a text that is not empty" if self.required else "a text"

    def read(self, value: Any) -> str:
        if (
            not isinstance(value, str)
            or "\n" in value
            or "\0" in value
            or (self.required and not value.strip())
        ):
            raise ValueError
        return value


@dataclass(frozen=True, slots=True)
class Secret(Kind):
    """A text that is never shown. A line's end behind it, as files of secrets have, is no part of it.

    `ascii`: it goes into a header of HTTP, which takes nothing else.
    """

    ascii: bool = False

    @property
    def expects(self) -> str:
        return "a text of printable ASCII characters (never shown)" if self.ascii else "a text (never shown)"

    def read(self, value: Any) -> str:
        if not isinstance(value, str):
            raise ValueError
        text = value.rstrip("\r\n")
        if self.ascii and not (text.isascii() and text.isprintable()):
            raise ValueError
        return text.strip() if self.ascii else text

    def show(self, value: Any) -> str:
        return repr("") if value == "" else MASK

    def secret(self, value: Any) -> str:
        return str(value)


_FILES = (".db", ".sqlite", ".sqlite3")


def file_url(path: str) -> str:
    """The address of the store in an SQLite file."""
    return f"sqlite:///{quote(path)}"


@dataclass(frozen=True, slots=True)
class Url(Kind):
    """An address of one of several schemes; a password in it is never shown.

    `is_store`: the path of an SQLite file is one, too.
    """

    schemes: tuple[str, ...]
    is_store: bool = False

    @property
    def expects(self) -> str:
        listed = _listed([f"{scheme}://" for scheme in self.schemes])
        address = f"an address that begins with {listed}, without spaces (write %20)"
        return f"{address}, or a path that ends in {_listed(list(_FILES))}" if self.is_store else address

    def read(self, value: Any) -> str:
        if self.is_store and isinstance(value, str) and "://" not in value and value.endswith(_FILES):
            return file_url(value)
        if not isinstance(value, str) or re.search(r"\s", value):
            raise ValueError
        scheme, separator, _ = value.partition("://")
        if not separator or scheme.lower() not in self.schemes:
            raise ValueError
        return value

    def show(self, value: Any) -> str:
        return repr(mask_url(value)) if isinstance(value, str) else repr(value)

    def secret(self, value: Any) -> str:
        """The password, unless it stands elsewhere in the address too, as in `postgres:postgres@`: no secret then."""
        found = _USER_PASSWORD.search(value)
        password = found[0].partition(":")[2][:-1] if found else ""
        return password if password and value.count(password) == 1 else ""


@dataclass(frozen=True, slots=True)
class Choice(Kind):
    """One of a few words, or else a value of another kind."""

    words: tuple[str, ...]
    otherwise: Kind | None = None
    upper: bool = False

    @property
    def expects(self) -> str:
        words = [word or "an empty text" for word in self.words]
        return _listed([*words, self.otherwise.expects] if self.otherwise else words)

    def read(self, value: Any) -> Any:
        word = value.upper() if self.upper and isinstance(value, str) else value
        if word in self.words:
            return word
        if self.otherwise is None:
            raise ValueError
        return self.otherwise.read(value)

    def show(self, value: Any) -> str:
        return self.otherwise.show(value) if self.otherwise else repr(value)

    def secret(self, value: Any) -> str:
        return self.otherwise.secret(value) if self.otherwise else ""


@dataclass(frozen=True, slots=True)
class Pairs(Kind):
    """Names with a value each: an object in the file, JSON in a variable. Read as pairs, for settings are frozen."""

    about: str

    @property
    def expects(self) -> str:
        return f"a JSON object: {self.about}"

    def read(self, value: Any) -> tuple[tuple[str, Any], ...]:
        try:
            found = msgspec.json.decode(value) if isinstance(value, str) else dict(value)
        except msgspec.DecodeError as error:
            raise ValueError from error
        if not isinstance(found, dict) or not all(isinstance(name, str) and name for name in found):
            raise ValueError
        return tuple(found.items())

    def show(self, value: Any) -> str:
        return repr([name for name, _ in value]) if isinstance(value, tuple) else MASK


def mask_url(url: str) -> str:
    """The address without what must stay secret: the password or token before the host, and any in the query."""
    url = _USER_PASSWORD.sub(rf"\1:{MASK}@", url)
    url = _LONE_TOKEN.sub(rf"\1{MASK}@", url)
    return _SECRET_PARAMETER.sub(rf"\1{MASK}", url)


def mask_urls(text: str) -> str:
    """A text without the secrets of the addresses in it."""
    if "://" not in text:
        return text
    return _WORD.sub(lambda found: mask_url(found[0]) if "://" in found[0] else found[0], text)


def _listed(words: list[str]) -> str:
    return f"{', '.join(words[:-1])} or {words[-1]}" if len(words) > 1 else words[0]


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Setting:
    """One row of the table."""

    name: str
    variable: str
    default: Any
    kind: Kind
    doc: str
    section: str

    @property
    def key(self) -> str:
        """Where a configuration file has it: `lease_ms`, or `mongodb.url` for one of a section."""
        return f"{self.section}.{self.name.removeprefix(self.section + '_')}" if self.section else self.name

    def checked(self, value: Any, source: str) -> Any:
        """The value as its kind; SettingError names the source and what it expects."""
        try:
            return self.kind.read(value)
        except (ValueError, TypeError):
            # The cause is dropped on purpose: its text would quote the value, and the value may be a secret.
            text = f"{source} is {self.kind.show(value)}; expected {self.kind.expects}"
            raise SettingError(text) from None


def setting(variable: str, default: T, kind: Kind, doc: str, section: str = "") -> T:
    """A field of the table; typed as its value, which is what dataclasses make of it."""
    row = {"variable": variable, "kind": kind, "doc": doc, "section": section}
    field: T = dataclasses.field(default=default, metadata=row)
    return field


def rows_of(table: type[Any]) -> tuple[Setting, ...]:
    """The rows of a table."""
    return tuple(
        Setting(name=field.name, default=field.default, **field.metadata)
        for field in dataclasses.fields(table)
    )


def read_variables(rows: Iterable[Setting], environ: Mapping[str, str], where: str = "") -> dict[str, Any]:
    """The values that variables give, by name; an empty variable counts as unset."""
    return {
        row.name: row.checked(text, f"{where}{row.variable}")
        for row in rows
        if (text := environ.get(row.variable, "")) != ""
    }
