"""Bytes that a process writes -> lines, and lines -> JSON. Pure: nothing is read here."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import msgspec

LONGEST_LINE = 64 * 1024
# No program writes it into a line of text, and JSON leaves it as it is: so it can stand for the end of a line while
# many lines are encoded as one. The code that meets it all the same takes the long way.
_STAND_IN = "\x7f"
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Block:
    """Lines, each with a newline at its end; or one that goes on with the last line of the block before."""

    lines: bytes
    continues: bool = False


class LineCutter:
    """One stream: what comes out are whole lines.

    A line that does not end is cut whenever it has reached `LONGEST_LINE`, between two characters, so that no line
    needs memory without bound. What follows of it says that it continues.
    """

    __slots__ = ("_is_cut", "_rest")

    def __init__(self) -> None:
        self._rest = b""
        self._is_cut = False  # the beginning of the rest is out already

    def feed(self, data: bytes) -> list[Block]:
        """The lines that are whole now."""
        blocks: list[Block] = []
        whole, newline, rest = data.rpartition(b"\n")
        if newline:
            blocks += self._ended(self._rest + whole + newline)
            self._rest = rest
        else:
            self._rest += data
        while len(self._rest) > LONGEST_LINE:
            end = _boundary(self._rest, LONGEST_LINE)
            blocks.append(Block(self._rest[:end] + b"\n", self._is_cut))
            self._rest, self._is_cut = self._rest[end:], True
        return blocks

    def finish(self) -> list[Block]:
        """The last line, which had no newline; nothing when the stream ended with one."""
        rest, self._rest = self._rest, b""
        return list(self._ended(rest + b"\n")) if rest else []

    def _ended(self, lines: bytes) -> Iterable[Block]:
        if self._is_cut:
            self._is_cut = False
            first, newline, lines = lines.partition(b"\n")
            yield Block(first + newline, continues=True)
        if lines:
            yield Block(lines)


def json_lines(lines: bytes, mark: str) -> tuple[int, bytes]:
    """How many lines there are, and a JSON array of them, each behind the mark.

    What is not UTF-8 shows as replacement characters. A hundred thousand lines take a few passes over their text, and
    no Python object each.
    """
    text = lines.decode("utf-8", "replace")
    if "\r" in text:
        text = text.replace("\r\n", "\n")
    count, text = text.count("\n"), text[:-1]
    if _STAND_IN in text:
        return count, _encode([mark + line for line in text.split("\n")])
    inner = _encode(text.replace("\n", _STAND_IN))[1:-1]
    start = _encode(mark)[1:-1]
    return count, b'["%b%b"]' % (start, inner.replace(_STAND_IN.encode(), b'","' + start))


def _boundary(data: bytes, most: int) -> int:
    """The end of the last whole character within `most` bytes; a character has at most three bytes more."""
    end = most
    while end > most - 3 and data[end] & 0xC0 == 0x80:
        end -= 1
    return end
