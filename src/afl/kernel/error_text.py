"""The text of an error as it may leave: stored, logged, or in an answer."""

from __future__ import annotations

from afl.kernel.redaction import beginning, redacted

MOST_CHARACTERS = 4_096
_SLACK = 64  # for the words that tell of a cut
_LONGEST = 1_000_000  # to look for secrets in


def text_of(error: BaseException) -> str:
    """What an error says, as text that can be stored; the name of its class if there is none, or it cannot be had."""
    try:
        text = str(error) or type(error).__name__
    except Exception:  # the class is somebody else's
        text = type(error).__name__
    return text.encode(
        "utf-8", "backslashreplace"
    ).decode()  # Python has halves of characters in names of files


def error_text(error: BaseException | str) -> str:
    """About 4 KiB of it at most, without secrets. A text that has been here before stays as it is.

    It is cut first: it may quote what came from outside, whatever the size of that.
    """
    text = error if isinstance(error, str) else text_of(error)
    if len(text) <= MOST_CHARACTERS + _SLACK:
        return redacted(text)
    kept = _without_cut_address(beginning(text, MOST_CHARACTERS))
    return f"{redacted(kept)}... ({len(text) - len(kept):,} more characters)"


def excerpt(text: str, first: int, last: int) -> str:
    """A text without secrets; of a longer one so many characters of its beginning and its end."""
    if len(text) > _LONGEST:
        text = _without_cut_address(beginning(text, _LONGEST))
    masked = redacted(text)
    left_out = len(masked) - first - last
    if left_out <= _SLACK:
        return masked
    return f"{masked[:first]}\n... ({left_out:,} characters left out)\n{masked[-last:]}"


def _without_cut_address(text: str) -> str:
    """An address at the end of what was cut may be half a password, in which nothing says that it is one."""
    before, mark, address = text.rpartition("://")
    is_whole = not mark or any(character.isspace() for character in address)
    return text if is_whole else before + mark
