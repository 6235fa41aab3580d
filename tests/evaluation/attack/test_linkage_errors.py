"""What a linkage attack refuses: it never answers for an empty table or a wrong column."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from duckanon.errors import DuckanonError, PolicyError, SourceError
from duckanon.evaluation.linkage import linkage
from duckanon.evaluation.prepare import Attack
from tests.examples import slowly

if TYPE_CHECKING:
    import duckdb


@pytest.fixture
def con(fresh_db: duckdb.DuckDBPyConnection) -> duckdb.DuckDBPyConnection:
    fresh_db.execute("""
        CREATE TABLE o AS SELECT i AS id, i AS a, 'x' || i AS t, i::DOUBLE AS f, [i] AS list FROM range(6) s(i);
        CREATE TABLE r AS SELECT i AS id, i // 2 * 2 AS a, 'x' AS t, i::DOUBLE AS f, [i] AS list FROM range(6) s(i);
        CREATE TABLE empty AS FROM o WHERE FALSE;
        CREATE TABLE nan AS SELECT * REPLACE ('nan'::DOUBLE AS f) FROM o;
        CREATE TABLE text AS SELECT * REPLACE (a::VARCHAR AS a) FROM r;
        CREATE TABLE few AS FROM o LIMIT 3;
        CREATE TABLE nameless AS SELECT * REPLACE (NULL::INT AS id) FROM r;
        CREATE TABLE foreigners AS SELECT * REPLACE (id + 100 AS id) FROM r;
        CREATE TABLE twice AS SELECT * REPLACE (id % 2 AS id) FROM r;
        CREATE TABLE anonymous AS SELECT * EXCLUDE (id) FROM r;
        CREATE VIEW broken AS SELECT CAST(error('boom') AS BIGINT) AS a FROM o""")
    return fresh_db


@pytest.mark.parametrize(
    ("original", "release", "options", "kind", "words"),
    slowly(
        [
            ("empty", "r", {}, SourceError, "original is empty"),
            ("o", "empty", {}, SourceError, "release is empty"),
            ("nope", "r", {}, SourceError, "nope"),
            ("o", "broken", {}, SourceError, "boom"),
            ("o", "r", {"quasi_identifiers": ["ag"]}, PolicyError, "'ag', which the original does not have"),
            ("o", "anonymous", {"quasi_identifiers": ["id"]}, PolicyError, "the release does not have"),
            ("o", "r", {"quasi_identifiers": []}, PolicyError, "no column"),
            ("o", "r", {"quasi_identifiers": "a"}, PolicyError, "list of columns"),
            ("o", "r", {"quasi_identifiers": ["a", "A"]}, PolicyError, "twice"),
            ("o", "r", {"columns": ["b"]}, PolicyError, "columns names 'b'"),
            ("o", "r", {"subsets": [["f"]]}, PolicyError, "not among the quasi-identifiers"),
            ("o", "r", {"subsets": [[]]}, PolicyError, "no column"),
            ("o", "r", {"percent": 0}, PolicyError, "percent"),
            ("o", "r", {"percent": 101}, PolicyError, "percent"),
            ("o", "r", {"interval": "iqr"}, PolicyError, "range, rank or sd"),
            ("o", "r", {"sample": 0}, PolicyError, "sample"),
            ("o", "r", {"quasi_identifiers": ["list"]}, PolicyError, "no distance"),
            ("o", "text", {}, PolicyError, "CAST one"),
            ("nan", "r", {"quasi_identifiers": ["f"]}, SourceError, "'f' of the original holds NaN"),
            ("o", "nan", {"quasi_identifiers": ["f"]}, SourceError, "'f' of the release holds NaN"),
            ("few", "r", {}, SourceError, "6 records and the original 3"),
            ("o", "anonymous", {"id": "id"}, PolicyError, "the release has no column 'id'"),
            ("o", "r", {"id": "name"}, PolicyError, "the original has no column 'name'"),
            ("o", "nameless", {"id": "id"}, SourceError, "6 released records have no id"),
            ("o", "foreigners", {"id": "id"}, SourceError, "6 released ids are unknown"),
            ("o", "twice", {"id": "id"}, SourceError, "2 ids were released in several classes"),
        ],
        one_of=3,
    ),
)
def test_bad_input(
    con: duckdb.DuckDBPyConnection,
    original: str,
    release: str,
    options: dict[str, Any],
    kind: type[DuckanonError],
    words: str,
) -> None:
    given = {"quasi_identifiers": ["a"], **options}
    with pytest.raises(kind, match=words):
        linkage(con, original, release, **given)
    left = "SELECT count(*) FROM duckdb_tables() WHERE temporary"
    assert con.execute(left).fetchall() == [(0,)]


def test_an_id_that_more_records_have_than_were_released(con: duckdb.DuckDBPyConnection) -> None:
    con.execute("CREATE TABLE lumped AS SELECT * REPLACE (0 AS id) FROM o")
    con.execute("CREATE TABLE two AS SELECT * REPLACE (0 AS id) FROM r WHERE a = 0")
    with pytest.raises(SourceError, match="claimed by more records"):
        linkage(con, "lumped", "two", ["a"], id="id")


def test_a_policy_needs_an_id() -> None:
    import duckanon

    policy = duckanon.Policy(quasi_identifiers=["a"], k=2)
    with pytest.raises(PolicyError, match="needs an id"):
        Attack(quasi_identifiers=["a"], policy=policy)


def test_standard_subsets_are_all_each_and_all_but_one() -> None:
    assert Attack(quasi_identifiers=["a", "b", "c"]).known() == [
        (),
        (0, 1, 2),
        (0,),
        (1,),
        (2,),
        (1, 2),
        (0, 2),
        (0, 1),
    ]
    assert Attack(quasi_identifiers=["a"]).known() == [(), (0,)]
    assert Attack(quasi_identifiers=["a", "b"], subsets=[["B", "a"], ["a", "b"]]).known() == [(), (0, 1)]
