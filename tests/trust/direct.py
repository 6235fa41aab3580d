"""Hand-computed rows of audits as they lie in sql/audit: `check` runs any SELECT on hand-made relations.

The macros hide some of what an audit says: they number classes anew, put ranks in the place of values (so that
no NULL is left), keep numerators to themselves. Python binds the files to values as they are.
"""

from __future__ import annotations

from typing import Any

import duckdb
import pytest

from tests.trust.direct_risk import RISK_CASES, Case, threshold, values

JUDGED = "class, class_size, value, violated"
EMD = "class, class_size, emd_numerator, emd_denominator, emd"
VERDICT = "place, measure, attribute, threshold, class, class_size, value, violated"
REPORT = "place, measure, attribute, threshold, value, classes, violations, records, passed"
NO_INTEGER, NO_DECIMAL = "NULL::INTEGER", "NULL::DECIMAL(18, 12)"

# Class 7 is below the threshold, class 8 at it, class 9 above.
SIZES = values("class_size", "class, class_size", "(7, 4), (8, 5), (9, 6)")
DISTINCT = values(
    "class_diversity",
    "class, class_size, distinct_l, entropy_l",
    "(7, 4, 1, 2.9::DOUBLE), (8, 6, 2, 1), (9, 6, 3, 1)",
)
# Values that are equally frequent (6 and 9) have their number, exactly. Else log 2 must be exceeded by 10^-9: by
# 5 * 10^-9 it is (5), by 5 * 10^-11 it is not (8).
ENTROPY = values(
    "class_diversity",
    "class, class_size, distinct_l, entropy_l",
    "(5, 4, 3, 2.00000001::DOUBLE), (6, 4, 2, 2), (7, 4, 9, 1.99999999), (8, 6, 3, 2.0000000001), (9, 6, 3, 3)",
)
RECURSION = values("class_recursion", "class, class_size, recursive_l", "(7, 4, 1), (8, 6, 2), (9, 6, 3)")
DISTANCES = values(
    "class_emd", EMD, "(7, 4, 3::HUGEINT, 20::HUGEINT, 0.15::DOUBLE), (8, 6, 4, 20, 0.2), (9, 6, 6, 20, 0.3)"
)
# A third is above 0.333333333333 by a third of the last step: 10^12 and 3 * 333333333333 differ by one.
THIRD = values("class_emd", EMD, "(7, 3, 1::HUGEINT, 3::HUGEINT, (1 / 3)::DOUBLE)")
# At 0.75, and one step of 10^-12 above.
STEP = values(
    "class_emd",
    EMD,
    "(7, 3, 3::HUGEINT, 4::HUGEINT, 0.75::DOUBLE), (8, 3, 750000000001, 1000000000000, 0.750000000001)",
)
MEMBERS = values("class_member", "class, value", "(1, NULL), (1, NULL), (1, 'x'), (2, 'y')")
TREE = values(
    "tree",
    "value, level, node",
    "('flu', 0, 'flu'), ('flu', 1, 'lung'), ('flu', 2, 'whole'), ('cold', 0, 'cold'), ('cold', 1, 'lung'), "
    "('cold', 2, 'whole'), ('ulcer', 0, 'ulcer'), ('ulcer', 1, 'gut'), ('ulcer', 2, 'whole')",
)
ILL = values("class_member", "class, value", "(1, NULL), (1, 'flu'), (2, 'flu'), (2, 'ulcer'), (2, 'ulcer')")
ALIKE = values("class_member", "class, value", "(1, 'flu'), (1, 'flu'), (2, NULL), (3, 'flu'), (3, 'ulcer')")
WORST = values("verdict", VERDICT, """
    (0, 'k_anonymity', NULL, 5::DOUBLE, 4, 2, 2::DOUBLE, true), (0, 'k_anonymity', NULL, 5, 2, 4, 4, true),
    (0, 'k_anonymity', NULL, 5, 3, 5, 5, false), (0, 'k_anonymity', NULL, 5, 1, 2, 2, true),
    (1, 'distinct_l_diversity', 's', NULL, 1, 2, 1, NULL),
    (2, 't_closeness', 's', 0.2, 3, 2, 0.25, true), (2, 't_closeness', 's', 0.2, 1, 2, 0.75, true),
    (2, 't_closeness', 's', 0.2, 4, 5, 0.25, true), (2, 't_closeness', 's', 0.2, 2, 4, 0.2, false),
    (2, 't_closeness', 'r', 0.2, 2, 4, 0.5, true), (3, 't_closeness', 's', 0.2, 2, 4, 0.5, true),
    (3, 'entropy_l_diversity', 's', 2, 2, 4, 1.5, true)""")  # fmt: skip
# One row less would be left if one of the four keys were not looked at.
LINES = values("verdict", VERDICT, """
    (0, 'k_anonymity', NULL, 5::DOUBLE, 1, 2, 2::DOUBLE, true), (0, 'k_anonymity', NULL, 5, 2, 7, 7, false),
    (1, 'distinct_l_diversity', 's', NULL, 1, 2, 1, NULL), (1, 'distinct_l_diversity', 's', NULL, 2, 7, 3, NULL),
    (2, 't_closeness', 's', 0.2, 1, 2, 0.5, true), (2, 't_closeness', 's', 0.2, 2, 7, 0.1, false),
    (2, 't_closeness', 'u', 0.2, 1, 2, 0.1, false), (2, 't_closeness', 's', 0.3, 1, 2, 0.3, false),
    (3, 't_closeness', 's', 0.2, 1, 2, 0.9, true), (3, 'entropy_l_diversity', 's', 0.2, 1, 2, 1.5, false)""")  # fmt: skip

CASES: dict[str, list[Case]] = RISK_CASES | {
    "verdict_k_anonymity": [
        Case(SIZES + threshold("5 AS k"), JUDGED, [(7, 4, 4.0, True), (8, 5, 5.0, False), (9, 6, 6.0, False)]),
        Case(SIZES + threshold(f"{NO_INTEGER} AS k"), JUDGED,
             [(7, 4, 4.0, None), (8, 5, 5.0, None), (9, 6, 6.0, None)]),
    ],
    "verdict_distinct_l_diversity": [
        Case(DISTINCT + threshold("2.0 AS l"), JUDGED, [(7, 4, 1.0, True), (8, 6, 2.0, False), (9, 6, 3.0, False)]),
        Case(DISTINCT + threshold(f"{NO_DECIMAL} AS l"), JUDGED,
             [(7, 4, 1.0, None), (8, 6, 2.0, None), (9, 6, 3.0, None)]),
    ],
    "verdict_entropy_l_diversity": [
        Case(ENTROPY + threshold("2.0 AS l"), JUDGED,
             [(5, 4, 2.00000001, False), (6, 4, 2.0, False), (7, 4, 1.99999999, True), (8, 6, 2.0000000001, True),
              (9, 6, 3.0, False)]),
        # Every class reaches l = 1, also one in which hardly anybody has another value.
        Case(values("class_diversity", "class, class_size, distinct_l, entropy_l", "(1, 9, 2, 1.0000000001::DOUBLE)")
             + threshold("1 AS l"), JUDGED, [(1, 9, 1.0000000001, False)]),
        Case(ENTROPY + threshold("1 AS l"), JUDGED,
             [(5, 4, 2.00000001, False), (6, 4, 2.0, False), (7, 4, 1.99999999, False), (8, 6, 2.0000000001, False),
              (9, 6, 3.0, False)]),
        Case(ENTROPY + threshold(f"{NO_DECIMAL} AS l"), JUDGED,
             [(5, 4, 2.00000001, None), (6, 4, 2.0, None), (7, 4, 1.99999999, None), (8, 6, 2.0000000001, None),
              (9, 6, 3.0, None)]),
    ],
    "verdict_recursive_l_diversity": [
        Case(RECURSION + threshold("2 AS l"), JUDGED, [(7, 4, 1.0, True), (8, 6, 2.0, False), (9, 6, 3.0, False)]),
        Case(RECURSION + threshold(f"{NO_INTEGER} AS l"), JUDGED,
             [(7, 4, 1.0, None), (8, 6, 2.0, None), (9, 6, 3.0, None)]),
    ],
    "verdict_t_closeness": [
        Case(DISTANCES + threshold("0.2::DECIMAL(18, 12) AS t"), JUDGED,
             [(7, 4, 0.15, False), (8, 6, 0.2, False), (9, 6, 0.3, True)]),
        Case(DISTANCES + threshold(f"{NO_DECIMAL} AS t"), JUDGED,
             [(7, 4, 0.15, None), (8, 6, 0.2, None), (9, 6, 0.3, None)]),
        Case(THIRD + threshold("0.333333333333::DECIMAL(18, 12) AS t"), JUDGED, [(7, 3, 1 / 3, True)]),
        Case(STEP + threshold("0.75::DECIMAL(18, 12) AS t"), JUDGED,
             [(7, 3, 0.75, False), (8, 3, 0.750000000001, True)]),
    ],
    # Class 1 counts 2 and 1: exp H = 3 / 2^(2/3); r_1 = 2 of 3 and of 1.
    "l_diversity": [
        Case(MEMBERS, "class, class_size, distinct_l, entropy_l, recursive_c",
             [(1, 3, 2, 3 / 2 ** (2 / 3), {1: 2 / 3, 2: 2.0}), (2, 1, 1, 1.0, {1: 1.0})]),
    ],
    # 2 < c * 3, and 2 < c * 1 only for c above 2.
    "l_diversity_recursive": [
        Case(MEMBERS + threshold("2000000000000::HUGEINT AS c"), "class, class_size, recursive_l", [(1, 3, 1), (2, 1, 1)]),
        Case(MEMBERS + threshold("2000000000001::HUGEINT AS c"), "class, class_size, recursive_l", [(1, 3, 2), (2, 1, 1)]),
    ],
    # NULL is a quarter or a half of the table, and so on; distances in units of 1 / (2 s n).
    "t_closeness_equal": [
        Case(values("class_member", "class, value", "(1, NULL), (1, NULL), (1, 'x'), (2, 'x')"), EMD,
             [(1, 3, 4, 24, 1 / 6), (2, 1, 4, 8, 1 / 2)]),
    ],
    # Order 1, 2, NULL; table cumulated 1/2, 3/4; classes {1, NULL}, {2}, {1} cumulated 1/2 1/2, 0 1, 1 1.
    "t_closeness_ordered": [
        Case(values("class_member", "class, value", "(1, 1), (1, NULL), (2, 2), (3, 1)"), EMD,
             [(1, 2, 2, 16, 1 / 8), (2, 1, 3, 8, 3 / 8), (3, 1, 3, 8, 3 / 8)]),
    ],
    # Table NULL 1/5, flu 2/5, ulcer 2/5: on either level the classes differ by 8/10 and 8/15, over 2 H = 4.
    "t_closeness_hierarchical": [
        Case(ILL + TREE, EMD, [(1, 2, 16, 40, 2 / 5), (2, 3, 16, 60, 4 / 15)]),
    ],
    "similarity": [
        Case(ALIKE + TREE + threshold("0 AS level"), "class, class_size, node", [(1, 2, "flu"), (2, 1, None)]),
        Case(ALIKE + TREE + threshold("1 AS level"), "class, class_size, node", [(1, 2, "lung"), (2, 1, None)]),
        Case(ALIKE + TREE + threshold("2 AS level"), "class, class_size, node",
             [(1, 2, "whole"), (2, 1, "whole"), (3, 2, "whole")]),
    ],
    "report": [
        Case(LINES, REPORT, [
            (0, "k_anonymity", None, 5.0, 2.0, 2, 1, 2, False),
            (1, "distinct_l_diversity", "s", None, 1.0, 2, None, None, None),
            (2, "t_closeness", "s", 0.2, 0.5, 2, 1, 2, False),
            (2, "t_closeness", "s", 0.3, 0.3, 1, 0, 0, True),
            (2, "t_closeness", "u", 0.2, 0.1, 1, 0, 0, True),
            (3, "entropy_l_diversity", "s", 0.2, 1.5, 1, 0, 0, True),
            (3, "t_closeness", "s", 0.2, 0.9, 1, 1, 2, False),
        ]),
    ],
    # The least k first and the greatest EMD first; of equally bad ones the large one, then the first class.
    "worst_classes": [
        Case(WORST, VERDICT.replace("violated", "severity"), [
            (0, "k_anonymity", None, 5.0, 1, 2, 2.0, 1),
            (0, "k_anonymity", None, 5.0, 4, 2, 2.0, 2),
            (0, "k_anonymity", None, 5.0, 2, 4, 4.0, 3),
            (2, "t_closeness", "s", 0.2, 1, 2, 0.75, 1),
            (2, "t_closeness", "s", 0.2, 4, 5, 0.25, 2),
            (2, "t_closeness", "s", 0.2, 3, 2, 0.25, 3),
            (2, "t_closeness", "r", 0.2, 2, 4, 0.5, 1),
            (3, "t_closeness", "s", 0.2, 2, 4, 0.5, 1),
            (3, "entropy_l_diversity", "s", 2.0, 2, 4, 1.5, 1),
        ]),
    ],
}  # fmt: skip


def check(audit: str, sql: str) -> None:
    """Assert that a SELECT gives the rows of an audit on hand-made relations."""
    for case in CASES[audit]:
        with duckdb.connect() as con:
            con.execute(case.relations)
            cursor = con.execute(sql)
            names = [column[0] for column in cursor.description]
            assert sorted(names) == sorted(case.columns.split(", "))
            places = [names.index(name) for name in case.columns.split(", ")]
            rows = [tuple(row[place] for place in places) for row in cursor.fetchall()]
        assert len(rows) == len(case.rows), rows
        for row, wanted in zip(sorted(rows, key=str), sorted(case.rows, key=str), strict=True):
            assert all(map(_same, row, wanted)), f"{row} is not {wanted}"


def _same(value: Any, wanted: Any) -> bool:
    """Tell whether a value is what was reckoned: doubles up to their rounding, all else exactly."""
    if isinstance(wanted, float | dict) and value is not None:
        return bool(value == pytest.approx(wanted, rel=1e-13))
    return type(value) is type(wanted) and bool(value == wanted)
