"""`afl lsp`."""

from __future__ import annotations

from typing import Annotated

import typer

from afl.kernel.errors import MissingExtraError, pip_install

try:
    from afl.language_server.server import server
except ModuleNotFoundError as missing:
    if (missing.name or "").partition(".")[0] not in ("pygls", "lsprotocol", "cattrs", "attrs"):
        raise
    raise MissingExtraError(f"the language server needs `{pip_install('lsp')}`") from missing


def lsp(
    stdio: Annotated[
        bool, typer.Option("--stdio", help="Over standard input and output, which is the only way.")
    ] = True,
) -> None:
    """Serve an editor by the Language Server Protocol: errors while typing, completion, hover, definitions, formatting.

    Editors start it by themselves: docs/editors.md says how.

    [bold]Examples[/bold]

      afl lsp
    """
    server.start_io()
