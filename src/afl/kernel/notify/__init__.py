"""The doorbell: rings that tell listeners, in this process and others, to look into the store."""

from afl.kernel.notify.notifier import Doorbell, Rings
from afl.kernel.notify.opening import open_doorbell, separate_doorbell
from afl.kernel.notify.subscription import Ear

__all__ = ["Doorbell", "Ear", "Rings", "open_doorbell", "separate_doorbell"]
