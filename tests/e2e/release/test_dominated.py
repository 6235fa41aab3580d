"""A mean that tells one record to whoever knows where the others usually lie: told of, and nowhere else."""

from __future__ import annotations

import math
import random
import re
import warnings
from collections import defaultdict
from fractions import Fraction
from typing import Any

import pytest

import duckanon
from duckanon.release.unpublished import equivalence_classes
from tests.examples import examples

# Incomes of 100 to 158, and one of 10,000: with three others in its class, of which each lies within 58, it is told
# within 3 * 58 = 174.
GIANT = "SELECT CASE WHEN i < 59 THEN 100 + i ELSE 10000 END AS income, i % 7 AS s FROM range(60) r(i)"


def said(query: str, **options: Any) -> list[str]:
    """Give the warnings of a release that speak of a mean."""
    asked = {"quasi_identifiers": "income", "insensitive": "*", "k": 3, "effort": "fast"} | options
    with duckanon.connect() as con, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        made = duckanon.anonymize(con, query, duckanon.Policy(**asked), name="v")
    return [text for text in made.report.warnings if "the mean of" in text]


def test_a_giant_is_told_of_with_the_ways_out() -> None:
    (text,) = said(GIANT)
    assert text == (
        "in 1 class the mean of 'income' tells one record within 10 % to whoever knows the usual range of the "
        "others: set p_percent = 10 or recode = {income: 'median'}, cap the column in the source query (top "
        "coding), or take a larger k"
    )


@pytest.mark.parametrize(
    ("options", "query"),
    [
        ({"p_percent": 10}, GIANT),
        ({"recode": {"income": "median"}}, GIANT),
        ({"recode": {"income": "range"}}, GIANT),
        ({"k": 30}, GIANT),
        ({"release": "swap"}, GIANT),
        ({}, GIANT.replace("10000", "least(10000, 200)")),
    ],
)
def test_each_way_out_is_one(options: dict[str, Any], query: str) -> None:
    """With k = 30 the other 29 are 130 to 158, and could be 100: 29 * 44 is more than a tenth of 10,000."""
    assert said(query, **options) == []


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ("CASE WHEN i < 59 THEN -100 - i ELSE -10000 END", True),
        ("CASE WHEN i < 59 THEN 0.0001 * i ELSE 1 END", True),
        ("CAST(CASE WHEN i < 59 THEN 100 + i ELSE 10000 END AS DECIMAL(12, 2))", True),
        # Two giants are not told apart, nor is one whom the range of the others hides.
        ("CASE WHEN i < 58 THEN 100 + i ELSE 10000 + i END", False),
        ("CASE WHEN i < 59 THEN 100 + i ELSE 1100 END", False),
        ("20 + i", False),
        ("exp(i / 10.0)", False),
        # Where a twelfth of the records is not 0 that is usual.
        ("CASE WHEN i % 12 = 0 THEN 100 + i ELSE 0 END", False),
        ("DATE '2000-01-01' + CASE WHEN i < 59 THEN i::INTEGER ELSE 100000 END", False),
        ("CASE WHEN i < 59 THEN NULL ELSE 10000 END", False),
    ],
)
def test_who_is_told_and_who_is_not(value: str, told: bool) -> None:
    """By hand, k = 3; 1,100 beside 157 and 158, which could be 100: 115 is more than a tenth."""
    assert bool(said(f"SELECT {value} AS income, i % 7 AS s FROM range(60) r(i)")) is told


def test_a_class_of_the_giant_and_nulls_tells_it() -> None:
    """By hand: the mean of one value and two NULL is the value; places far away keep the classes apart."""
    query = (
        "SELECT CASE WHEN i < 57 THEN 100 + i % 3 WHEN i = 57 THEN 10000 END AS income, CASE WHEN i < 57 THEN 0 ELSE 9 END "
        "AS place, 1 AS s FROM range(60) r(i)"
    )
    assert len(said(query, quasi_identifiers=["income", "place"], weights={"place": 1e6})) == 1


def test_a_giant_among_many_without_a_value_is_told_of() -> None:
    """By hand: it is released beside four NULL, as its own mean; nine others have 5 (found by a reviewer)."""
    query = (
        "SELECT CASE WHEN i = 0 THEN 1e9 WHEN i < 10 THEN 5 END AS income, i % 5 AS s FROM range(3000) r(i)"
    )
    (text,) = said(query, k=5)
    assert text.startswith("in 1 class ")


def test_records_of_a_subject_are_told_together() -> None:
    """By hand: two records of 5,000 of one person beside three others'; as records they are two unusual ones."""
    query = "SELECT greatest(i, 1) AS who, CASE WHEN i < 2 THEN 5000 ELSE 100 + i END AS income, i % 7 AS s FROM range(60) r(i)"
    assert said(query, identifiers="who") == []
    (text,) = said(query, subject="who")
    assert "tells one subject within 10 %" in text


@pytest.mark.slow
def test_the_classes_are_counted_as_a_slow_reader_does() -> None:
    """Random tables with some giants, in fractions, from what the owner is told of the classes."""
    found = 0
    for seed in range(examples(60, 20)):
        draw = random.Random(seed)
        size = draw.randrange(30, 120)
        incomes = [draw.randrange(100, 200) for _ in range(size)]
        for _ in range(draw.randrange(4)):
            incomes[draw.randrange(size)] = draw.choice([-1, 1]) * draw.randrange(500, 20_000)
        values = ", ".join(f"({income}, {draw.randrange(50)})" for income in incomes)
        query = f"SELECT * FROM (VALUES {values}) AS t(income, age)"
        asked = {"quasi_identifiers": ["income", "age"], "k": draw.randrange(2, 7)}
        texts = said(query, **asked)
        with duckanon.connect() as con, warnings.catch_warnings():
            warnings.simplefilter("ignore")
            policy = duckanon.Policy(**asked, effort="fast")
            records = equivalence_classes(con.duckdb, query, policy).table.to_pylist()
        told = told_classes([(record["class_id"], record["income"]) for record in records])
        assert [int(re.findall(r"in (\d+) class", text)[0]) for text in texts] == ([told] if told else []), (
            seed
        )
        found += told
    assert found > 5


def told_classes(records: list[tuple[int, int]]) -> int:
    """Count the classes whose total tells the one value in it that is not usual."""
    column = sorted(value for _, value in records)
    # One more than a fortieth is cut off at each end, but never more than a quarter.
    tail, quarter = math.ceil(Fraction(len(column), 40)), math.ceil(Fraction(len(column), 4)) - 1
    tail = min(tail, quarter)
    low, high = column[tail], column[-1 - tail]
    first, third = column[quarter], column[-1 - quarter]
    usual = [
        value
        for value in column
        if low <= value <= high or first - 3 * (third - first) <= value <= third + 3 * (third - first)
    ]
    classes = defaultdict(list)
    for number, value in records:
        classes[number].append(value)
    count = 0
    for members in classes.values():
        far = [value for value in members if not usual[0] <= value <= usual[-1]]
        others = len(members) - 1
        if len(far) == 1:
            least = sum(members) - others * usual[-1]
            greatest = sum(members) - others * usual[0]
            count += 10 * max(abs(greatest - far[0]), abs(far[0] - least)) <= abs(far[0])
    return count
