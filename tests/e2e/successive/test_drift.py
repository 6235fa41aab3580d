"""A source that changed under a view: no statement publishes a column that was not there when the view was made."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon import dbt
from duckanon.errors import DuckanonError, ReleaseError
from tests.examples import slowly

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

WITH = (
    "WITH (quasi_identifiers = (age, zip), sensitive = charge, subject = id, identifiers = id, insensitive = *, "
    "recode = {zip: 'hierarchy'}, hierarchies = {zip: 'tree'}, k = 4, effort = 'fast')"
)
OPTIONS = (
    '{"quasi_identifiers": ["age", "zip"], "sensitive": "charge", "subject": "id", "identifiers": "id", '
    '"insensitive": "*", "recode": {"zip": "hierarchy"}, "hierarchies": {"zip": "tree"}, "k": 4, "effort": "fast"}'
)
POLICY = duckanon.Policy(
    quasi_identifiers=["age", "zip"], sensitive="charge", subject="id", identifiers="id", insensitive="*",
    recode={"zip": "hierarchy"}, hierarchies={"zip": "tree"}, k=4, effort="fast",
)  # fmt: skip
COLUMNS = ["age", "zip", "charge", "ward", "note"]
"""What the view was made with."""

NEWCOMERS = (
    "INSERT INTO p BY NAME SELECT 100 + i AS id, 20 + i % 4 * 10 AS age, 'z' || i % 4 AS zip, i % 3 AS charge, "
    "'a' AS ward, 'x' AS note FROM range(8) AS r(i)"
)

CHANGES: dict[str, tuple[str, tuple[str, ...]]] = {
    # What is done to the source, and what an error says of it; nothing where a refresh goes on.
    "nothing": ("SELECT 1", ()),
    "a column more": ("ALTER TABLE p ADD COLUMN income INTEGER DEFAULT 7", ("'income' is new",)),
    "a column less": ("ALTER TABLE p DROP note", ("'note' is gone",)),
    "a column renamed": ("ALTER TABLE p RENAME note TO remark", ("'remark' is new", "'note' is gone")),
    "a quasi-identifier gone": ("ALTER TABLE p DROP zip", ("'zip' is gone",)),
    "the subject gone": ("ALTER TABLE p DROP id", ("'id' is gone",)),
    "the subject renamed": ("ALTER TABLE p RENAME id TO nr", ("'nr' is new", "'id' is gone")),
    "another type": ("ALTER TABLE p ALTER charge TYPE VARCHAR", ("'charge' was BIGINT and is VARCHAR",)),
    "a wider type": ("ALTER TABLE p ALTER charge TYPE HUGEINT", ("'charge' was BIGINT and is HUGEINT",)),
    "another type of the subject": ("ALTER TABLE p ALTER id TYPE VARCHAR", ("'id' was BIGINT and is VARCHAR",)),
    "another ENUM": (
        "ALTER TABLE p ALTER ward TYPE ENUM('a', 'b', 'c')", ("'ward' was ENUM('a', 'b') and is ENUM('a', 'b', 'c')",),
    ),
    "another collation": ("ALTER TABLE p ALTER note TYPE VARCHAR COLLATE NOCASE", ()),
    "another order": ("CREATE OR REPLACE TABLE p AS SELECT note, charge, zip, id, ward, age FROM p", ()),
    "another case": ("ALTER TABLE p RENAME note TO other; ALTER TABLE p RENAME other TO NOTE", ()),
    "two exchanged": (
        "ALTER TABLE p RENAME age TO other; ALTER TABLE p RENAME note TO age; ALTER TABLE p RENAME other TO note",
        ("'age' was BIGINT and is VARCHAR", "'note' was VARCHAR and is BIGINT"),
    ),
    "a table for a view": ("ALTER TABLE p RENAME TO q; CREATE VIEW p AS FROM q", ()),
    "a view of other columns": (
        "ALTER TABLE p RENAME TO q; CREATE VIEW p AS SELECT *, 1 AS income FROM q", ("'income' is new",),
    ),
    "the source gone": ("ALTER TABLE p RENAME TO q", ("the source query fails",)),
}  # fmt: skip

NEW_PUBLISHED = {
    "a column more": [*COLUMNS, "income"],
    "a column less": ["age", "zip", "charge", "ward"],
    "a column renamed": ["age", "zip", "charge", "ward", "remark"],
    "another order": ["note", "charge", "zip", "ward", "age"],
    "another case": ["age", "zip", "charge", "ward", "NOTE"],
    "a view of other columns": [*COLUMNS, "income"],
    "two exchanged": ["note", "zip", "charge", "ward", "age"],
}
"""Columns of a view that is made anew, as OR REPLACE says: `insensitive = *` takes what is there then."""

FAILS_ANEW = ("a quasi-identifier gone", "the subject gone", "the subject renamed", "the source gone")


def _dbt(con: duckanon.Connection, *, full_refresh: bool = False) -> None:
    dbt.publish(con.duckdb, "FROM p", "v", OPTIONS, full_refresh=full_refresh)
    (told,) = con.duckdb.execute("SELECT getvariable('duckanon_refused')").fetchone() or ()
    if told is not None:
        raise DuckanonError(told)


MEETS: dict[str, Callable[[duckanon.Connection], object]] = {
    "REFRESH": lambda con: con.sql("REFRESH ANONYMIZED VIEW v"),
    "append": lambda con: con.sql("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')"),
    "EXPLAIN": lambda con: con.sql("EXPLAIN ANONYMIZED VIEW v"),
    "FRONTIER": lambda con: con.sql("EXPLAIN ANONYMIZED VIEW v FRONTIER"),
    "dbt run": _dbt,
}
"""Statements by which a policy meets a source again, and nobody has looked at it."""

ANEW: dict[str, Callable[[duckanon.Connection], object]] = {
    "CREATE OR REPLACE": lambda con: con.sql(f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM p {WITH}"),
    "anonymize": lambda con: duckanon.anonymize(con, "p", POLICY, name="v", or_replace=True),
    "dbt run --full-refresh": lambda con: _dbt(con, full_refresh=True),
}


@pytest.fixture(scope="module")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A view of 24 persons, and eight newcomers in its source."""
    file = tmp_path_factory.mktemp("original") / "home.duckdb"
    with duckanon.connect(file) as con:
        con.execute(
            "CREATE TABLE tree AS SELECT 'z' || i AS leaf, 'g' || i // 2 AS part, 'all' AS top FROM range(4) r(i)"
        )
        con.execute(
            "CREATE TABLE p AS SELECT i AS id, 20 + i % 4 * 10 AS age, 'z' || i % 4 AS zip, i % 3 AS charge, "
            "CAST('a' AS ENUM('a', 'b')) AS ward, 'x' AS note FROM range(24) AS r(i)"
        )
        con.sql(f"CREATE ANONYMIZED VIEW v AS FROM p {WITH}")
        con.execute(NEWCOMERS)
    return file


@contextmanager
def released(original: Path, change: str = "SELECT 1") -> Iterator[duckanon.Connection]:
    """A copy of it whose source is changed."""
    copy = original.with_name("copy") / "home.duckdb"
    copy.parent.mkdir(exist_ok=True)
    shutil.copy(original, copy)
    with duckanon.connect(copy) as con:
        con.execute(change)
        yield con


def columns(con: duckanon.Connection) -> list[str]:
    """Names of the columns of the view."""
    return [row[0] for row in con.duckdb.execute("DESCRIBE FROM v").fetchall()]


def numbers(con: duckanon.Connection) -> list[tuple[int]]:
    """Releases that are recorded."""
    return con.duckdb.execute("SELECT release_id FROM duckanon.releases").fetchall()


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
@pytest.mark.parametrize("statement", MEETS)
def test_a_view_keeps_the_columns_that_it_was_made_with(original: Path, statement: str) -> None:
    for what, (change, words) in CHANGES.items():
        with released(original, change) as con:
            if words:
                with pytest.raises(DuckanonError) as refused:
                    MEETS[statement](con)
                assert all(word in str(refused.value) for word in words), (what, str(refused.value))
                if what != "the source gone":
                    way = "--full-refresh" if statement == "dbt run" else "CREATE OR REPLACE ANONYMIZED VIEW"
                    assert way in str(refused.value), what
                assert numbers(con) == [(1,)], what
            else:
                MEETS[statement](con)
                assert (numbers(con) == [(1,)]) == (statement in ("EXPLAIN", "FRONTIER")), what
            assert columns(con) == COLUMNS, what


@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
@pytest.mark.parametrize(
    ("statement", "what"), slowly([(one, what) for one in ANEW for what in CHANGES], one_of=4)
)
def test_a_view_that_is_made_anew_has_the_columns_of_today(original: Path, statement: str, what: str) -> None:
    with released(original, CHANGES[what][0]) as con:
        if what in FAILS_ANEW:
            with pytest.raises(DuckanonError):
                ANEW[statement](con)
            assert (numbers(con), columns(con)) == ([(1,)], COLUMNS)
        else:
            ANEW[statement](con)
            assert (numbers(con), columns(con)) == ([(2,)], NEW_PUBLISHED.get(what, COLUMNS))


@pytest.mark.sampled
@pytest.mark.parametrize("what", slowly(CHANGES, one_of=4))
def test_audit_and_export_do_not_look_at_the_source(original: Path, what: str, tmp_path: Path) -> None:
    with released(original, CHANGES[what][0]) as con:
        con.sql("AUDIT VIEW v")
        con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'v.duckdb'}'")
        con.execute(f"ATTACH '{tmp_path / 'v.duckdb'}' AS e (READ_ONLY)")
        assert [row[0] for row in con.duckdb.execute("DESCRIBE FROM e.v").fetchall()] == COLUMNS
        tables = con.duckdb.execute(
            "SELECT table_name FROM duckdb_tables() WHERE database_name = 'e'"
        ).fetchall()
        assert ("sources",) not in tables


@pytest.mark.sampled
@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE tree SET part = 'other'",
        "UPDATE tree SET top = 'one'",
        "INSERT INTO tree VALUES ('z9', 'g9', 'all')",
    ],
)
def test_a_hierarchy_that_changed(original: Path, change: str) -> None:
    """A release has nodes of one hierarchy: a full refresh those of today, an append none beside the published."""
    with released(original, change) as con:
        with pytest.raises(
            ReleaseError, match=r"the hierarchy of 'zip' is not the one that home.main.v was made"
        ):
            con.sql("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
        assert numbers(con) == [(1,)]
        con.sql("REFRESH ANONYMIZED VIEW v")
        con.execute(NEWCOMERS.replace("100 + i", "200 + i"))
        con.sql("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
        assert numbers(con) == [(3,)]


@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
def test_without_the_record_of_the_source_the_view_is_made_again(original: Path) -> None:
    """Whether the source has changed is not known, so no REFRESH releases it."""
    with released(original, "DROP TABLE duckanon.sources") as con:
        for mode in ("", " WITH (mode = 'append')"):
            with pytest.raises(
                ReleaseError, match=r"source of home\.main\.v are gone from .*sources: CREATE OR"
            ):
                con.sql(f"REFRESH ANONYMIZED VIEW v{mode}")
        assert numbers(con) == [(1,)]


@pytest.mark.filterwarnings("ignore::duckanon.errors.DuckanonWarning")
def test_dbt_takes_a_new_column_that_the_policy_names(original: Path) -> None:
    """Whoever wrote its name has seen it."""
    with released(original, "ALTER TABLE p ADD COLUMN income INTEGER DEFAULT 7") as con:
        named = OPTIONS.replace('"insensitive": "*"', '"insensitive": ["ward", "note", "income"]')
        dbt.publish(con.duckdb, "FROM p", "v", named)
        assert con.duckdb.execute("SELECT getvariable('duckanon_refused')").fetchone() == (None,)
        assert columns(con) == [*COLUMNS, "income"]
