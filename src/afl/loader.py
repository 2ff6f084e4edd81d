"""The source loader under its public name; see `afl.language.loader`."""

from afl.language.loader import SourceLoader

__all__ = ["SourceLoader"]
