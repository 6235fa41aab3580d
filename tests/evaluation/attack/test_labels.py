"""Labels of a hierarchy in a linkage attack: each stands for the list of the values below it."""

from __future__ import annotations

import json
import random
from typing import TYPE_CHECKING, Any

import pytest

import duckanon
from duckanon import hierarchies
from duckanon.errors import PolicyError, SourceError
from duckanon.evaluation.linkage import linkage
from tests.e2e.scenes import command

if TYPE_CHECKING:
    from pathlib import Path

    import duckdb

pytestmark = pytest.mark.filterwarnings("ignore::duckanon.DuckanonWarning")

AGES = hierarchies.intervals(range(60), [5, 20])
TOWNS = {"Bonn": ["Rhine", "*"], "Köln": ["Rhine", "*"], "Ulm": ["Danube", "*"], "Wien": ["Danube", "*"]}


def released(con: duckdb.DuckDBPyConnection, seed: int) -> duckanon.Policy:
    """Make tables original and released with labels, and as_sets: labels as lists of all values below them."""
    draw = random.Random(seed)
    rows = [
        (i, draw.choice([None, *range(60)]), draw.choice([None, *TOWNS]), draw.randrange(9))
        for i in range(40)
    ]
    con.execute("CREATE OR REPLACE TABLE original(id INTEGER, age INTEGER, town VARCHAR, n INTEGER)")
    con.executemany("INSERT INTO original VALUES (?, ?, ?, ?)", rows)
    policy = duckanon.Policy(
        quasi_identifiers=["age", "town", "n"], k=3, identifiers="id", effort="fast",
        recode={"age": "hierarchy", "town": "hierarchy"}, hierarchies={"age": AGES, "town": TOWNS},
    )  # fmt: skip
    con.execute("DROP VIEW IF EXISTS released")
    duckanon.anonymize(con, "original", policy, name=f"r{seed}")
    con.execute(f"CREATE OR REPLACE TABLE released AS FROM r{seed}")
    con.execute("CREATE OR REPLACE TABLE as_sets(age INTEGER[], town VARCHAR[], n INTEGER)")
    for age, town, n in con.execute("FROM released").fetchall():
        below = [below_label(label, tree) for label, tree in ((age, AGES), (town, TOWNS))]
        con.execute(
            "INSERT INTO as_sets VALUES (?, ?, ?)",
            [[None if v is None else int(v) for v in below[0]], below[1], n],
        )
    return policy


def below_label(label: str | None, tree: dict[str, list[str]]) -> list[str | None]:
    """Return the values that a label stands for: itself, those below it, and under the root NULL, too."""
    if label is None:
        return [None]
    leaves: list[str | None] = [leaf for leaf, above in tree.items() if label in {leaf, *above}]
    return [*leaves, None] if label == "*" else leaves


@pytest.mark.sampled
@pytest.mark.parametrize("seed", range(6))
def test_a_label_is_as_the_list_of_the_values_below_it(
    fresh_db: duckdb.DuckDBPyConnection, seed: int
) -> None:
    """The attack on lists (`recode = 'set'`) is the oracle."""
    released(fresh_db, seed)
    quasi = ["age", "town", "n"]
    by_label = linkage(fresh_db, "original", "released", quasi, hierarchies={"AGE": AGES, "town": TOWNS})
    by_list = linkage(fresh_db, "original", "as_sets", quasi)
    found, expected = (json.loads(one.to_json()) for one in (by_label, by_list))
    assert len(found["attacks"]) > 3
    assert found["attacks"] == expected["attacks"]


def test_the_policy_brings_its_hierarchies_and_the_truth(fresh_db: duckdb.DuckDBPyConnection) -> None:
    policy = released(fresh_db, 1)
    quasi = ["age", "town", "n"]
    found = linkage(fresh_db, "original", "released", quasi, policy=policy, id="id")
    assert found.truth == "policy"
    assert found.left_out == 0
    everything = next(risk for risk in found.attacks if len(risk.known) == 3)
    assert 0 < everything.linked.value <= 1 / 3


def test_a_full_domain_policy_brings_its_hierarchies_without_recode(
    fresh_db: duckdb.DuckDBPyConnection,
) -> None:
    """The labels are those of its hierarchies, whether recode says so or not."""
    released(fresh_db, 4)
    policy = duckanon.Policy(
        quasi_identifiers=["age", "town"], k=3, identifiers="id", sensitive="n", method="full_domain",
        hierarchies={"age": AGES, "town": TOWNS},
    )  # fmt: skip
    duckanon.anonymize(fresh_db, "original", policy, name="generalized")
    quasi = ["age", "town"]
    found = linkage(fresh_db, "original", "generalized", quasi, policy=policy, id="id")
    given = linkage(fresh_db, "original", "generalized", quasi, hierarchies={"age": AGES, "town": TOWNS})
    assert found.left_out == 0
    assert [one.groups for one in found.attacks] == [one.groups for one in given.attacks]
    assert 0 < found.attacks[1].linked.value <= 1 / 3


@pytest.mark.sampled
@pytest.mark.parametrize(
    ("options", "error", "words"),
    [
        ({}, PolicyError, "column 'age' is INTEGER in the original and VARCHAR in the release"),
        ({}, PolicyError, "or give the hierarchies of its labels"),
        ({"hierarchies": {"age": AGES}}, SourceError, "texts that the original does not have"),
        (
            {"hierarchies": {"age": AGES, "town": {t: ["*"] for t in TOWNS}}},
            SourceError, "of the release has 2 labels that its hierarchy does not have, such as 'Danube'",
        ),
        ({"hierarchies": {"age": AGES, "town": {"Bonn": ["*"]}}}, PolicyError, "has no row for the value Köln, Ulm, Wien"),
        ({"hierarchies": {"born": AGES}}, PolicyError, "hierarchies names 'born', which is not among"),
        ({"hierarchies": {"age": 5}}, PolicyError, "give a table, a file, or a list of labels"),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_told(
    fresh_db: duckdb.DuckDBPyConnection, options: dict[str, Any], error: type[Exception], words: str
) -> None:
    released(fresh_db, 2)
    with pytest.raises(error) as wrong:
        linkage(fresh_db, "original", "released", ["age", "town", "n"], **options)
    assert words in str(wrong.value)


def test_the_command_line_takes_files(fresh_db: duckdb.DuckDBPyConnection, tmp_path: Path) -> None:
    released(fresh_db, 3)
    names = {}
    for name in ("original", "released"):
        names[name] = str(tmp_path / f"{name}.parquet")
        fresh_db.execute(f"COPY {name} TO '{names[name]}'")
    flags = ["--qi", "age,town,n", "--format", "json"]
    for column, tree in (("age", AGES), ("town", TOWNS)):
        path = tmp_path / f"{column}.csv"
        path.write_text(
            "".join(",".join(f'"{cell}"' for cell in (leaf, *above)) + "\n" for leaf, above in tree.items()),
            encoding="utf-8",
        )
        flags += ["--hierarchies", f"{column}={path}"]
    done = command("linkage", names["original"], names["released"], *flags)
    assert done.returncode == 0, done.stderr
    by_label = linkage(
        fresh_db, "original", "released", ["age", "town", "n"], hierarchies={"age": AGES, "town": TOWNS}
    )
    assert json.loads(done.stdout)["attacks"] == json.loads(by_label.to_json())["attacks"]
