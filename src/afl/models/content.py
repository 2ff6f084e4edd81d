"""Content of messages that is no text: images, audio, documents."""

from __future__ import annotations

import mimetypes
import re
from dataclasses import dataclass, field
from pathlib import Path

from afl.kernel.errors import InputError

URL_KINDS = ("image", "audio", "video", "document")
_TOKEN = r"[a-z0-9][a-z0-9!#$&^_.+-]{0,126}"
_MEDIA_TYPE = re.compile(rf"{_TOKEN}/{_TOKEN}")
_LONGEST_NAME = 200
_LONGEST_URL = 8_192
_IMAGE_TOKENS = 1_600


@dataclass(frozen=True, slots=True)
class File:
    """Bytes and their media type. `name` is for people, and the name of a file only: directories are cut off."""

    data: bytes = field(repr=False)
    media_type: str
    name: str = ""

    def __post_init__(self) -> None:
        object.__setattr__(self, "media_type", checked_media_type(self.media_type))
        object.__setattr__(self, "name", file_name(self.name))

    @classmethod
    def of(cls, path: str | Path, media_type: str = "") -> File:
        """A file of this machine; its media type goes by its name, if none is given."""
        where = Path(path)
        kind = media_type or mimetypes.guess_type(where.name)[0] or "application/octet-stream"
        try:
            return cls(where.read_bytes(), kind, where.name)
        except OSError as error:
            raise InputError(f"the file {where} cannot be read: {error.strerror or error}") from error

    @property
    def size(self) -> int:
        return len(self.data)


@dataclass(frozen=True, slots=True)
class FileUrl:
    """A file that the provider of the model reads by itself, or that is loaded for it. `kind` is one of URL_KINDS."""

    url: str
    kind: str = "image"
    media_type: str = ""

    def __post_init__(self) -> None:
        if self.kind not in URL_KINDS:
            raise InputError(f"the kind of a URL is {self.kind!r}; expected one of {', '.join(URL_KINDS)}")
        if not re.match(r"https?://[^\s/]", self.url) or not self.url.isprintable() or " " in self.url:
            raise InputError(f"{self.url[:80]!r} is no URL of a file; expected http:// or https://")
        if len(self.url) > _LONGEST_URL:
            raise InputError(f"the URL of a file has {len(self.url):,} characters, at most {_LONGEST_URL:,}")
        if self.media_type:
            object.__setattr__(self, "media_type", checked_media_type(self.media_type))


@dataclass(frozen=True, slots=True)
class FileRef:
    """A file whose bytes are stored under their SHA-256. They are loaded before a model is sent it."""

    sha256: str
    size: int
    media_type: str
    name: str = ""


Content = File | FileUrl | FileRef


def checked_media_type(given: str) -> str:
    """The media type in lower case and without parameters; InputError if it is none."""
    bare = given.partition(";")[0].strip(" \t").lower()
    if not _MEDIA_TYPE.fullmatch(bare):
        raise InputError(f"{given[:80]!r} is no media type; expected one such as image/png")
    return bare


def file_name(given: str) -> str:
    """The last part of a path, without characters that are not printable; empty if there is none."""
    last = re.split(r"[\\/]", given)[-1]
    shown = "".join(character for character in last if character.isprintable()).strip()
    return "" if shown in (".", "..") else shown[:_LONGEST_NAME]


def estimated_tokens(part: Content) -> int:
    """About how many tokens a model counts for a file: an image by its usual size, text by its length."""
    if isinstance(part, FileUrl):
        return _IMAGE_TOKENS
    if part.media_type.startswith("text/"):
        return part.size // 3
    return _IMAGE_TOKENS if part.media_type.startswith("image/") else max(_IMAGE_TOKENS, part.size // 100)


def described(part: Content) -> str:
    """A file on one line, for people and for models that do not get it."""
    if isinstance(part, FileUrl):
        return f"({part.kind} {part.url})"
    name = f"{part.name}, " if part.name else ""
    return f"(file {name}{part.media_type}, {part.size:,} bytes)"
