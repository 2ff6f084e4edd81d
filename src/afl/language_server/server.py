"""The Language Server Protocol over standard input and output."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from lsprotocol import types
from pygls.lsp.server import LanguageServer
from pygls.uris import from_fs_path, to_fs_path
from pygls.workspace import ServerTextPosition, ServerTextRange, TextDocument

from afl import __version__
from afl.language.ast.blocks import StepStmt
from afl.language.ast.declarations import Program
from afl.language.ast.node import ASTNode, SourceLocation
from afl.language.diagnostics import Diagnostic
from afl.language.formatter import format_source
from afl.language.names import Symbol, symbols_of
from afl.language.parser import ParseError
from afl.language_server.analysis import Analysis, analyze, walk
from afl.language_server.completion import suggest
from afl.language_server.lookup import is_within, meaning_at, place_at

MOST_FILES = 1_000
"""How many sources of a folder are looked at for the namespaces that a source uses."""

_COMPLETIONS = {
    "keyword": types.CompletionItemKind.Keyword,
    "function": types.CompletionItemKind.Function,
    "schema": types.CompletionItemKind.Struct,
    "type": types.CompletionItemKind.TypeParameter,
    "workflow": types.CompletionItemKind.Class,
    "step": types.CompletionItemKind.Variable,
    "parameter": types.CompletionItemKind.Property,
    "field": types.CompletionItemKind.Field,
}
_SYMBOLS = {
    "schema": types.SymbolKind.Struct,
    "workflow": types.SymbolKind.Class,
    "facet": types.SymbolKind.Function,
    "event facet": types.SymbolKind.Event,
}


class Server(LanguageServer):
    """All sources that are open in an editor."""

    def __init__(self) -> None:
        super().__init__("afl", __version__)
        self._parsed: dict[str, Analysis] = {}  # of each document, the last one that could be parsed

    def analysis(self, document: TextDocument) -> Analysis:
        """The document as it is now."""
        found = analyze(document.uri, document.source, partial(self._others, document))
        if found.ast is not None:
            self._parsed[document.uri] = found
        return found

    def understood(self, document: TextDocument, line: int) -> Analysis:
        """The document; if it cannot be parsed, without the line that is being written, or as it was before."""
        found = self.analysis(document)
        if found.ast is None:
            lines = [each if number != line else "\n" for number, each in enumerate(document.lines)]
            without = analyze(document.uri, "".join(lines), partial(self._others, document))
            found = without if without.ast is not None else self._parsed.get(document.uri, found)
        return found

    def check(self) -> None:
        """Tell the editor what the compiler finds in every open source: one may use what another declares."""
        for document in list(self.workspace.text_documents.values()):
            findings = [_diagnostic(each, document) for each in self.analysis(document).findings]
            self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(document.uri, findings))

    def forget(self, uri: str) -> None:
        self._parsed.pop(uri, None)
        self.text_document_publish_diagnostics(types.PublishDiagnosticsParams(uri, []))

    def _others(self, document: TextDocument) -> dict[str, str]:
        """The sources beside it and in the folders of the workspace; those that are open, as they are there."""
        opened = {uri: each.source for uri, each in self.workspace.text_documents.items()}
        texts = {uri: text for uri, text in opened.items() if uri != document.uri}
        own = to_fs_path(document.uri)
        roots = [to_fs_path(each) for each in self.workspace.folders] or (
            [os.path.dirname(own)] if own else []
        )
        for path in _sources([each for each in roots if each]):
            uri = from_fs_path(path)
            if uri is not None and uri not in opened:
                try:
                    texts[uri] = Path(path).read_text(encoding="utf-8")
                except (OSError, UnicodeDecodeError):
                    continue  # what cannot be read declares nothing
        return texts


def _sources(roots: list[str]) -> Iterator[str]:
    count = 0
    for root in roots:
        for folder, folders, files in os.walk(root):
            folders[:] = [each for each in folders if not each.startswith(".") and each != "node_modules"]
            for name in files:
                if name.endswith(".afl"):
                    yield os.path.join(folder, name)
                    count += 1
                if count >= MOST_FILES:
                    return


server = Server()


@server.feature(types.TEXT_DOCUMENT_DID_OPEN)
def opened(params: types.DidOpenTextDocumentParams) -> None:
    server.check()


@server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
def changed(params: types.DidChangeTextDocumentParams) -> None:
    server.check()


@server.feature(types.TEXT_DOCUMENT_DID_SAVE)
def saved(params: types.DidSaveTextDocumentParams) -> None:
    server.check()


@server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
def closed(params: types.DidCloseTextDocumentParams) -> None:
    server.forget(params.text_document.uri)


@server.feature(types.TEXT_DOCUMENT_FORMATTING)
def formatting(params: types.DocumentFormattingParams) -> list[types.TextEdit]:
    document = server.workspace.get_text_document(params.text_document.uri)
    try:
        text = format_source(document.source)
    except ParseError:
        return []
    end = types.Position(len(document.lines), 0)
    return [types.TextEdit(types.Range(types.Position(0, 0), end), text)] if text != document.source else []


@server.feature(types.TEXT_DOCUMENT_HOVER)
def hover(params: types.HoverParams) -> types.Hover | None:
    document, at = _at(params)
    meaning = meaning_at(server.understood(document, at.line), at.line + 1, at.character + 1)
    if meaning is None:
        return None
    return types.Hover(types.MarkupContent(types.MarkupKind.Markdown, meaning.markdown))


@server.feature(types.TEXT_DOCUMENT_DEFINITION)
def definition(params: types.DefinitionParams) -> types.Location | None:
    document, at = _at(params)
    meaning = meaning_at(server.understood(document, at.line), at.line + 1, at.character + 1)
    if meaning is None or meaning.location is None or meaning.location.source_id is None:
        return None
    target = server.workspace.get_text_document(meaning.location.source_id)
    return types.Location(target.uri, _range(meaning.location, target))


@server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions(trigger_characters=[".", "$", "("]))
def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
    document, at = _at(params)
    place = place_at(server.understood(document, at.line), at.line + 1, at.character + 1)
    before = "".join(document.lines[: at.line]) + "".join(document.lines[at.line :][:1])[: at.character]
    return [
        types.CompletionItem(
            each.name,
            kind=_COMPLETIONS.get(each.kind, types.CompletionItemKind.Function),
            detail=each.kind,
            documentation=types.MarkupContent(types.MarkupKind.Markdown, each.about) if each.about else None,
        )
        for each in suggest(place, before)
    ]


@server.feature(types.TEXT_DOCUMENT_DOCUMENT_SYMBOL)
def symbols(params: types.DocumentSymbolParams) -> list[types.DocumentSymbol]:
    document = server.workspace.get_text_document(params.text_document.uri)
    ast = server.understood(document, -1).ast
    return _outline(ast, document) if ast is not None else []


def _at(
    params: types.HoverParams | types.DefinitionParams | types.CompletionParams,
) -> tuple[TextDocument, ServerTextPosition]:
    document = server.workspace.get_text_document(params.text_document.uri)
    return document, document.position_from_client_units(params.position)


def _outline(program: Program, document: TextDocument) -> list[types.DocumentSymbol]:
    """The namespaces with their declarations, these with their steps."""
    symbols = list(symbols_of(program))
    outline = [_declaration(each, document) for each in symbols if not each.namespace]
    for block in program.namespaces:
        inner = [_declaration(each, document) for each in symbols if is_within(block, each.node)]
        outline.append(_entry(block.name, types.SymbolKind.Namespace, block, document, inner))
    return outline


def _declaration(symbol: Symbol, document: TextDocument) -> types.DocumentSymbol:
    steps = [each for each in walk(symbol.node) if isinstance(each, StepStmt)]
    inner = [_entry(each.name, types.SymbolKind.Variable, each, document) for each in steps]
    return _entry(symbol.name, _SYMBOLS[symbol.kind], symbol.node, document, inner)


def _entry(
    name: str,
    kind: types.SymbolKind,
    node: ASTNode,
    document: TextDocument,
    inner: list[types.DocumentSymbol] | None = None,
) -> types.DocumentSymbol:
    place = _range(node.location or SourceLocation(1, 1), document)
    head = types.Range(place.start, types.Position(place.start.line, place.start.character))
    return types.DocumentSymbol(name, kind, place, head, children=inner)


def _range(location: SourceLocation, document: TextDocument) -> types.Range:
    end = ServerTextPosition(
        (location.end_line or location.line) - 1, (location.end_column or location.column) - 1
    )
    start = ServerTextPosition(location.line - 1, location.column - 1)
    return document.range_to_client_units(ServerTextRange(start, end))


def _diagnostic(finding: Diagnostic, document: TextDocument) -> types.Diagnostic:
    line = finding.line or 1
    whole = len(document.lines[line - 1].rstrip("\r\n")) + 1 if line <= len(document.lines) else 1
    column = finding.column or 1
    place = SourceLocation(line, column, line, finding.end_column or max(column, whole))
    is_error = finding.severity == "error"
    return types.Diagnostic(
        _range(place, document),
        finding.message + (f"\n{finding.suggested_fix}" if finding.suggested_fix else ""),
        severity=types.DiagnosticSeverity.Error if is_error else types.DiagnosticSeverity.Warning,
        code=finding.rule_id,
        source="afl",
    )
