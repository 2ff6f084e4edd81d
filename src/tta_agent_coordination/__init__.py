"""The import name of seed 004: everything is in `afl.coordination`."""

from afl import __version__ as __version__
from afl.coordination import *  # noqa: F403
from afl.coordination import __all__ as __all__
