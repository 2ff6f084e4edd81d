"""Sources under their public name; see `afl.language.source`."""

from afl.language.source import (
    CompilerInput,
    FileOrigin,
    MavenOrigin,
    MongoDBOrigin,
    SourceEntry,
    SourceOrigin,
    SourceRegistry,
)

__all__ = [
    "CompilerInput",
    "FileOrigin",
    "MavenOrigin",
    "MongoDBOrigin",
    "SourceEntry",
    "SourceOrigin",
    "SourceRegistry",
]
