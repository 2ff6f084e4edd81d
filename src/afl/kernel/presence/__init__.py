"""Presence: each process holds a lock that only its end releases."""

from afl.kernel.presence.base import Life, LonePresence, Presence, Process

__all__ = ["Life", "LonePresence", "Presence", "Process"]
