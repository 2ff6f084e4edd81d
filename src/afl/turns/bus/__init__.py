"""The bus: how workers are woken, tools commanded and ends of turns told."""

from afl.turns.bus.base import Bus, Callback, Published, Subscription, WakeupSubscription
from afl.turns.bus.local import LocalBus
from afl.turns.bus.opening import open_bus

__all__ = ["Bus", "Callback", "LocalBus", "Published", "Subscription", "WakeupSubscription", "open_bus"]
