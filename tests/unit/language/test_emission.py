"""AST to compiled JSON: shapes, key order, full names, ids, places, provenance."""

from __future__ import annotations

import json
import re
from typing import Any
from uuid import UUID

import pytest

from afl.language import AFLParser, JSONEmitter, emit_dict, emit_json, parse
from afl.language.ast.blocks import Block, StepStmt, YieldStmt
from afl.language.ast.declarations import TypeRef, UsesDecl
from afl.language.ast.expressions import CallExpr, Literal, MixinCall, Reference
from afl.language.source import FileOrigin, MavenOrigin, MongoDBOrigin, SourceRegistry


def compiled(text: str) -> dict[str, Any]:
    return emit_dict(parse(text), include_locations=False)


def without_ids(text: str) -> str:
    """Compact JSON with every id replaced, as the samples are printed."""
    return re.sub(r'"id":"[^"]*"', '"id":".."', json.dumps(compiled(text), separators=(",", ":")))


def test_the_sample_of_a_facet() -> None:
    text = without_ids("facet User(name: String, n: Int = 3) => (id: Long) with Limit(max = 3)")
    sample = (
        '{"type":"FacetDecl","name":"User","params":[{"name":"name","type":"String"},{"name":"n","type":"Int",'
        '"default":{"type":"Int","value":3}}],"returns":[{"name":"id","type":"Long"}],"mixins":[{"type":"MixinSig",'
        '"target":"Limit","args":[{"name":"max","value":{"type":"Int","value":3}}]}],"id":".."}'
    )
    assert text == f'{{"type":"Program","facets":[{sample}],"declarations":[{sample}],"id":".."}}'


def test_the_sample_of_a_workflow() -> None:
    text = without_ids(
        'workflow W(x: Long = 1) => (y: Long) andThen { a = F(v = $.x, t = "p" ++ $.x) with M(q = null) as m '
        "yield W(y = a.v) }"
    )
    assert (
        '"body":{"type":"AndThenBlock","steps":[{"type":"StepStmt","name":"a","call":{"type":"CallExpr","target":"F",'
        '"args":[{"name":"v","value":{"type":"InputRef","path":["x"]}},{"name":"t","value":{"type":"ConcatExpr",'
        '"operands":[{"type":"String","value":"p"},{"type":"InputRef","path":["x"]}]}}],"mixins":[{"type":"MixinCall",'
        '"target":"M","args":[{"name":"q","value":{"type":"Null"}}],"alias":"m"}],"id":".."},"id":".."}],'
        '"yield":{"type":"YieldStmt","call":{"type":"CallExpr","target":"W","args":[{"name":"y","value":'
        '{"type":"StepRef","path":["a","v"]}}],"id":".."},"id":".."},"id":".."},"id":".."}'
    ) in text


def test_the_smallest_programs() -> None:
    assert without_ids("") == '{"type":"Program","id":".."}'
    assert compiled("workflow W() andThen { }")["workflows"][0]["body"].keys() == {"type", "id"}


def test_split_keys_and_declarations_hold_the_same_dicts() -> None:
    program = compiled(
        "namespace n { uses m facet F() workflow V() } namespace m { } facet G() event facet E() workflow W() "
        "implicit i = G() schema S { }"
    )
    kinds = [one["type"] for one in program["declarations"]]
    assert kinds == [
        "Namespace", "Namespace", "FacetDecl", "EventFacetDecl", "WorkflowDecl", "ImplicitDecl", "SchemaDecl"
    ]  # fmt: skip
    assert list(program) == [
        "type", "namespaces", "facets", "eventFacets", "workflows", "implicits", "schemas", "declarations", "id"
    ]  # fmt: skip
    assert program["declarations"][4] is program["workflows"][0]
    space = program["namespaces"][0]
    assert list(space) == ["type", "name", "uses", "facets", "workflows", "declarations", "id"]
    assert space["uses"] == ["m"]
    assert space["declarations"][1] is space["workflows"][0]


def test_schemas_types_and_returns() -> None:
    program = compiled("schema S { a: [[Int]] } schema T { } facet F() => ()")
    inner = {"type": "ArrayType", "elementType": "Int"}
    assert program["schemas"][0]["fields"] == [
        {"name": "a", "type": {"type": "ArrayType", "elementType": inner}}
    ]
    assert program["schemas"][1]["fields"] == []
    assert program["facets"][0]["returns"] == []


def test_names_are_full_once_compiled() -> None:
    program = compiled(
        """namespace a { schema S { } facet F(s: S) => (r: [S]) facet M() }
           namespace b { uses a
             facet G() with M() with Retry(3)
             workflow W(s: S) => (r: Json) with M() andThen {
               f = F($.s) with Timeout(minutes = 5) andThen { yield F(r = []) }
               yield a.W(r = f.r) yield M() } }"""
    )
    facet, workflow = program["namespaces"][1]["facets"][0], program["namespaces"][1]["workflows"][0]
    assert [one["target"] for one in facet["mixins"]] == ["a.M", "Retry"]
    assert facet["mixins"][1]["args"] == [{"name": "attempts", "value": {"type": "Int", "value": 3}}]
    assert workflow["params"][0]["type"] == "a.S"
    assert program["namespaces"][0]["facets"][0]["returns"][0]["type"] == {
        "type": "ArrayType",
        "elementType": "a.S",
    }
    step = workflow["body"]["steps"][0]
    assert step["call"]["target"] == "a.F"
    assert step["call"]["args"][0]["name"] == "s"
    assert step["call"]["mixins"][0]["target"] == "Timeout"
    assert step["body"]["yield"]["call"]["target"] == "a.F"
    assert [one["call"]["target"] for one in workflow["body"]["yields"]] == ["b.W", "a.M"]


def test_a_positional_yield_takes_the_first_return() -> None:
    program = compiled("facet N(n: Int) workflow W(i: Int) => (o: Int) andThen { a = N(1) yield W(a.n) }")
    assert program["workflows"][0]["body"]["yield"]["call"]["args"][0]["name"] == "o"


def test_a_users_facet_beats_a_policy_of_that_name() -> None:
    program = compiled("facet Retry(max: Int) facet F() with Retry(3) with sys.Retry(2)")
    targets = [one["target"] for one in program["facets"][1]["mixins"]]
    assert targets == ["Retry", "sys.Retry"]
    assert program["facets"][1]["mixins"][0]["args"][0]["name"] == "max"


def test_foreach_with_a_limit_and_failures_to_collect() -> None:
    program = compiled(
        "workflow W(xs: Json) => (lost: [sys.Failure]) andThen foreach x in $.xs limit 3 collect lost { }"
    )
    workflow = program["workflows"][0]
    assert workflow["returns"][0]["type"]["elementType"] == "sys.Failure"
    assert workflow["body"]["foreach"] == {
        "type": "ForeachClause",
        "variable": "x",
        "iterable": {"type": "InputRef", "path": ["xs"]},
        "limit": {"type": "Int", "value": 3},
        "collect": "lost",
    }


def test_later_constructs() -> None:
    program = compiled(
        """/** Does it. @param xs all */ workflow W(xs: Json) with M() as m andThen foreach x in $.xs {
             a = F() andThen when { case x.n > 1 => { b = F() } case _ => { yield W() } } catch { c = F() }
             sys.log("hi", n = 1) sys.assert(!true)
           } andThen { } catch when { case _ => { } }
           event facet E() prompt { template "t" }"""
    )
    workflow = program["workflows"][0]
    assert list(workflow) == ["type", "name", "doc", "params", "mixins", "body", "catch", "id"]
    assert workflow["doc"] == {
        "description": "Does it.",
        "params": [{"name": "xs", "description": "all"}],
        "returns": [],
    }
    assert workflow["mixins"][0]["alias"] == "m"
    first, second = workflow["body"]
    assert first["foreach"] == {
        "type": "ForeachClause",
        "variable": "x",
        "iterable": {"type": "InputRef", "path": ["xs"]},
    }
    step, log, check = first["steps"]
    when = step["body"]["when"]
    assert [list(case) for case in when["cases"]] == [
        ["type", "condition", "steps"],
        ["type", "default", "yield"],
    ]
    assert when["cases"][1]["default"] is True
    assert list(step["catch"]) == ["type", "steps", "id"]
    assert [one["name"] for one in log["args"]] == ["message", "n"]
    assert check["condition"] == {
        "type": "UnaryExpr",
        "operator": "!",
        "operand": {"type": "Boolean", "value": True},
    }
    assert second.keys() == {"type", "id"}
    assert list(workflow["catch"]) == ["type", "when", "id"]
    assert program["eventFacets"][0]["body"] == {"type": "PromptBlock", "template": "t"}


def test_expressions() -> None:
    program = compiled("facet F(a: Json = #{k: [-1.5]}, b: Json = x.y[0] + 1 not in [], c: Json = s)")
    defaults = [one["default"] for one in program["facets"][0]["params"]]
    double = {"type": "UnaryExpr", "operator": "-", "operand": {"type": "Double", "value": 1.5}}
    assert defaults[0] == {
        "type": "MapLiteral",
        "entries": [{"key": "k", "value": {"type": "ArrayLiteral", "elements": [double]}}],
    }
    assert defaults[1]["operator"] == "not in"
    assert defaults[1]["left"]["left"]["type"] == "IndexExpr"
    assert defaults[2] == {"type": "StepRef", "path": ["s"]}


# ---- ids and places -----------------------------------------------------------------------------------------


def test_ids_are_uuids_that_follow_the_path() -> None:
    text = """namespace n { facet F() }
              namespace n { workflow W() andThen { a = F() b = F() yield W() } andThen { a = F() } }"""
    first, second = compiled(text), compiled(text)
    assert first == second
    found = re.findall(r'"id": "([^"]*)"', json.dumps({**first, "declarations": []}))
    assert all(str(UUID(one)) == one and UUID(one).version == 5 for one in found)
    step = first["namespaces"][1]["workflows"][0]["body"][0]["steps"][1]
    moved = compiled(text.replace("a = F() b", "b"))["namespaces"][1]["workflows"][0]["body"][0]["steps"][0]
    assert step["id"] == moved["id"]


def test_locations_are_last_and_can_be_left_out() -> None:
    program = emit_dict(parse("workflow W() andThen {\n a = F(x = 1 + 2)\n}"))
    workflow = program["workflows"][0]
    assert list(workflow)[-2:] == ["id", "location"]
    assert workflow["location"] == {"line": 1, "column": 1, "endLine": 3, "endColumn": 2}
    assert workflow["body"]["steps"][0]["call"]["args"][0]["value"]["location"]["column"] == 12
    assert "location" not in json.dumps(compiled("workflow W() andThen { a = F(x = 1 + 2) }"))


@pytest.mark.parametrize(
    ("origin", "expected"),
    [
        (FileOrigin("<stdin>"), {"type": "file", "path": "<stdin>"}),
        (MongoDBOrigin("c", "d"), {"type": "mongodb", "collectionId": "c", "displayName": "d"}),
        (
            MavenOrigin("g", "a", "1"),
            {"type": "maven", "groupId": "g", "artifactId": "a", "version": "1"},
        ),
        (
            MavenOrigin("g", "a", "1", "k"),
            {"type": "maven", "groupId": "g", "artifactId": "a", "version": "1", "classifier": "k"},
        ),
        (None, {"type": "unknown"}),
    ],
)
def test_provenance(
    origin: FileOrigin | MongoDBOrigin | MavenOrigin | None, expected: dict[str, str]
) -> None:
    source_id = origin.to_source_id() if origin is not None else "nowhere"
    registry = SourceRegistry({source_id: origin} if origin is not None else {})
    program = AFLParser().parse("facet A()", source_id=source_id)
    emitted = JSONEmitter(include_provenance=True, source_registry=registry).emit_dict(program)
    location = emitted["facets"][0]["location"]
    assert list(location) == ["line", "column", "endLine", "endColumn", "sourceId", "provenance"]
    assert (location["sourceId"], location["provenance"]) == (source_id, expected)


def test_json_text_is_indented_or_one_line_and_keeps_its_characters() -> None:
    program = parse('facet A(s: String = "é")')
    assert "\n  " in emit_json(program)
    compact = JSONEmitter(indent=None).emit(program)
    assert "\n" not in compact
    assert "é" in compact
    assert json.loads(compact) == emit_dict(program)


def test_single_nodes_can_be_emitted() -> None:
    call = CallExpr("F", [], [MixinCall("M")])
    block = Block([StepStmt("a", call)], [YieldStmt(CallExpr("W")), YieldStmt(CallExpr("V"))])
    assert emit_dict(Literal(None, "null")) == {"type": "Null"}
    assert emit_dict(Reference(["a"], True)) == {"type": "InputRef", "path": ["a"]}
    assert list(emit_dict(block)) == ["type", "steps", "yield", "id"]
    assert emit_dict(UsesDecl("a.b"))["name"] == "a.b"
    assert list(emit_dict(parse("facet F(a: Int)").facets[0].sig)) == [
        "type",
        "name",
        "params",
        "id",
        "location",
    ]
    assert JSONEmitter().emit(TypeRef("Int")) == '"Int"'


def test_anything_else_is_refused() -> None:
    with pytest.raises(ValueError, match="Unknown node type: object"):
        JSONEmitter().emit_dict(object())  # type: ignore[arg-type]


def test_a_mixin_that_the_program_does_not_declare_keeps_the_name_it_is_written_with() -> None:
    program = emit_dict(parse("facet User(name: String) => (id: Long) with Retry(max = 3)"))
    assert program["facets"][0]["mixins"] == [
        {
            "type": "MixinSig",
            "target": "Retry",
            "args": [{"name": "max", "value": {"type": "Int", "value": 3}}],
        }
    ]
