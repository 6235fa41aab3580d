"""What CREATE and anonymize say of a release beside its audit, and how a release reads when it is printed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.cli.main import main
from tests.e2e.scenes import patients

if TYPE_CHECKING:
    from pathlib import Path

# Two classes of two, far apart in every column. By hand: age 20.5 -> 21 and 30.5 -> 31, half away from zero; the
# most frequent name, of several the first; the day between; 30 seconds become a minute, as all moments are whole
# ones; one score beside NULL is fewer than k = 2 and becomes NULL, 9.25 becomes 9.3, .3 and .2 from the scores.
TABLE = """
CREATE TABLE t AS FROM (VALUES
    (20, 'ann', DATE '2024-01-01', TIMESTAMP '2024-01-01 00:00:00', 1.0::DOUBLE, 5, 1, 2.50::DECIMAL(9, 2)),
    (21, 'ann', DATE '2024-01-03', TIMESTAMP '2024-01-01 00:01:00', NULL,        6, 1, 2.50),
    (30, 'bob', DATE '2029-01-01', TIMESTAMP '2029-01-01 00:00:00', 9.0,         9, 8, 7.00),
    (31, 'cid', DATE '2029-01-01', TIMESTAMP '2029-01-01 00:00:00', 9.5,         9, 9, 7.01)
) AS v(age, name, day, moment, score, low, tags, price)
"""
CREATE = """
CREATE ANONYMIZED VIEW v AS FROM t WITH (
    quasi_identifiers = (age, name, day, moment, score, low, tags, price), k = 2, effort = 'fast',
    recode = {low: 'range', tags: 'set'}
)"""
EXPECTED = {
    # changed records of four, mean absolute change, unit
    "age": (2, 0.5, None),
    "name": (1, None, None),
    "day": (2, 0.5, "days"),
    "moment": (1, 15.0, "seconds"),
    "score": (3, 0.25, None),
    "low": (2, None, None),
    "tags": (2, None, None),
    "price": (1, 0.0025, None),
}


# Four records are few enough for warnings, which are not what this looks at.
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_the_effect_of_a_release_is_counted_record_by_record() -> None:
    with duckanon.connect() as con:
        con.sql(TABLE)
        (made,) = [outcome for outcome in con.outcomes(CREATE, effect=True) if outcome is not None]
        assert {(one.records, one.recode) for one in made.effect} == {
            (4, "mean"), (4, "mode"), (4, "range"), (4, "set"),
        }  # fmt: skip
        found = {one.column: (one.changed_records, one.mean_change, one.unit) for one in made.effect}
        assert found == {name: pytest.approx(row) for name, row in EXPECTED.items()}
        assert {one.column: one.changed for one in made.effect}["score"] == 0.75
        (again,) = list(con.outcomes("REFRESH ANONYMIZED VIEW v", effect=True))
        assert again.effect == made.effect
        (plain,) = list(con.outcomes("REFRESH ANONYMIZED VIEW v"))
        assert plain.effect == ()


def test_numbers_too_large_for_a_difference_do_not_fail_the_release() -> None:
    """By hand: each class has two values 10^38 * 3.2 apart; the most frequent is released, the other changed."""
    with duckanon.connect() as con:
        con.sql(
            "CREATE TABLE t AS SELECT CASE WHEN i % 3 = 0 THEN -1 ELSE 1 END::HUGEINT * 160000000000000000000000000000000000000 AS a,"
            " i // 3 * 1000 AS b FROM range(6) AS r(i)"
        )
        release = duckanon.anonymize(
            con,
            "t",
            duckanon.Policy(
                quasi_identifiers=["a", "b"], k=3, recode={"a": "mode"}, weights={"a": 1e-6}, effort="fast"
            ),
            name="v",
            effect=True,
        )
        (a, b) = release.effect
        assert (a.changed_records, b.changed_records, b.mean_change) == (2, 0, 0.0)
        assert a.mean_change == pytest.approx(3.2e38 / 3, rel=0.005)


def test_suppressed_records_are_not_counted_in_the_effect() -> None:
    with duckanon.connect() as con:
        con.sql("CREATE TABLE t AS SELECT CASE WHEN i > 0 THEN i // 2 END AS a FROM range(9) AS r(i)")
        policy = duckanon.Policy(quasi_identifiers="a", k=2, nulls="suppress", effort="fast")
        with pytest.warns(duckanon.DuckanonWarning, match="left out 1 record"):
            release = duckanon.anonymize(con, "t", policy, name="v", effect=True)
        assert release.suppressed == 1
        assert release.effect[0].records == release.records == 8


@pytest.fixture
def told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What anonymize prints of the sixty patients, with the effect."""
    with patients(tmp_path / "p.duckdb"):
        pass
    options = ["--qi", "age,zip", "--sensitive", "charge", "--identifiers", "id", "--insensitive", "*"]
    options += ["-k", "3", "-t", "0.4", "--effort", "fast", "--effect"]
    with pytest.raises(SystemExit) as left:
        main(["anonymize", f"{tmp_path / 'p.duckdb'}:patients", str(tmp_path / "o.parquet"), *options])
    assert left.value.code == 0
    return capsys.readouterr().out.splitlines()


def test_anonymize_prints_what_create_prints(
    told: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    statement = (
        "CREATE ANONYMIZED VIEW v AS FROM patients WITH (quasi_identifiers = (age, zip), sensitive = charge,"
        " identifiers = id, insensitive = *, k = 3, t = 0.4, effort = 'fast')"
    )
    with pytest.raises(SystemExit) as left:
        main(["sql", statement, "-d", str(tmp_path / "p.duckdb"), "--effect"])
    assert left.value.code == 0
    created = capsys.readouterr().out.splitlines()
    assert (told[0], created[0]) == (f"-- wrote {tmp_path / 'o.parquet'}", "-- released p.main.v")
    assert told[1:] == created[1:]
    text = "\n".join(told)
    for word in ("k_anonymity", "information_loss", "suppressed_records", "method: "):
        assert word in text
    assert told[-5] == "effect on the 60 released records:"
    assert [line.split()[:2] for line in told[-2:]] == [["age", "mean"], ["zip", "mode"]]


def test_a_printed_release_and_a_printed_report_are_text() -> None:
    with patients() as con:
        policy = duckanon.Policy(
            quasi_identifiers=["age", "zip"],
            sensitive="charge",
            identifiers="id",
            insensitive="*",
            k=3,
            effort="fast",
        )
        release = duckanon.anonymize(con, "patients", policy, name='"my\nview"', effect=True)
        head, blank, *rest = str(release).split("\n")
        classes = len(con.duckdb.sql('SELECT DISTINCT age, zip FROM "my\nview"').fetchall())
        assert head.startswith(f"released memory.main.my\\nview: 60 records in {classes} classes, 0 suppr")
        assert "information loss" in head
        assert "method mdav" in head
        assert blank == ""
        assert "\n".join(rest).startswith(release.report.to_text())
        assert rest[-1].startswith("zip ")
        assert str(release.report) == release.report.to_text()
        assert repr(release).startswith("Release(name=")
