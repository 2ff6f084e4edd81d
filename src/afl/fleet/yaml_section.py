"""Safe YAML with line numbers: a mapping of a file, whose keys are read one by one.

Nodes are composed, never constructed, so no tag can create an object. Plain words that YAML 1.1 would convert (`yes`,
`on`, `2025-01-20`) stay text; only true, false, null and numbers are converted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from afl.fleet.errors import Problem, WorkflowFileError, suggestion
from afl.kernel.bounds import LONGEST_NAME
from afl.kernel.errors import MissingExtraError, pip_install

try:
    import yaml
except ImportError as missing:
    raise MissingExtraError(f"workflow files need PyYAML: {pip_install('fleet')}") from missing

_DEEPEST = 50  # the loader in C recurses without checking its stack
_MOST_NODES = 100_000  # aliases of aliases could expand without end
_INTEGER = re.compile(r"[+-]?(0|[1-9][0-9]*)")
_NUMBER = re.compile(r"[+-]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][+-]?[0-9]+)?")
_WORDS: dict[str, Any] = {"true": True, "false": False, "null": None, "~": None, "": None}
_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)  # the one in C where it is available
_STANDARD = "tag:yaml.org,2002:"
_MERGE = "<<"
_NAMES = {"str": "text", "int": "a whole number", "float": "a number", "bool": "true or false"}


@dataclass(slots=True)
class Report:
    """The problems found in one file so far."""

    path: str
    problems: list[Problem] = field(default_factory=list)
    nodes: int = 0

    def add(self, node: yaml.Node | None, key: str, message: str) -> None:
        line = node.start_mark.line + 1 if node is not None else 0
        self.problems.append(Problem(self.path, line, key, message))

    def stop(self) -> WorkflowFileError:
        """All problems, as an error to raise."""
        return WorkflowFileError(sorted(self.problems, key=lambda problem: problem.line))

    def count(self) -> None:
        self.nodes += 1
        if self.nodes > _MOST_NODES:
            self.add(None, "", f"the file unfolds to more than {_MOST_NODES:,} values; use fewer aliases")
            raise self.stop()


class Section:
    """A mapping of the file; `key` is its path: `tasks.load.config`."""

    def __init__(self, report: Report, node: yaml.MappingNode, key: str) -> None:
        self.report, self.node, self.key = report, node, key
        self._values: dict[str, yaml.Node] = {}
        self._keys: dict[str, yaml.Node] = {}
        for name_node, value_node in self._pairs(node):
            name = self._name(name_node)
            if name in self._values:
                self.problem(name, "is given twice", name_node)
            self._values[name], self._keys[name] = value_node, name_node

    @property
    def tag(self) -> str:
        return str(self.node.tag).removeprefix(_STANDARD)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def way(self, name: str) -> str:
        return f"{self.key}.{name}" if self.key else name

    def problem(self, name: str, message: str, node: yaml.Node | None = None) -> None:
        """Report a problem with one key, or with the mapping when the name is empty."""
        key = self.way(name) if name else self.key
        self.report.add(node or self._values.get(name) or self.node, key, message)

    def node_of(self, name: str) -> yaml.Node | None:
        return self._values.get(name)

    def allow(self, names: tuple[str, ...], what: str) -> None:
        """Report every other key, with the nearest known one."""
        for name in self._values:
            if name not in names:
                self.problem(name, f"is not a key of {what}{suggestion(name, names)}", self._keys[name])

    def value(self, name: str, *kinds: type, required: bool = False) -> Any:
        """A scalar of one of the types; None when it is missing, null, or wrong (which is reported)."""
        node = self._values.get(name)
        found = self._plain(name, node) if node is not None else None
        if found is None:
            if required:
                self.problem(name, "is missing", None if name in self._values else self.node)
            return None
        if type(found) not in kinds:
            self.problem(name, f"is {_shown(found)}; expected {_expected(kinds)}{_quoted(found, kinds)}")
            return None
        return found

    def text(self, name: str) -> str:
        """A required, nonempty text; empty when it is wrong (which is reported)."""
        found = self.value(name, str, required=True)
        if found == "":
            self.problem(name, "is empty")
        return found or ""

    def label(self, name: str) -> str:
        """A text that is stored and sent as it is."""
        found = self.text(name)
        if "\0" in found or "\x01" in found:
            self.problem(
                name, "holds a NUL, which cannot be stored, or 0x01, which divides words on the wire"
            )
        if len(found) > LONGEST_NAME:
            self.problem(name, f"has {len(found):,} characters; expected at most {LONGEST_NAME}")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; empty when it is missing."""
        return tuple(found for found in self.scalars(name, str) if isinstance(found, str))

    def scalars(self, name: str, *kinds: type) -> list[Any]:
        """A list of scalars of the types."""
        node = self._values.get(name)
        if node is None or self._is_null(node):
            return []
        if not isinstance(node, yaml.SequenceNode):
            self.problem(name, f"is {_kind(node)}; expected a list")
            return []
        found = []
        for index, item in enumerate(node.value):
            value = self._plain(f"{name}[{index}]", item)
            if type(value) in kinds:
                found.append(value)
            else:
                message = f"is {_shown(value)}; expected {_expected(kinds)}{_quoted(value, kinds)}"
                self.problem(f"{name}[{index}]", message, item)
        return found

    def section(self, name: str, what: str, *, required: bool = False) -> Section | None:
        """A nested mapping; None when it is missing or not a mapping."""
        node = self._values.get(name)
        if node is None or self._is_null(node):
            if required:
                self.problem(name, f"is missing; expected {what}", node or self.node)
            return None
        if not isinstance(node, yaml.MappingNode):
            self.problem(name, f"is {_kind(node)}; expected {what}")
            return None
        return Section(self.report, node, self.way(name))

    def data(self, name: str) -> dict[str, Any]:
        """A mapping as plain data."""
        node = self._values.get(name)
        if node is None or self._is_null(node):
            return {}
        found = self._data(node, name)
        if not isinstance(found, dict):
            self.problem(name, f"is {_kind(node)}; expected a mapping")
            return {}
        return found

    def _data(self, node: yaml.Node, name: str) -> Any:
        self.report.count()
        if isinstance(node, yaml.MappingNode):
            inner = Section(self.report, node, self.way(name))
            return {key: inner._data(inner._values[key], key) for key in inner}
        if isinstance(node, yaml.SequenceNode):
            return [self._data(item, f"{name}[{index}]") for index, item in enumerate(node.value)]
        return self._plain(name, node)

    def _is_null(self, node: yaml.Node) -> bool:
        return isinstance(node, yaml.ScalarNode) and node.style is None and node.value in ("", "~", "null")

    def _plain(self, name: str, node: yaml.Node) -> Any:
        """The value of a scalar; other nodes are returned as they are, and match no type."""
        self.report.count()
        if not isinstance(node, yaml.ScalarNode):
            return node
        tag = str(node.tag)
        if not tag.startswith(_STANDARD):
            self.problem(name, f"has the tag {tag!r}, which means nothing here", node)
            return None
        return node.value if node.style else _resolved(node.value)

    def _pairs(self, node: yaml.MappingNode, depth: int = 0) -> Iterator[tuple[yaml.Node, yaml.Node]]:
        """The pairs of a mapping; pairs merged by `<<` only for keys that it does not have itself."""
        own = {str(name.value) for name, _ in node.value}
        for name_node, value_node in node.value:
            self.report.count()
            if name_node.value != _MERGE or name_node.style:
                yield name_node, value_node
                continue
            merged = value_node.value if isinstance(value_node, yaml.SequenceNode) else [value_node]
            for source in merged:
                if not isinstance(source, yaml.MappingNode) or source is node:
                    self.report.add(name_node, self.key, "<< expects a mapping, or a list of them")
                    continue
                if depth == _DEEPEST:
                    self.report.add(name_node, self.key, f"<< merges more than {_DEEPEST} mappings in a row")
                    raise self.report.stop()
                for pair in self._pairs(source, depth + 1):
                    if str(pair[0].value) not in own:
                        own.add(str(pair[0].value))
                        yield pair

    def _name(self, node: yaml.Node) -> str:
        if not isinstance(node, yaml.ScalarNode):
            self.report.add(node, self.key, f"a key is {_kind(node)}; expected a name")
            return ""
        return str(node.value)


def read_document(path: str, text: str) -> Section:
    """The mapping at the top of a file; WorkflowFileError when it is not YAML, or not a mapping."""
    report = Report(path)
    try:
        if _depth(text) > _DEEPEST:
            raise WorkflowFileError([Problem(path, 0, "", f"is nested deeper than {_DEEPEST} levels")])
        node = yaml.compose(text, Loader=_LOADER)
    except (yaml.YAMLError, UnicodeError) as error:
        mark = getattr(error, "problem_mark", None)
        reason = getattr(error, "problem", None) or getattr(error, "reason", None) or str(error)
        line = mark.line + 1 if mark is not None else 0
        raise WorkflowFileError([Problem(path, line, "", f"is not YAML: {reason}")]) from error
    if not isinstance(node, yaml.MappingNode):
        report.add(node, "", f"is {_kind(node) if node else 'empty'}; expected the keys of a workflow")
        raise report.stop()
    return Section(report, node, "")


def is_scalar(node: yaml.Node | None) -> bool:
    """Whether a node is a scalar."""
    return isinstance(node, yaml.ScalarNode)


def _depth(text: str) -> int:
    """The nesting depth of the text, from its events, which need no stack."""
    depth = deepest = 0
    for event in yaml.parse(text, Loader=_LOADER):
        if isinstance(event, yaml.CollectionStartEvent):
            depth += 1
            deepest = max(deepest, depth)
        elif isinstance(event, yaml.CollectionEndEvent):
            depth -= 1
        if depth > _DEEPEST:
            break
    return deepest


def _resolved(text: str) -> Any:
    if text.lower() in _WORDS:
        return _WORDS[text.lower()]
    if _INTEGER.fullmatch(text):
        return int(text) if len(text) < 20 else text
    return float(text) if _NUMBER.fullmatch(text) else text


def _kind(node: yaml.Node) -> str:
    if isinstance(node, yaml.ScalarNode):
        return _shown(_resolved(node.value) if not node.style else node.value)
    return "a list" if isinstance(node, yaml.SequenceNode) else "a mapping"


def _shown(value: Any) -> str:
    if isinstance(value, yaml.Node):
        return _kind(value)
    if value is None:
        return "empty"
    return str(value).lower() if isinstance(value, bool) else repr(value)


def _expected(kinds: tuple[type, ...]) -> str:
    return " or ".join(_NAMES[kind.__name__] for kind in kinds)


def _quoted(value: Any, kinds: tuple[type, ...]) -> str:
    return " (put it in quotes)" if kinds == (str,) and isinstance(value, (bool, int, float)) else ""
