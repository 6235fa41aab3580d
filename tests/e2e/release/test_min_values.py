"""A class of which few records have a value does not release it: means, medians and ranges of few values are NULL.

MDAV makes classes of exactly k records here, and the text `own`, which k records share, outweighs all else; so the
values of each class are known beforehand, and `class_value` of the oracle says what it releases.
"""

from __future__ import annotations

import random
from dataclasses import replace
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import duckanon
from duckanon.cli.verify import verify
from duckanon.release.stages import recode as recode_stage
from tests.oracle_recode import class_value

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from pathlib import Path

COLUMNS: dict[str, Callable[[int], Any]] = {
    "INTEGER": lambda number: 7 * number,
    "DECIMAL(9,2)": lambda number: Decimal("1.25") * number,
    "DOUBLE": lambda number: 0.25 * number,
    "DATE": lambda number: date(2020, 2, 1) + timedelta(number),
}
"""By type: the value that is made of a number."""

RECODES = ("mean", "median", "range", "mode", "set")


@pytest.fixture
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def released(
    con: duckanon.Connection, classes: Sequence[Sequence[Any]], type_text: str, options: str
) -> dict[str, Any]:
    """Make a release of classes of records with these values, and return what each class releases."""
    con.execute(f"CREATE OR REPLACE TABLE p (own VARCHAR, x {type_text}, who INTEGER)")
    rows = [[f"c{n}", value, i] for n, values in enumerate(classes) for i, value in enumerate(values)]
    con.duckdb.executemany("INSERT INTO p VALUES (?, ?, ?)", rows)
    con.sql(
        "CREATE OR REPLACE ANONYMIZED VIEW v AS SELECT own, x FROM p WITH (quasi_identifiers = (own, x), "
        f"method = 'mdav', weights = {{own: 1e9}}, k = {len(classes[0])}{options})"
    )
    return dict(con.execute("SELECT DISTINCT own, x FROM v").fetchall())


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
@pytest.mark.parametrize("least", [None, 1, 3, 5])
def test_a_class_of_few_values_releases_none(con: duckanon.Connection, least: int | None) -> None:
    """Every type by every rule, in one table; the n-th class has about n eighths of NULLs."""
    k, draw = 4, random.Random(str(least))
    columns = {f"{recode} {kind}": (recode, kind) for recode in RECODES for kind in COLUMNS}
    classes = [
        {
            name: [None if draw.random() < n / 8 else COLUMNS[kind](draw.randint(0, 9)) for _ in range(k)]
            for name, (_, kind) in columns.items()
        }
        for n in range(9)
    ]
    quoted = [f'"{name}"' for name in columns]
    typed = ", ".join(f'"{name}" {kind}' for name, (_, kind) in columns.items())
    rules = ", ".join(f'"{name}": {recode}' for name, (recode, _) in columns.items())
    con.execute(f"CREATE OR REPLACE TABLE p (own VARCHAR, {typed})")
    con.duckdb.executemany(
        f"INSERT INTO p VALUES (?{', ?' * len(columns)})",
        [[f"c{n}", *row] for n, one in enumerate(classes) for row in zip(*one.values(), strict=True)],
    )
    asked = "" if least is None else f", min_values = {least}"
    con.sql(
        f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM p WITH (quasi_identifiers = (own, {', '.join(quoted)}), "
        f"method = 'mdav', weights = {{own: 1e9}}, k = {k}, recode = {{{rules}}}{asked})"
    )
    found = con.execute("SELECT DISTINCT * FROM v ORDER BY own").fetchall()
    assert [row[0] for row in found] == [f"c{n}" for n in range(9)]
    for (_, *values), one in zip(found, classes, strict=True):
        for value, (name, held) in zip(values, one.items(), strict=True):
            recode, kind = columns[name]
            digits = 2 if kind == "DOUBLE" else None
            expected = class_value(held, recode, kind, least=k if least is None else least, digits=digits)
            assert value == expected, (name, held)


FEW = [[1, None, None], [1, 3, None], [4, 5, 9]]


def test_what_is_few_is_told_recorded_and_verified(con: duckanon.Connection, tmp_path: Path) -> None:
    with pytest.warns(duckanon.DuckanonWarning, match="2 classes with 3 values of 'x' release NULL for it"):
        assert released(con, FEW, "INTEGER", "") == {"c0": None, "c1": None, "c2": 6}
    assert "min_values" not in {row[0] for row in con.sql("AUDIT VIEW v").fetchall()}
    assert con.execute(
        "SELECT attribute, threshold FROM duckanon.thresholds WHERE measure = 'min_values'"
    ).fetchall()[-1] == ("x", Decimal(3))
    row = con.execute(
        "SELECT threshold, value, violations, passed FROM duckanon.audits WHERE measure = 'min_values'"
    ).fetchall()[-1]
    assert row == (3, 3, 0, True)
    file = tmp_path / "out.duckdb"
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{file}'")
    assert verify(file) == 0


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_what_was_published_with_nulls_is_still_recorded_after_an_append(
    con: duckanon.Connection, tmp_path: Path
) -> None:
    """The first records lack ages, those that come later lack zips: the record of both says so."""
    con.execute(
        "CREATE TABLE persons AS SELECT i AS id, i // 4 AS age, 1 AS stay, i % 4 AS charge FROM range(40) r(i)"
    )
    con.execute("UPDATE persons SET age = NULL WHERE id % 13 = 0")
    con.sql(
        "CREATE ANONYMIZED VIEW v AS FROM persons WITH (quasi_identifiers = (age, stay), sensitive = charge, "
        "subject = id, k = 4)"
    )
    recorded = "SELECT DISTINCT attribute FROM duckanon.audits WHERE measure = 'min_values' AND statement = 'release'"
    assert con.execute(f"{recorded} ORDER BY 1").fetchall() == [("age",)]
    con.execute(
        "INSERT INTO persons SELECT 100 + i, 90 + i // 8, CASE WHEN i % 7 > 0 THEN 1 END, i % 4 FROM range(16) r(i)"
    )
    con.sql("REFRESH ANONYMIZED VIEW v WITH (mode = 'append')")
    now = f"{recorded} AND release_id = (SELECT max(release_id) FROM duckanon.audits) ORDER BY 1"
    assert con.execute(now).fetchall() == [("age",), ("stay",)]
    con.sql(f"EXPORT ANONYMIZED VIEW v TO '{tmp_path / 'out.duckdb'}'")
    assert verify(tmp_path / "out.duckdb") == 0


def test_an_audit_of_rows_does_not_judge_it(con: duckanon.Connection) -> None:
    con.execute("CREATE TABLE p AS SELECT 1 AS x FROM range(4)")
    with pytest.raises(duckanon.DuckanonError, match="leave min_values out of the policy"):
        duckanon.audit(con, "p", duckanon.Policy(quasi_identifiers="x", k=2, min_values=1))


def test_a_column_without_nulls_has_no_such_line(con: duckanon.Connection) -> None:
    released(con, [[1, 2, 3], [4, 5, 9]], "INTEGER", "")
    report = con.sql("REFRESH ANONYMIZED VIEW v")
    assert "min_values" not in str(report)


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_a_mean_that_is_of_too_few_is_not_released(
    con: duckanon.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The audit counts anew: where recoding forgets the rule, nothing is released."""
    value = recode_stage._value
    monkeypatch.setattr(
        recode_stage, "_value", lambda *given: value(*given[:-1], replace(given[-1], min_values=1))
    )
    with pytest.raises(duckanon.DuckanonError, match="min_values of 'x' is 1 where the policy asks for 3"):
        released(con, FEW, "INTEGER", "")


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_values_of_one_subject_count_once(con: duckanon.Connection) -> None:
    """Class a: three records of persons 0, 0 and 1 with a value; b: of 0, 1 and 2. k = 3 counts persons."""
    con.execute("CREATE OR REPLACE TABLE s (own VARCHAR, x INTEGER, who INTEGER)")
    con.execute(
        "INSERT INTO s VALUES ('a', 3, 0), ('a', 5, 0), ('a', 7, 1), ('a', NULL, 2), "
        "('b', 3, 10), ('b', 5, 11), ('b', 7, 12), ('b', NULL, 13)"
    )
    con.sql(
        "CREATE OR REPLACE ANONYMIZED VIEW v AS FROM s WITH (quasi_identifiers = (own, x), subject = who, k = 3, "
        "weights = {own: 1e9})"
    )
    assert dict(con.execute("SELECT DISTINCT own, x FROM v").fetchall()) == {"a": None, "b": 5}


@pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")
def test_information_loss_counts_what_is_left_out(con: duckanon.Connection) -> None:
    """By hand: x is 0, 4 in a and 2, NULL in b, k = 2, so that b releases NULL in place of 2.

    Present: 0, 4, 2, mean 2, variance 8/3. Scores: -2, 2, 0 by sqrt(8/3); NULL has score 0, and 1 in a coordinate of
    its own. Total: 3 of the scores and 4 (1/4 x 3/4) = 3/4; `own` adds 1/2 (a simplex of two corners) x 4 / 2 = 1,
    times its weight of 16. Within: a has 2 x 4 / (8/3) = 3; b 1/2 between its two records. NULL instead of 2 moves the
    first record of b from the middle by 1/2 and the second by 1/2 more: 1 in all instead of 1/2.
    """
    released_by = [[0, 4], [2, None]]
    con.execute("CREATE OR REPLACE TABLE q (own VARCHAR, x INTEGER)")
    con.duckdb.executemany(
        "INSERT INTO q VALUES (?, ?)",
        [["ab"[n], value] for n, values in enumerate(released_by) for value in values],
    )
    losses = []
    for least in (1, 2):
        con.sql(
            "CREATE OR REPLACE ANONYMIZED VIEW v AS FROM q WITH (quasi_identifiers = (own, x), k = 2, method = 'mdav', "
            f"weights = {{own: 16}}, min_values = {least})"
        )
        losses += con.execute(
            "SELECT information_loss FROM duckanon.releases ORDER BY release_id DESC LIMIT 1"
        ).fetchall()[0]
    whole = 3 + 0.75 + 16 * 1.0
    assert losses == [float(f"{100 * lost / whole:.3g}") for lost in (3.5, 4)]


def test_a_stream_releases_no_value_of_few() -> None:
    table = pa.table({"x": [1, None, None, 10, 11, 15], "y": [1.0, 2.0, 6.0, 50.0, 60.0, None]})
    options: dict[str, Any] = {"k": 3, "delay": 15, "scale": {"x": (0, 1), "y": (0, 60)}}
    made = duckanon.anonymize_stream(table.to_batches(), ["x", "y"], **options)
    rows = [row for batch in made for row in batch.to_pylist()]
    assert sorted({(row["x"], row["y"]) for row in rows}, key=str) == [(12, None), (None, 3.0)]
    made = duckanon.anonymize_stream(table.to_batches(), ["x", "y"], min_values=1, **options)
    rows = [row for batch in made for row in batch.to_pylist()]
    assert {(row["x"], row["y"]) for row in rows} == {(1, 3.0), (12, 55.0)}
