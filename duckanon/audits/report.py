"""The report of an audit: measures, violations, and their text and JSON forms."""

from __future__ import annotations

import html
import json
import math
from collections import Counter
from dataclasses import asdict, dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any

from duckanon.audits.legible import legible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckanon.audits.certificate import Certificate, Supersets

CHANGING = "the table holds other rows each time it is read: store it before it is audited"
"""Error text for a table of which two parts of one audit see different rows."""

COLUMNS = ("measure", "attribute", "threshold", "value", "classes", "violations", "records", "passed")
"""Columns of the report rows, as every AUDIT returns them."""

VIOLATIONS_LISTED = 100
"""Violating classes that a report lists."""

_VIOLATIONS_SHOWN = 10
_VALUE_MAX_CHARACTERS = 500
"""Violations in a text, and characters of a value in it."""

_NUMBERS = frozenset({"threshold", "value", "classes", "violations", "records", "class_size"})

# Text and lines take the colour of the page, and badges have their own, for light and dark pages.
_STYLE = (
    ".duckanon-report{overflow-x:auto}"
    ".duckanon-report table{border-collapse:collapse}"
    ".duckanon-report th,.duckanon-report td{padding:.2em .7em;text-align:left;"
    "border-bottom:1px solid rgba(127,127,127,.4)}"
    ".duckanon-report .number{text-align:right;font-variant-numeric:tabular-nums}"
    ".duckanon-report .passed,.duckanon-report .violated{padding:.05em .5em;border-radius:.3em;color:#fff}"
    ".duckanon-report .passed{background:#1a7f37}"
    ".duckanon-report .violated{background:#b3261e}"
    ".duckanon-report .unjudged{white-space:nowrap;opacity:.75}"
)


@dataclass(frozen=True)
class Measure:
    """One row of a report.

    Attributes
    ----------
    measure : str
        Name of the measure, for example ``t_closeness``.
    attribute : str or None
        Sensitive column of the measure.
    threshold : Decimal, int, float or None
        Threshold of the policy; None if the measure is reported, not judged.
    value : float or None
        Value of the release: its smallest k or l, or its largest EMD.
    classes : int
        Equivalence classes of the relation, the same number for every measure.
    violations : int or None
        Classes that break the threshold.
    records : int or None
        Records in those classes.
    passed : bool or None
        None when there is no threshold.
    """

    measure: str
    attribute: str | None
    threshold: Decimal | float | None
    value: float | None
    classes: int
    violations: int | None
    records: int | None
    passed: bool | None

    def row(self) -> tuple[Any, ...]:
        """Values in the order of `COLUMNS`."""
        return tuple(getattr(self, column) for column in COLUMNS)


@dataclass(frozen=True)
class Violation:
    """One equivalence class that breaks a threshold.

    Attributes
    ----------
    measure, attribute : str
        The violated measure; attribute is None for k.
    class_values : dict
        Released quasi-identifier values of the class as text, None for NULL.
    class_size : int
        Number of its records.
    value : float
        Its own figure of the measure, as its k, l or EMD.
    """

    measure: str
    attribute: str | None
    class_values: dict[str, str | None]
    class_size: int
    value: float

    @property
    def where(self) -> str:
        """The class as text: its quasi-identifiers with their values."""
        return ", ".join(
            f"{name} = {'NULL' if value is None else value}" for name, value in self.class_values.items()
        )

    def row(self) -> tuple[Any, ...]:
        """Measure, attribute, the class as text, its size and its value."""
        return self.measure, self.attribute, self.where, self.class_size, self.value


@dataclass(frozen=True)
class Report:
    """Result of an audit.

    Attributes
    ----------
    name : str
        The audited relation.
    measures : tuple of Measure
        One row a measure and attribute.
    violations : tuple of Violation
        The worst classes first, at most a hundred.
    warnings : tuple of str
        What the reader must know beyond the verdicts.
    plan : str or None
        Method of the release, and the reason for it; None if a relation was only audited.
    evidence : dict or None
        Record of the audit, if it was requested: ``policy``, ``policy_hash``, ``fingerprint`` of the rows,
        versions of the programs, ``audited_at``; ``certificates`` of joint t-closeness; ``supersets`` of
        (n, t)-closeness.
    certificates : tuple of Certificate
        What proves the measures of several columns together.
    supersets : Supersets or None
        Boxes of quasi-identifiers by which classes keep (n, t)-closeness; None without n.
    """

    name: str
    measures: tuple[Measure, ...]
    violations: tuple[Violation, ...] = ()
    warnings: tuple[str, ...] = ()
    plan: str | None = None
    evidence: dict[str, Any] | None = None
    certificates: tuple[Certificate, ...] = field(default=(), repr=False, compare=False)
    supersets: Supersets | None = field(default=None, repr=False, compare=False)

    @property
    def passed(self) -> bool:
        """Whether every measure with a threshold passed; False when nothing was judged."""
        judged = [measure.passed for measure in self.measures if measure.passed is not None]
        return bool(judged) and all(judged)

    @property
    def classes(self) -> int:
        """Equivalence classes of the relation: groups of records that share all its quasi-identifiers."""
        return self.measures[0].classes

    @property
    def violated(self) -> bool:
        """Whether some measure with a threshold failed; False when nothing was judged."""
        return any(measure.passed is False for measure in self.measures)

    def with_audits(self, measures: Sequence[Measure], violations: Sequence[Violation]) -> Report:
        """Return the report with the measures of further audits before the figures of the classes."""
        ends = [place for place, one in enumerate(self.measures) if one.measure == "average_class_size"]
        at = ends[0] if ends else len(self.measures)
        together = (*self.measures[:at], *measures, *self.measures[at:])
        listed = worst_first([*self.violations, *violations])[:VIOLATIONS_LISTED]
        return replace(self, measures=together, violations=tuple(listed))

    def extended(self, measures: tuple[Measure, ...], warnings: tuple[str, ...], plan: str) -> Report:
        """Return the report with more measures and warnings at its end, and the plan of the release."""
        together = self.measures + measures, self.warnings + warnings
        return replace(self, measures=together[0], warnings=together[1], plan=plan)

    def to_dict(self) -> dict[str, Any]:
        """Plain data of the report: name, passed, measures, violations, warnings, plan, evidence."""
        told = asdict(replace(self, certificates=(), supersets=None))
        proofs = ("certificates", "supersets")
        return {"passed": self.passed, **{name: told[name] for name in told if name not in proofs}}

    def to_json(self) -> str:
        """JSON text of `to_dict`; numbers stay numbers, dates and others become text."""
        return json.dumps(_finite(self.to_dict()), indent=2, default=_plain, allow_nan=False)

    def __str__(self) -> str:
        """The text for a reader; `repr` has the plain data."""
        return self.to_text()

    def to_text(self) -> str:
        """Aligned table of the measures, then the worst classes, the plan and the warnings."""
        lines = text_table(COLUMNS, [_distinct_row(measure) for measure in self.measures])
        for violation in self.violations[:5]:
            about = f" of {violation.attribute}" if violation.attribute else ""
            where = ", ".join(f"{name} = {shown(value)}" for name, value in violation.class_values.items())
            lines.append(
                f"violation: {violation.measure}{about} is {shown(violation.value)} "
                f"in the class of {violation.class_size} records with {where}"
            )
        if self.plan is not None:
            lines.append(f"method: {self.plan}")
        lines.extend(f"warning: {warning}" for warning in self.warnings)
        return "\n".join(map(legible, lines))

    def _repr_html_(self) -> str:
        """Verdict, measures, worst classes, plan and warnings as HTML for a notebook."""
        parts = [
            f"<p><strong>{html.escape(self.name)}</strong> {_badge(self._verdict)}</p>",
            html_table(COLUMNS, [_distinct_row(measure) for measure in self.measures]),
        ]
        if self.violations:
            worst = self.violations[:_VIOLATIONS_SHOWN]
            rest = f" (the worst {len(worst)} of those listed in .violations)"
            parts.append(f"<p>Violating classes{rest if len(self.violations) > len(worst) else ''}</p>")
            head = ("measure", "attribute", "class", "class_size", "value")
            parts.append(html_table(head, [violation.row() for violation in worst]))
        if self.plan is not None:
            parts.append(f"<p>Method: {html.escape(self.plan)}</p>")
        parts.extend(f"<p>Warning: {html.escape(warning)}</p>" for warning in self.warnings)
        return in_notebook(parts)

    @property
    def _verdict(self) -> bool | None:
        return False if self.violated else self.passed or None


def text_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Lines of an aligned table: head, rule, rows; numbers to the right, all else to the left."""
    cells = [[shown(cell) for cell in row] for row in rows]
    heads = [legible(column) for column in columns]
    widths = [max([len(head), *(len(row[i]) for row in cells)]) for i, head in enumerate(heads)]
    right = [
        any(isinstance(row[i], int | float | Decimal) and not isinstance(row[i], bool) for row in rows)
        for i in range(len(columns))
    ]

    def line(row: Sequence[str]) -> str:
        pairs = zip(row, widths, right, strict=True)
        return "  ".join(
            cell.rjust(width) if side else cell.ljust(width) for cell, width, side in pairs
        ).rstrip()

    return [line(heads), line(["-" * width for width in widths]), *(line(row) for row in cells)]


def shown(value: object) -> str:
    """Text of one cell, in one legible line.

    Six digits after the point, no trailing zeros, blank for None.
    """
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    if isinstance(value, float | Decimal):
        number = float(value)
        return f"{number:.6f}".rstrip("0").rstrip(".") if abs(number) < 1e15 else f"{number:.6g}"
    text = str(value)
    return legible(
        text
        if len(text) <= _VALUE_MAX_CHARACTERS
        else f"{text[:_VALUE_MAX_CHARACTERS]}... ({len(text)} characters)"
    )


def _distinct_row(measure: Measure) -> tuple[Any, ...]:
    """Return the row of a measure, with a violating value that looks different from its threshold."""
    row = measure.row()
    if measure.passed is not False or shown(measure.value) != shown(measure.threshold):
        return row
    exact = {"threshold": format(Decimal(str(measure.threshold)), "f"), "value": str(measure.value)}
    return tuple(exact.get(column, cell) for column, cell in zip(COLUMNS, row, strict=True))


def in_notebook(parts: Sequence[str]) -> str:
    """Parts of HTML in one box with the style of reports."""
    return f'<div class="duckanon-report"><style>{_STYLE}</style>{"".join(parts)}</div>'


def html_table(columns: Sequence[str], rows: Sequence[Sequence[object]]) -> str:
    """Table of values, verdicts as badges and numbers to the right."""
    kinds = [' class="number"' if column in _NUMBERS else "" for column in columns]
    head = "".join(f"<th{kind}>{column}</th>" for column, kind in zip(columns, kinds, strict=True))
    lines = [
        "".join(f"<td{kind}>{cell}</td>" for cell, kind in zip(_cells(columns, row), kinds, strict=True))
        for row in rows
    ]
    body = "".join(f"<tr>{line}</tr>" for line in lines)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def _cells(columns: Sequence[str], row: Sequence[object]) -> list[str]:
    return [
        _badge(value) if column == "passed" else html.escape(shown(value))
        for column, value in zip(columns, row, strict=True)
    ]


def _badge(passed: object) -> str:
    """Verdict as a word on a coloured background."""
    if passed is None:
        return '<span class="unjudged">not judged</span>'
    return '<span class="passed">passed</span>' if passed else '<span class="violated">violated</span>'


def _finite(value: object) -> object:
    """Return plain data with text for infinity and NaN, which JSON lacks."""
    if isinstance(value, dict):
        return {name: _finite(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(part) for part in value]
    return str(value) if isinstance(value, float) and not math.isfinite(value) else value


def _plain(value: object) -> object:
    if isinstance(value, Decimal):
        return int(value) if value == value.to_integral_value() else float(value)
    return str(value)


def violation_of(row: tuple[object, ...], quasi_identifiers: Sequence[str]) -> Violation:
    """Violation of a row: measure, attribute, values of the class as text, its size, its own figure."""
    measure, attribute, *texts, size, value = row
    return Violation(
        measure=str(measure),
        attribute=None if attribute is None else str(attribute),
        class_values={
            name: None if text is None else str(text)
            for name, text in zip(quasi_identifiers, texts, strict=True)
        },
        class_size=int(str(size)),
        value=float(str(value)),
    )


def worst_first(violations: Sequence[Violation]) -> list[Violation]:
    """Violations of several lists, the worst of every measure before the second worst of any."""
    seen: Counter[tuple[str, str | None]] = Counter()
    ranked = []
    for one in violations:
        seen[one.measure, one.attribute] += 1
        ranked.append((seen[one.measure, one.attribute], one))
    return [one for _, one in sorted(ranked, key=lambda pair: pair[0])]
