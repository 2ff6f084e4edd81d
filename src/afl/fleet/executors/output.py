"""Bytes that a process writes -> lines, and lines -> JSON. Pure: nothing is read here."""

from __future__ import annotations

import msgspec

LONGEST_LINE = 64 * 1024
# No program writes it into a line of text, and JSON leaves it as it is: so it can stand for the end of a line while
# many lines are encoded as one. The code that meets it all the same takes the long way.
_STAND_IN = "\x7f"
_encode = msgspec.json.Encoder().encode


class LineCutter:
    """One stream: what comes out are whole lines, each with a newline at its end.

    A line that does not end is cut whenever it has reached `LONGEST_LINE`, between two characters, so that no line
    needs memory without bound.
    """

    __slots__ = ("_rest",)

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> bytes:
        """The lines that are whole now."""
        whole, newline, rest = data.rpartition(b"\n")
        lines = b""
        if newline:
            lines, self._rest = self._rest + whole + newline, rest
        else:
            self._rest += data
        while len(self._rest) > LONGEST_LINE:
            end = _boundary(self._rest, LONGEST_LINE)
            lines += self._rest[:end] + b"\n"
            self._rest = self._rest[end:]
        return lines

    def finish(self) -> bytes:
        """The last line, which had no newline; nothing when the stream ended with one."""
        rest, self._rest = self._rest, b""
        return rest + b"\n" if rest else b""


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
