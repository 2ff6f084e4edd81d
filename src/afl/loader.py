"""The source loader under its public name; see `afl.language.source`."""

from afl.language.source import SourceLoader

__all__ = ["SourceLoader"]
