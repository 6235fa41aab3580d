"""Changes between the JSON reports of two audits."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from typing import Any

from duckanon.audits.legible import legible
from duckanon.audits.report import COLUMNS, shown
from duckanon.errors import SourceError

FACTS = ("name", "policy", "policy_hash", "fingerprint")
"""Facts about a report beside its measures; compared if both reports state them."""

RELATIVE_TOLERANCE, ABSOLUTE_TOLERANCE = 1e-9, 1e-12
"""Values nearer than this are equal, because the last bits of an entropy depend on the number of threads."""


@dataclass(frozen=True)
class Change:
    """One cell that differs between two reports."""

    measure: str | None  # None for a fact about the whole report
    attribute: str | None
    column: str  # of the report, such as ``value`` or ``passed``, or one of `FACTS`
    before: Any
    after: Any


@dataclass(frozen=True)
class Changes:
    """Changes from one report to another."""

    cells: tuple[Change, ...] = ()  # facts first, then measures in the order of the later report
    appeared: tuple[dict[str, Any], ...] = ()  # measures that only the later report has
    disappeared: tuple[dict[str, Any], ...] = ()  # measures that only the earlier report has
    classes_appeared: tuple[dict[str, Any], ...] = ()  # listed in the later report only
    classes_disappeared: tuple[dict[str, Any], ...] = ()  # listed in the earlier report only
    unknown: tuple[str, ...] = ()  # `FACTS` that only one report states

    @property
    def same(self) -> bool:
        """Whether nothing changed; a fact that only one report states is no change."""
        return not (
            self.cells
            or self.appeared
            or self.disappeared
            or self.classes_appeared
            or self.classes_disappeared
        )

    @property
    def regressed(self) -> bool:
        """Whether a verdict was lost: a measure fails now, or is no longer judged."""
        lost = any(change.column == "passed" and change.after is not True for change in self.cells)
        gone = any(row.get("passed") is not None for row in self.disappeared)
        return lost or gone or any(row.get("passed") is False for row in self.appeared)

    def to_dict(self) -> dict[str, Any]:
        """Plain data: same, regressed, and the attributes."""
        return {"same": self.same, "regressed": self.regressed, **asdict(self)}

    def to_text(self) -> str:
        """One line for each changed measure; one line if nothing changed."""
        lines = [f"{_about(*row)}: {', '.join(parts)}" for row, parts in _grouped(self.cells).items()]
        lines += [f"{_about_row(row)}: appeared, {_summary(row)}" for row in self.appeared]
        lines += [f"{_about_row(row)}: disappeared, was {_summary(row)}" for row in self.disappeared]
        lines += [f"violating class appeared: {_class(row)}" for row in self.classes_appeared]
        lines += [f"violating class disappeared: {_class(row)}" for row in self.classes_disappeared]
        if not lines:
            lines = ["nothing changed"]
        lines += [f"{_words(fact)}: only one of the reports says it, not compared" for fact in self.unknown]
        return "\n".join(map(legible, lines))


def changes(before: Mapping[str, Any], after: Mapping[str, Any]) -> Changes:
    """Changes between two reports, given as `Report.to_dict` or its JSON; SourceError if one is no report.

    Values within `RELATIVE_TOLERANCE` are equal, and so are NaN. Repeated measures are compared in order.
    Policy, policy hash and fingerprint may stand at the top level or under ``evidence``.

    >>> row = {"measure": "k_anonymity", "attribute": None, "threshold": 3, "value": 5.0, "passed": True}
    >>> print(changes({"measures": [row]}, {"measures": [{**row, "value": 2.0, "passed": False}]}).to_text())
    k_anonymity: value 5 -> 2, verdict passed -> VIOLATED
    """
    old, new = _measures(before, "earlier"), _measures(after, "later")
    listed = [_violations(report) for report in (before, after)]
    facts = [(name, _fact(before, name), _fact(after, name)) for name in FACTS]
    if None not in facts[FACTS.index("policy")]:
        # The texts of the policies show the difference, so the hashes are left out.
        facts = [fact for fact in facts if fact[0] != "policy_hash"]
    cells = [
        Change(None, None, name, one, other)
        for name, one, other in facts
        if one is not None and other is not None and one != other
    ]
    for key, row in new.items():
        if key in old:
            cells += [
                Change(row["measure"], row.get("attribute"), column, old[key].get(column), row.get(column))
                for column in COLUMNS[2:]
                if not same_value(old[key].get(column), row.get(column))
            ]
    return Changes(
        cells=tuple(cells),
        appeared=tuple(dict(row) for key, row in new.items() if key not in old),
        disappeared=tuple(dict(row) for key, row in old.items() if key not in new),
        classes_appeared=tuple(row for key, row in listed[1].items() if key not in listed[0]),
        classes_disappeared=tuple(row for key, row in listed[0].items() if key not in listed[1]),
        unknown=tuple(name for name, one, other in facts if (one is None) != (other is None)),
    )


def same_value(one: object, other: object) -> bool:
    """Whether two cells are equal: numbers in any form, within either tolerance."""
    first, second = _number(one), _number(other)
    if first is None or second is None:
        return isinstance(one, bool) == isinstance(other, bool) and one == other
    if math.isnan(first) or math.isnan(second):
        return math.isnan(first) and math.isnan(second)
    return math.isclose(first, second, rel_tol=RELATIVE_TOLERANCE, abs_tol=ABSOLUTE_TOLERANCE)


def _measures(report: Mapping[str, Any], which: str) -> dict[tuple[str, str | None, int], Mapping[str, Any]]:
    rows = report.get("measures") if hasattr(report, "get") else None
    if not isinstance(rows, list | tuple) or not all(
        hasattr(row, "get") and "measure" in row for row in rows
    ):
        raise SourceError(
            f"the {which} report is not a report of duckanon: it has no list of measures; "
            "write one with duckanon audit --format json -o FILE"
        )
    by_key: dict[tuple[str, str | None, int], Mapping[str, Any]] = {}
    for row in rows:
        number = 0
        while (key := (row["measure"], row.get("attribute"), number)) in by_key:
            number += 1
        by_key[key] = row
    return by_key


def _violations(report: Mapping[str, Any]) -> dict[tuple[object, ...], dict[str, Any]]:
    return {
        (row.get("measure"), row.get("attribute"), tuple((row.get("class_values") or {}).items())): dict(row)
        for row in report.get("violations") or ()
    }


def _fact(report: Mapping[str, Any], name: str) -> Any:
    inner = report.get("evidence")
    return report.get(name, inner.get(name) if isinstance(inner, Mapping) else None)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal | str):
        return None
    if isinstance(value, str) and value not in {"inf", "-inf", "nan"}:
        return None
    return float(value)


def _grouped(cells: tuple[Change, ...]) -> dict[tuple[str, str | None], list[str]]:
    lines: dict[tuple[str, str | None], list[str]] = {}
    for cell in cells:
        if cell.measure is None:
            lines.setdefault((_words(cell.column), None), []).append(_fact_changed(cell))
            continue
        parts = lines.setdefault((cell.measure, cell.attribute), [])
        if cell.column == "passed":
            parts.append(f"verdict {_verdict(cell.before)} -> {_verdict(cell.after)}")
        else:
            parts.append(f"{cell.column} {_cell(cell.before)} -> {_cell(cell.after)}")
    return lines


def _fact_changed(cell: Change) -> str:
    """Return the change of a fact; for a policy the lines that differ."""
    if cell.column != "policy":
        return f"{cell.before} -> {cell.after}"
    old, new = (str(text).splitlines() for text in (cell.before, cell.after))
    gone = [f"no longer {line}" for line in old if line not in new]
    return ", ".join([*gone, *(f"now {line}" for line in new if line not in old)])


def _about(measure: str, attribute: str | None) -> str:
    return f"{measure} of {attribute}" if attribute else measure


def _about_row(row: Mapping[str, Any]) -> str:
    return _about(row["measure"], row.get("attribute"))


def _summary(row: Mapping[str, Any]) -> str:
    value, threshold = row.get("value"), row.get("threshold")
    asked = "" if threshold is None else f" where the policy asks for {_cell(threshold)}"
    return f"{_verdict(row.get('passed'))}, value {_cell(value)}{asked}"


def _class(row: Mapping[str, Any]) -> str:
    where = ", ".join(f"{name} = {_cell(value)}" for name, value in (row.get("class_values") or {}).items())
    return (
        f"{_about(str(row.get('measure')), row.get('attribute'))} is {_cell(row.get('value'))} with {where}"
    )


def _cell(value: object) -> str:
    return "none" if value is None else shown(value)


def _verdict(passed: object) -> str:
    return {True: "passed", False: "VIOLATED"}.get(bool(passed), "") if passed is not None else "not judged"


def _words(fact: str) -> str:
    return fact.replace("_", " ")
