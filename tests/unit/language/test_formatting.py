"""The standard layout, by example; the properties are in tests/properties/test_random_programs.py."""

from __future__ import annotations

import pytest

from afl.language import ParseError
from afl.language.formatter import format_source

# ruff: noqa: E501
MESSY = """// top
namespace   example.1{uses a.b;/** Doc.
 @param x y */ facet A(n:Long,event:[String]=[1,2.5,])=>(in:Int)with R(3)as m;event X() schema S{a:Int,b:[S] c:Int} // behind
}
workflow W()andThen foreach r in $.xs{a=F(x=-a . b[0].c+2*3==1&&!true, /* inline */ y = 3) with Q() as z andThen when{case r.x contains "é"=>{a=B()}case _=>{}}catch{
// alone


// alone again
b=C()}sys.log(a=1) // log
sys.assert(1 not  in [1])


 yield W(a="a"++"b"++(1+2)) with M(#{"a":1,b:2})}andThen{}
workflow Long(parameter_one: String, parameter_two: String, parameter_three: String = "abc", parameter_four: Int) => (x: Int) with Retry(3) andThen { // open
 step = Something(alpha = "a long enough text", // first
   // own line
   beta = [1,2,3], gamma = #{a: 1}, delta = "another long enough text that goes over the limit") catch { }
}
event P(a: String) prompt { system "x" template "y {a}" } // end
"""

TIDY = """// top
namespace example.1 {
    uses a.b
    /** Doc.
       @param x y */
    facet A(n: Long, event: [String] = [1, 2.5]) => (in: Int) with R(3) as m
    event X()
    schema S {
        a: Int
        b: [S]
        c: Int
    }  // behind
}

workflow W() andThen foreach r in $.xs {
    a = F(x = -a.b[0].c + 2 * 3 == 1 && !true, /* inline */ y = 3) with Q() as z andThen when {
        case r.x contains "é" => {
            a = B()
        }
        case _ => {}
    } catch {
        // alone

        // alone again
        b = C()
    }
    sys.log(a = 1)  // log
    sys.assert(1 not in [1])

    yield W(a = "a" ++ "b" ++ (1 + 2)) with M(#{"a": 1, b: 2})
} andThen {}

workflow Long(
    parameter_one: String,
    parameter_two: String,
    parameter_three: String = "abc",
    parameter_four: Int
) => (x: Int) with Retry(3) andThen {  // open
    step = Something(
        alpha = "a long enough text",  // first
        // own line
        beta = [1, 2, 3],
        gamma = #{a: 1},
        delta = "another long enough text that goes over the limit"
    ) catch {}
}

event P(a: String) prompt {
    system "x"
    template "y {a}"
}  // end
"""


def test_the_standard_layout() -> None:
    assert format_source(MESSY) == TIDY


def test_the_standard_layout_is_left_alone() -> None:
    assert format_source(TIDY) == TIDY


@pytest.mark.parametrize(("text", "expected"), [("", ""), ("// only\n\n\n// this", "// only\n\n// this\n")])
def test_texts_without_declarations(text: str, expected: str) -> None:
    assert format_source(text) == expected


def test_a_foreach_with_a_limit_and_failures_to_collect() -> None:
    text = "workflow W() andThen foreach x in $.xs limit 2 + $.n collect lost {}\n"
    assert format_source(text.replace(" ", "\n").replace("in\n", "in ")) == text
    assert format_source(text) == text


def test_windows_line_ends_become_plain_ones() -> None:
    assert format_source("facet A() // x\r\nfacet B()\r\n") == "facet A()  // x\nfacet B()\n"


def test_a_broken_text_is_not_touched() -> None:
    with pytest.raises(ParseError):
        format_source("facet A(")
