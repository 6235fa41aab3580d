"""Verdict: the result of the audit in plain words, and the limits of the verdict."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from duckanon.audits import headers
from duckanon.audits.columns import LARGER_IS_WORSE, SHARE_MEASURES, share_bounds
from duckanon.audits.legible import clean, counted, number, percent, threshold
from duckanon.policy.bind import Role
from duckanon.policy.names import fold
from duckanon.policy.subsets import key_text

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from duckanon.audits.html.copies import Released, Uniqueness
    from duckanon.audits.report import Measure, Report
    from duckanon.policy.bind import Attribute
    from duckanon.policy.policy import AuditPolicy

CLASSES_LISTED = 25
"""Violating classes that the page lists."""

ROLES = {
    Role.QUASI_IDENTIFIER: "quasi-identifier",
    Role.SENSITIVE: "sensitive",
    Role.INSENSITIVE: "insensitive: not audited",
    Role.IDENTIFIER: "identifier: should not be here",
    None: "not audited",
}
"""Names of the roles on the page."""


class Row(NamedTuple):
    """A released column in the table beside the verdict."""

    name: str
    role: str
    audited: bool
    type: str
    judged: str
    distinct: int
    alone: int


def verdicts(report: Report, warnings: Sequence[str]) -> dict[str, Any]:
    """Verdict on the table and on every measure.

    `warnings` are the warnings of the report that the page does not express elsewhere.
    """
    judged = [measure for measure in report.measures if measure.passed is not None]
    return {
        "verdict": "failed" if report.violated else "passed" if report.passed else "not judged",
        "cards": [card(measure) for measure in judged],
        "reported": [
            (name_of(measure.measure), measure.attribute, measure.value)
            for measure in report.measures
            if measure.passed is None
        ],
        "recorded_loss": next(
            (one.value for one in report.measures if one.measure == "information_loss"), None
        ),
        "violations": [
            (name_of(one.measure), one.attribute, one.value, one.class_size, one.class_values)
            for one in report.violations[:CLASSES_LISTED]
        ],
        "violating": sum(measure.violations or 0 for measure in judged),
        "columns": list(report.violations[0].class_values) if report.violations else [],
        "warnings": list(warnings),
    }


def rows(released: Sequence[Released], policy: AuditPolicy, distinct: Mapping[str, int]) -> list[Row]:
    """Every released column in its order: role, judging measure, and number of distinct values."""
    return [
        Row(
            clean(one.column.name),
            ROLES[one.role],
            one.audited,
            one.type,
            _judged(one.attribute, policy),
            distinct[one.column.place],
            one.alone,
        )
        for one in released
    ]


def _judged(attribute: Attribute | None, policy: AuditPolicy) -> str:
    if attribute is None:
        return "nothing"
    if attribute.role is Role.QUASI_IDENTIFIER:
        return "nothing" if policy.k is None else f"k ≥ {policy.k}"
    asked = []
    if attribute.t is not None:
        near = "" if policy.n is None else f" from {policy.n} or more records"
        asked.append(f"t ≤ {threshold(attribute.t)}{near}")
    for columns, t in (policy.joint_t or {}).items():
        if isinstance(columns, tuple) and fold(attribute.name) in map(fold, columns):
            asked.append(f"t of {clean(key_text(columns))} together ≤ {threshold(t)}")
    if attribute.l is not None:
        asked.append(f"{policy.l_diversity} l ≥ {threshold(attribute.l)}")
    asked += bounds_in_words(attribute)
    return ", ".join(asked) or "nothing"


def bounds_in_words(attribute: Attribute) -> list[str]:
    """Thresholds of the shares of the values of a column."""
    return [
        f"{bound.option.replace('_', ' ')}{'' if bound.named is None else f' of {clean(bound.named)}'} "
        f"{'<' if bound.option == 'delta' else '≤'} {threshold(bound.threshold)}"
        for bound in share_bounds(attribute)
    ]


def unsaid(
    released: Sequence[Released],
    unique: Uniqueness,
    revealed: Mapping[str, tuple[int, int]],
    *,
    classes: int,
    policy: AuditPolicy,
) -> list[str]:
    """Sentences about risks that the verdict does not cover, except for unaudited columns.

    Readers can check each sentence in the table. `revealed` gives, by place of a sensitive column, the
    classes and records with a single value.
    """
    sentences = [] if policy.k is not None else ["How large classes must be: no k was asked for."]
    for one in released:
        name = clean(one.column.name)
        if one.role is Role.SENSITIVE and _judged(one.attribute, policy) == "nothing":
            sentences.append(f"Whether the classes tell too much of {name}: neither t nor l was asked for.")
        homogeneous, records = revealed.get(one.column.place, (0, 0))
        if homogeneous:
            sentences.append(
                f"That {name} stays unknown: in {homogeneous:,} of {counted(classes, 'class', 'classes')}, "
                f"with {counted(records, 'record', 'records')}, all records have the same value, so whoever "
                "finds the class of a person there knows the value."
            )
    if unique.beside and unique.alone_beside:
        sentences.append(
            f"That nobody can be singled out: {_unique(unique.alone_beside, unique.records)} unique on the "
            f"{counted(len(unique.beside), 'column that is', 'columns that are')} not "
            f"{'a quasi-identifier' if len(unique.beside) == 1 else 'quasi-identifiers'}, the sensitive ones "
            "included. k counts records that share the quasi-identifiers; it does not protect from somebody "
            "who knows other columns."
        )
    return sentences


def unaudited(unique: Uniqueness, columns: int) -> dict[str, Any] | None:
    """Text about the unaudited columns; None if every column is audited."""
    if not unique.unaudited:
        return None
    one = len(unique.unaudited) == 1
    are = "is" if one else "are"
    return {
        "head": f"{len(unique.unaudited):,} of {columns:,} released columns {are} not audited",
        "names": [clean(name) for name in unique.unaudited],
        "unique": f"{_unique(unique.alone_unaudited, unique.records)} unique on "
        f"{'it' if one else 'them together'}",
        "alone": unique.alone_unaudited,
        "one": one,
    }


def _unique(alone: int, records: int) -> str:
    share = percent(alone / records)
    return f"{alone:,} of {counted(records, 'record', 'records')} ({share}) {'is' if alone == 1 else 'are'}"


def beside(unique: Uniqueness) -> list[tuple[str, int, str]]:
    """Risk from an attacker who knows columns other than the quasi-identifiers.

    Each item has the attacker's knowledge, the records that are unique in it, and their share.
    """
    rows: list[tuple[str, int]] = []
    for columns, alone, what in (
        (unique.unaudited, unique.alone_unaudited, "not audited"),
        (unique.beside, unique.alone_beside, "no quasi-identifier, sensitive ones included"),
    ):
        if columns and len(columns) > (len(unique.unaudited) if rows else 0):
            rows.append((f"{counted(len(columns), 'column', 'columns')}: {what}", alone))
    return [(what, alone, percent(alone / unique.records)) for what, alone in rows]


NAMES = {
    "k_anonymity": "k-anonymity",
    "k_anonymity_subset": "k-anonymity of a subset",
    "distinct_l_diversity": "distinct l-diversity",
    "entropy_l_diversity": "entropy l-diversity",
    "recursive_l_diversity": "recursive l-diversity",
    "t_closeness": "t-closeness",
    "joint_t_closeness": "joint t-closeness",
    "nt_closeness": "(n, t)-closeness",
    "alpha_k_anonymity": "(alpha, k)-anonymity",
    "delta_disclosure": "delta-disclosure privacy",
    "delta_disclosure_present": "delta of the values that a class holds",
    "beta_likeness": "basic beta-likeness",
    "enhanced_beta_likeness": "enhanced beta-likeness",
    "average_class_size": "average class size",
    "discernibility": "discernibility (sum of squared class sizes)",
    "prosecutor_risk": "highest re-identification risk",
    "information_loss": "information loss, per cent",
    "suppressed_records": "records left out",
}
"""Names of measures; other measures have their name in the audit, with blanks."""

_MEANS = {
    "k_anonymity": "Everyone hides among at least so many records with the same quasi-identifiers.",
    "k_anonymity_subset": (
        "Who knows these quasi-identifiers alone finds at least so many records with the same values."
    ),
    "distinct_l_diversity": "Every class holds at least so many different sensitive values.",
    "entropy_l_diversity": "Every class is as varied as so many equally frequent sensitive values.",
    "recursive_l_diversity": "The most frequent sensitive value of a class does not outweigh the rarer ones.",
    "t_closeness": "No class differs more than this from the whole table, on a scale from 0 to 1.",
    "joint_t_closeness": (
        "No class differs more than this from the whole table in these columns together, from 0 to 1."
    ),
    "nt_closeness": (
        "No class differs more than this from a natural superset of n or more records, from 0 to 1."
    ),
    "alpha_k_anonymity": "No sensitive value has a larger share of a class.",
    "delta_disclosure": "No value of the table is much rarer, more frequent or missing in a class.",
    "beta_likeness": "No sensitive value is much more frequent in a class than in the table.",
    "enhanced_beta_likeness": "No value gains more in a class than beta, and than its rarity, allow.",
}
"""Meaning of measures for a reader; other measures are explained by the header of their audit."""
_SYMBOLS = {
    "k_anonymity": "k",
    "k_anonymity_subset": "k",
    "t_closeness": "t",
    "joint_t_closeness": "t",
    "nt_closeness": "t",
} | {measure: option.replace("enhanced_", "") for option, measure in SHARE_MEASURES.items()}

RISKS = {
    "prosecutor_max": "Highest risk of a single record: 1 / size of the smallest class",
    "prosecutor_average": "Average risk over the records",
    "marketer": "Share of the records that an attack on all of them is expected to find",
    "share_above_5_percent": "Share of the records with a risk above 5 % (class below 20)",
    "share_above_9_percent": "Share of the records with a risk above 9 % (class below 12)",
    "share_above_20_percent": "Share of the records with a risk above 20 % (class below 5)",
    "share_above_33_percent": "Share of the records with a risk above 33 % (class below 4)",
}
"""Meaning of the columns of sql/audit/reidentification_risk.sql."""


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
    """Name of a measure for a heading."""
    return NAMES.get(measure, measure.replace("_", " "))


def card(measure: Measure) -> Card:
    """Verdict of a measure that has a threshold, in words."""
    limit = "" if measure.threshold is None else threshold(measure.threshold)
    symbol = _SYMBOLS.get(measure.measure, "l" if "diversity" in measure.measure else "")
    side = "at most" if measure.measure in LARGER_IS_WORSE else "at least"
    side = "below" if measure.measure == SHARE_MEASURES["delta"] else side
    asked = f"asked for: {symbol + ' ' if symbol else ''}{side} {limit}"
    return Card(
        name_of(measure.measure),
        None if measure.attribute is None else clean(measure.attribute),
        bool(measure.passed),
        _value(measure),
        asked if measure.measure in NAMES else f"threshold: {limit}",
        _MEANS.get(measure.measure) or headers.rule(measure.measure),
        _counts(measure),
    )


def _value(measure: Measure) -> str:
    """Return a value with enough digits to look different from an unequal threshold."""
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
