"""Published flows: their sources, what those declare, and the workflows that can be started."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Parameter:
    name: str
    value: Any
    type_hint: str = "Any"


@dataclass
class UserDefinition:
    email: str
    name: str = ""
    avatar: str = ""


@dataclass
class Ownership:
    owner: UserDefinition | None = None
    group: str = ""


@dataclass
class Classifier:
    category: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class SourceText:
    name: str
    content: str
    language: str = "afl"


@dataclass
class InlineSource:
    content: str
    language: str = "afl"


@dataclass
class FileArtifact:
    path: str
    checksum: str = ""


@dataclass
class JarArtifact:
    group_id: str
    artifact_id: str
    version: str


@dataclass
class ResourceSource:
    name: str
    path: str


@dataclass
class TextSource:
    name: str
    content: str


@dataclass
class ScriptCode:
    name: str
    code: str
    language: str = "python"


@dataclass
class WorkflowMetaData:
    description: str = ""
    author: str = ""
    tags: list[str] = field(default_factory=list)


@dataclass
class NamespaceDefinition:
    uuid: str
    name: str
    path: str = ""


@dataclass
class FacetDefinition:
    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)
    return_type: str | None = None


@dataclass
class MixinDefinition:
    uuid: str
    name: str
    namespace_id: str
    parameters: list[Parameter] = field(default_factory=list)


@dataclass
class BlockDefinition:
    uuid: str
    name: str
    block_type: str
    statements: list[str] = field(default_factory=list)


@dataclass
class StatementDefinition:
    uuid: str
    name: str
    statement_type: str
    block_id: str | None = None
    expression: str | None = None


@dataclass
class StatementArguments:
    statement_id: str
    arguments: list[Parameter] = field(default_factory=list)


@dataclass
class StatementReferences:
    statement_id: str
    references: list[str] = field(default_factory=list)


@dataclass
class FlowIdentity:
    name: str
    path: str
    uuid: str


@dataclass
class WorkflowDefinition:
    """A workflow of a flow: what can be started."""

    uuid: str
    name: str
    namespace_id: str
    facet_id: str
    flow_id: str
    starting_step: str
    version: str
    metadata: WorkflowMetaData | None = None
    documentation: str | None = None
    date: int = 0


@dataclass
class FlowDefinition:
    """A published set of sources; `compiled_sources` holds their text."""

    uuid: str
    name: FlowIdentity
    namespaces: list[NamespaceDefinition] = field(default_factory=list)
    facets: list[FacetDefinition] = field(default_factory=list)
    workflows: list[WorkflowDefinition] = field(default_factory=list)
    mixins: list[MixinDefinition] = field(default_factory=list)
    blocks: list[BlockDefinition] = field(default_factory=list)
    statements: list[StatementDefinition] = field(default_factory=list)
    arguments: list[StatementArguments] = field(default_factory=list)
    references: list[StatementReferences] = field(default_factory=list)
    script_code: list[ScriptCode] = field(default_factory=list)
    file_artifacts: list[FileArtifact] = field(default_factory=list)
    jar_artifacts: list[JarArtifact] = field(default_factory=list)
    resources: list[ResourceSource] = field(default_factory=list)
    text_sources: list[TextSource] = field(default_factory=list)
    inline: InlineSource | None = None
    classification: Classifier | None = None
    publisher: UserDefinition | None = None
    ownership: Ownership | None = None
    compiled_sources: list[SourceText] = field(default_factory=list)
