"""Files in the results of MCP tools: images, audio, and embedded resources. A server may send anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from afl.kernel.errors import InputError
from afl.models.content import File, file_name
from afl.turns.cardbox.parts import decoded

MOST_FILES = 20


def file_in(block: Any) -> File | None:
    """The file that a block of a result is; None if it is none, or cannot be read."""
    try:
        if block.type in ("image", "audio"):
            return File(decoded(block.data, block.type), block.mime_type)
        blob = getattr(getattr(block, "resource", None), "blob", None)
        if isinstance(blob, str):
            kind = block.resource.mime_type or "application/octet-stream"
            return File(decoded(blob, "a resource"), kind, file_name(str(block.resource.uri)))
    except InputError:
        return None
    return None


def split_content(blocks: Iterable[Any]) -> tuple[list[Any], list[File]]:
    """The blocks that are told in words, and the files among the others."""
    words: list[Any] = []
    files: list[File] = []
    for block in blocks:
        file = file_in(block) if len(files) < MOST_FILES else None
        if file is None:
            words.append(block)
        else:
            files.append(file)
    return words, files
