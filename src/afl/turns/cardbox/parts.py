"""Parts of a card: text and files in their order, as the content of a card has them.

    {"type": "text", "text": "..."}
    {"type": "file", "media_type": "image/png", "name": "a.png", "size": 9, "sha256": "...", "data": "base64"}
    {"type": "url", "kind": "image", "url": "https://..."}

A file without `data` is in the blob store, under its `sha256`.
"""

from __future__ import annotations

import binascii
import re
from base64 import b64decode, b64encode
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any

from afl.kernel.errors import InputError
from afl.models.content import Content, File, FileRef, FileUrl, checked_media_type
from afl.turns.errors import CardError

PARTS = "parts"  # in the content of a card
Part = str | Content
_SHA256 = re.compile(r"[0-9a-f]{64}")


def stored_part(part: Part, *, inline: bool = True) -> dict[str, Any]:
    """A part as a card has it; the bytes of a file that is not `inline` are stored before the card is."""
    match part:
        case str():
            return {"type": "text", "text": part}
        case FileUrl(url, kind, media_type):
            about = {"type": "url", "kind": kind, "url": url}
            return {**about, "media_type": media_type} if media_type else about
        case FileRef(digest, size, media_type, name):
            return _file(digest, size, media_type, name)
        case File(data, media_type, name):
            about = _file(digest_of(data), len(data), media_type, name)
            return {**about, "data": b64encode(data).decode()} if inline else about


def part_of(stored: Mapping[str, Any]) -> Part:
    """A part of a card that was checked when it was saved."""
    if stored["type"] == "text":
        return str(stored["text"])
    if stored["type"] == "url":
        return FileUrl(stored["url"], stored["kind"], stored.get("media_type", ""))
    if "data" in stored:
        return File(b64decode(stored["data"]), stored["media_type"], stored["name"])
    return FileRef(stored["sha256"], stored["size"], stored["media_type"], stored["name"])


def parts_of(content: Mapping[str, Any]) -> list[Part]:
    """The parts of a card's content; none if it is text alone."""
    return [part_of(each) for each in content.get(PARTS) or ()]


def files_of(content: Mapping[str, Any]) -> list[Content]:
    return [part for part in parts_of(content) if not isinstance(part, str)]


def with_parts(content: Mapping[str, Any], parts: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The content of a card with its parts."""
    return {**content, PARTS: [dict(each) for each in parts]} if parts else dict(content)


def without_data(content: Mapping[str, Any]) -> Mapping[str, Any]:
    """The content of a card without the bytes of its files."""
    if PARTS not in content:
        return content
    return {
        **content,
        PARTS: [{name: value for name, value in each.items() if name != "data"} for each in content[PARTS]],
    }


def words_of(parts: Iterable[Part]) -> str:
    """The text among parts."""
    return "\n\n".join(part for part in parts if isinstance(part, str))


def digest_of(data: bytes) -> str:
    """The name of a blob: the SHA-256 of its bytes."""
    return sha256(data).hexdigest()


def is_digest(name: str) -> bool:
    return _SHA256.fullmatch(name) is not None


def decoded(data: str, what: str) -> bytes:
    """Bytes of base64; InputError if it is none."""
    try:
        return b64decode(data, validate=True)
    except (binascii.Error, ValueError) as error:
        raise InputError(f"{what}: data is no base64: {error}") from error


def check_parts(content: Mapping[str, Any], where: str) -> None:
    """CardError if a card has parts that nobody could read."""
    parts = content.get(PARTS, ())
    if not isinstance(parts, Sequence) or isinstance(parts, str):
        raise CardError(f"{where}: content.parts must be a list")
    for number, part in enumerate(parts):
        try:
            _check(part)
        except (InputError, KeyError, TypeError, ValueError) as error:
            raise CardError(f"{where}: content.parts[{number}] is no part of a card: {error}") from error


def _check(part: Any) -> None:
    kind = part["type"]
    if kind == "text":
        if not isinstance(part["text"], str):
            raise TypeError("its text must be text")
    elif kind == "url":
        part_of(part)
    elif kind == "file":
        _check_file(part)
    else:
        raise ValueError(f"type is {kind!r}; expected text, file or url")


def _check_file(part: Mapping[str, Any]) -> None:
    if not isinstance(part["name"], str) or checked_media_type(part["media_type"]) != part["media_type"]:
        raise ValueError("its name and media_type must be text")
    if not isinstance(part["size"], int) or part["size"] < 0 or not is_digest(part["sha256"]):
        raise ValueError("it needs its size, and its sha256 in hexadecimal")
    if "data" in part:
        data = decoded(part["data"], "a file")
        if len(data) != part["size"] or digest_of(data) != part["sha256"]:
            raise ValueError("its data has another size or another sha256")


def _file(digest: str, size: int, media_type: str, name: str) -> dict[str, Any]:
    return {"type": "file", "media_type": media_type, "name": name, "size": size, "sha256": digest}
