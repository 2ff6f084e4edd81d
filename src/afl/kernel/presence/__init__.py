"""Who lives: each process holds a lock that only its death releases."""

from afl.kernel.presence.base import Life, LonePresence, Presence, Process

__all__ = ["Life", "LonePresence", "Presence", "Process"]
