"""More rows for `tests.trust.direct`: risks of a population, and classes in larger groups."""

from __future__ import annotations

from typing import Any, NamedTuple


class Case(NamedTuple):
    """Relations that an audit reads, and the columns and rows that it must give, in any order."""

    relations: str
    columns: str
    rows: list[tuple[Any, ...]]


def values(name: str, columns: str, rows: str) -> str:
    """Give the statement that makes a relation."""
    return f"CREATE TABLE {name} AS FROM (VALUES {rows}) AS v({columns});"


def threshold(column: str) -> str:
    """Give the statement that makes the relation of thresholds."""
    return f"CREATE TABLE threshold AS SELECT {column};"


SUPERSETS = "class, superset, class_size, superset_size, emd_numerator, emd_denominator, emd"
NEAREST = "class, class_size, superset_size, value, violated"
# Group 5 holds classes 1 and 2, group 6 class 3, group 7, as large as group 5, classes 1 and 3, group 0 all.
HELD = values(
    "class_superset", "class, superset", "(1, 0), (2, 0), (3, 0), (1, 5), (2, 5), (3, 6), (1, 7), (3, 7)"
)
WHOLE = values("class_superset", "class, superset", "(1, 0), (2, 0)")
SIZES = values("class_size", "class, class_size", "(7, 4), (8, 6), (9, 6), (10, 12), (11, 6)")
# Class 7 is at 0.2 of a group of 10; class 8 above it everywhere; class 9 has no group of 10; class 10 is one;
# class 11 is as near to a group of 15 as to one of 10.
GROUPS = values("class_superset_emd", SUPERSETS, """
    (7, 1, 4, 10, 4::HUGEINT, 20::HUGEINT, 0.2::DOUBLE), (7, 2, 4, 20, 6, 20, 0.3), (7, 3, 4, 9, 0, 20, 0),
    (8, 1, 6, 10, 6, 20, 0.3), (8, 2, 6, 20, 5, 20, 0.25), (9, 3, 6, 9, 1, 10, 0.1),
    (10, 2, 12, 20, 1, 10, 0.1), (11, 2, 6, 15, 3, 30, 0.1), (11, 1, 6, 10, 2, 20, 0.1)""")  # fmt: skip
# A third is above 0.333333333333 by a third of the last step; 0.75 and one step of 10^-12 above it.
THIRD = values("class_superset_emd", SUPERSETS, "(7, 1, 4, 10, 1::HUGEINT, 3::HUGEINT, (1 / 3)::DOUBLE)")
STEP = values("class_superset_emd", SUPERSETS, """
    (7, 1, 4, 10, 3::HUGEINT, 4::HUGEINT, 0.75::DOUBLE),
    (8, 1, 4, 10, 750000000001, 1000000000000, 0.750000000001)""")  # fmt: skip
ONE, TWO = (values("class_size", "class, class_size", rows) for rows in ("(7, 4)", "(7, 4), (8, 4)"))
PLACES = '"superset", place, "first", "last"'
RANKS = values(
    "class_rank",
    "class, place, rank",
    """
    (11, 1, 1), (11, 2, 1), (12, 1, 1), (12, 2, 2), (21, 1, 2), (21, 2, 1), (22, 1, 2), (22, 2, 2)""",
)
BOUNDS = values("superset_bound", PLACES, """
    (1, 1, 1, 1), (1, 2, 1, 1), (2, 2, 2, 2), (3, 1, 1, 1), (3, 1, 2, 5), (3, 1, 0, 1), (3, 2, 1, 1), (4, 1, 2, 1),
    (4, 1, 1, 2), (5, 1, 1, 2), (5, 3, 1, 2), (6, 1, NULL, 2), (7, 1, 1, NULL), (8, NULL, 1, 2), (8, 1, 1, 2), (9, 0, 1, 2),
    (0, 1, 1, 1), (-1, 1, 1, 1), (NULL, 1, 1, 1)""")  # fmt: skip

RISK_CASES = {
    # Four people for two records, nobody for one, two for three; class 9 is not in the release.
    "journalist_risk": [
        Case(
            values("class_member", "class, value", "(1, 0), (1, 0), (2, 0), (3, 0), (3, 0), (3, 0)")
            + values("population", "class", "(1), (1), (1), (1), (3), (3), (9)"),
            "class, class_size, population_size, journalist_risk, violated",
            [(1, 2, 4, 0.25, False), (2, 1, 0, 1.0, True), (3, 3, 2, 0.5, True)],
        ),
    ],
    # Table NULL 2/5, x 2/5, y 1/5, group 5 NULL 1/2, x 1/2; classes {NULL, NULL, x}, {x}, {y}.
    "nt_closeness_equal": [
        Case(
            values("class_member", "class, value", "(1, NULL), (1, NULL), (1, 'x'), (2, 'x'), (3, 'y')") + HELD,
            SUPERSETS,
            [(1, 0, 3, 5, 8, 30, 4 / 15), (1, 5, 3, 4, 4, 24, 1 / 6), (2, 0, 1, 5, 6, 10, 3 / 5),
             (2, 5, 1, 4, 4, 8, 1 / 2), (3, 0, 1, 5, 8, 10, 4 / 5), (3, 6, 1, 1, 0, 2, 0.0), (1, 7, 3, 4, 6, 24, 1 / 4), (3, 7, 1, 4, 6, 8, 3 / 4)],
        ),
    ],
    # Order 1, 2, NULL; table cumulated 1/2, 3/4, group 5 1/3, 2/3; classes {1, NULL}, {2}, {1}.
    "nt_closeness_ordered": [
        Case(
            values("class_member", "class, value", "(1, 1), (1, NULL), (2, 2), (3, 1)") + HELD,
            SUPERSETS,
            [(1, 0, 2, 4, 2, 16, 1 / 8), (1, 5, 2, 3, 2, 12, 1 / 6), (2, 0, 1, 4, 3, 8, 3 / 8),
             (2, 5, 1, 3, 2, 6, 1 / 3), (3, 0, 1, 4, 3, 8, 3 / 8), (3, 6, 1, 1, 0, 2, 0.0), (1, 7, 2, 3, 2, 12, 1 / 6), (3, 7, 1, 3, 2, 6, 1 / 3)],
        ),
        # Of 1, 2 and six 3, below 3 the sums are 1/8 and 2/8, of the class 1/2 and 1: 9/8 by two steps. Then the mirror of it.
        Case(values("class_member", "class, value", "(1, 1), (1, 2), (2, 3), (2, 3), (2, 3), (2, 3), (2, 3), (2, 3)") + WHOLE,
             SUPERSETS, [(1, 0, 2, 8, 18, 32, 9 / 16), (2, 0, 6, 8, 18, 96, 3 / 16)]),
        Case(values("class_member", "class, value", "(1, 3), (1, 2), (2, 1), (2, 1), (2, 1), (2, 1), (2, 1), (2, 1)") + WHOLE,
             SUPERSETS, [(1, 0, 2, 8, 18, 32, 9 / 16), (2, 0, 6, 8, 18, 96, 3 / 16)]),
        # Of 1, 2, 3, 3, 3 the sums are 1/5 and 2/5, of the class 1/3 and 2/3: 6/15 by two steps; of {3, 3} none: 3/5.
        Case(values("class_member", "class, value", "(1, 1), (1, 2), (1, 3), (2, 3), (2, 3)") + WHOLE,
             SUPERSETS, [(1, 0, 3, 5, 6, 30, 1 / 5), (2, 0, 2, 5, 6, 20, 3 / 10)]),
    ],
    # Classes 11, 12, 21, 22 have ranks of their digits. Box 1 takes 1 in both places, 2 the 2 of the second, 3 both values
    # of the first by two rows (a third lies between them), and 1 of the second. 4 to 9, 0 and NULL are absurd, each by a row.
    "natural_supersets": [
        Case(RANKS + BOUNDS, "class, superset",
             [(11, 0), (12, 0), (21, 0), (22, 0), (11, 1), (12, 2), (22, 2), (11, 3), (21, 3)]),
        Case(values("class_rank", "class, place, rank", "(1, 1, 1), (2, 1, 2)") + values("superset_bound", PLACES, "(5, 1, 2, 2)"),
             "class, superset", [(1, 0), (2, 0), (2, 5)]),
        Case(RANKS + values("superset_bound", PLACES, "(1, 1, 3, 9)"), "class, superset", [(11, 0), (12, 0), (21, 0), (22, 0)]),
    ],
    "verdict_nt_closeness": [
        Case(SIZES + GROUPS + threshold("10 AS n, 0.2::DECIMAL(18, 12) AS t"), NEAREST,
             [(7, 4, 10, 0.2, False), (8, 6, 20, 0.25, True), (9, 6, 0, float("inf"), True),
              (10, 12, 12, 0.0, False), (11, 6, 10, 0.1, False)]),
        Case(ONE + THIRD + threshold("10 AS n, 0.333333333333::DECIMAL(18, 12) AS t"), NEAREST,
             [(7, 4, 10, 1 / 3, True)]),
        Case(TWO + STEP + threshold("10 AS n, 0.75::DECIMAL(18, 12) AS t"), NEAREST,
             [(7, 4, 10, 0.75, False), (8, 4, 10, 0.750000000001, True)]),
    ],
}  # fmt: skip
