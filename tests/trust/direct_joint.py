"""Hand-computed rows of the last two audits of joint t-closeness, as `tests.trust.direct` runs them."""

from __future__ import annotations

from tests.trust.direct_risk import Case, threshold, values

JUDGED = "class, class_size, value, violated"
EMD = "class, class_size, emd_numerator, emd_denominator, emd, proved, exact"
# Classes 1 and 2 are carried, with and without potentials; the potentials of 3 give less than its cost, those of 4 are not
# kept; 5 and 6 are not carried, with and without potentials.
UPPER = values(
    "joint_upper", "class, class_size, mass, cost, carried",
    "(1, 3, 15::HUGEINT, 9::HUGEINT, TRUE), (2, 2, 10, 9, TRUE), (3, 3, 15, 10, TRUE), (4, 3, 15, 9, TRUE), "
    "(5, 3, 15, 9, FALSE), (6, 3, 15, 9, FALSE)",
)  # fmt: skip
LOWER = values(
    "joint_lower", "class, least, kept", "(1, 9::HUGEINT, TRUE), (3, 9, TRUE), (4, 9, FALSE), (5, 9, TRUE)"
)  # fmt: skip
BOTH = UPPER + LOWER
# A third, 3/4, and 3/4 with a step of 10^-12; class 4 has no proof of its 0, class 5 none that it is nearer than 1.
FAR = values(
    "class_joint_emd", EMD,
    "(1, 3, 1::HUGEINT, 3::HUGEINT, (1 / 3)::DOUBLE, TRUE, TRUE), (2, 4, 3, 4, 0.75, TRUE, FALSE), "
    "(3, 4, 750000000001, 1000000000000, 0.750000000001, TRUE, TRUE), (4, 4, 0, 4, 0, FALSE, FALSE), "
    "(5, 4, 1, 1, 1, FALSE, FALSE)",
)  # fmt: skip


def _scale(rows: str) -> str:
    return values("joint_scale", "denominator", rows)


def _unproved(number: int, size: int) -> tuple[object, ...]:
    return (number, size, 1, 1, 1.0, False, False)


def _judged(t: str, *violated: bool | None) -> Case:
    emd = [(1, 3, 1 / 3), (2, 4, 0.75), (3, 4, 0.750000000001), (4, 4, 0.0), (5, 4, 1.0)]
    rows = [(*row, verdict) for row, verdict in zip(emd, violated, strict=True)]
    return Case(FAR + threshold(f"{t}::DECIMAL(18, 12) AS t"), JUDGED, rows)


JOINT_CASES: dict[str, list[Case]] = {
    "joint_t_closeness": [
        Case(BOTH + _scale("(2)"), EMD, [
            (1, 3, 9, 30, 0.3, True, True), (2, 2, 9, 20, 0.45, True, False), (3, 3, 10, 30, 1 / 3, False, False),
            (4, 3, 9, 30, 0.3, False, False), _unproved(5, 3), _unproved(6, 3),
        ]),
        Case(BOTH + _scale("(1), (NULL)"), EMD, [
            (1, 3, 9, 15, 0.6, True, True), (2, 2, 9, 10, 0.9, True, False), (3, 3, 10, 15, 2 / 3, False, False),
            (4, 3, 9, 15, 0.6, False, False), _unproved(5, 3), _unproved(6, 3),
        ]),
        # No denominator, or none above 0, measures nothing.
        *[
            Case(BOTH + _scale(rows), EMD, [_unproved(one, 2 if one == 2 else 3) for one in range(1, 7)])
            for rows in ("(NULL::BIGINT)", "(0)", "(-2)")
        ],
    ],
    # 10^12 and 3 * 333333333333 differ by one. Classes 4 and 5 fail at any t.
    "verdict_joint_t_closeness": [
        _judged("0.333333333333", True, True, True, True, True),
        _judged("0.333333333334", False, True, True, True, True),
        _judged("0.75", False, False, True, True, True),
        _judged("0.749999999999", False, True, True, True, True),
        _judged("1", False, False, False, True, True),
        _judged("NULL", None, None, None, True, True),
    ],
}  # fmt: skip
