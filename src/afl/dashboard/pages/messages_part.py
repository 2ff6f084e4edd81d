"""What messages are, for pages that cannot reach the Redis server."""

from __future__ import annotations

from afl.dashboard.pages.parts import Part

MESSAGES = Part(
    "messages",
    "Messages",
    "Agents send each other messages over a Redis server: queues with priorities, dead letters, a registry of who "
    "lives, and circuit breakers that all processes share.",
    (
        ("Start a Redis server on this machine", "afl up --redis"),
        ("Then name it, as `afl up` printed it", "AFL_REDIS=redis://127.0.0.1:PORT/0 afl dashboard"),
    ),
)
