"""Releases that keep (n, t)-closeness: every door, by an oracle that shares no code with us."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import duckanon
from duckanon.cli.main import main
from duckanon.errors import InfeasibleError
from duckanon.release.stages.partition.boxes import ALL_RECORDS
from tests import oracle_near
from tests.e2e.release.test_share_bounds import DOORS, classes_of
from tests.e2e.release.test_share_bounds import table as people
from tests.examples import some

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

Rows = list[tuple[Any, ...]]

WAYS = (
    "",
    ", l = 2",
    ", method = 'mondrian'",
    ", suppression_limit = 0.1",
    ", effort = 'fast'",
    ", alpha = 0.9",
)
QUASI = "quasi_identifiers = (age, area), sensitive = {held}, k = 3, t = {t}, n = {n}"


@pytest.fixture(scope="module")
def con() -> Iterator[duckanon.Connection]:
    with duckanon.connect() as connection:
        yield connection


def table(seed: int) -> Rows:
    """Return records of `people` with a charge that goes with the age, and some without an area."""
    draw = np.random.default_rng(seed + 10**6)
    return [
        (
            age,
            None if seed % 5 == 0 and area == 3 else area,
            name,
            None if draw.random() < 0.05 else age + int(draw.integers(0, 3)),
        )
        for age, area, name in people(seed)
    ]


def load(con: duckanon.Connection, rows: Rows) -> None:
    con.execute(
        "CREATE OR REPLACE TABLE people (age INTEGER, area INTEGER, diagnosis VARCHAR, charge INTEGER)"
    )
    con.duckdb.executemany("INSERT INTO people VALUES (?, ?, ?, ?)", rows)


def released(con: duckanon.Connection, held: str, t: str, n: int, door: str, way: str, folder: Path) -> Rows:
    """Release age, area and one sensitive column of people by a door; `way` are more options of a statement."""
    con.execute(f"CREATE OR REPLACE TABLE source AS SELECT age, area, {held} FROM people")
    if door == "statement":
        options = QUASI.format(held=held, t=t, n=n) + way
        con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW v AS FROM source WITH ({options})")
        return con.duckdb.execute("FROM v").fetchall()
    if door == "table function":
        given = f"quasi_identifiers := ['age', 'area'], sensitive := '{held}', k := 3, t := {t}, n := {n}"
        return con.execute(f"FROM anonymize('source', {given})").fetchall()
    if door == "python":
        policy = duckanon.Policy(quasi_identifiers=["age", "area"], sensitive=held, k=3, t=t, n=n)
        frame = con.duckdb.table("source").to_arrow_table()
        return [tuple(row.values()) for row in duckanon.anonymize_table(frame, policy).to_pylist()]
    con.duckdb.execute(f"COPY source TO '{folder}/people.parquet'")
    flags = ["-k", "3", "-t", t, "--n", str(n), "--qi", "age,area", "--sensitive", held]
    with pytest.raises(SystemExit) as left:
        main(["anonymize", f"{folder}/people.parquet", f"{folder}/o.parquet", "--overwrite", *flags])
    assert left.value.code == 0
    return con.duckdb.execute(f"FROM '{folder}/o.parquet'").fetchall()


@pytest.mark.parametrize("seed", some(range(300), 15))
def test_every_class_is_near_to_a_natural_superset(
    con: duckanon.Connection, tmp_path: Path, capsys: pytest.CaptureFixture[str], seed: int
) -> None:
    """Source: tests/oracle_near.py, which tries every box, and for a statement the recorded boxes alone."""
    rows = table(seed)
    load(con, rows)
    held, t = ("diagnosis", "charge")[seed % 2], ("0.1", "0.25", "0.4")[seed % 3]
    n, door, way = 4 + seed % 13, DOORS[seed % len(DOORS)], WAYS[seed // 4 % len(WAYS)]
    values = [row[2 if held == "diagnosis" else 3] for row in rows]
    if door != "statement":
        way = ""
    # The whole table may lack two values, have one value too often, or have fewer records than n.
    most = max(map(values.count, {*values})) / len(values)
    if ("l = 2" in way and len({*values}) < 2) or ("alpha" in way and most > 0.9) or n > len(rows):
        with pytest.raises((InfeasibleError, AssertionError)):
            released(con, held, t, n, door, way, tmp_path)
        return
    found = released(con, held, t, n, door, way, tmp_path)
    classes = classes_of(found)
    assert min(map(len, classes.values())) >= 3
    boxes = oracle_near.intervals(classes)
    if door == "statement":
        number = con.duckdb.execute("SELECT max(release_id) FROM duckanon.releases").fetchone()
        assert number is not None
        boxes = oracle_near.held(
            con.duckdb.execute(f"FROM duckanon.supersets_{number[0]}").fetchall(), classes
        )
    assert oracle_near.far(classes, boxes, n, Fraction(t), ordered=held == "charge") == {}
    if "suppression" not in way:
        assert sorted(map(str, values)) == sorted(str(row[2]) for row in found)


def test_a_group_of_its_own_is_kept_where_all_records_would_cost_it(con: duckanon.Connection) -> None:
    """By hand: the young have flu, the old gout; both are one class of t to all, and apart with n = 20."""
    load(con, [(age, 0, "flu" if age < 20 else "gout", None) for age in range(40)])
    con.execute("CREATE OR REPLACE TABLE source AS SELECT age, area, diagnosis FROM people")
    found = {}
    for name, n in (("near_all", 40), ("near_twenty", 20)):
        options = QUASI.format(held="diagnosis", t="0.01", n=n)
        con.execute(f"CREATE OR REPLACE ANONYMIZED VIEW {name} AS FROM source WITH ({options})")
        found[name] = classes_of(con.duckdb.execute(f"SELECT age, area, diagnosis FROM {name}").fetchall())
    assert all(len({*values}) == 2 for values in found["near_all"].values())
    assert all(len({*values}) == 1 for values in found["near_twenty"].values())
    assert len(found["near_twenty"]) > len(found["near_all"])


def test_n_of_more_records_than_there_are(con: duckanon.Connection) -> None:
    """The error says which n the table has records for."""
    load(con, [(age, 0, "flu", None) for age in range(12)])
    con.execute("CREATE OR REPLACE TABLE source AS SELECT age, area, diagnosis FROM people")
    with pytest.raises(
        InfeasibleError, match=r"n = 13 is out of reach: the table has 12 records; ask for n <= 12"
    ):
        con.execute(
            f"CREATE ANONYMIZED VIEW w AS FROM source WITH ({QUASI.format(held='diagnosis', t='0.1', n=13)})"
        )
    assert ALL_RECORDS.bounds.num_rows == 0


@pytest.mark.parametrize(
    ("more", "seed", "n"),
    [
        (", digits = {age: -1, area: 0}", 300, 5),
        (", digits = {age: -1, area: 0}", 307, 12),
        (", suppression_limit = 0.5", 321, 30),
        (", suppression_limit = 0.5", 327, 31),
        (", k_subsets = {1: 9}", 306, 11),
        (", k_subsets = {1: 9}", 307, 12),
        (", p_percent = 20", 307, 12),
        (", alpha = 0.4, suppression_limit = 0.6", 312, 4),
    ],
)
def test_options_that_meet_boxes_end_in_a_release_that_keeps_them(
    con: duckanon.Connection, tmp_path: Path, more: str, seed: int, n: int
) -> None:
    """Source: tests/oracle_near.py. Each case fails its audit without the rule that keeps option and boxes apart.

    Rounded means meet beyond a border, suppression leaves fewer than n, merging crosses a border, and a box
    of all records may miss alpha.
    """
    load(con, table(seed))
    held, t = ("diagnosis", "charge")[seed % 2], ("0.1", "0.25", "0.4")[seed % 3]
    classes = classes_of(released(con, held, t, n, "statement", more, tmp_path))
    (number,) = con.duckdb.execute("SELECT max(release_id) FROM duckanon.releases").fetchall()[0]
    boxes = oracle_near.held(con.duckdb.execute(f"FROM duckanon.supersets_{number}").fetchall(), classes)
    assert oracle_near.far(classes, boxes, n, Fraction(t), ordered=held == "charge") == {}
