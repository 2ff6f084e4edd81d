"""The assistant, its tools, and two experts it may set to work. What they think with is in script.py."""

import os
import time
from pathlib import Path

from script import model

from afl.turns import agent, current_call

__all__ = ["assistant", "cook", "curator", "model"]


def calendar(day: str) -> str:
    """What is in the calendar on a day."""
    return "nothing before 10, dinner with Grace at 8"


def weather(city: str) -> str:
    """The weather in a city."""
    return "19 degrees, sun"


def book(place: str, guests: int) -> str:
    """Book a table.

    Args:
        place: The restaurant.
        guests: How many come.
    """
    bookings = Path(os.environ["BOOKINGS"])
    key = current_call().idempotency_key
    known = bookings.read_text().splitlines() if bookings.exists() else []
    if any(line.startswith(key) for line in known):
        return f"a table for {guests} at {place} (it was booked before)"
    with bookings.open("a") as lines:
        lines.write(f"{key} {place}\n")
    time.sleep(60)  # the restaurant keeps us waiting
    return f"a table for {guests} at {place}"


cook = agent("cook", "You know where to eat. One sentence.")
curator = agent("curator", "You know what to see. One sentence.")
assistant = agent(
    "assistant",
    "You plan days. Look at calendar and weather, ask the experts side by side, then book.",
    tools=[calendar, weather, book, "fork_join"],
    delegation_policy={"target_profiles": ["cook", "curator"]},
)
