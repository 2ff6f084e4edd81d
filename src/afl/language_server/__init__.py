"""The language server of AFL (`afl lsp`): what editors show while a source is written.

analysis (a source with those that it uses, parsed and checked) -> lookup (what stands at a place) -> completion (what
could stand there) -> server (the protocol, by pygls).
"""
