"""Hand-computed rows of audits as they lie in sql/audit: `check` runs any SELECT on hand-made relations.

The macros hide some of what an audit says: they number classes anew, put ranks in the place of values (so that
no NULL is left), keep numerators to themselves. Python binds the files to values as they are.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import duckdb
import pytest

from tests.trust.direct_joint import JOINT_CASES
from tests.trust.direct_risk import RISK_CASES, Case, threshold, values
from tests.trust.direct_shares import SHARE_CASES

JUDGED = "class, class_size, value, violated"
EMD = "class, class_size, emd_numerator, emd_denominator, emd"
VERDICT = "place, measure, attribute, threshold, class, class_size, value, violated"
REPORT = "place, measure, attribute, threshold, value, classes, violations, records, passed"
NO_INTEGER, NO_DECIMAL = "NULL::INTEGER", "NULL::DECIMAL(18, 12)"

# Class 7 is below the threshold, class 8 at it, class 9 above.
SIZES = values("class_size", "class, class_size", "(7, 4), (8, 5), (9, 6)")
SUBSETS = values(
    "subset_class",
    "subset, class, class_size",
    "(5, 7, 3), (5, 8, 4), (5, 9, 6), (6, 7, 3), (6, 8, 2), (8, 7, 2), (9, 7, 1)",
)
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

LINE = "place, measure, attribute, threshold, value, records, violated"
OF_RELEASES = values(
    "release_value", "is_new, class, attribute, value",
    "(FALSE, 1, 7, 1), (FALSE, 1, 7, 1), (FALSE, 1, 7, 2), (TRUE, 1, 7, 2), (TRUE, 2, 7, 3), "
    "(FALSE, 1, 8, 9), (TRUE, 1, 8, NULL), (TRUE, 3, 8, 9)",
)  # fmt: skip
# Class 1 stayed, class 2 has two others, 3 is gone and 4 is new: three removed or gone, one less than before.
CLASSES_THEN = values(
    "class_change", "class, older, newer, removed, added", "(1, 3, 3, 0, 0), (2, 2, 2, 2, 2), (3, 2, 0, 2, 0), (4, 0, 1, 0, 1)"
)  # fmt: skip
VALUES_THEN = values("value_change", "attribute, removed, added", "(7, 1, 3)")
TOLD = values("told", "classes, difference, same, changed", "(9, -2, FALSE, 2)")
SUMS_THEN = values(
    "sum_change", "attribute, difference, size",
    "(4, 0.0000019073486328125::DOUBLE, 2000000::DOUBLE), (5, 0.0009765625, 2000000), "
    "(6, -0.00000000000045474735088646411895751953125::DOUBLE, 0.001953125), (8, 0, 0)",
)  # fmt: skip
COMMON = values(
    "class_common", "attribute, class, older, newer, common", "(7, 1, 2, 3, 1), (7, 2, 1, 2, 0), (7, 3, 2, 0, 0)"
)  # fmt: skip
LINES_THEN = values(
    "release_verdict", LINE,
    "(3, 'rows_removed', NULL, 3, 1::DOUBLE, 1, TRUE), (3, 'rows_removed', NULL, 3, 2, 2, TRUE), "
    "(3, 'rows_removed', NULL, 3, 2, 8, FALSE), (8, 'common_values', 7, 2, 1, 4, TRUE), (8, 'common_values', 7, 2, NULL, 6, FALSE), "
    "(8, 'common_values', 7, 2, 3, 6, FALSE), (8, 'common_values', 8, 2, 2, 6, FALSE), "
    "(10, 'classes_in_both', NULL, NULL, 1, NULL, NULL), (10, 'classes_in_both', NULL, NULL, 1, NULL, NULL)",
)  # fmt: skip

# Classes 3, 4 and 7 are 1, 2 and 6 with the signs changed. In 1 who gave 50 leaves 20 + 10 of 100 (in 3 likewise), in 2
# the negative ones 30 + 15; in 5 who gave -90 of 100 leaves 40, in 6 and 7 who gave the 90 leaves 20 + 15. In 8 one gave
# 60 + 40, another 50 - 50, and who gave 30 leaves 8; 9 is nothing; of the other attribute the second is the last. 10 and
# 11 leave 33 of 100, which is less than a third by one in 300; in 12 there is one. In 13 and 14 the small ones of the other
# sign, 15 in all, are fewer than 20.
GIVEN = {
    (1, 7): [100, 50, 20, 10, -15, -5], (2, 7): [100, 50, 20, -30, -15], (3, 7): [-100, -50, -20, -10, 15, 5],
    (4, 7): [-100, -50, -20, 30, 15], (5, 7): [100, 5, 3, 2, -90, -40], (6, 7): [100, 20, 15, -90, -5],
    (7, 7): [-100, -20, -15, 90, 5], (10, 7): [100, 20, 13, -90, -5], (11, 7): [-100, -50, -20, 20, 13], (12, 7): [7],
    (13, 7): [100, 30, 20, -5, -5, -5], (14, 7): [-100, -30, -20, 5, 5, 5], (1, 8): [10, 5],
}  # fmt: skip
CONTRIBUTIONS = values(
    "contribution", "class, attribute, contributor, value",
    "(8, 7, 1, 60), (8, 7, 1, 40), (8, 7, 2, NULL), (8, 7, 3, 50), (8, 7, 3, -50), (8, 7, 4, 30), (8, 7, 5, 8), (8, 7, 6, NULL), "
    "(9, 7, 1, 0), (9, 7, 2, NULL), "
    + ", ".join(str((*of, who, value)) for of, given in GIVEN.items() for who, value in enumerate(given)),
)  # fmt: skip
# class, attribute, contributors, total, the largest, the two largest, per cent reached.
DOMINANT = [
    (1, 7, 6, 200, 100, 150, 30), (2, 7, 5, 215, 100, 150, 45), (3, 7, 6, 200, 100, 150, 30),
    (4, 7, 5, 215, 100, 150, 45), (5, 7, 6, 240, 100, 190, 40), (6, 7, 5, 230, 100, 190, 35),
    (7, 7, 5, 230, 100, 190, 35), (8, 7, 3, 138, 100, 130, 8), (10, 7, 5, 228, 100, 190, 33),
    (11, 7, 5, 203, 100, 150, 33), (12, 7, 1, 7, 7, 7, 0), (13, 7, 6, 165, 100, 130, 20),
    (14, 7, 6, 165, 100, 130, 20), (1, 8, 2, 15, 10, 15, 0),
]  # fmt: skip
DOMINANCE = (
    "class, attribute, contributors, total, largest_share, n_share, p_reached, p_violated, nk_violated"
)


def dominated(p: Fraction | None, n: int | None, k: Fraction | None) -> Case:
    """Give the rows for a share p, and the share k of the n largest, one or two."""
    numbers = {
        "p": p and p.numerator,
        "p_of": p and p.denominator,
        "k": k and k.numerator,
        "k_of": k and k.denominator,
        "n": n,
    }
    asked = ", ".join(f"CAST({number or 'NULL'} AS HUGEINT) AS {name}" for name, number in numbers.items())
    rows: list[tuple[Any, ...]] = [(9, 7, 0, 0, 0.0, n and 0.0, None, p and False, k and False)]
    for where, attribute, contributors, total, largest, two, reached in DOMINANT:
        of_n = largest if n == 1 else two
        rows.append((
            where, attribute, contributors, total, 100 * largest / total, n and 100 * of_n / total, float(reached),
            p and reached < 100 * p, k and of_n > k * total,
        ))  # fmt: skip
    return Case(CONTRIBUTIONS + threshold(asked), DOMINANCE, rows)


CASES: dict[str, list[Case]] = RISK_CASES | SHARE_CASES | JOINT_CASES | {
    # 150 of 203 are more than 133 / 180 by one in 36540.
    "dominance": [
        dominated(p and Fraction(p), n, k and Fraction(k))
        for p, n, k in [
            ("8/100", 2, "75/100"), ("9/100", 2, "74/100"), ("30/100", 1, "50/100"), ("31/100", 1, "49/100"),
            ("35/100", 2, "94/100"), ("36/100", 2, "95/100"), ("40/100", 2, "1"), ("41/100", 1, "99/100"),
            ("45/100", 1, "66/100"), ("46/100", 1, "67/100"), ("1/3", 2, "133/180"), (None, 2, "75/100"),
            ("30/100", None, None),
        ]
    ],
    "verdict_k_anonymity": [
        Case(SIZES + threshold("5 AS k"), JUDGED, [(7, 4, 4.0, True), (8, 5, 5.0, False), (9, 6, 6.0, False)]),
        Case(SIZES + threshold(f"{NO_INTEGER} AS k"), JUDGED,
             [(7, 4, 4.0, None), (8, 5, 5.0, None), (9, 6, 6.0, None)]),
    ],
    # Subset 5 asks for 4 records of a combination, subset 6 for 3, subset 9 for nothing; subset 8 is not asked of.
    "verdict_k_anonymity_subset": [
        Case(SUBSETS + values("threshold", "subset, k", "(5, 4), (6, 3), (9, NULL), (11, 2)"), f"subset, {JUDGED}",
             [(5, 7, 3, 3.0, True), (5, 8, 4, 4.0, False), (5, 9, 6, 6.0, False), (6, 7, 3, 3.0, False), (6, 8, 2, 2.0, True),
              (9, 7, 1, 1.0, None)]),
    ],
    "k_anonymity_subset": [
        Case(SUBSETS, "subset, k, classes, records", [(5, 3, 3, 13), (6, 2, 2, 5), (8, 2, 1, 2), (9, 1, 1, 1)]),
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
    # Class 1 has the subjects a and nobody, class 2 b twice and c.
    "k_anonymity_subjects": [
        Case(values("class_subject", "class, value", "(1, 'a'), (1, NULL), (2, 'b'), (2, 'b'), (2, 'c')"),
             "k, classes, records", [(1, 2, 5)]),
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
        # Records without a class belong to the table, which is cumulated 1/4, 2/4, 1, but no row is theirs: {1} and {3}.
        Case(values("class_member", "class, value", "(1, 1), (NULL, 2), (2, 3), (NULL, 3)"), EMD,
             [(1, 1, 5, 8, 5 / 8), (2, 1, 3, 8, 3 / 8)]),
    ],
    # Table NULL 1/5, flu 2/5, ulcer 2/5: on either level the classes differ by 8/10 and 8/15, over 2 H = 4.
    "t_closeness_hierarchical": [
        Case(ILL + TREE, EMD, [(1, 2, 16, 40, 2 / 5), (2, 3, 16, 60, 4 / 15)]),
    ],
    # Class 1 has {1, 1, 2} and {2, 3, 3} by combinations, class 2 other rows; 3 and 4 are in one release only.
    "release_rows": [
        Case(values("release_record", "is_new, class, combination",
                    "(FALSE, 1, 1), (FALSE, 1, 1), (FALSE, 1, 2), (TRUE, 1, 2), (TRUE, 1, 3), (TRUE, 1, 3), "
                    "(FALSE, 2, 4), (FALSE, 2, 4), (TRUE, 2, 5), (FALSE, 3, 6), (TRUE, 4, 7)"),
             "class, older, newer, removed, added",
             [(1, 3, 3, 2, 2), (2, 2, 1, 2, 1), (3, 1, 0, 1, 0), (4, 0, 1, 0, 1)]),
    ],
    # 1 twice and 2, then 2 and 3: of 1 two less, of 3 one more. NULL comes and is a value.
    "release_values": [
        Case(OF_RELEASES, "attribute, removed, added", [(7, 2, 1), (8, 0, 1)]),
    ],
    "release_common_values": [
        Case(OF_RELEASES, "attribute, class, older, newer, common",
             [(7, 1, 2, 1, 1), (7, 2, 0, 1, 0), (8, 1, 1, 1, 0), (8, 3, 0, 1, 0)]),
    ],
    # Class 1 is as large as before, whatever its number. 3 lost two and 4 won one: -2 x 10 + 8, and 20 + 8.
    "release_sums": [
        Case(CLASSES_THEN + values("class_number", "class, attribute, value",
                                   "(1, 5, 1e12), (3, 5, 10), (4, 5, 8), (1, 6, NULL::DOUBLE), (3, 6, NULL), (4, 6, NULL)"),
             "attribute, difference, size", [(5, -12.0, 28.0), (6, 0.0, 0.0)]),
    ],
    "release_told": [
        Case(CLASSES_THEN + VALUES_THEN, "classes, difference, same, changed", [(4, -1, False, 3)]),
        Case(CLASSES_THEN + values("value_change", "attribute, removed, added", "(7, 0, 0)"),
             "classes, difference, same, changed", [(4, -1, False, 1)]),
        Case(values("class_change", "class, older, newer, removed, added", "(1, 2, 2, 0, 0), (2, 3, 3, 0, 0)") + VALUES_THEN
             + "DELETE FROM value_change;", "classes, difference, same, changed", [(2, 0, True, 0)]),
    ],
    "release_verdict_classes": [
        Case(CLASSES_THEN + TOLD + threshold("3 AS k"), LINE, [
            (1, "records_difference", None, 3, -2.0, 2, True), (2, "records_changed", None, 3, 2.0, 2, True),
            (3, "rows_removed", None, 3, 0.0, 0, False), (3, "rows_removed", None, 3, 2.0, 2, True),
            (3, "rows_removed", None, 3, 2.0, 2, True), (3, "rows_removed", None, 3, 0.0, 0, False),
            (4, "rows_added", None, 3, 0.0, 0, False), (4, "rows_added", None, 3, 2.0, 2, True),
            (4, "rows_added", None, 3, 0.0, 0, False), (4, "rows_added", None, 3, 1.0, 1, True),
            (5, "class_size_difference", None, 3, 0.0, 0, False), (5, "class_size_difference", None, 3, 0.0, 0, False),
            (5, "class_size_difference", None, 3, 0.0, 2, False), (5, "class_size_difference", None, 3, 0.0, 1, False),
            *[(10, "classes_in_both", None, None, value, None, None) for value in (1.0, 1.0, 0.0, 0.0)],
            *[(11, "classes_removed", None, None, value, None, None) for value in (0.0, 0.0, 1.0, 0.0)],
            *[(12, "classes_added", None, None, value, None, None) for value in (0.0, 0.0, 0.0, 1.0)],
        ]),
    ],
    # Sums: 2^-19 of 2e6 is below 1e-12 of what changed, and 2^-10 above, as is 2^-41 of 2^-9.
    "release_verdict_values": [
        Case(CLASSES_THEN + VALUES_THEN + TOLD + SUMS_THEN + COMMON + threshold("3 AS k, 2 AS l"), LINE, [
            (6, "values_removed", 7, 3.0, 1.0, 1, True), (7, "values_added", 7, 3.0, 3.0, 3, False),
            (8, "common_values", 7, 2.0, 1.0, 3, True), (8, "common_values", 7, 2.0, 0.0, 2, False),
            (8, "common_values", 7, 2.0, None, 0, False),
            (9, "sum_difference", 4, 3.0, 2.0**-19, 2, False), (9, "sum_difference", 5, 3.0, 2.0**-10, 2, True),
            (9, "sum_difference", 6, 3.0, -(2.0**-41), 2, True), (9, "sum_difference", 8, 3.0, 0.0, 2, False),
        ]),
    ],
    "release_intersection": [
        Case(LINES_THEN + TOLD, REPORT, [
            (3, "rows_removed", None, 3.0, 5.0, 9, 2, 3, False),
            (8, "common_values", 7, 2.0, 1.0, 9, 1, 4, False),
            (8, "common_values", 8, 2.0, 2.0, 9, 0, 0, True),
            (10, "classes_in_both", None, None, 2.0, 9, None, None, None),
        ]),
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
