"""The agents of the newsroom: plain functions. What they take and give back is what newsroom.afl declares.

They only pretend to be slow; a real one would call a model, a search engine or a colleague.
"""

import time
from typing import Any

from afl import handler

WIRES = {
    "science": [
        (
            "Whales change their song",
            "Whales near Tonga took over a new song. It came from the west within two years.",
        ),
        (
            "Ice core reaches far back",
            "An ice core is 1.2 million years old. Air bubbles in it tell of old climates.",
        ),
        ("Moon made of cheese", "The moon is made of cheese, says a cousin. No sample was shown to anybody."),
        ("Bees can count", "Bees were trained to count to four. They found sugar behind the fourth mark."),
        ("Battery out of salt", "A battery works with table salt. It is heavy, cheap, and does not burn."),
        (
            "Old star, new planet",
            "A planet was seen at a very old star. It may be older than most of the galaxy.",
        ),
    ],
}


@handler("newsroom.FetchWires")
def fetch_wires(topic: str) -> dict[str, Any]:
    time.sleep(0.3)
    return {"wires": [{"headline": headline, "text": text} for headline, text in WIRES.get(topic, [])]}


@handler("newsroom.Summarize")
def summarize(text: str) -> dict[str, Any]:
    time.sleep(0.4 + len(text) % 5 / 10)
    return {"summary": text.partition(". ")[0], "words": len(text.split())}


@handler("newsroom.CheckFacts")
def check_facts(text: str) -> dict[str, Any]:
    time.sleep(0.6 + len(text) % 7 / 10)
    if "cheese" in text:
        raise ValueError("no second source has ever said so")
    return {"score": 60 if "may" in text else 90}


@handler("newsroom.Print")
def print_page(title: str, stories: list[str]) -> dict[str, list[str]]:
    time.sleep(0.5)
    return {"page": [title, *stories]}
