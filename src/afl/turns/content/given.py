"""What people and tools give as content: text, files, and the types that other libraries have for them."""

from __future__ import annotations

from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from afl.kernel.errors import InputError
from afl.models.content import File, FileRef, FileUrl
from afl.turns.cardbox.parts import Part

_URLS = {"image-url": "image", "audio-url": "audio", "video-url": "video", "document-url": "document"}
_EXPECTED = "expected text, a File, a Path, an image of Pillow, or a BinaryContent or URL of Pydantic AI"
Told = str | Sequence[Any]  # what an agent is told: text, or text and files


def parts_given(told: Told) -> list[Part]:
    """The parts of what an agent is told; InputError names one that is none."""
    if isinstance(told, str):
        return [told]
    single = as_part(told)
    if single is not None:
        return [single]
    if not isinstance(told, Sequence) or isinstance(told, (bytes, bytearray)) or not told:
        raise InputError(f"an agent was told a {type(told).__name__}; {_EXPECTED}, or a list of these")
    parts: list[Part] = []
    for number, each in enumerate(told):
        part = each if isinstance(each, str) else as_part(each)
        if part is None:
            raise InputError(
                f"part {number} of what an agent is told is a {type(each).__name__}; {_EXPECTED}"
            )
        parts.append(part)
    return parts


def files_given(given: Sequence[Any]) -> list[File] | None:
    """Files for a server, with their bytes; None if there are none."""
    found: list[File] = []
    for number, each in enumerate(given):
        part = as_part(each)
        if not isinstance(part, File):
            raise InputError(
                f"file {number} is a {type(each).__name__}; expected a File, a Path, or a BinaryContent"
            )
        found.append(part)
    return found or None


def parts_answered(answer: Any) -> list[Part] | None:
    """The parts of what a tool returned: a file, or a list of text and files; None if it is other data."""
    single = as_part(answer)
    if single is not None:
        return [single]
    if not isinstance(answer, (list, tuple)):
        return None
    parts = [each if isinstance(each, str) else as_part(each) for each in answer]
    found = [part for part in parts if part is not None]
    has_file = any(not isinstance(part, str) for part in found)
    return found if has_file and len(found) == len(parts) else None


def as_part(value: Any) -> Part | None:
    """A file as we have it; None for what is no file."""
    if isinstance(value, (File, FileUrl, FileRef)):
        return value
    if isinstance(value, Path):
        return File.of(value)
    kind = getattr(value, "kind", None)
    if kind == "binary" and isinstance(getattr(value, "data", None), bytes):
        return File(value.data, value.media_type)
    if isinstance(kind, str) and kind in _URLS:
        return FileUrl(value.url, _URLS[kind], _media_type(value))
    return _pillow(value)


def _media_type(value: Any) -> str:
    """The media type of a URL of Pydantic AI, which may know none."""
    try:
        return str(value.media_type or "")
    except ValueError:
        return ""


def _pillow(value: Any) -> File | None:
    """An image of Pillow, in the format it was read from; PNG if it was made."""
    if not (callable(getattr(value, "save", None)) and hasattr(value, "mode") and hasattr(value, "getpixel")):
        return None
    written, form = BytesIO(), str(getattr(value, "format", None) or "PNG")
    value.save(written, format=form)
    return File(written.getvalue(), f"image/{form.lower()}", Path(getattr(value, "filename", "") or "").name)
