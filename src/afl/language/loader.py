"""Reads sources from where they live."""

from __future__ import annotations

from pathlib import Path

from afl.kernel.errors import AgentFlowError
from afl.language.source import FileOrigin, SourceEntry


class LoaderNotImplemented(
    AgentFlowError, NotImplementedError, hint="Load the source yourself and pass its text."
):
    """Sources cannot be read from there yet."""


class SourceLoader:
    """One method per kind of origin."""

    @staticmethod
    def load_file(path: str | Path, is_library: bool = False) -> SourceEntry:
        """A UTF-8 file; FileNotFoundError when there is none."""
        return SourceEntry(Path(path).read_text(encoding="utf-8"), FileOrigin(str(path)), is_library)

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
