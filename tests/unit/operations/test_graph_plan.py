"""The static graph of telling programs: groups, edges, what is folded at first, and how large ones are divided."""

from __future__ import annotations

from collections.abc import Iterator

from operated_store import program_of

from afl.operations.run.graph_plan import BUNDLE, MOST_VISIBLE, Planner, PlanNode

HEAD = """namespace t {
    event facet Do(n: Long) => (m: Long)
    facet Pick(n: Long) => (m: Long) andThen when {
        case $.n > 1 => { a = Do(n = $.n) yield Pick(m = a.m) }
        case _ => { yield Pick(m = 0) }
    }
    facet Each(ns: [Long]) => (ms: [Long]) andThen foreach n in $.ns {
        one = Do(n = n)
        yield Each(ms = [one.m])
    }
    facet Again(n: Long) => (m: Long) andThen when {
        case $.n > 0 => { next = Again(n = $.n - 1) yield Again(m = next.m) }
        case _ => { yield Again(m = 0) }
    }
"""


def plan(body: str, opened: tuple[str, ...] = (), folded: tuple[str, ...] = ()) -> PlanNode:
    program = program_of(
        f"{HEAD}    workflow W(n: Long, ns: [Long] = []) => (m: Long) andThen {{\n{body}\n}}\n}}\n"
    )
    return Planner(program, opened, folded).plan()


def every(node: PlanNode) -> Iterator[PlanNode]:
    for child in node.children:
        yield child
        yield from every(child)


def by_id(root: PlanNode) -> dict[str, PlanNode]:
    return {node.id: node for node in every(root)}


def edges(node: PlanNode) -> set[tuple[str, str]]:
    return {(node.children[a].title, node.children[b].title) for a, b in node.edges}


def test_references_are_edges() -> None:
    root = plan("a = Do(n = $.n) b = Do(n = a.m) c = Do(n = a.m + b.m) yield W(m = c.m)")
    assert [node.title for node in root.children] == ["a", "b", "c"]
    assert edges(root) == {("a", "b"), ("a", "c"), ("b", "c")}
    assert {node.kind for node in root.children} == {"event"}
    assert root.children[0].line is not None


def test_a_step_that_a_bridge_does_says_who() -> None:
    found = by_id(
        plan(
            'a = Do(n = $.n) with Human("finance") b = Do(n = 1) with Agent(name = "a" ++ "b") c = Do(n = 2)'
        )
    )
    assert [found[f"0/{name}"].via for name in "abc"] == ["human:finance", "agent", ""]


def test_a_foreach_is_one_group_that_counts_its_elements() -> None:
    found = by_id(plan("all = Each(ns = $.ns)"))
    assert found["0/all"].note == "foreach n"
    assert found["0/all"].counted == ("0/all/0/#",)
    assert found["0/all/0/#/one"].many
    assert found["0/all/0/#/one"].counted == ("0/all/0/#/one",)


def test_cases_are_groups_and_those_with_yields_alone_are_folded() -> None:
    found = by_id(plan("p = Pick(n = $.n)"))
    assert [found[f"0/p/0/?{number}"].title for number in (0, 1)] == ["case $.n > 1", "case _"]
    assert found["0/p/0/?0"].is_open
    assert not found["0/p/0/?1"].is_open
    assert "0/p/0/?0/a" in found


def test_a_catch_is_a_branch_beside_the_body_it_belongs_to() -> None:
    root = plan("p = Pick(n = $.n) catch { x = Do(n = 1) yield Pick(m = x.m) }")
    group = by_id(root)["0/p"]
    assert [node.kind for node in group.children] == ["when", "catch"]
    assert edges(group) == set()
    assert (group.facet, group.note) == ("t.Pick", "catch")
    assert "0/p/!/x" in by_id(root)


def test_yields_are_told_by_what_they_belong_to() -> None:
    found = by_id(
        plan(
            "all = Each(ns = $.ns) p = Pick(n = $.n)"
            " a = Do(n = 1) andThen { b = Do(n = 2) yield Do(m = b.m) } catch { yield W(m = 0) } yield W(m = p.m)"
        )
    )
    assert not any(node.kind == "yield" for node in found.values())
    told = {id: node.yields for id, node in found.items() if node.yields}
    assert told == {"0/all": "ms", "0/p/0/?0": "m", "0/p/0/?1": "m", "0/a/0": "m", "0/a/!": "W.m"}
    assert not found["0/p/0/?1"].foldable


def test_a_workflow_of_a_yield_alone_shows_it() -> None:
    assert [node.kind for node in plan("yield W(m = $.n)").children] == ["yield"]


def test_a_catch_that_only_yields_is_told_and_not_shown() -> None:
    root = plan("a = Do(n = 1) catch { yield Do(m = 0) }")
    assert root.children[0].note == "catch"
    assert not root.children[0].is_open
    assert by_id(plan("a = Do(n = 1) catch { yield Do(m = 0) }", opened=("0/a",)))["0/a"].is_open


def test_an_inline_body_waits_for_what_it_takes_from_outside() -> None:
    root = plan("a = Do(n = 1) b = Do(n = 2) andThen { c = Do(n = a.m) }")
    assert edges(root) == {("a", "b")}
    assert "0/b/0/c" in by_id(root)


def test_a_facet_that_calls_itself_ends_somewhere() -> None:
    nodes = list(every(plan("r = Again(n = $.n)")))
    assert 10 < len(nodes) < 200
    assert any(node.foldable and not node.is_open for node in nodes)


def test_folding_wins_over_what_is_open_at_first() -> None:
    root = plan("all = Each(ns = $.ns)", folded=("0/all",))
    assert not root.children[0].is_open
    assert root.children[0].counted == ("0/all/0/#",)


def flat(count: int) -> str:
    lines = [f"s{i} = Do(n = {f's{i - 1}.m' if i else '$.n'})" for i in range(count)]
    return "\n".join([*lines, f"yield W(m = s{count - 1}.m)"])


def test_very_many_statements_are_divided_into_bundles_whose_edges_lead_forward() -> None:
    root = plan(flat(3 * BUNDLE - 1))
    assert [node.kind for node in root.children] == ["bundle"] * 3
    assert root.edges == [(0, 1), (1, 2)]
    assert len(root.children[0].counted) == BUNDLE
    assert all(not node.is_open for node in root.children)
    opened = plan(flat(3 * BUNDLE - 1), opened=("0/*1",))
    assert [node.is_open for node in opened.children] == [False, True, False]
    assert "0/s150" in by_id(opened)


def test_no_more_is_drawn_than_a_page_can_bear() -> None:
    count = MOST_VISIBLE + 5 * BUNDLE
    root = plan(flat(count), opened=tuple(f"0/*{number}" for number in range(count // BUNDLE)))
    assert len(list(every(root))) <= MOST_VISIBLE
