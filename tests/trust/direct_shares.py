"""Hand-computed rows of the audits of alpha, delta and beta, as `tests.trust.direct` runs them."""

from __future__ import annotations

from math import inf, log

from tests.trust.direct_risk import Case, threshold, values

SHARE = "class, value, class_size, members, table_members, table_size, missing"
JUDGED = "class, class_size, value, violated"
DELTA = "class, class_size, value, present, violated"
NAMED = "class, class_size, named, value, violated"
# x is 2 of 8 of the table, y 6. Class 1 has 2 x and 2 y of 4, class 2 no x and 4 y of 4.
TWO = values(
    "value_share", SHARE,
    "(1, 'x', 4, 2::BIGINT, 2::BIGINT, 8::BIGINT, 0), (1, 'y', 4, 2, 6, 8, 0), (2, 'y', 4, 4, 6, 8, 1)",
)  # fmt: skip
# p / q = 2 of x, 2/3 of y; 4/3 of y.
LN_2, LN_4_3 = log(2), log(4 / 3)
# 3 of 4 is a gain of 1/2 over 1 of 2, 1 of 4 a loss; class 2 has x alone, class 3 all of the table's z.
HALF = values(
    "value_share", SHARE,
    "(1, 'x', 4, 3::BIGINT, 5::BIGINT, 10::BIGINT, 0), (1, NULL, 4, 1, 5, 10, 0), "
    "(2, 'x', 5, 5, 5, 10, 1), (3, 'z', 1, 1, 10, 10, 0)",
)  # fmt: skip


def _decimal(text: str, name: str) -> str:
    return threshold(f"{text}::DECIMAL(18, 12) AS {name}, NULL::VARCHAR AS named")


def _alpha(share: str, named: str) -> str:
    return threshold(f"{share}::DECIMAL(18, 12) AS alpha, {named}::VARCHAR AS named")


SHARE_CASES: dict[str, list[Case]] = {
    "value_shares": [
        Case(values("class_member", "class, value", "(1, NULL), (1, NULL), (1, 'x'), (2, 'y'), (2, 'x')"), SHARE,
             [(1, None, 3, 2, 2, 5, 1), (1, "x", 3, 1, 2, 5, 1), (2, "x", 2, 1, 2, 5, 1), (2, "y", 2, 1, 1, 5, 1)]),
    ],
    "verdict_alpha_k_anonymity": [
        Case(TWO + _alpha("0.5", "NULL"), NAMED, [(1, 4, None, 0.5, False), (2, 4, None, 1.0, True)]),
        Case(TWO + _alpha("0.499999999999", "'x'"), NAMED, [(1, 4, "x", 0.5, True), (2, 4, "x", 0.0, False)]),
        # At 1, and a step below it; two values with one alpha.
        Case(TWO + _alpha("1", "NULL"), NAMED, [(1, 4, None, 0.5, False), (2, 4, None, 1.0, False)]),
        Case(TWO + _alpha("0.999999999999", "NULL"), NAMED, [(1, 4, None, 0.5, False), (2, 4, None, 1.0, True)]),
        Case(TWO + values("threshold", "alpha, named", "(0.5::DECIMAL(18, 12), 'x'), (0.5, 'y')"), NAMED,
             [(1, 4, "x", 0.5, False), (1, 4, "y", 0.5, False), (2, 4, "x", 0.0, False), (2, 4, "y", 1.0, True)]),
        # A third is above 0.333333333333 by a third of the last step: 10^12 and 3 * 333333333333 differ by one.
        Case(values("value_share", SHARE, "(1, 'x', 3, 1::BIGINT, 1::BIGINT, 3::BIGINT, 0), (1, 'y', 3, 1, 1, 3, 0)")
             + _alpha("0.333333333333", "NULL"), NAMED, [(1, 3, None, 1 / 3, True)]),
        Case(TWO + _alpha("NULL", "NULL"), NAMED, [(1, 4, None, 0.5, None), (2, 4, None, 1.0, None)]),
    ],
    # ln 2 lies between 0.693147180559 and 0.693147180560; in class 1 the gain of x decides.
    "verdict_delta_disclosure": [
        Case(TWO + _decimal("0.693147180560", "delta"), DELTA,
             [(1, 4, LN_2, LN_2, False), (2, 4, inf, LN_4_3, True)]),
        Case(TWO + _decimal("0.693147180559", "delta"), DELTA, [(1, 4, LN_2, LN_2, True), (2, 4, inf, LN_4_3, True)]),
        Case(TWO + _decimal("NULL", "delta"), DELTA, [(1, 4, LN_2, LN_2, None), (2, 4, inf, LN_4_3, None)]),
        # The loss of NULL decides: p / q = 1/2, in class 1 of four; x gains 1/2, ln 1.5 = 0.405.
        Case(HALF + _decimal("0.693147180559", "delta"), DELTA,
             [(1, 4, LN_2, LN_2, True), (2, 5, inf, LN_2, True), (3, 1, 0.0, 0.0, False)]),
        Case(HALF + _decimal("0.693147180560", "delta"), DELTA,
             [(1, 4, LN_2, LN_2, False), (2, 5, inf, LN_2, True), (3, 1, 0.0, 0.0, False)]),
        # The least delta and the largest: p = q keeps any.
        Case(HALF + _decimal("0.000000000001", "delta"), DELTA,
             [(1, 4, LN_2, LN_2, True), (2, 5, inf, LN_2, True), (3, 1, 0.0, 0.0, False)]),
        Case(HALF + _decimal("30", "delta"), DELTA,
             [(1, 4, LN_2, LN_2, False), (2, 5, inf, LN_2, True), (3, 1, 0.0, 0.0, False)]),
    ],
    "verdict_beta_likeness": [
        Case(TWO + _decimal("1", "beta"), JUDGED, [(1, 4, 1.0, False), (2, 4, 1 / 3, False)]),
        Case(TWO + _decimal("0.999999999999", "beta"), JUDGED, [(1, 4, 1.0, True), (2, 4, 1 / 3, False)]),
        # A third is above 0.333333333333 by a third of the last step.
        Case(TWO + _decimal("0.333333333333", "beta"), JUDGED, [(1, 4, 1.0, True), (2, 4, 1 / 3, True)]),
        Case(TWO + _decimal("0.333333333334", "beta"), JUDGED, [(1, 4, 1.0, True), (2, 4, 1 / 3, False)]),
        # 4 * 10^12 and 3 * 1333333333333 differ by one.
        Case(values("value_share", SHARE, "(1, 'x', 3, 1::BIGINT, 1::BIGINT, 4::BIGINT, 0)")
             + _decimal("0.333333333333", "beta"), JUDGED, [(1, 3, 1 / 3, True)]),
        Case(TWO + _decimal("NULL", "beta"), JUDGED, [(1, 4, 1.0, None), (2, 4, 1 / 3, None)]),
        Case(HALF + _decimal("999999", "beta"), JUDGED, [(1, 4, 0.5, False), (2, 5, 1.0, False), (3, 1, 0.0, False)]),
    ],
    # -ln(1/4) = 1.39 allows the gain 1, -ln(3/4) = 0.288 not the gain 1/3; -ln(1/2) = 0.69 allows 1/2 and not 1.
    "verdict_enhanced_beta_likeness": [
        Case(TWO + _decimal("1", "enhanced_beta"), JUDGED, [(1, 4, 1.0, False), (2, 4, inf, True)]),
        Case(TWO + _decimal("0.999999999999", "enhanced_beta"), JUDGED, [(1, 4, 1.0, True), (2, 4, inf, True)]),
        # 12/24 of 11/24: a gain of 1/11, which is above 0.090909090909 by less than 10^-13.
        Case(values("value_share", SHARE, "(1, 'x', 24, 12::BIGINT, 110::BIGINT, 240::BIGINT, 0)")
             + _decimal("0.090909090909", "enhanced_beta"), JUDGED, [(1, 24, 1 / 11, True)]),
        Case(TWO + _decimal("NULL", "enhanced_beta"), JUDGED, [(1, 4, 1.0, None), (2, 4, inf, None)]),
        Case(HALF + _decimal("0.5", "enhanced_beta"), JUDGED,
             [(1, 4, 0.5, False), (2, 5, inf, True), (3, 1, 0.0, False)]),
        Case(HALF + _decimal("0.499999999999", "enhanced_beta"), JUDGED,
             [(1, 4, 0.5, True), (2, 5, inf, True), (3, 1, 0.0, False)]),
        Case(HALF + _decimal("999999", "enhanced_beta"), JUDGED,
             [(1, 4, 0.5, False), (2, 5, inf, True), (3, 1, 0.0, False)]),
    ],
}  # fmt: skip
