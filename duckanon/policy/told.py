"""What whoever reads an audit has to know of a release, as its rows do not say it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

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

PROVED = (
    f"k counts subjects ({SUBJECTS}), which was proved at release, not from the rows: these do not tell "
    "whose they are, and k_anonymity counts them"
)
"""What `SUBJECTS` is."""


def told(policy: Policy) -> tuple[str, ...]:
    """What is to be told of a release under a policy."""
    form = (FORMS[policy.release],) if policy.release in FORMS else ()
    return (*form, PROVED) if policy.subject else form
