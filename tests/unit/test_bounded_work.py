"""Text from outside costs work in proportion to its length, whatever it is made of."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from afl.kernel.error_text import error_text
from afl.kernel.setting_kinds import mask_urls
from tests.support.work import assert_bounded


def repeated(piece: str, before: str = "", after: str = "") -> Callable[[int], str]:
    """A text of the piece, as long as it is asked for."""
    return lambda size: before + piece * (size // len(piece)) + after


@pytest.mark.parametrize(
    "text",
    [
        repeated("a"),
        repeated("://"),
        repeated("a://"),
        repeated("a:", "a://"),
        repeated("a ://"),
        repeated("token", "a://h?"),
        repeated("?token", "a://h"),
        repeated("&", "a://h?"),
        repeated("nats://"),
        repeated("tls://x:"),
        repeated("a", "nats://"),
    ],
)
def test_masks(text: Callable[[int], str]) -> None:
    assert_bounded(mask_urls, text)
    assert_bounded(error_text, text)
