"""Notes on a release that a reader of its audit needs and that the audited rows do not show."""

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
        "so k is the size of a class and no k-anonymity"
    ),
}
"""Note by form of release."""

ANATOMY_L = (
    "; recursive l-diversity with l = 1, and c just above 1 / l, says that no sensitive value is in more "
    "than 1 / l of a class"
)
"""What the l of `release = 'anatomy'` means."""

SUBJECTS = "k_subjects"
"""Measure of a release whose k counts subjects: fewest subjects of a class, measured at release."""

SUBJECTS_SUBSET = "k_subjects_subset"
"""Measure by subset of such a release: fewest subjects with equal released values in some columns."""

P_PERCENT = "p_percent"
"""Measure by column of a release with the option p_percent: every class keeps p, checked at release.

Its value is None: from the per cent reached, the second contributor to a total could compute the first.
"""

MIN_VALUES = "min_values"
"""Measure by column of a release whose means leave NULLs out: fewest values behind a mean."""

OF_THE_RECORDS: Mapping[str, str] = {
    SUBJECTS: (
        f"k counts subjects ({SUBJECTS}), which was proved at release, not from the rows: these do not tell "
        "whose they are, and k_anonymity counts them"
    ),
    SUBJECTS_SUBSET: (
        f"k of subsets counts subjects ({SUBJECTS_SUBSET}), which was proved at release, not from the rows: "
        "k_anonymity_subset counts records"
    ),
    P_PERCENT: (
        f"no class mean tells a record within {P_PERCENT}, which was proved at release, not from the rows: "
        "these do not tell the values that a mean is of"
    ),
    MIN_VALUES: (
        f"no class mean is of fewer values than {MIN_VALUES}, which was proved at release, not from the "
        "rows: these do not tell how many a mean is of"
    ),
}
"""Measures that are computed at release, since the released rows do not show them, each with its note."""

DIGITS = 3
"""Significant digits of a figure computed from the source: more digits would reveal single records."""


def reported_figure(figure: float) -> float:
    """Figure computed from source and release, such as a loss, rounded to `DIGITS` significant digits."""
    return float(f"{figure:.{DIGITS}g}")


def reported_loss(loss: float, policy: Policy) -> float | None:
    """Information loss as every artefact reports it; None under `p_percent`."""
    # The released means give the sum of squares between classes, and with the loss also the sum within
    # classes. In heavy tails one class has nearly all of that sum: its second contributor could compute the
    # first.
    return reported_figure(loss) if policy.p_percent is None else None


def form_notes(forms: Collection[str], *, with_l: bool) -> tuple[str, ...]:
    """Notes on the form of a release, with what its l means if there is one."""
    meaning = ANATOMY_L if with_l else ""
    return tuple(FORMS[form] + (meaning if form == "anatomy" else "") for form in forms if form in FORMS)


def report_notes(policy: Policy, *, with_l: bool = False) -> tuple[str, ...]:
    """Notes on a release under a policy, which an audit may ask for another l."""
    form = form_notes([policy.release], with_l=with_l or policy.l is not None)
    known = [SUBJECTS] * bool(policy.subject) + [P_PERCENT] * (policy.p_percent is not None)
    known += [SUBJECTS_SUBSET] * (bool(policy.subject) and policy.k_subsets is not None)
    return (*form, *proved(known))


def proved(measures: Collection[str]) -> tuple[str, ...]:
    """Notes on a release that has some of `OF_THE_RECORDS` among its thresholds."""
    return tuple(note for measure, note in OF_THE_RECORDS.items() if measure in measures)


def check_of_rows(subject: object, p_percent: object, min_values: object) -> None:
    """Raise if a policy asks for something that rows do not show: an audit of the rows would wrongly pass."""
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
    """Notes on quasi-identifiers that show exact values of single records under the policy."""
    shown = [name for name, recode in policy.recode.items() if recode in {"range", "set"}]
    if not shown:
        return ()
    names = ", ".join(repr(name) for name in shown)
    return (f"the least and the largest value of each class in {names} are those of records, exactly",)
