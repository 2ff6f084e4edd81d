"""The clocks of clients do not matter: the server's time alone orders, delays and ends."""

from __future__ import annotations

import time
from datetime import datetime

import pytest
from support.post_office import ANN, BOB, Post, drained, letter, must_receive, tell


@pytest.mark.parametrize("wrong_by", [-86_400, 86_400])
def test_a_clock_that_is_a_day_wrong_changes_nothing(redis_url: str, wrong_by: int) -> None:
    really, really_ns = time.time, time.time_ns

    async def story(post: Post) -> None:
        right, wrong = post.coordinator(), post.coordinator()
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(time, "time", lambda: really() + wrong_by)
            patch.setattr(time, "time_ns", lambda: really_ns() + wrong_by * 1_000_000_000)
            await wrong.send_message(ANN, BOB, letter(1))
            held = await must_receive(wrong)
            ends = datetime.fromisoformat(held.visibility_deadline or "")
            assert await wrong.release(BOB, [held.token]) == [True]
        assert 0 < ends.timestamp() - really() < 61, "the deadline is the server's"
        await right.send_message(ANN, BOB, letter(2))
        assert await drained(right) == ["letter-1", "letter-2"]

    tell(story, redis_url)
