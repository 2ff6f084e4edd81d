"""The doorbell: rings that tell listeners, in this process and others, to look into the store."""

from afl.kernel.doorbell.bell import Doorbell, Rings
from afl.kernel.doorbell.ear import Ear
from afl.kernel.doorbell.opening import open_doorbell, separate_doorbell

__all__ = ["Doorbell", "Ear", "Rings", "open_doorbell", "separate_doorbell"]
