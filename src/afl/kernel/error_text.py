"""The text of an error as it may leave: stored, logged, or in an answer."""

from __future__ import annotations

from afl.kernel.setting_kinds import mask_urls

MOST_CHARACTERS = 4_096


def error_text(error: BaseException | str) -> str:
    """At most 4 KiB of it, without the secrets of the addresses in it.

    It is cut first: it may quote what came from outside, whatever the size of that.
    """
    text = str(error)
    if len(text) <= MOST_CHARACTERS:
        return mask_urls(text)
    kept = _without_cut_address(text[:MOST_CHARACTERS])
    return f"{mask_urls(kept)}... ({len(text) - len(kept):,} more characters)"


def _without_cut_address(text: str) -> str:
    """An address at the end of what was cut may be half a password, in which nothing says that it is one."""
    before, mark, address = text.rpartition("://")
    is_whole = not mark or any(character.isspace() for character in address)
    return text if is_whole else before + mark
