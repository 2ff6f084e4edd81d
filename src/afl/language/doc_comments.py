"""Doc comments: `/** text, @param name text, @return name text */`."""

from __future__ import annotations

import re

from afl.language.ast.declarations import DocComment, DocEntry

_TAG = re.compile(r"(?:^|(?<=\s))@(param|returns?)\s+")


def parse_doc(comment: str) -> DocComment:
    """The description and tags of a comment; a tag's text runs on to the next tag."""
    description, *tagged = _TAG.split(_unwrapped(comment))
    doc = DocComment(description.strip())
    for tag, text in zip(tagged[::2], tagged[1::2], strict=True):
        name, _, rest = text.partition(" ")
        entry = DocEntry(name.strip(), " ".join(rest.split()))
        (doc.params if tag == "param" else doc.returns).append(entry)
    return doc


def _unwrapped(comment: str) -> str:
    """The text without the comment marks and the star that leads each line."""
    inner = comment.removeprefix("/**").removesuffix("*/")
    return "\n".join(line.strip().removeprefix("*").strip() for line in inner.split("\n"))
