"""Notifications: they tell subscribers, in this process and in others, to look into the store."""

from afl.kernel.notify.notifier import Notifications, Notifier
from afl.kernel.notify.opening import open_notifier, separate_notifier
from afl.kernel.notify.subscription import Subscription

__all__ = ["Notifications", "Notifier", "Subscription", "open_notifier", "separate_notifier"]
