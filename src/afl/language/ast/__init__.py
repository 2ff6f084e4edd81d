"""The nodes of a parsed AFL program.

Every node carries a `node_id` and a `location`; neither takes part in comparison, so two parses of one text
are equal.

node (what every one has) -> expressions -> blocks -> declarations. `afl.ast` is the public face.
"""
