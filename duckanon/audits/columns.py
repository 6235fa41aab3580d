"""What an audit asks of each sensitive column: thresholds of l, t and the shares of its values."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from duckanon.errors import PolicyError
from duckanon.policy.bind import Role

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from decimal import Decimal

    from duckanon.policy.bind import Attribute
    from duckanon.policy.policy import AuditPolicy

SHARE_MEASURES = {
    "alpha": "alpha_k_anonymity",
    "delta": "delta_disclosure",
    "beta": "beta_likeness",
    "enhanced_beta": "enhanced_beta_likeness",
}
"""Measures of the shares of sensitive values, by the option of their threshold."""

PRESENT = "delta_disclosure_present"
"""Measure beside delta-disclosure: the values that a class lacks are skipped, as by other tools."""

LARGER_IS_WORSE = ("t_closeness", *SHARE_MEASURES.values(), PRESENT, "joint_t_closeness", "nt_closeness")
"""Measures whose threshold is a largest value, in the order of violations that are equally severe."""


class ShareBound(NamedTuple):
    """A threshold of the shares of the values of a sensitive column."""

    measure: str
    option: str
    threshold: Decimal
    named: str | None = None  # the value that alpha bounds, as text; None for every value


@dataclass(frozen=True)
class AuditColumn:
    """Audit of one sensitive column; without t or l the measure is reported, not judged."""

    name: str
    distance: str
    t: Decimal | None = None
    l: Decimal | None = None  # noqa: E741 - l-diversity has this name everywhere
    l_kind: str = "distinct"  # or entropy, recursive
    c: Decimal | None = None
    tree: str | None = None  # relation (value, level, node) as SQL text, for hierarchical distance
    bounds: tuple[ShareBound, ...] = ()  # measured only where they are asked for
    order: tuple[str, ...] | None = None  # values of text from the least to the greatest; None: by bytes
    few_values: bool = False  # whether to count values first (ordered distance); same rows

    @property
    def labels(self) -> tuple[str, ...]:
        """Its attributes in a report: the name, then a label for each value that alpha names."""
        return (self.name, *(label(self.name, b.named) for b in self.bounds if b.named is not None))


def label(column: str, named: str | None) -> str:
    """Attribute of a report: the column, or one value of it.

    >>> label("diagnosis", None), label("diagnosis", "HIV")
    ('diagnosis', 'diagnosis = HIV')
    """
    return column if named is None else f"{column} = {named}"


def labels_of(columns: Sequence[AuditColumn], others: Sequence[AuditColumn]) -> Iterator[tuple[str, str]]:
    """Pairs of labels of the same columns under two names."""
    for column, other in zip(columns, others, strict=True):
        yield from zip(column.labels, other.labels, strict=True)


def rank(measure: str) -> int:
    """Place of a measure among violations that are equally severe."""
    return LARGER_IS_WORSE.index(measure) + 1 if measure in LARGER_IS_WORSE else 0


def audit_columns(
    attributes: Sequence[Attribute], policy: AuditPolicy, trees: Mapping[str, str]
) -> list[AuditColumn]:
    """Audits of all sensitive columns, in their order; a PolicyError if a report could not tell two apart."""
    columns = [
        AuditColumn(
            attribute.name,
            attribute.distance or "equal",
            attribute.t,
            attribute.l,
            policy.l_diversity,
            policy.c,
            trees.get(attribute.name),
            share_bounds(attribute),
            attribute.order,
        )
        for attribute in attributes
        if attribute.role is Role.SENSITIVE
    ]
    ((often, times),) = Counter(name for one in columns for name in one.labels).most_common(1) or [("", 0)]
    if times > 1:
        raise PolicyError(
            f"alpha of a named value is reported as {often!r}, and so is another sensitive column or value: "
            "rename the column with AS"
        )
    return columns


def share_bounds(attribute: Attribute) -> tuple[ShareBound, ...]:
    """Thresholds of the shares of the values of a column, in the order of a report."""
    whole = [
        ShareBound(measure, option, threshold)
        for option, measure in SHARE_MEASURES.items()
        if (threshold := getattr(attribute, option)) is not None
    ]
    named = [
        ShareBound(SHARE_MEASURES["alpha"], "alpha", share, value)
        for value, share in sorted(attribute.alpha_of)
    ]
    return (*named, *whole)


def share_options(thresholds: Mapping[str, Mapping[str, Decimal]], columns: Sequence[str]) -> dict[str, Any]:
    """Options of a policy from thresholds by measure and label; the inverse of `share_bounds`.

    PolicyError for a label of no column, and for a column with one alpha beside those of named values.
    """
    options: dict[str, Any] = {}
    for option, measure in SHARE_MEASURES.items():
        for of, threshold in thresholds.get(measure, {}).items():
            # The longest name wins, since a name may contain the sign.
            fitting = [name for name in columns if of == name or str(of).startswith(f"{name} = ")]
            if not fitting:
                raise PolicyError(f"{option} is recorded for {of!r}, which is no sensitive column")
            column = max(fitting, key=len)
            asked = options.setdefault(option, {})
            if column in asked and not (of != column and isinstance(asked[column], dict)):
                raise PolicyError(f"{option} of {column!r} is recorded twice")
            if of == column:
                asked[column] = threshold
            else:
                asked.setdefault(column, {})[of.removeprefix(f"{column} = ")] = threshold
    return options
