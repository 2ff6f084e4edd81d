"""Named queries: parameters, macros and literals in each dialect."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import afl
from afl.kernel.database import Query, queries
from afl.kernel.database.dialect import statements
from afl.kernel.errors import InputError


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder `sql` of an importable package `sample_queries`."""
    package = tmp_path / "sample_queries"
    (package / "sql").mkdir(parents=True)
    (package / "__init__.py").touch()
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(__import__("sys").modules, "sample_queries", raising=False)
    return package / "sql"


def test_an_override_replaces_one_query_and_leaves_the_others(folder: Path) -> None:
    (folder / "shared.sql").write_text("-- name: a\nselect 1;\n-- name: b\nselect 2\n")
    (folder / "postgres.sql").write_text("-- name: b\nselect 3\n-- name: only\nnotify x\n")
    found = queries("sample_queries")
    assert list(found) == ["a", "b", "only"]
    assert (found.a.sqlite, found.b.sqlite, found.b.postgres) == ("select 1", "select 2", "select 3")
    with pytest.raises(InputError, match="only has no text for sqlite"):
        _ = found.only.sqlite


def test_a_part_stands_in_every_query_that_names_it(folder: Path) -> None:
    text = """-- part: young
-- What is young.
age < :limit
-- Who is young.
-- name: young
select 1 from people where {part:young}
-- name: young_and_known
select 1 from people where {part:young} and name <> ''
"""
    (folder / "shared.sql").write_text(text)
    found = queries("sample_queries")
    assert found.young.sqlite.split() == ["select", "1", "from", "people", "where", "age", "<", ":limit"]
    assert found.young_and_known.parameters == ("limit",)
    assert list(found) == ["young", "young_and_known"]


def test_an_unknown_name_points_to_the_near_one(folder: Path) -> None:
    (folder / "shared.sql").write_text("-- name: claim_tasks\nselect 1\n")
    with pytest.raises(AttributeError, match="did you mean claim_tasks"):
        _ = queries("sample_queries").claim_task


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("select 1\n-- name: a\nselect 2", "before the first"),
        ("-- name: a\nselect 1\n-- name: a\nselect 2", "two queries are named a"),
        ("-- name: a b\nselect 1", "before the first"),
        ("-- name: 1a\nselect 1", "cannot be the name"),
        ("-- name: a\n-- only a comment\n", "one statement, it has 0"),
        ("-- name: a\nselect 1; select 2", "one statement, it has 2"),
        ("-- part: a\n1\n-- part: a\n2", "two parts are named a"),
        ("-- part: one\n1\n-- name: a\nselect {part:two}", "no part 'two'; it has one"),
        ("-- name: a\nselect {nwo}", "unknown macro {nwo}; did you mean {now}"),
        ("-- name: a\nselect {now}, :now", "either {now} or a parameter :now"),
    ],
)
def test_a_bad_file_is_refused_by_name(folder: Path, text: str, message: str) -> None:
    (folder / "shared.sql").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        _ = queries("sample_queries").a
    assert "sample_queries/sql" in str(caught.value)


def test_a_query_is_made_once_when_it_is_asked_for(folder: Path) -> None:
    (folder / "shared.sql").write_text("-- name: good\nselect 1\n-- name: bad\nselect 1; select 2\n")
    found = queries("sample_queries")
    assert found.good is found.good
    with pytest.raises(InputError, match="query bad must be one statement"):
        _ = found.bad


_FOLDERS = sorted({path.parent for path in Path(afl.__file__).parent.rglob("shared.sql")})


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda path: "/".join(path.parts[-3:]))
def test_every_query_of_the_project_can_be_made(folder: Path) -> None:
    found = queries("afl", str(folder.relative_to(Path(afl.__file__).parent)))
    assert all(getattr(found, name).name == name for name in found)


def test_a_folder_without_queries_is_refused(folder: Path) -> None:
    with pytest.raises(InputError, match=r"sample_queries/sql has no shared\.sql"):
        queries("sample_queries")


def test_parameters_become_those_of_the_driver() -> None:
    query = Query.of("select :a::text, :b_2, x[1:2] from t where c = ':no' and d = :a -- :nor this")
    assert query.postgres == "select %(a)s::text, %(b_2)s, x[1:2] from t where c = ':no' and d = %(a)s"
    assert query.sqlite == "select :a::text, :b_2, x[1:2] from t where c = ':no' and d = :a"
    assert query.parameters == ("a", "b_2")


def test_sqlite_is_given_values_in_the_order_of_their_places() -> None:
    """Without numbers: Python 3.12.0 to 3.12.3 takes `?1` for a name, and warns of each such statement."""
    query = Query.of("select :b, '?' where :a = {now} and :b = :a")
    assert query.sqlite_positional == "select ?, '?' where ? = ? and ? = ?"
    assert query.sqlite_places == ("b", "a", "now", "b", "a")


def test_percent_signs_are_doubled_for_psycopg_alone() -> None:
    query = Query.of("select 5 % :n, 'a%' like '%'")
    assert query.postgres == "select 5 %% %(n)s, 'a%%' like '%%'"
    assert query.sqlite == "select 5 % :n, 'a%' like '%'"


def test_braces_in_literals_are_no_macros() -> None:
    query = Query.of("""select '{}', '{"now": 1}', '{now}', {now}, "{json}" """)
    assert query.sqlite == """select '{}', '{"now": 1}', '{now}', :now, "{json}\""""
    assert query.now
    assert "now" not in query.parameters


def test_comments_and_quotes_do_not_open_each_other() -> None:
    query = Query.of("select 'it''s -- no comment', /* it's ' one */ $x$ :a 'b $x$, e'\\' :c', :d -- it's")
    assert query.parameters == ("d",)
    assert "'it''s -- no comment'" in query.sqlite
    assert "one" not in query.sqlite


def test_row_locks_vanish_on_sqlite() -> None:
    query = Query.of("select 1 from t {for_update:t}")
    assert (query.sqlite, query.postgres) == ("select 1 from t", "select 1 from t for update of t")
    assert Query.of("select 1 from t {skip_locked}").postgres.endswith("for update skip locked")


def test_a_list_parameter_is_known_as_such() -> None:
    query = Query.of("select 1 from t join {each:names} on true where id {in:ids}")
    assert query.lists == ("names", "ids")
    assert "id = any(%(ids)s)" in query.postgres
    assert "json_each(:ids)" in query.sqlite


@given(st.text(), st.text())
def test_literals_survive_every_dialect(left: str, right: str) -> None:
    literals = [f"'{text.replace(chr(39), chr(39) * 2)}'" for text in (left, right)]
    query = Query.of(f"select {literals[0]}, :a, {literals[1]}")
    assert query.sqlite == f"select {literals[0]}, :a, {literals[1]}"
    assert query.postgres % {"a": "X"} == f"select {literals[0]}, X, {literals[1]}"
    assert query.parameters == ("a",)


def test_a_script_is_split_outside_literals_and_triggers() -> None:
    script = """
        create table a (b text default ';');  -- first; really
        create trigger t after insert on a begin delete from a; select 1; end;
        do $$ begin perform 1; end $$;
        select 1
    """
    found = statements(script)
    assert len(found) == 4
    assert found[1].startswith("create trigger") and found[1].endswith("end")
    assert found[2] == "do $$ begin perform 1; end $$"
