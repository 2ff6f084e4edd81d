"""Syntax errors in words: what was expected here, what stands there instead, and often what to write."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from lark import Token
from lark.exceptions import UnexpectedInput, UnexpectedToken

from afl.language.ast.declarations import Parameter, TypeExpr
from afl.language.ast.expressions import Expression, MapEntry, NamedArg, Reference
from afl.language.diagnostics import Diagnostic

END = "$END"

# Terminals that are never worth mentioning, and those that begin a value.
_SILENT = {"DOC", "SEMICOLON"}
_VALUES = {"INPUT", "STRING", "INT", "FLOAT", "CONST", "SIGN", "LSQB", "MAP_OPEN"}
_DECLARATIONS = {"FACET", "EVENT", "WORKFLOW", "IMPLICIT", "SCHEMA"}
_WORDS = {
    "LPAR": "'('",
    "RPAR": "')'",
    "LBRACE": "'{'",
    "RBRACE": "'}'",
    "LSQB": "'['",
    "RSQB": "']'",
    "COMMA": "','",
    "COLON": "':'",
    "EQUAL": "'='",
    "DOT": "'.'",
    "ARROW": "'=>'",
    "MAP_OPEN": "'#{'",
    "AND_THEN": "'andThen'",
    "USES": "'uses'",
    "STRING": "a string",
    "OP": "an operator",
    END: "the end of the text",
}
_NAME_AFTER = {
    "NAMESPACE": "a namespace name",
    "USES": "a namespace name",
    "FACET": "a facet name",
    "EVENT": "'facet' or an event facet name",
    "WORKFLOW": "a workflow name",
    "SCHEMA": "a schema name",
    "IMPLICIT": "a name",
    "FOREACH": "a variable name",
    "REPEAT": "a variable name",
    "COLON": "a type",
    "WITH": "a mixin name",
    "YIELD": "the facet to yield to",
    "AS": "an alias",
    "DOT": "an attribute name",
    "EQUAL": "a facet name",
}
_CHARACTERS = {
    '"': ("Unterminated string", "close it with '\"'"),
    **{
        quote: (
            f'Strings are written in double quotes, found "{quote}"',
            f'write "text" instead of {quote}text{end}',
        )
        for quote, end in ("''", "``", "“”", "‘’", "„“", "«»")
    },
    "$": ("'$' needs a parameter name", "write '$.name'"),
}

# What other languages have, the terminal that is accepted in its place ("" for any), and what to write.
_ELSEWHERE = (
    ("->", "ARROW", "write '=>'"),
    ("{", "AND_THEN", "write 'andThen {'"),
    (":", "EQUAL", "write 'name = value'"),
    ("#", "", "a comment begins with '//'"),
    ("else", "CASE", "write 'case _ => {'"),
    ("default", "CASE", "write 'case _ => {'"),
    ("import", "NAMESPACE", "name the other file with --library; 'uses name' stands inside a namespace"),
    (".", "INPUT", "write a digit before the point: '0.5'"),
    ("{", "INPUT", "a map is written '#{name: value}'"),
    ("=", "COLON", "write 'name: value'"),
    ("=", "OP", "write '=='"),
    ("and", "OP", "write '&&'"),
    ("or", "OP", "write '||'"),
)
_AFTER_TYPE = {
    **dict.fromkeys("<[", "a list of String is written '[String]', a map 'Map'"),
    **dict.fromkeys("?|", "every type accepts null: leave this out"),
}

# Statements that other languages begin with a word, which is read as a step name here.
_STATEMENTS = {
    "if": "write 'andThen when { case condition => { ... } case _ => { ... } }'",
    "for": "write 'andThen foreach x in list { ... }'",
    "while": "write 'andThen repeat x { ... } until condition'",
    "return": "write 'yield' and the name of the declaration: 'yield W(name = value)'",
    **dict.fromkeys(("let", "var", "val", "const"), "write 'step_name = Facet(...)'"),
}


def syntax_error(error: UnexpectedInput, source_id: str, text: str) -> Diagnostic:
    """The diagnostic of one parser error."""
    line, column, width = _place(error, text)
    message, fix = _message(error, text)
    return Diagnostic(
        message,
        line,
        column,
        "SYNTAX_UNEXPECTED",
        "error",
        fix,
        source_id=source_id,
        end_column=column + width,
    )


def _place(error: UnexpectedInput, text: str) -> tuple[int, int, int]:
    """Line, column and width of what is wrong; the end of the text is behind its last character."""
    if not isinstance(error, UnexpectedToken):
        return error.line, error.column, 1
    if error.token.type == END:
        lines = text.rstrip().split("\n")
        return len(lines), len(lines[-1]) + 1, 1
    return error.line, error.column, max(1, len(error.token.split("\n")[0]))


def _message(error: UnexpectedInput, text: str) -> tuple[str, str | None]:
    position = error.pos_in_stream or 0
    if text.startswith("/*", position):
        return "Unterminated comment", "close it with '*/'"
    if isinstance(error, UnexpectedToken):
        message, fix = _token_message(error)
        return message, fix or _meant(error, text, position)
    char = text[position]
    found = f"{expectation(error)}, found '{char}'"
    return _CHARACTERS.get(char) or (found, _meant(error, text, position))


def _meant(error: UnexpectedInput, text: str, position: int) -> str | None:
    """What to write in the place of what other languages have here."""
    accepted, stack = _accepted(error), value_stack(error)
    found = text[position : position + 1]
    if _ends_with_type(stack) and found in _AFTER_TYPE:
        return _AFTER_TYPE[found]
    if _ends_with_type(stack) and found == "=" and _open(stack) == "fields":
        return "a field of a schema has no default: give it wherever the schema is made"
    if accepted == {"EQUAL", "LPAR"} and stack[-1] in _STATEMENTS:
        return _STATEMENTS[str(stack[-1])]
    if accepted == {"NAME"} and _last_type(stack) == "EQUAL" and _open(stack) == "block":
        return "a step calls a facet or makes a schema: write a value where it is used"
    if _ends_with_value(stack):
        accepted.add("OP")
    if _last_value(stack) == Reference(["not"], False):
        return "write '!' in front of what is negated"
    word = error.token.value if isinstance(error, UnexpectedToken) else ""
    for beginning, instead, fix in _ELSEWHERE:
        starts = word == beginning if beginning.isalpha() else text.startswith(beginning, position)
        if starts and instead in accepted | {""}:
            return fix
    return None


def _ends_with_type(stack: list[Any]) -> bool:
    last, before = stack[-1:], stack[-2:-1]
    return isinstance(last[0] if last else None, TypeExpr) or (
        _last_type(stack) == "NAME" and _last_type(before) in ("COLON", "LSQB")
    )


def _token_message(error: UnexpectedToken) -> tuple[str, str | None]:
    token = error.token
    if token.value == "script":
        return (
            "There are no script blocks: code lives in agents",
            "declare an event facet and handle it in an agent",
        )
    if token.value == "namespace":
        return "Namespaces do not nest", "close the namespace first, or write one dotted name such as 'a.b'"
    if token.value in ("uses", "use") and _open(value_stack(error)) == "program":
        return f"'{token}' stands inside a namespace", "move it into 'namespace name { ... }'"
    accepted = _accepted(error)
    if "YIELD" in accepted and "NAME" not in accepted and token.type == "NAME":
        return f"A step cannot follow a yield, found '{token}'", "put all yields at the end of the block"
    return f"{expectation(error)}, found {_shown(token)}", None


def _shown(token: Token) -> str:
    if token.type == END:
        return "the end of the text"
    text = token.value.split("\n")[0]
    text = f"{text[:40]}..." if len(text) > 40 else text
    return text if token.type == "STRING" else f"'{text}'"


# ---- what could have stood here --------------------------------------------------------------------------


def value_stack(error: UnexpectedInput) -> list[Any]:
    """What the parser has read and not yet put together."""
    stack: list[Any] = error.interactive_parser.parser_state.value_stack
    return stack


def _accepted(error: UnexpectedInput) -> set[str]:
    parser: Any = error.interactive_parser
    accepted: set[str] = parser.accepts()
    return accepted - _SILENT


def expectation(error: UnexpectedInput) -> str:
    """`Expected a, b or c`."""
    accepted = _accepted(error)
    stack = value_stack(error)
    words: list[str] = []
    if "INPUT" in accepted:
        words.append("an argument" if _begins_argument(stack) else "a value")
        accepted -= _VALUES | {"NAME", "LPAR"}
    if "NAME" in accepted:
        words.append(_name_word(stack))
        accepted -= {"NAME", "LSQB"} | ({"FACET"} if _last_type(stack) == "EVENT" else set())
    if accepted >= _DECLARATIONS:
        words.append("a declaration")
        accepted -= _DECLARATIONS | {"NAMESPACE", "USES"}
    if "OP" in accepted or _ends_with_value(stack):
        accepted.add("OP")
        accepted -= {"DOT", "LSQB", "QMARK", "LPAR", "FOR"}
    words += sorted(_WORDS.get(terminal, f"'{terminal.lower()}'") for terminal in accepted)
    return f"Expected {_listed(words)}" if words else "Nothing can follow here"


def _listed(words: Iterable[str]) -> str:
    *head, last = words
    return f"{', '.join(head)} or {last}" if head else last


def _ends_with_value(stack: list[Any]) -> bool:
    """Whether an operator could have followed: a step may follow a condition, so a name ends the value before it."""
    return isinstance(_last_value(stack), Expression)


def _last_value(stack: list[Any]) -> Any:
    """What was read last, without the name that it has as an argument, an entry or a default."""
    last = stack[-1] if stack else None
    if isinstance(last, list):
        last = last[-1] if last else None
    if isinstance(last, NamedArg | MapEntry):
        return last.value
    return last.default if isinstance(last, Parameter) else last


def _last_type(stack: list[Any]) -> str:
    last = stack[-1] if stack else None
    return last.type if isinstance(last, Token) else ""


def _begins_argument(stack: list[Any]) -> bool:
    return _open(stack) == "args" and (_last_type(stack) == "LPAR" or isinstance(stack[-1], list))


def _name_word(stack: list[Any]) -> str:
    after = _last_type(stack)
    if after == "LSQB":
        return "a type"
    if after in _NAME_AFTER:
        return _NAME_AFTER[after]
    return {
        "params": "a parameter name",
        "fields": "a field name",
        "prompt": "'system', 'template', 'model'",
        "map": "a map key",
        "block": "a step name",
    }.get(_open(stack), "a name")


def _open(stack: list[Any]) -> str:
    """Which kind of bracket is open around the end of the stack."""
    types = [item.type if isinstance(item, Token) else "" for item in stack]
    for index in range(len(types) - 1, -1, -1):
        before = types[max(0, index - 2) : index]
        if types[index] == "MAP_OPEN":
            return "map"
        if types[index] == "LPAR":
            declared = before[-1:] == ["ARROW"] or (
                before[:1] and before[0] in ("FACET", "EVENT", "WORKFLOW")
            )
            return "params" if declared else "args"
        if types[index] == "LBRACE":
            if before[-1:] == ["PROMPT"]:
                return "prompt"
            return {"SCHEMA": "fields", "NAMESPACE": "namespace"}.get(before[0] if before else "", "block")
    return "program"
