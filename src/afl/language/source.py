"""Sources: origins with stable ids, entries, the registry from an id back to its origin, and the loader."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

from afl.kernel.errors import AgentFlowError


class SourceOrigin(Protocol):
    """Anything that can name its source."""

    def to_source_id(self) -> str:
        """A text that is the same for the same source."""
        ...


@dataclass(frozen=True)
class FileOrigin:
    """A file, or `<stdin>`."""

    path: str

    def to_source_id(self) -> str:
        return f"file://{self.path}"


@dataclass(frozen=True)
class MongoDBOrigin:
    """A document in a MongoDB collection."""

    collection_id: str
    display_name: str

    def to_source_id(self) -> str:
        return f"mongodb://{self.collection_id}/{self.display_name}"


@dataclass(frozen=True)
class MavenOrigin:
    """An artifact of a Maven repository."""

    group_id: str
    artifact_id: str
    version: str
    classifier: str = ""

    def to_source_id(self) -> str:
        base = f"maven://{self.group_id}/{self.artifact_id}/{self.version}"
        return f"{base}/{self.classifier}" if self.classifier else base


@dataclass
class SourceEntry:
    """One source text and its origin."""

    text: str
    origin: SourceOrigin
    is_library: bool = False

    @property
    def source_id(self) -> str:
        return self.origin.to_source_id()


@dataclass
class CompilerInput:
    """The sources of one compilation."""

    primary_sources: list[SourceEntry] = field(default_factory=list)
    library_sources: list[SourceEntry] = field(default_factory=list)

    @property
    def all_sources(self) -> list[SourceEntry]:
        """Primary sources first."""
        return self.primary_sources + self.library_sources


@dataclass
class SourceRegistry:
    """Origins by source id."""

    sources: dict[str, SourceOrigin] = field(default_factory=dict)

    def register(self, source_id: str, origin: SourceOrigin) -> None:
        self.sources[source_id] = origin

    def get(self, source_id: str) -> SourceOrigin | None:
        return self.sources.get(source_id)

    def register_entry(self, entry: SourceEntry) -> str:
        self.register(entry.source_id, entry.origin)
        return entry.source_id

    @classmethod
    def from_compiler_input(cls, compiler_input: CompilerInput) -> SourceRegistry:
        registry = cls()
        for entry in compiler_input.all_sources:
            registry.register_entry(entry)
        return registry


class LoaderNotImplemented(
    AgentFlowError, NotImplementedError, hint="Load the source yourself and pass its text."
):
    """Sources cannot be read from there yet."""


class SourceLoader:
    """One method per kind of origin."""

    @staticmethod
    def load_file(path: str | Path, is_library: bool = False) -> SourceEntry:
        """A UTF-8 file, with or without a byte order mark; FileNotFoundError when there is none."""
        return SourceEntry(Path(path).read_text(encoding="utf-8-sig"), FileOrigin(str(path)), is_library)

    @staticmethod
    def load_mongodb(collection_id: str, display_name: str, is_library: bool = True) -> SourceEntry:
        raise LoaderNotImplemented(
            f"MongoDB loader not yet implemented: cannot read '{display_name}' of '{collection_id}'. "
            "Export it to a file and load that"
        )

    @staticmethod
    def load_maven(
        group_id: str, artifact_id: str, version: str, classifier: str = "", is_library: bool = True
    ) -> SourceEntry:
        artifact = ":".join(part for part in (group_id, artifact_id, version, classifier) if part)
        raise LoaderNotImplemented(
            f"Maven loader not yet implemented: cannot read '{artifact}'. Unpack it to a file and load that"
        )
