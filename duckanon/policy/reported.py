"""What whoever reads an audit has to know of a release, as its rows do not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.errors import PolicyError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from duckanon.policy.policy import Policy

FORMS: Mapping[str, str] = {
    "swap": (
        "released as 'swap': classes are those of class_id; quasi-identifiers are exact, dealt anew within "
        "each class, among whose records a person is hidden (probabilistic k-anonymity)"
    ),
    "anatomy": (
        "released as 'anatomy', in two tables: classes are those of class_id; quasi-identifiers are exact, "
        "so k is the size of a class and no k-anonymity; recursive l-diversity with l = 1, and c just above "
        "1 / l, says that no sensitive value is in more than 1 / l of a class"
    ),
}
"""By ``release``."""

SUBJECTS = "k_subjects"
"""The measure of a release whose k counts subjects: the fewest of a class, found when it was made."""

SUBJECTS_PROVED = (
    f"k counts subjects ({SUBJECTS}), which was proved at release, not from the rows: these do not tell "
    "whose they are, and k_anonymity counts them"
)
"""What `SUBJECTS` is."""


P_PERCENT = "p_percent"
"""The measure of a release with that option, by column: that every class keeps it, found likewise.

Its value is None. The per cent that is reached would tell the second contributor to a total the first.
"""

P_PERCENT_PROVED = (
    f"no class mean tells a record within {P_PERCENT}, which was proved at release, not from the rows: these "
    "do not tell the values that a mean is of"
)
"""What `P_PERCENT` is."""

MIN_VALUES = "min_values"
"""The measure of a release whose class means leave NULLs out, by column: of how many each is at least."""

MIN_VALUES_PROVED = (
    f"no class mean is of fewer values than {MIN_VALUES}, which was proved at release, not from the rows: "
    "these do not tell how many a mean is of"
)
"""What `MIN_VALUES` is."""

OF_THE_RECORDS = (SUBJECTS, P_PERCENT, MIN_VALUES)
"""Measures of which a release keeps what was found when it was made."""

DIGITS = 3
"""Significant digits of a figure of source and release: more of them tell sums over single records."""


def reported_figure(figure: float) -> float:
    """A figure of source and release, as a loss is, as every artefact tells it: in `DIGITS` digits."""
    return float(f"{figure:.{DIGITS}g}")


def reported_loss(loss: float, policy: Policy) -> float | None:
    """Information loss as every artefact tells it; None under `p_percent`.

    The released means tell the squares between classes, and the loss then those within. In heavy tails nearly
    all of these are of one class, whose second contributor finds the first by them.
    """
    return reported_figure(loss) if policy.p_percent is None else None


def report_notes(policy: Policy) -> tuple[str, ...]:
    """What is to be told of a release under a policy."""
    form = (FORMS[policy.release],) if policy.release in FORMS else ()
    return (*form, *proved([SUBJECTS] * bool(policy.subject) + [P_PERCENT] * (policy.p_percent is not None)))


def proved(measures: Collection[str]) -> tuple[str, ...]:
    """What is to be told of a release that has some of `OF_THE_RECORDS` among its thresholds."""
    texts = {SUBJECTS: SUBJECTS_PROVED, P_PERCENT: P_PERCENT_PROVED, MIN_VALUES: MIN_VALUES_PROVED}
    return tuple(texts[measure] for measure in OF_THE_RECORDS if measure in measures)


def check_of_rows(subject: object, p_percent: object, min_values: object) -> None:
    """Raise where a policy asks what rows do not tell: an audit of them would pass by mistake."""
    told_by = "AUDIT VIEW and 'duckanon verify' say what was proved at release"
    if subject:
        raise PolicyError(
            "the k of this policy counts subjects, whom the rows of a release do not tell: "
            f"{told_by}; leave subject out of the policy to count records"
        )
    if p_percent is not None:
        raise PolicyError(
            "the p_percent of this policy speaks of values that a mean is of, which the rows of a release do "
            f"not tell: {told_by}; leave p_percent out of the policy"
        )
    if min_values is not None:
        raise PolicyError(
            "the min_values of this policy speaks of how many values a mean is of, which the rows of a "
            f"release do not tell: {told_by}; leave min_values out of the policy"
        )


def extremes(policy: Policy) -> tuple[str, ...]:
    """What is to be told of quasi-identifiers that show values of records as they are, by the policy."""
    shown = [name for name, recode in policy.recode.items() if recode in {"range", "set"}]
    if not shown:
        return ()
    names = ", ".join(repr(name) for name in shown)
    return (f"the least and the largest value of each class in {names} are those of records, exactly",)
