"""`afl lsp` as a process, and a client of the protocol that talks to it."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from lsprotocol import types
from pygls.lsp.client import LanguageClient

GOOD = """namespace cafe {
    event facet Brew(kind: String) => (cup: String)

    workflow Morning(kind: String = "☕𝄞") => (cup: String) andThen {
        made = Brew(kind = "𝄞" ++ $.kind)
        yield Morning(cup = made.cup)
    }
}
"""
SHARED = "namespace shared {\n    event facet Pour(cup: String) => (ml: Long)\n}\n"


class Editor:
    """One folder that is open in an editor."""

    def __init__(self, folder: Path, client: LanguageClient) -> None:
        self.folder = folder
        self.client = client
        self.published: asyncio.Queue[types.PublishDiagnosticsParams] = asyncio.Queue()
        client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)(
            lambda params: self.published.put_nowait(params)
        )

    def uri(self, name: str) -> str:
        return (self.folder / name).as_uri()

    def document(self, name: str) -> types.TextDocumentIdentifier:
        return types.TextDocumentIdentifier(self.uri(name))

    async def open(self, name: str, text: str) -> list[types.Diagnostic]:
        item = types.TextDocumentItem(self.uri(name), "afl", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))
        return await self.findings(name)

    async def write(self, name: str, text: str) -> list[types.Diagnostic]:
        document = types.VersionedTextDocumentIdentifier(2, self.uri(name))
        change = types.TextDocumentContentChangeWholeDocument(text)
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        return await self.findings(name)

    async def findings(self, name: str) -> list[types.Diagnostic]:
        while True:
            told = await asyncio.wait_for(self.published.get(), 30)
            if told.uri == self.uri(name):
                return list(told.diagnostics)


@asynccontextmanager
async def editor(folder: Path) -> AsyncIterator[Editor]:
    client = LanguageClient("a test", "1")
    opened = Editor(folder, client)
    await client.start_io(sys.executable, "-m", "afl", "lsp", "--stdio")
    root = types.WorkspaceFolder(folder.as_uri(), "folder")
    await client.initialize_async(
        types.InitializeParams(types.ClientCapabilities(), workspace_folders=[root], root_uri=root.uri)
    )
    client.initialized(types.InitializedParams())
    yield opened
    await client.shutdown_async(None)
    client.exit(None)
    await client.stop()


def test_errors_are_told_while_a_source_is_written(tmp_path: Path) -> None:
    async def main() -> None:
        async with editor(tmp_path) as it:
            assert await it.open("morning.afl", GOOD) == []
            (wrong,) = await it.write("morning.afl", GOOD.replace("Brew(kind = ", "Brw(kind = "))
            assert wrong.code == "REF_UNKNOWN_FACET"
            assert "did you mean 'Brew'" in wrong.message.replace("Did", "did")
            assert (wrong.range.start.line, wrong.range.start.character) == (4, 15)
            assert wrong.severity is types.DiagnosticSeverity.Error
            (broken,) = await it.write("morning.afl", GOOD.replace("made =", "made"))
            assert broken.range.start.line == 4
            assert await it.write("morning.afl", GOOD) == []

    asyncio.run(main())


def test_columns_are_counted_as_the_editor_counts(tmp_path: Path) -> None:
    async def main() -> None:
        async with editor(tmp_path) as it:
            (wrong,) = await it.open("morning.afl", GOOD.replace("++ $.kind", "++ $.knd"))
            line = GOOD.splitlines()[4]
            expected = len(line[: line.index("$.")].encode("utf-16-le")) // 2
            assert wrong.range.start.character == expected
            place = types.Position(4, expected + 3)
            await it.write("morning.afl", GOOD)
            found = await it.client.text_document_definition_async(
                types.DefinitionParams(it.document("morning.afl"), place)
            )
            assert isinstance(found, types.Location)
            assert (found.range.start.line, found.range.start.character) == (3, 21)

    asyncio.run(main())


def test_a_source_uses_another_one_on_disk_and_as_it_is_written(tmp_path: Path) -> None:
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "shared.afl").write_text(SHARED)
    uses = GOOD.replace("        yield", "        ml = shared.Pour(cup = made.cup)\n        yield")

    async def main() -> None:
        async with editor(tmp_path) as it:
            assert await it.open("morning.afl", uses) == []
            place = types.Position(5, uses.splitlines()[5].index("Pour") + 1)
            found = await it.client.text_document_definition_async(
                types.DefinitionParams(it.document("morning.afl"), place)
            )
            assert isinstance(found, types.Location)
            assert found.uri == it.uri("lib/shared.afl")
            shared = types.TextDocumentItem(
                it.uri("lib/shared.afl"), "afl", 1, SHARED.replace("cup", "glass")
            )
            it.client.text_document_did_open(types.DidOpenTextDocumentParams(shared))
            assert {each.code for each in await it.findings("morning.afl")} >= {"ARG_UNKNOWN"}

    asyncio.run(main())


def test_hover_completion_outline_and_format(tmp_path: Path) -> None:
    async def main() -> None:
        async with editor(tmp_path) as it:
            await it.open("morning.afl", GOOD)
            document = it.document("morning.afl")
            call = types.Position(4, GOOD.splitlines()[4].index("Brew") + 1)
            hover = await it.client.text_document_hover_async(types.HoverParams(document, call))
            assert hover is not None and isinstance(hover.contents, types.MarkupContent)
            assert "event facet Brew(kind: String) => (cup: String)" in hover.contents.value
            outline = await it.client.text_document_document_symbol_async(
                types.DocumentSymbolParams(document)
            )
            (namespace,) = outline or []
            assert isinstance(namespace, types.DocumentSymbol)
            assert [each.name for each in namespace.children or []] == ["Brew", "Morning"]
            assert [each.name for each in (namespace.children or [])[1].children or []] == ["made"]
            untidy = GOOD.replace("        made", "  made")
            await it.write("morning.afl", untidy)
            asked = types.DocumentFormattingParams(document, types.FormattingOptions(4, True))
            (edit,) = await it.client.text_document_formatting_async(asked) or []
            assert edit.new_text == GOOD
            # A line that is being written keeps the whole from being parsed; what is around it is known all the same.
            await it.write(
                "morning.afl",
                GOOD.replace("        yield", "        again = Brew(kind = made.\n        yield"),
            )
            typed = types.CompletionParams(
                document, types.Position(5, len("        again = Brew(kind = made."))
            )
            suggested = await it.client.text_document_completion_async(typed)
            assert isinstance(suggested, list | tuple)
            assert [each.label for each in suggested] == ["cup"]
            assert await it.client.text_document_formatting_async(asked) in (None, [], ())

    asyncio.run(main())
