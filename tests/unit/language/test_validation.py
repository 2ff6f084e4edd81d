"""Every rule of the language: one small program that breaks it, and the exact message."""

from __future__ import annotations

import pytest

from afl.language import ValidationError, ValidationResult, parse, validate
from afl.language.diagnostics import Diagnostic

LIBRARY = """
facet N(n: Long)
facet Two(a: Int, b: String = "x") => (r: String)
event facet Ask(q: String) => (answer: String, score: Double)
event facet Anything(q: String)
schema User { name: String, age: Int }
facet Greet(user: User) => (text: String)
facet Opt(x: Json = null)
"""


def findings(text: str) -> list[Diagnostic]:
    result = validate(parse(LIBRARY + text))
    return result.errors + result.warnings


def body(text: str, params: str = "", returns: str = "") -> str:
    clause = f" => ({returns})" if returns else ""
    return f"workflow W({params}){clause} andThen {{ {text} }}"


BROKEN = {
    "a catch that does not provide what is used": (
        body('a = Ask(q = "x") catch { } b = Ask(q = a.answer)'),
        "CATCH_MISSING_RETURN",
        "Step 'a' has no 'answer' after its catch ran, and 'a.answer' is used here",
    ),
    "a case of a catch that does not provide it": (
        body(
            'a = Ask(q = "x") catch when { case true => { yield Ask(answer = "") } case _ => { } } '
            "b = Ask(q = a.answer)"
        ),
        "CATCH_MISSING_RETURN",
        "Step 'a' has no 'answer' after its catch ran",
    ),
    "a catch of the facet": (
        "event Try() => (r: Long) catch { } " + body("a = Try() b = N(a.r)"),
        "CATCH_MISSING_RETURN",
        "Step 'a' has no 'r' after its catch ran",
    ),
    "duplicate facet": (
        "facet A() facet A()",
        "DUPLICATE_NAME",
        "Duplicate facet name 'A' (previously defined at line 9)",
    ),
    "kind of the later one": (
        "workflow A() facet A()",
        "DUPLICATE_NAME",
        "Duplicate workflow name 'A' (previously defined at line 9)",
    ),
    "duplicate schema": ("schema A { } event A()", "DUPLICATE_NAME", "Duplicate schema name 'A'"),
    "a schema with the name of a type": (
        "schema Map { }",
        "SCHEMA_NAME_OF_TYPE",
        "As a type, 'Map' is the built-in one and not this schema",
    ),
    "duplicate field": ("schema A { x: Int x: Int }", "DUPLICATE_NAME", "Duplicate schema field name 'x'"),
    "two blocks are one scope": (
        "namespace a { facet A() } namespace a { facet A() }",
        "DUPLICATE_NAME",
        "Duplicate facet name 'A'",
    ),
    "duplicate parameter": ("facet A(x: Int, x: Int)", "DUPLICATE_NAME", "Duplicate parameter name 'x'"),
    "duplicate return": ("facet A() => (x: Int, x: Int)", "DUPLICATE_NAME", "Duplicate return name 'x'"),
    "duplicate implicit": (
        "implicit i = N(1) implicit i = N(2)",
        "DUPLICATE_NAME",
        "Duplicate implicit name 'i'",
    ),
    "duplicate step": (
        body("a = N(1) a = N(2)"),
        "DUPLICATE_STEP_NAME",
        "Duplicate step name 'a' (previously defined at line 9)",
    ),
    "a step named as the variable of its loop": (
        body("a = N(1) andThen foreach x in [1] { x = N(2) }"),
        "DUPLICATE_STEP_NAME",
        "Step 'x' has the name of the variable of its foreach or repeat",
    ),
    "a step as a value": (
        "facet J(j: Json) " + body("a = N(1) b = J(a)"),
        "STEP_AS_VALUE",
        "Argument 'j' of facet 'J' takes a value, and this is a step of 'N'",
    ),
    "steps in a list as a value": (
        "facet J(j: Json) " + body("a = N(1) b = J([[a]])"),
        "STEP_AS_VALUE",
        "Argument 'j' of facet 'J' takes a value, and this is a step of 'N'",
    ),
    "steps in a list of values": (
        "facet J(j: [Json]) " + body("a = N(1) b = J([a])"),
        "STEP_AS_VALUE",
        "Argument 'j' of facet 'J' takes a value, and this is a step of 'N'",
    ),
    "a step in a map": (
        body("a = N(1) b = Opt(#{a: a})"),
        "STEP_AS_VALUE",
        "A map holds values, and this is a step of 'N'",
    ),
    "a step in a log": (
        body('a = N(1) sys.log("x", a = [a])'),
        "STEP_AS_VALUE",
        "A log shows values, and this is a step of 'N'",
    ),
    "a step made a text by a function": (
        body("a = N(1) b = Opt(string([a]))"),
        "STEP_AS_VALUE",
        "Function 'string' makes a text of values, and this is a step of 'N'",
    ),
    "a step as text": (
        body('a = N(1) b = Opt("n is " ++ a)'),
        "STEP_AS_VALUE",
        "Operator '++' joins values, and this is a step of 'N'",
    ),
    "unknown namespace": (
        "namespace a { uses b.c }",
        "USE_UNKNOWN_NAMESPACE",
        "Invalid use statement: namespace 'b.c' does not exist",
    ),
    "reserved namespace": (
        "namespace sys { facet Mine() }",
        "NAMESPACE_RESERVED",
        "Namespace 'sys' is built in",
    ),
    "bad input": (
        body("a = N(n = $.y)", "x: Int"),
        "REF_INVALID_INPUT",
        "Invalid input reference '$.y': no parameter named 'y'",
    ),
    "undefined step": (body("a = N(n = b.n)"), "REF_UNDEFINED_STEP", "Reference to undefined step 'b'"),
    "forward reference": (
        body("a = N(n = b.n) b = N(1)"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'b'",
    ),
    "a step that a later one of the block hides": (
        body('a = N(1) b = N(2) andThen { c = N(n = a.n) a = Ask(q = "x") }'),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'a'",
    ),
    "a step that a later one of the block around hides": (
        body("a = N(1) b = N(2) andThen { c = N(3) andThen { d = N(n = a.n) } a = N(4) }"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'a'",
    ),
    "a variable that a later step of the block hides": (
        body("b = N(2) andThen foreach a in [1] { c = N(3) andThen { d = N(n = a) a = N(4) } }"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'a'",
    ),
    "the step itself, which hides another one": (
        body("a = N(1) b = N(2) andThen { a = N(n = a.n) }"),
        "REF_FORWARD_STEP",
        "Step 'a' cannot reference step 'a' which is not defined before it",
    ),
    "inside an expression": (
        body("a = N(n = 1 + b.n)"),
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'b'",
    ),
    "in a mixin": (body("a = N(1) with Opt(b.n)"), "REF_UNDEFINED_STEP", "Reference to undefined step 'b'"),
    "in a default": ("facet A(x: Int, y: Int = $.x)", "REF_INVALID_INPUT", "Invalid input reference '$.x'"),
    "self reference": (
        body("a = N(n = a.n)"),
        "REF_FORWARD_STEP",
        "Step 'a' cannot reference step 'a' which is not defined before it",
    ),
    "sibling block": (
        body("a = N(1)") + " andThen { b = N(n = a.n) }",
        "REF_CROSS_BLOCK_STEP",
        "Cross-block step reference: 'a' is defined in a sibling andThen block and cannot be referenced here.",
    ),
    "attribute": (
        body('a = Ask(q = "x") b = N(n = a.anser)'),
        "REF_INVALID_STEP_ATTRIBUTE",
        "Invalid attribute 'anser' for step 'a': valid attributes are ['answer', 'q', 'score']",
    ),
    "attribute of a text": (
        body("a = N(n = $.s.x)", "s: String"),
        "REF_NO_ATTRIBUTES",
        "Invalid reference '$.s.x': String has no attribute 'x'",
    ),
    "unknown field": (
        body("a = N(n = $.u.agee)", "u: User"),
        "SCHEMA_UNKNOWN_FIELD",
        "Field 'agee' not found on schema 'User'",
    ),
    "yield target": (
        body("yield V()"),
        "YIELD_INVALID_TARGET",
        "Invalid yield target 'V': must be the containing facet or one of its mixins. Valid targets are: ['W']",
    ),
    "double yield": (
        body("yield W() yield W()"),
        "YIELD_DUPLICATE_TARGET",
        "Duplicate yield target 'W': each yield must reference a different facet or mixin",
    ),
    "ambiguous yield": (
        "workflow W() with Opt(1) as a with Opt(2) as b andThen { yield Opt() }",
        "YIELD_TARGET_AMBIGUOUS",
        "Ambiguous yield target 'Opt'",
    ),
    "yield of no return": (
        body("yield W(z = 1)", "", "y: Int = 0"),
        "YIELD_UNKNOWN",
        "Unknown return 'z' of 'W'",
    ),
    "yield of a wrong type": (
        body('yield W(y = "a")', "", "y: Int"),
        "YIELD_TYPE",
        "Return 'y' of 'W' must be Int, got String",
    ),
    "yield twice the same": (
        body("yield W(y = 1, y = 2)", "", "y: Int"),
        "YIELD_DUPLICATE",
        "Duplicate return 'y' of 'W'",
    ),
    "never yielded": (
        body("a = N(1)", "", "y: Int"),
        "RETURN_NEVER_YIELDED",
        "Return 'y' of 'W' is never yielded",
    ),
    "ambiguous facet": (
        "namespace a { facet F() } namespace b { facet F() } " + body("s = F()"),
        "REF_AMBIGUOUS_FACET",
        "Ambiguous facet reference 'F': could be a.F, b.F. Use fully qualified name to disambiguate.",
    ),
    "top level and import": (
        "namespace a { facet N() } namespace b { uses a workflow V() andThen { s = N() } }",
        "REF_AMBIGUOUS_FACET",
        "Ambiguous facet reference 'N': could be N, a.N.",
    ),
    "unknown facet": (body("s = Nope()"), "REF_UNKNOWN_FACET", "Unknown facet 'Nope'"),
    "unknown full name": (body("s = a.N()"), "REF_UNKNOWN_FACET", "Unknown facet 'a.N'"),
    "unknown signature mixin": ("facet A() with Nope()", "REF_UNKNOWN_FACET", "Unknown facet 'Nope'"),
    "unknown call mixin": (body("s = N(1) with x.Nope()"), "REF_UNKNOWN_FACET", "Unknown facet 'x.Nope'"),
    "a schema is no mixin": (body("s = N(1) with User()"), "REF_UNKNOWN_FACET", "Unknown facet 'User'"),
    "policy as a step": (body("s = Retry(3)"), "POLICY_AS_STEP", "'sys.Retry' is a policy"),
    "unknown type": (
        "facet A(x: Strin)",
        "REF_UNKNOWN_TYPE",
        "Unknown type 'Strin': not a builtin type or known schema.",
    ),
    "unknown element type": ("facet A() => (x: [a.S])", "REF_UNKNOWN_SCHEMA", "Unknown type 'a.S'"),
    "unknown field type": ("schema A { x: Nope }", "REF_UNKNOWN_TYPE", "Unknown type 'Nope'"),
    "ambiguous schema": (
        "namespace a { schema S { } } namespace b { schema S { } } facet A(x: S)",
        "REF_AMBIGUOUS_SCHEMA",
        "Ambiguous schema reference 'S': could be a.S, b.S.",
    ),
    "unknown argument": (body("s = N(n = 1, m = 2)"), "ARG_UNKNOWN", "Unknown argument 'm' for facet 'N'"),
    "too many positional": (
        body('s = Two(1, "b")'),
        "ARG_POSITIONAL",
        "Only the first argument for facet 'Two' may be given without a name",
    ),
    "positional for nothing": (
        "facet E() " + body("s = E(1)"),
        "ARG_UNKNOWN",
        "Unknown argument for facet 'E'",
    ),
    "duplicate argument": (
        body("s = N(n = 1, n = 2)"),
        "ARG_DUPLICATE",
        "Duplicate argument 'n' for facet 'N'",
    ),
    "positional and named": (
        body("s = N(1, n = 2)"),
        "ARG_DUPLICATE",
        "Duplicate argument 'n' for facet 'N'",
    ),
    "missing argument": (body('s = Two(b = "x")'), "ARG_MISSING", "Missing argument 'a' for facet 'Two'"),
    "missing field": (
        body('s = User(name = "x")'),
        "ARG_MISSING",
        "Missing argument 'age' for schema 'User'",
    ),
    "missing policy argument": (
        "event A() with Retry()",
        "ARG_MISSING",
        "Missing argument 'attempts' for facet 'Retry'",
    ),
    "argument type": (
        body('s = N(n = "x")'),
        "ARG_TYPE",
        "Argument 'n' of facet 'N' must be Long, got String",
    ),
    "no narrowing": (
        body("s = Two($.l)", "l: Long"),
        "ARG_TYPE",
        "Argument 'a' of facet 'Two' must be Int, got Long",
    ),
    "division is a Double": (
        body("s = N(4 / 2)"),
        "ARG_TYPE",
        "Argument 'n' of facet 'N' must be Long, got Double",
    ),
    "mixin argument type": (
        'event A() with Retry("x")',
        "ARG_TYPE",
        "Argument 'attempts' of facet 'Retry' must be Long, got String",
    ),
    "list type": (
        "facet L(xs: [Int]) " + body('s = L(["a"])'),
        "ARG_TYPE",
        "Argument 'xs' of facet 'L' must be [Int], got [String]",
    ),
    "default type": ('facet A(x: Int = "a")', "DEFAULT_TYPE", "Default of 'x' must be Int, got String"),
    "step of another facet": (
        "facet G(f: Two) " + body("a = N(1) g = G(f = a)"),
        "STEP_REF_FACET_MISMATCH",
        "Argument 'f' of facet 'G' must be a step of facet 'Two', got one of 'N'",
    ),
    "attribute of a passed step": (
        "facet G(f: Two) => (x: Json) andThen { yield G(x = $.f.zz) }",
        "REF_INVALID_FACET_REF_ATTRIBUTE",
        "Invalid attribute 'zz' of facet 'Two': valid attributes are ['a', 'b', 'r']",
    ),
    "implicit parameter": (
        "implicit i = N(m = 1)",
        "IMPLICIT_UNKNOWN_PARAM",
        "Implicit 'i' passes unknown parameter 'm' to facet 'N'",
    ),
    "two implicits for one argument": (
        "implicit i = N(1)\nnamespace a { implicit i = N(n = 2) }",
        "IMPLICIT_AMBIGUOUS",
        "Implicit 'i' supplies 'n' of facet 'N', and so does implicit 'i' at line 9",
    ),
    "implicit target": ("implicit i = Nope()", "REF_UNKNOWN_FACET", "Unknown facet 'Nope'"),
    "implicit type": (
        'implicit i = N(n = "x")',
        "ARG_TYPE",
        "Argument 'n' of facet 'N' must be Long, got String",
    ),
    "schema with mixins": (
        body('s = User(name = "a", age = 1) with Opt()'),
        "SCHEMA_INSTANTIATION_NO_MIXINS",
        "Schema instantiation 'User' cannot have mixins",
    ),
    "a mixin's value that does not fit the parameter it supplies": (
        "facet T(n: String) " + body('a = N() with T("x")'),
        "ARG_TYPE",
        "Argument 'n' of facet 'N' must be Long, got String",
    ),
    "alias of a call like a parameter": (
        body("a = N(1) with Opt(1) as n"),
        "MIXIN_ALIAS_NAME_CONFLICT",
        "Mixin alias 'n' conflicts with a parameter",
    ),
    "alias of a call like one of the signature": (
        "facet A() with Opt(1) as m " + body("a = A() with Opt(2) as m"),
        "MIXIN_ALIAS_NAME_CONFLICT",
        "Mixin alias 'm' conflicts with a parameter",
    ),
    "alias like a parameter": (
        "facet A(m: Int) with Opt() as m",
        "MIXIN_ALIAS_NAME_CONFLICT",
        "Mixin alias 'm' conflicts with a parameter",
    ),
    "foreach over a text": (
        "workflow W(s: String) andThen foreach x in $.s { }",
        "FOREACH_NOT_ITERABLE",
        "foreach needs a list or a map, got String",
    ),
    "a limit of none": (
        "workflow W(xs: Json) andThen foreach x in $.xs limit 0 { }",
        "FOREACH_LIMIT",
        "The limit of a foreach is 0; expected at least 1",
    ),
    "a limit below none": (
        "workflow W(xs: Json) andThen foreach x in $.xs limit -2 { }",
        "FOREACH_LIMIT",
        "The limit of a foreach is -2; expected at least 1",
    ),
    "a limit that is no number": (
        'workflow W(xs: Json) andThen foreach x in $.xs limit "many" { }',
        "FOREACH_LIMIT",
        "The limit of a foreach must be Int, got String",
    ),
    "a limit that is no whole number": (
        "workflow W(xs: Json) andThen foreach x in $.xs limit 1.5 { }",
        "FOREACH_LIMIT",
        "The limit of a foreach must be Int, got Double",
    ),
    "a limit that knows the element": (
        "workflow W(xs: [Int]) andThen foreach x in $.xs limit x { }",
        "REF_UNDEFINED_STEP",
        "Reference to undefined step 'x'",
    ),
    "failures collected in no return": (
        "workflow W(xs: Json) andThen foreach x in $.xs collect failures { }",
        "COLLECT_RETURN",
        "The failures of this foreach go to 'failures' of 'W', which is none of its returns",
    ),
    "failures collected in a return of another type": (
        "workflow W(xs: Json) => (lost: [String]) andThen foreach x in $.xs limit 2 collect lost { }",
        "COLLECT_RETURN",
        "The failures of this foreach go to 'lost' of 'W', which is [String]",
    ),
    "failures of an inline body collected in a return of the workflow": (
        "workflow W(xs: Json) => (lost: [sys.Failure] = []) andThen { "
        "a = Opt() andThen foreach x in $.x collect lost { } }",
        "COLLECT_RETURN",
        "The failures of this foreach go to 'lost' of 'Opt', which is none of its returns",
    ),
    "when without cases": (
        "workflow W() andThen when { }",
        "WHEN_NO_CASES",
        "When block must have at least one case",
    ),
    "when without default": (
        "workflow W() andThen when { case true => { } }",
        "WHEN_MISSING_DEFAULT",
        "When block must have a default case (case _ =>)",
    ),
    "two defaults": (
        "workflow W() andThen when { case _ => { } case _ => { } }",
        "WHEN_MULTIPLE_DEFAULTS",
        "When block must have only one default case",
    ),
    "default first": (
        "workflow W() andThen when { case _ => { } case true => { } }",
        "WHEN_DEFAULT_NOT_LAST",
        "The default case must be the last one",
    ),
    "condition": (
        "workflow W() andThen when { case 1 => { } case _ => { } }",
        "WHEN_CONDITION_NOT_BOOLEAN",
        "When case condition must be Boolean, got Int",
    ),
    "assertion": (
        body("sys.assert(1 + 1)"),
        "SYS_ASSERT_NOT_BOOLEAN",
        "sys.assert condition must be Boolean, got Int",
    ),
    "log twice the same": (
        body("sys.log(a = 1, a = 2)"),
        "ARG_DUPLICATE",
        "Duplicate argument 'a' for sys.log",
    ),
    "log positional": (body('sys.log("a", "b")'), "ARG_POSITIONAL", "Only the first argument of sys.log"),
    "duplicate key": (body("s = Opt(#{a: 1, a: 2})"), "DUPLICATE_KEY", "Duplicate map key 'a'"),
    "prompt without template": (
        'event A() prompt { system "x" }',
        "PROMPT_MISSING_TEMPLATE",
        "Prompt block must have a 'template' directive",
    ),
    "placeholder": (
        'event A(name: String) prompt { template "{{x}} {nme}" }',
        "PROMPT_INVALID_PLACEHOLDER",
        "Invalid placeholder 'nme' in template: no parameter named 'nme'",
    ),
    "prompt of a plain facet": (
        'facet A() prompt { template "x" }',
        "PROMPT_NOT_EVENT",
        "Only an event facet can have a prompt",
    ),
    "recursion": (body("a = W()"), "RECURSION_UNCONDITIONAL", "'W' calls itself unconditionally in step 'a'"),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_a_broken_rule_is_reported_once_with_its_message(case: tuple[str, str, str]) -> None:
    text, rule, message = case
    found = findings(text)
    assert [one.rule_id for one in found] == [rule]
    assert found[0].message.startswith(message)
    assert found[0].line is not None


OPERATORS = {
    '"a" + 1': (
        "TYPE_ARITHMETIC_STRING",
        "cannot use arithmetic operator '+' with String operand (use '++' for concatenation)",
    ),
    "true * 2": ("TYPE_ARITHMETIC_BOOLEAN", "cannot use arithmetic operator '*' with Boolean operand"),
    "$.u - 1": ("TYPE_ARITHMETIC_SCHEMA", "cannot use arithmetic operator '-' with schema type 'User'"),
    "[1] % 2": ("TYPE_ARITHMETIC_OPERAND", "cannot use arithmetic operator '%' with [Int] operand"),
    "1 && true": ("TYPE_BOOLEAN_OPERAND_REQUIRED", "operator '&&' requires Boolean operands, got Int"),
    "!1": ("TYPE_NOT_OPERAND_REQUIRED", "operator '!' requires Boolean operands, got Int"),
    "true < 1": ("TYPE_ORDERED_COMPARISON_BOOLEAN", "cannot use ordered comparison '<' with Boolean operand"),
    "$.u < 1": (
        "TYPE_ORDERED_COMPARISON_SCHEMA",
        "cannot use ordered comparison '<' with schema type 'User'",
    ),
    '"a" < 1': ("TYPE_COMPARISON_MISMATCH", "cannot compare String with Int"),
    "1 in true": (
        "TYPE_CONTAINMENT_OPERAND",
        "operator 'in' searches a String, a list or a map, got Boolean",
    ),
    "1 startsWith 2": (
        "TYPE_STRING_MATCH_OPERAND",
        "operator 'startsWith' requires String operands, got Int",
    ),
    '-"a"': ("TYPE_NEGATE_STRING", "cannot negate String operand"),
    "-true": ("TYPE_NEGATE_BOOLEAN", "cannot negate Boolean operand"),
    "-$.u": ("TYPE_NEGATE_SCHEMA", "cannot negate schema type 'User'"),
    "1[0]": ("TYPE_INDEX", "cannot index Int"),
    "[1][true]": ("TYPE_INDEX", "a list is indexed by an Int, got Boolean"),
}


@pytest.mark.parametrize("expression", OPERATORS)
def test_operators_refuse_what_they_cannot_work_on(expression: str) -> None:
    rule, message = OPERATORS[expression]
    found = findings(body(f"a = Opt({expression})", "u: User"))
    assert [(one.rule_id, one.message) for one in found] == [(rule, f"Type error: {message}")]


ACCEPTED = {
    "a catch that provides what is used": body(
        'a = Ask(q = "x") catch { yield Ask(answer = a.error) } b = Ask(q = a.answer)'
    ),
    "a parameter after a catch": body('a = Ask(q = "x") catch { } b = Ask(q = a.q)'),
    "a catch that fails": body('a = Ask(q = "x") catch { sys.assert(false) } b = Ask(q = a.answer)'),
    "a catch that provides it from a body": body(
        'a = Ask(q = "x") catch { n = N(1) andThen { yield Ask(answer = "y") } } b = Ask(q = a.answer)'
    ),
    "inside its own body": body('a = Ask(q = "x") andThen { b = Ask(q = a.answer) } catch { }'),
    "widening": body("a = N(1) b = Opt(a.n + 1.5)"),
    "null fits everything": body("a = Two(null) b = Ask(q = null) c = Greet(user = null)"),
    "Json fits and yields everything": body("a = N($.j) b = N($.j.x.y[0]) c = N($.j + 1)", "j: Json"),
    "Map and Any": "facet A(m: Map = #{a: 1}, x: Any = 3) " + body('a = A(x = "s", m = $.u)', "u: User"),
    "parameters and returns of a step": body('a = Ask(q = "x") b = Two(a = 1, b = a.q ++ a.answer)'),
    "an agent without return clause": body('a = Anything(q = "x") b = N(a.whatever)'),
    "schema fields": body('u = User(name = "a", age = 1) g = Greet(u) n = N(u.age)'),
    "a map as a schema": body('g = Greet(#{name: "a", age: 1})'),
    "lists of schemas": body("n = N($.us[0].age) g = Greet($.us[1])", "us: [User]"),
    "call mixins supply arguments": body("a = N() with N(n = 1) b = N(a.n)"),
    "implicits supply arguments": "implicit i = N(1) " + body("a = N()"),
    "several implicits supply one each": "facet P(x: Int, y: Int) implicit i = P(1) implicit j = P(y = 2) "
    + body("a = P()"),
    "mixin alias of a call": body("a = N(1) with Opt(1) as m b = Opt(a.m.x)"),
    "mixin alias of a signature": "facet A() => (y: Json) with Two(1) as m "
    'andThen { yield A(y = $.m.r) yield m(r = "a") }',
    "yield to a mixin": "workflow W() => (y: Int) with Opt(1) andThen { yield W(y = 1) with Opt(x = 2) }",
    "yield with a qualifier": "namespace q { workflow W() => (y: Int) andThen { yield q.W(1) } }",
    "foreach variable three ways": "workflow W(us: [User]) andThen foreach u in $.us { "
    "a = N(u.age) b = N($.u.age) c = Greet(u) }",
    "foreach over a map": "workflow W(m: Map) andThen foreach e in $.m { a = Ask(q = e.key) b = N(e.value) }",
    "inline body": body("a = Two(1) andThen { b = N($.a) c = N(a.a) yield Two(r = $.b) } d = Ask(q = a.r)"),
    "inline body of an event sees its returns": body('a = Ask(q = "x") andThen { b = Opt($.score) }'),
    "inline body yields outward": body("a = N(1) andThen { yield W(y = a.n) }", "", "y: Long"),
    "outer steps and variables are seen inside": (
        "workflow W(xs: [Int]) andThen foreach x in $.xs { a = N(x) b = Two(1) andThen { c = N(a.n + x) } }"
    ),
    "catch of a step": body("a = N(1) catch { b = Ask(q = a.error ++ a.error_type) c = N(a.n) }"),
    "catch of a declaration": body("a = N(1)")
    + ' catch when { case $.error contains "x" => { } case _ => { } }',
    "event facet with a body": "event E(i: Int) => (o: Int) andThen { a = N($.o + $.i) }",
    "same step names in sibling blocks": body("a = N(1)") + " andThen { a = N(2) b = N(a.n) }",
    "recursion under a condition": "workflow W() andThen when { case true => { a = W() } case _ => { } }",
    "a step passed on": "facet G(f: Opt) => (x: Json) andThen { yield G(x = $.f.x) } facet Sub() with Opt() "
    + body("a = Opt(1) b = Sub() g = G(a) h = G(f = b)"),
    "lists join": "facet L(xs: [Int]) " + body("a = L([1] ++ [2])"),
    "workflow as a step": body("a = N(1)", "", "") + " workflow V() andThen { w = W() }",
    "prompt placeholders": 'event A(name: String) prompt { system "{{}}" template "{name} {name.x}" }',
    "uses sys": "namespace a { uses sys event A() with Retry(3) with sys.Timeout(seconds = 1) }",
    "local beats import": "namespace a { facet F() } "
    "namespace b { uses a facet F(x: Int) workflow V() andThen { s = F(1) } }",
    "a full name decides": "namespace a { facet F() } namespace b { facet F() } "
    + body("s = a.F() t = b.F()"),
    "same names in namespaces": "namespace a { facet F() } namespace b { facet F() }",
    "two blocks see each other": "namespace a { facet F() } namespace a { workflow V() andThen { s = F() } }",
}


@pytest.mark.parametrize("text", ACCEPTED.values(), ids=ACCEPTED.keys())
def test_what_is_right_is_accepted(text: str) -> None:
    assert [str(one) for one in findings(text)] == []


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        (body("a = Gret(user = null)"), "did you mean 'Greet'?"),
        (body("a = x.Greet(user = null)"), "did you mean 'Greet'?"),
        (body("a = N(nn = 1, n = 1)"), "did you mean 'n'?"),
        (body("a = N(x)", "x: Int"), "write '$.x' for the parameter"),
        (body("a = N(b.n)\nb = N(1)"), "it is defined later, at line 10; move it up"),
        ("facet A(x: Strng)", "did you mean 'String'?"),
        ("facet A(x: float)", "write 'Double', or 'Long' for whole numbers"),
        ("facet A(x: Int, y: Int = $.x)", "defaults and implicits cannot refer to parameters"),
        (body("a = Opt(x = None)"), "write 'null'"),
        (
            body("ok = sys.assert($.x > 0)", "x: Int"),
            "an assertion has no name; steps that must wait for it follow a step whose facet asserts it in its body",
        ),
        (body('a = sys.log("x")'), "a log has no name and no value: leave out what stands before 'sys.log'"),
        (
            "workflow W() andThen foreach x in [1] { a = N(1) andThen { b = N($.x) } }",
            "'$' is the step here: write 'x' for the variable",
        ),
        (
            body("a = N(1) andThen { b = N($.x) }", "x: Int"),
            "'$' is the step here: pass 'x' to a step before it, and read it from that step",
        ),
        (
            body("a = N(1) catch { b = N($.x) }", "x: Int"),
            "'$' is the step here: pass 'x' to a step before it, and read it from that step",
        ),
        ("facet A(x: List)", "a list of String is written '[String]'"),
        (
            body("a = len($.xs)", "xs: [Int]"),
            "'len' is a function: write it in the argument or yield that uses the value",
        ),
    ],
)
def test_a_way_out_is_suggested(text: str, fix: str) -> None:
    assert findings(text)[0].suggested_fix == fix


def test_all_errors_of_all_kinds_come_together_in_the_order_of_the_text() -> None:
    result = validate(
        parse("facet A(x: Nope)\nfacet A()\nworkflow W() andThen {\n a = B()\n b = A(c.d)\n yield V()\n}")
    )
    assert [one.line for one in result.errors] == [1, 2, 4, 5, 6]
    assert not result.is_valid


def test_the_text_of_an_error() -> None:
    assert str(ValidationError("Bad")) == "Bad"
    assert str(ValidationError("Bad", 3)) == "Bad at line 3"
    assert str(ValidationError("Bad", 3, 4)) == "Bad at line 3, column 4"
    assert ValidationError("Bad", rule_id="X").docs_uri == "afl://docs/rules/X"


def test_a_result_collects_errors_and_warnings() -> None:
    result = ValidationResult()
    result.add_warning("Hm", parse("facet A()").facets[0].location, "W1")
    assert result.is_valid
    result.add_error("Bad", parse("facet A()").facets[0].location)
    assert not result.is_valid
    assert (result.errors[0].line, result.errors[0].column, result.errors[0].severity) == (1, 1, "error")
    assert result.warnings[0].severity == "warning"


@pytest.mark.parametrize("kind", ["[sys.Failure]", "[Failure]", "[Json]", "Json", "[Any]"])
def test_failures_are_collected_in_a_return_that_can_take_them(kind: str) -> None:
    text = f"workflow W(xs: Json, n: Int) => (lost: {kind}) andThen foreach x in $.xs limit $.n collect lost {{ }}"
    assert findings(text) == []


def test_what_to_declare_for_failures_is_said() -> None:
    (found,) = findings("workflow W(xs: Json) andThen foreach x in $.xs collect lost { }")
    assert found.suggested_fix == "declare 'lost: [sys.Failure]' in the return clause of 'W'"


def test_the_fields_of_a_failure_are_known() -> None:
    text = "workflow W(xs: Json) => (lost: [sys.Failure]) andThen foreach x in $.xs collect lost { }"
    good = "workflow V() andThen { w = W(xs = []) sys.log(a = w.lost[0].message, b = w.lost[0].element) }"
    assert findings(f"{text} {good}") == []
    bad = "workflow V() andThen { w = W(xs = []) sys.log(a = w.lost[0].reason) }"
    assert [one.rule_id for one in findings(f"{text} {bad}")] == ["SCHEMA_UNKNOWN_FIELD"]
