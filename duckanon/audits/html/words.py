"""Words: what the measures of an audit are called, and what they say to somebody who meets them first."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from duckanon.audits.html.numbers import clean, counted, number, threshold

if TYPE_CHECKING:
    from duckanon.audits.report import Measure

NAMES = {
    "k_anonymity": "k-anonymity",
    "distinct_l_diversity": "distinct l-diversity",
    "entropy_l_diversity": "entropy l-diversity",
    "recursive_l_diversity": "recursive l-diversity",
    "t_closeness": "t-closeness",
    "average_class_size": "average class size",
    "discernibility": "discernibility (sum of squared class sizes)",
    "prosecutor_risk": "highest re-identification risk",
    "information_loss": "information loss, per cent",
    "suppressed_records": "records left out",
}
"""Names of measures; others keep the name that the audit gives them, with blanks."""

_MEANS = {
    "k_anonymity": "Everyone hides among at least so many records with the same quasi-identifiers.",
    "distinct_l_diversity": "Every class holds at least so many different sensitive values.",
    "entropy_l_diversity": "Every class is as varied as so many equally frequent sensitive values.",
    "recursive_l_diversity": "The most frequent sensitive value of a class does not outweigh the rarer ones.",
    "t_closeness": "No class differs more than this from the whole table, on a scale from 0 to 1.",
}
_SYMBOLS = {"k_anonymity": "k", "t_closeness": "t"}

RISKS = {
    "prosecutor_max": "Highest risk of a single record: 1 / size of the smallest class",
    "prosecutor_average": "Average risk over the records",
    "marketer": "Share of the records that an attack on all of them is expected to find",
    "share_above_5_percent": "Share of the records with a risk above 5 % (class below 20)",
    "share_above_9_percent": "Share of the records with a risk above 9 % (class below 12)",
    "share_above_20_percent": "Share of the records with a risk above 20 % (class below 5)",
    "share_above_33_percent": "Share of the records with a risk above 33 % (class below 4)",
}
"""What the columns of sql/audit/reidentification_risk.sql mean."""


class Card(NamedTuple):
    """Verdict of one measure with threshold, in words."""

    name: str
    attribute: str | None
    passed: bool
    value: str
    asked: str
    means: str
    counts: str


def name_of(measure: str) -> str:
    """Name of a measure.

    Parameters
    ----------
    measure : str
        As the audit calls it.

    Returns
    -------
    str
        For a heading.
    """
    return NAMES.get(measure, measure.replace("_", " "))


def card(measure: Measure) -> Card:
    """Verdict of a measure that was judged.

    Parameters
    ----------
    measure : Measure
        With threshold.

    Returns
    -------
    Card
        In words.
    """
    limit = "" if measure.threshold is None else threshold(measure.threshold)
    symbol = _SYMBOLS.get(measure.measure, "l" if "diversity" in measure.measure else "")
    side = "at most" if measure.measure == "t_closeness" else "at least"
    asked = f"asked for: {symbol + ' ' if symbol else ''}{side} {limit}"
    return Card(
        name_of(measure.measure),
        None if measure.attribute is None else clean(measure.attribute),
        bool(measure.passed),
        _value(measure),
        asked if measure.measure in NAMES else f"threshold: {limit}",
        _MEANS.get(measure.measure, ""),
        _counts(measure),
    )


def _value(measure: Measure) -> str:
    """Return a value with so many digits that it does not look equal to a threshold that it is not."""
    text = number(measure.value)
    if measure.value is None or measure.threshold is None or measure.value == float(measure.threshold):
        return text
    limit = float(measure.threshold)
    if text != number(limit):
        return text
    return next(
        (f"{measure.value:.{n}g}" for n in range(5, 17) if f"{measure.value:.{n}g}" != f"{limit:.{n}g}"), text
    )


def _counts(measure: Measure) -> str:
    classes = counted(measure.classes, "class", "classes")
    if not measure.violations:
        return f"kept by all {measure.classes:,} classes" if measure.classes != 1 else "kept by the one class"
    records = "" if measure.records is None else f" ({counted(measure.records, 'record', 'records')})"
    return f"violated by {measure.violations:,} of {classes}{records}"
