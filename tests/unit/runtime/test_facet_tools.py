"""Facets as a model sees them: the tool of their return clause, and the prompt."""

from __future__ import annotations

from afl.language import compile_source
from afl.runtime.agent import ToolDefinition
from afl.runtime.program.declaration import Declaration
from afl.runtime.program.program import Program
from afl.runtime.task_handlers.facet_prompt import facet_prompt, filled
from afl.runtime.task_handlers.model_handler import misfit_of

SOURCE = """
namespace news.desk {
    schema Person { name: String, knows: [Person] }

    /** Reads a story.
     * @param text the story
     * @return author who wrote it
     */
    event facet Read(text: String, pages: [Long], mood: Any = "calm") => (
        author: Person, others: [Person], words: Long, share: Double, solid: Boolean, more: Map, rest: Any,
        stars: Int = 3
    )

    event facet Translate(text: String, to: String, notes: Map) => (text: String) prompt {
        system "You translate to {to}."
        template "{{Translate}}: {text} {notes}"
        model "small"
    }

    event facet Note(text: String)

    workflow Page() => (text: String) andThen { yield Page(text = "") }
}
"""


def facet(name: str) -> Declaration:
    program = Program({"program": compile_source(SOURCE).program, "workflow": "news.desk.Page"})
    return program.declarations[f"news.desk.{name}"]


def test_the_tool_of_a_facet_is_its_return_clause() -> None:
    tool = ToolDefinition.of(facet("Read"))
    assert tool.name == "Read"
    assert tool.param_names == ["text", "pages", "mood"]
    assert tool.return_names == ["author", "others", "words", "share", "solid", "more", "rest", "stars"]
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "author": {"$ref": "#/$defs/news_desk_Person", "description": "who wrote it"},
            "others": {"type": "array", "items": {"$ref": "#/$defs/news_desk_Person"}},
            "words": {"type": "integer"},
            "share": {"type": "number"},
            "solid": {"type": "boolean"},
            "more": {"type": "object"},
            "rest": {},
            "stars": {"type": "integer"},
        },
        "required": ["author", "others", "words", "share", "solid", "more", "rest"],
        "$defs": {
            "news_desk_Person": {
                "type": "object",
                "properties": {
                    "name": {"type": "string"},
                    "knows": {"type": "array", "items": {"$ref": "#/$defs/news_desk_Person"}},
                },
                "required": ["name", "knows"],
            }
        },
    }


def test_the_description_is_the_doc_comment_and_the_parameters() -> None:
    assert ToolDefinition.of(facet("Read")).description == (
        "Reads a story.\n\nProcess Read. Parameters: text: String, pages: [Long], mood: Any. Return the result values."
    )
    note = ToolDefinition.of(facet("Note"))
    assert note.description == "Process Note. Parameters: text: String. Return the result values."
    assert note.input_schema == {"type": "object", "properties": {}, "required": []}


def test_a_facet_of_a_hand_made_program_has_a_tool() -> None:
    ast = {
        "type": "EventFacetDecl",
        "name": "Größe",
        "params": [],
        "returns": [{"name": "all", "type": "List"}, {"name": "what", "type": "Strange"}],
    }
    tool = ToolDefinition.of(Declaration("ns.Größe", "ns", ast, Program({})))
    assert tool.name == "Gr__e"
    assert tool.input_schema["properties"] == {"all": {"type": "array"}, "what": {"type": "string"}}


def test_a_prompt_block_is_filled_with_the_parameters() -> None:
    prompt = facet_prompt(facet("Translate"), {"text": "A {to} b", "to": "German", "notes": {"a": 1}})
    assert prompt.system == "You translate to German."
    assert prompt.text == '{Translate}: A {to} b {"a":1}'
    assert prompt.model == "small"


def test_what_is_said_for_all_facets_comes_first() -> None:
    given = {"text": "Hi", "to": "German", "notes": {}}
    prompt = facet_prompt(facet("Translate"), given, system="Be short.", task="The Sunday page")
    assert prompt.system == "Be short.\n\nYou translate to German."
    assert prompt.text == "Task: The Sunday page\n\n{Translate}: Hi {}"


def test_a_facet_without_a_block_is_asked_with_its_doc_comment() -> None:
    prompt = facet_prompt(facet("Read"), {"text": "Once.", "pages": [1]}, task="The Sunday page")
    assert prompt.text == (
        "Workflow: news.desk.Page\nTask: The Sunday page\nEvent facet: news.desk.Read\n\nReads a story.\n\n"
        'Parameters: {"text":"Once.","pages":[1]}\n- text: the story'
    )
    assert "workflow news.desk.Page" in prompt.system
    assert prompt.model == ""
    assert facet_prompt(facet("Read"), {}, system="Be short.").system == "Be short."


def test_a_parameter_that_is_missing_is_null() -> None:
    assert filled("{a} and {b}", {"a": "x"}) == "x and null"


def test_answers_are_judged_as_results_are() -> None:
    note = facet("Translate")
    assert misfit_of(note, {"text": "Hallo"}) is None
    assert (
        misfit_of(note, {"text": 1})
        == "news.desk.Translate: return field 'text': expected String, got Long 1"
    )
    assert misfit_of(note, {}) == "news.desk.Translate: the result lacks text"
    assert misfit_of(note, {"text": "a", "txt": 1}) is None
    assert misfit_of(facet("Read"), {"words": float("nan")}) is not None
