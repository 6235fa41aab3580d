"""REFRESH with mode 'append': published classes stay, new subjects form classes of their own, or wait."""

from __future__ import annotations

import random
from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon.cli.verify import verify
from duckanon.errors import DuckanonError, PolicyError, ReleaseError, SourceError
from tests.e2e.scenes import rows
from tests.e2e.successive_scene import MEANS, WITH, persons
from tests.examples import examples
from tests.oracle import k_anonymity

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

CREATE = f"CREATE ANONYMIZED VIEW v AS FROM persons WITH ({WITH}, on_intersection = 'error')"
APPEND = "REFRESH ANONYMIZED VIEW v WITH (mode = 'append')"
COME = "INSERT INTO persons SELECT {0} + i, 20 + i * 7 % 50, i * 11 % 23, i * 13 % 11 FROM range({1}) r(i)"
QI = ("age", "zip")


def appended(con: duckanon.Connection) -> str:
    """Give what an append said."""
    return con.run_script(APPEND)[0].title


def released(con: duckanon.Connection) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in rows(con, "FROM v"))


def classes(release: Counter[tuple[Any, ...]]) -> Counter[tuple[Any, ...]]:
    sizes: Counter[tuple[Any, ...]] = Counter()
    for (age, place, _), count in release.items():
        sizes[age, place] += count
    return sizes


def says_nothing_of_fewer_than(k: int, old: Counter[tuple[Any, ...]], new: Counter[tuple[Any, ...]]) -> None:
    """Whoever has two releases subtracts rows, classes, counts and sums: 0 of each, or of at least k persons."""
    assert sum((old - new).values()) == 0, "no row that was published is gone"
    more = sum((new - old).values())
    assert more == 0 or more >= k
    for size, found in ((classes(old), classes(new)),):
        for values in size | found:
            grown = found[values] - size[values]
            assert grown == 0 or grown >= k, "a class is as it was, or k persons came to it"
    if not more:
        assert old == new


@pytest.mark.slow
def test_a_series_of_appends_says_nothing_of_fewer_than_k() -> None:
    """Random batches of persons; some leave or change meanwhile; every pair of releases is subtracted."""
    for seed in range(examples(24, 4)):
        draw = random.Random(seed)
        with persons(40) as con:
            con.sql(CREATE)
            series, published = [released(con)], 40
            waiting = 0
            for step in range(6):
                count = draw.choice([0, 1, 2, 3, 4, 5, 9, 30])
                con.execute(COME.format(1000 * (step + 1), count))
                con.execute(f"DELETE FROM persons WHERE id = {draw.randrange(40)}")
                con.execute(f"UPDATE persons SET age = age + 1 WHERE id = {draw.randrange(40)}")
                title = appended(con)
                waiting += count
                if waiting >= 4:
                    published, waiting = published + waiting, 0
                assert f"{published} records; of the subjects in the source {waiting} wait" in title
                series.append(released(con))
            for number, old in enumerate(series):
                for new in series[number + 1 :]:
                    says_nothing_of_fewer_than(4, old, new)
            assert k_anonymity(rows(con, "FROM v"), QI) >= 4
            assert verify_in_a_file(con)


def verify_in_a_file(con: duckanon.Connection) -> bool:
    """Whether AUDIT VIEW passes, which reads the rows as they are."""
    return all(row["passed"] is not False for row in rows(con, "AUDIT VIEW v"))


@pytest.mark.slow
def test_an_exported_release_that_was_appended_to_is_verified(tmp_path: Path) -> None:
    """By command, as an auditor would; thresholds are those of the policy, not of the batch."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, t = 0.4, l = 2"))
        con.execute(COME.format(1000, 17))
        assert "77 records" in appended(con)
        thresholds = rows(
            con, "SELECT measure, CAST(threshold AS DOUBLE) AS asked FROM duckanon.thresholds ORDER BY ALL"
        )
        assert thresholds == [
            {"measure": "k_anonymity", "asked": 4.0},
            {"measure": "k_subjects", "asked": 4.0},
            {"measure": "l_diversity", "asked": 2.0},
            {"measure": "t_closeness", "asked": 0.4},
        ]
        for ending in ("duckdb", "parquet", "csv"):
            con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path}/v.{ending}'")
    verify(tmp_path / "v.duckdb")


def test_too_few_without_a_null_wait() -> None:
    """Three usable and two without an age, where NULL is suppressed: five subjects, and no class of four."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, nulls = 'suppress'"))
        con.execute(COME.format(1000, 3))
        con.execute("INSERT INTO persons VALUES (500, NULL, 3, 3), (501, NULL, 3, 3)")
        assert "5 wait (too few have quasi-identifiers without a NULL)" in appended(con)


def test_a_release_between_comparing_and_publishing_stops_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another connection refreshes in full meanwhile: what is published is not what was appended to."""
    publish = duckanon.release.append.publish

    def late(*arguments: Any, **named: Any) -> Any:
        monkeypatch.setattr(duckanon.release.append, "publish", publish)
        other = duckanon.api.connection.Connection(con.duckdb.cursor())
        with pytest.warns(duckanon.DuckanonWarning, match="together with"):
            other.sql("REFRESH ANONYMIZED VIEW v WITH (on_intersection = 'warn')")
        return publish(*arguments, **named)

    with persons() as con:
        con.sql(CREATE)
        con.execute(COME.format(1000, 9))
        monkeypatch.setattr(duckanon.release.append, "publish", late)
        with pytest.raises(
            ReleaseError, match="another connection made or dropped a release in memory meanwhile"
        ):
            con.sql(APPEND)
        assert rows(con, "SELECT release_id FROM duckanon.releases") == [{"release_id": 2}]
        assert verify_in_a_file(con)


def test_several_records_of_a_person_come_together_or_not_at_all() -> None:
    """Four new persons of three records each; a released one gets another record, which waits for a full refresh."""
    with persons() as con:
        con.sql(CREATE)
        con.execute(COME.format(1000, 4))
        con.execute(
            "INSERT INTO persons SELECT * FROM persons WHERE id >= 1000; INSERT INTO persons SELECT * FROM persons WHERE id >= 1000 LIMIT 4"
        )
        con.execute("INSERT INTO persons VALUES (7, 30, 3, 3)")
        title = appended(con)
        assert (
            "72 records; of the subjects in the source 0 wait; as they were published stay 1 that changed"
            in title
        )


def test_new_subjects_come_to_a_release_whose_subjects_have_several_records() -> None:
    """By hand: k persons of three records each, whom no class shares with anybody released, tell of nobody else.

    Published classes share single persons, whose records lie in several of them; the first release says so already.
    """
    with persons(40) as con:
        con.execute(
            "INSERT INTO persons SELECT id, age + i, zip - i, charge + i FROM persons, range(1, 3) r(i)"
        )
        con.sql(CREATE)
        before = released(con)
        con.execute(COME.format(1000, 4))
        con.execute(
            "INSERT INTO persons SELECT id, age, zip, charge + i FROM persons, range(1, 3) r(i) WHERE id >= 1000"
        )
        assert "0 wait" in appended(con)
        new = released(con) - before
        assert (sum(new.values()), before - released(con)) == (12, Counter())
        # One of them comes back with another row, which waits; three more persons are too few, a fourth is not.
        con.execute("INSERT INTO persons VALUES (1000, 30, 3, 3)")
        con.execute(COME.format(2000, 3))
        assert "3 wait" in appended(con)
        con.execute(COME.format(2003, 1))
        assert "0 wait" in appended(con)


def test_records_that_cannot_keep_the_policy_wait_and_the_reason_is_told() -> None:
    """By hand: all new persons have one value that no one had: farther than t = .2 from what is released with them."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, t = 0.2"))
        before = released(con)
        con.execute("INSERT INTO persons SELECT 1000 + i, 30, 5, 1000 FROM range(8) r(i)")
        assert "8 wait (their sensitive values are farther from those of all records than t)" in appended(con)
        assert released(con) == before
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, l = 3"))
        con.execute("INSERT INTO persons SELECT 1000 + i, 30, 5, i % 2 FROM range(8) r(i)")
        title = appended(con)
        assert "8 wait (" in title
        assert "l" in title
        assert "60 records" in title


def test_published_classes_that_new_values_would_push_beyond_t_keep_them_waiting() -> None:
    """Ten classes near t; as many records with a far value would change what all are measured by."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, t = 0.25"))
        con.execute(
            "INSERT INTO persons SELECT 1000 + i, 20 + i % 50, i % 23, 10 * (i % 2) FROM range(60) r(i)"
        )
        title = appended(con)
        passed = verify_in_a_file(con)
        assert passed
        assert ("120 records" in title) or ("60 wait (" in title and "60 records" in title)


def test_t_with_several_columns_and_a_hierarchy() -> None:
    tree = {
        "flu": ["lung", "any"],
        "cold": ["lung", "any"],
        "ulcer": ["gut", "any"],
        "colitis": ["gut", "any"],
    }
    asked = duckanon.Policy(
        quasi_identifiers=["age"], sensitive=["charge", "ill"], subject="id", k=4, t={"charge": 0.4, "ill": 0.5},
        distance={"ill": "hierarchical"}, hierarchies={"ill": tree}, effort="fast", on_intersection="error",
    )  # fmt: skip
    with persons(80) as con:
        con.execute("ALTER TABLE persons ADD COLUMN ill VARCHAR; ALTER TABLE persons DROP COLUMN zip")
        ill = "UPDATE persons SET ill = ['flu', 'cold', 'ulcer', 'colitis'][id % 4 + 1]"
        con.execute(ill)
        duckanon.anonymize(con, "persons", asked, name="v")
        con.execute(
            "INSERT INTO persons (id, age, charge) SELECT 1000 + i, 20 + i, i % 11 FROM range(40) r(i)"
        )
        con.execute(ill)
        assert "120 records" in appended(con)
        assert verify_in_a_file(con)


def test_the_p_rule_is_that_of_all_classes() -> None:
    """Published classes keep it by the same policy, and new ones do, too; by how much is not told."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 4, p_percent = 20"))
        recorded = (
            "SELECT attribute, value, passed FROM duckanon.audits WHERE measure = 'p_percent' ORDER BY 1"
        )
        told = [{"attribute": name, "value": None, "passed": True} for name in ("age", "zip")]
        assert rows(con, recorded) == told
        con.execute("INSERT INTO persons SELECT 1000 + i, 30 + i, 1 + i * i, i FROM range(8) r(i)")
        assert "68 records" in appended(con)
        assert rows(con, recorded) == told


def test_show_tells_what_waits_and_what_changed_since() -> None:
    columns = ("waiting", "gone", "changed")

    def shown(con: duckanon.Connection) -> Sequence[Any]:
        (row,) = rows(con, "SHOW ANONYMIZED VIEWS")
        return [row[name] for name in columns]

    with persons() as con:
        con.sql(CREATE)
        assert shown(con) == [None, None, None]
        con.execute(COME.format(900, 1))
        appended(con)
        assert shown(con) == [1, 0, 0], "nothing was appended, and it is known that someone waits"
        con.execute(COME.format(1000, 4))
        appended(con)
        assert shown(con) == [0, 0, 0]
        con.execute(COME.format(2000, 3))
        con.execute("DELETE FROM persons WHERE id IN (3, 4)")
        con.execute(
            "UPDATE persons SET zip = 99 WHERE id = 5; INSERT INTO persons SELECT * FROM persons WHERE id = 6"
        )
        assert shown(con) == [3, 2, 2]
        con.execute("ALTER TABLE persons RENAME TO others")
        assert shown(con) == [None, None, None]


def test_suppressed_records_wait_too() -> None:
    """Who was left out for t is new still, and comes where a class can take him."""
    with persons() as con:
        con.execute("INSERT INTO persons VALUES (500, NULL, 3, 3), (501, NULL, 3, 3)")
        with pytest.warns(duckanon.DuckanonWarning, match="left out 2 records"):
            con.sql(CREATE.replace("k = 4", "k = 4, nulls = 'suppress'"))
        assert "2 wait" in appended(con)
        con.execute("UPDATE persons SET age = 40 WHERE id IN (500, 501)")
        con.execute(COME.format(1000, 2))
        assert "64 records; of the subjects in the source 0 wait" in appended(con)


@pytest.mark.sampled
@pytest.mark.parametrize(
    "subject",
    [
        "printf('00000000-0000-0000-0000-%012d', i)::UUID", "DATE '2020-01-01' + i::INTEGER", "i::DOUBLE / 3",
        "[i, i + 1]", "TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_hours(i::INTEGER)", "encode('x' || i)",
        "('n' || i)::names",
    ],
)  # fmt: skip
def test_subjects_of_any_type_are_known_again_in_another_time_zone(subject: str, tmp_path: Path) -> None:
    """In a database other than that of the source; nobody is new, and nobody is gone."""
    with duckanon.connect() as con:
        con.execute(f"ATTACH '{tmp_path / 'o.duckdb'}' AS o; SET TimeZone = 'UTC'")
        con.execute("CREATE TYPE names AS ENUM (SELECT 'n' || i FROM range(300) r(i))")
        row = f"SELECT {subject} AS id, 20 + i % 50 AS age, i % 23 AS zip, i % 7 AS charge"
        con.execute(f"CREATE TABLE persons AS {row} FROM range(60) r(i)")
        con.sql(CREATE.replace("VIEW v", "VIEW o.v"))
        con.execute(f"INSERT INTO persons {row} FROM range(200, 206) r(i); SET TimeZone = 'Asia/Tokyo'")
        title = con.run_script(APPEND.replace("VIEW v", "VIEW o.v"))[0].title
        assert "66 records; of the subjects in the source 0 wait" in title
        assert "0 that changed, and 0 that are gone" in title


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ("subject = id | identifiers = id", "names nobody: make it with subject"),
        ("k = 4 | k = 4, release = 'swap'", "release = 'swap'"),
        ("k = 4 | k = 4, l = 2, release = 'anatomy'", "release = 'anatomy'"),
    ],
)
def test_a_view_that_was_not_made_for_it(change: str, words: str) -> None:
    old, new = change.split(" | ")
    with persons() as con:
        con.sql(CREATE.replace(MEANS, "").replace(old, new) if "release" in new else CREATE.replace(old, new))
        with pytest.raises(PolicyError, match=words):
            con.sql(APPEND)


@pytest.mark.slow
def test_what_changed_under_it_is_an_error_and_nothing_is_published() -> None:
    """Nothing kept; rows changed by hand; another type of the subject, of a column; a column more; a NULL subject."""
    cases = [
        ("DROP TABLE duckanon.history", ReleaseError, "not kept who is in it"),
        ("UPDATE duckanon.release_1 SET charge = 0", ReleaseError, "someone changed"),
        ("ALTER TABLE persons ALTER id TYPE VARCHAR", SourceError, "'id' was BIGINT and is VARCHAR"),
        ("ALTER TABLE persons ALTER charge TYPE DOUBLE", SourceError, "'charge' was BIGINT and is DOUBLE"),
        ("ALTER TABLE persons ADD COLUMN more INTEGER", SourceError, "'more' is new"),
        ("INSERT INTO persons VALUES (NULL, 1, 1, 1)", SourceError, "subject (id) is NULL in 1"),
        ("DROP TABLE persons", DuckanonError, "persons"),
        ("DROP VIEW v", ReleaseError, "not an anonymized view"),
    ]
    for change, error, words in cases:
        with persons() as con:
            con.sql(CREATE)
            con.execute(COME.format(1000, 8))
            con.execute(change)
            with pytest.raises(error) as refused:
                con.sql(APPEND)
            assert words in str(refused.value), change
            assert rows(con, "SELECT max(release_id) AS n FROM duckanon.releases") == [{"n": 1}]


def test_an_append_that_another_view_would_disclose_is_refused() -> None:
    """The other view has other classes of the same persons, and was released in spite of it."""
    with persons() as con:
        con.sql(CREATE)
        with pytest.warns(duckanon.DuckanonWarning, match="together with release 1"):
            con.sql(CREATE.replace("VIEW v", "VIEW w").replace("k = 4", "k = 7").replace("'error'", "'warn'"))
        con.execute(COME.format(1000, 9))
        with pytest.raises(ReleaseError, match="give out one of the two"):
            con.sql(APPEND)
        with pytest.warns(duckanon.DuckanonWarning, match="together with release 2 of memory.main.w"):
            con.sql(APPEND.replace("'append'", "'append', on_intersection = 'warn'"))
        assert rows(con, "SELECT count(*) AS n FROM v") == [{"n": 69}]


def test_new_classes_with_the_values_of_published_ones_are_one_class_with_them() -> None:
    """By hand: everyone is 30 years old, before and after: one class, of eight and then of twelve."""
    with duckanon.connect() as con:
        con.execute(
            "CREATE TABLE persons AS SELECT i AS id, 30 AS age, 1 AS zip, i % 4 AS charge FROM range(8) r(i)"
        )
        con.sql(CREATE)
        con.execute("INSERT INTO persons SELECT 100 + i, 30, 1, i FROM range(4) r(i)")
        assert "12 records" in appended(con)
        (row,) = rows(con, "SHOW ANONYMIZED VIEWS")
        assert (row["records"], row["classes"]) == (12, 1)
        recorded = "SELECT DISTINCT classes FROM duckanon.audits WHERE release_id = 2"
        assert con.execute(recorded).fetchall() == [(1,)]


def test_it_joins_a_transaction_and_a_full_refresh_after_it_is_compared() -> None:
    with persons() as con:
        con.sql(CREATE)
        con.execute(COME.format(1000, 8))
        con.execute("BEGIN")
        assert "68 records" in appended(con)
        con.execute("ROLLBACK")
        assert rows(con, "SELECT count(*) AS n FROM v") == [{"n": 60}]
        assert "68 records" in appended(con)
        with pytest.raises(ReleaseError, match="release 2 of memory"):
            con.sql("REFRESH ANONYMIZED VIEW v")


@pytest.mark.sampled
@pytest.mark.parametrize(
    "name", ["who", "class", "records", "what", "known", "source", "today", "duckanon class"]
)
def test_a_subject_of_any_name_is_known_again(name: str) -> None:
    with duckanon.connect() as con:
        con.execute(
            f'CREATE TABLE t AS SELECT i AS "{name}", 30 + i % 7 AS age, i % 5 AS is_new FROM range(40) r(i)'
        )
        con.sql(
            "CREATE ANONYMIZED VIEW v AS FROM t WITH (quasi_identifiers = age, sensitive = is_new, "
            f"subject = \"{name}\", k = 4, t = 0.5, effort = 'fast')"
        )
        con.execute("INSERT INTO t SELECT 100 + i, 30 + i % 7, i % 5 FROM range(10) r(i)")
        assert "50 records; of the subjects in the source 0 wait" in appended(con)


@pytest.mark.parametrize(
    ("subject", "change", "words"),
    [
        # Equal numbers are one subject, whatever their sign.
        ("CASE WHEN i = 0 THEN -0.0::DOUBLE ELSE i END", "UPDATE persons SET id = 0.0 WHERE id = 0", "0 wait"),
        # The text of what holds an instant is another one in another zone.
        ("{'at': TIMESTAMPTZ '2020-01-01 00:00:00+00' + to_hours(i::INTEGER)}", "SET TimeZone = 'Asia/Tokyo'", "in UTC"),
        ("i", "UPDATE persons SET id = id + 500", "is in its source any more"),
    ],
)  # fmt: skip
def test_nobody_is_published_twice(subject: str, change: str, words: str) -> None:
    with duckanon.connect() as con:
        con.execute(
            "SET TimeZone = 'UTC'; CREATE TABLE persons AS "
            f"SELECT {subject} AS id, 20 + i % 50 AS age, i % 23 AS zip, i % 7 AS charge FROM range(60) r(i)"
        )
        con.sql(CREATE)
        con.execute(change)
        try:
            said = appended(con)
        except ReleaseError as refused:
            said = str(refused)
        assert words in said
        assert rows(con, "SELECT count(*) AS n FROM v") == [{"n": 60}]


def test_what_did_not_change_is_not_said_to() -> None:
    """A suppressed row of a released person, and -0.0 in a quasi-identifier."""
    with persons() as con:
        con.execute("ALTER TABLE persons ALTER age TYPE DOUBLE; UPDATE persons SET age = -0.0 WHERE age < 30")
        con.execute("INSERT INTO persons VALUES (7, NULL, 3, 3)")
        with pytest.warns(duckanon.DuckanonWarning, match="left out 1 record"):
            con.sql(CREATE.replace("k = 4", "k = 4, nulls = 'suppress'"))
        assert "0 wait; as they were published stay 0 that changed, and 0 that are gone" in appended(con)


def test_classes_smaller_than_an_earlier_release_had_are_refused() -> None:
    """The way out is not the statement that is refused."""
    with persons() as con:
        con.sql(CREATE.replace("k = 4", "k = 8"))
        with pytest.warns(duckanon.DuckanonWarning, match="fewer than k = 8"):
            con.sql(CREATE.replace("CREATE", "CREATE OR REPLACE").replace("'error'", "'warn'"))
        con.execute(COME.format(1000, 9))
        with pytest.raises(ReleaseError, match=r"fewer than k = 8 subjects: .*; give out one of the two$"):
            con.sql(APPEND.replace("'append'", "'append', on_intersection = 'error'"))


@pytest.mark.sampled
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE duckanon.history SET k = NULL",
        "UPDATE duckanon.history SET salt = NULL",
        "UPDATE duckanon.history SET lineage = NULL",
        "ALTER TABLE duckanon.history DROP COLUMN salt",
        "ALTER TABLE duckanon.history ALTER k TYPE VARCHAR; UPDATE duckanon.history SET k = 'many'",
        "DROP TABLE duckanon.history; CREATE TABLE duckanon.history AS SELECT 1 AS release_id",
        "DELETE FROM duckanon.persons_1",
        "DROP TABLE duckanon.values_1",
    ],
)
def test_what_is_kept_and_someone_broke_is_an_error_of_ours_and_goes_with_the_view(change: str) -> None:
    with persons() as con:
        con.sql(CREATE)
        con.execute(COME.format(1000, 8))
        con.execute(change)
        with pytest.raises(ReleaseError, match="not kept who is in it"):
            con.sql(APPEND)
        con.sql("DROP ANONYMIZED VIEW v")
        left = "SELECT table_name AS n FROM duckdb_tables() WHERE regexp_matches(table_name, '^(persons|values)_')"
        assert rows(con, left) == []


def test_a_broken_history_says_what_to_do() -> None:
    with persons() as con:
        con.sql(CREATE)
        con.execute("ALTER TABLE duckanon.history DROP COLUMN salt")
        refresh = "REFRESH ANONYMIZED VIEW v WITH (on_intersection = 'warn')"
        with (
            pytest.warns(duckanon.DuckanonWarning, match="nothing was kept"),
            pytest.raises(ReleaseError, match="DROP it"),
        ):
            con.sql(refresh)
        con.execute("DROP TABLE duckanon.history")
        with pytest.warns(duckanon.DuckanonWarning, match="nothing was kept"):
            con.sql(refresh)
