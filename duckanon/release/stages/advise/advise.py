"""Advice: warnings for the owner of a valid release, with emphasis on collapsed utility.

A warning names a sensitive column that classes reveal; insensitive columns that are nearly unique, alone or
together; numbers that may be codes; a quasi-identifier released as one person's own value, by a mean that one
record dominates, or with approximate distances; numbers written with a comma; records left out for a NULL;
the cost of the thresholds.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import ROUND_CEILING, Decimal
from fractions import Fraction
from typing import TYPE_CHECKING

from duckanon import progress
from duckanon.database import engine, templates
from duckanon.database.templates import ident
from duckanon.policy.bind import Role
from duckanon.policy.kinds import perhaps_code
from duckanon.policy.reported import reported_loss
from duckanon.release.stages.advise.sensitive import (
    COUNTED_COLUMNS_PER_STATEMENT,
    flattened,
    guessed,
    revealed,
    values_of,
)
from duckanon.release.stages.embed import EXACT_VALUES
from duckanon.release.stages.partition.plan import candidates, most_classes, trial
from duckanon.release.stages.protect import judged
from duckanon.release.stages.recode import labelled_relation
from duckanon.release.stages.stage import class_fields

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import duckdb

    from duckanon.audits.report import Report
    from duckanon.kernels.closeness.threshold import Threshold
    from duckanon.policy.policy import Policy
    from duckanon.release.stages.embed import Embedded
    from duckanon.release.stages.limit import Limits
    from duckanon.release.stages.partition.plan import Sample
    from duckanon.release.stages.recode import Recoded
    from duckanon.release.stages.stage import Field, Staged

COLLAPSE_CLASS_SIZE_IN_K = 20
"""Records of a class, on average and in multiples of k, above which the data count as lost."""

COLLAPSE_LOSS_PERCENT = 80.0
"""IL above which the data count as lost, however many classes there are."""

HARMLESS_LOSS_PERCENT = 1.0
"""IL up to which large classes do no harm, because there are few distinct values."""

UNIQUE_MIN_SHARE = 0.9
"""Share of distinct values above which an insensitive column singles records out."""

ALONE_MIN_SHARE = 0.2
"""Share of records unique in one insensitive column, or in all, from which there is a warning."""

OWN_VALUE_MIN_SHARE = 0.5
"""Distinct values per record from which the mode of a class is one person's own value."""

ESTIMATED_COLUMNS_PER_STATEMENT = 100
"""Columns whose distinct values one statement estimates."""

ESTIMATE_MARGIN = 1.5
"""Factor by which no estimate of distinct values is too low: their standard error is 3.4 %."""

TOLD_SHARE = 0.1
"""Relative distance within which a mean reveals a value."""


@progress.step("advise")
def advise(
    con: duckdb.DuckDBPyConnection,
    staged: Staged,
    embedded: Embedded,
    limits: Limits,
    sample: Sample | None,
    recoded: Recoded,
    report: Report,
    policy: Policy,
) -> Report:
    """The report with warnings for the owner of a release."""
    cost = _collapse(limits, sample, recoded, report, policy)
    # Two tables give the sensitive values of a class, not of a record.
    if not cost and policy.release != "anatomy":
        cost = flattened(con, staged, candidate=recoded.table)
    columns = _of_columns(con, staged, embedded, recoded, policy)
    return replace(report, warnings=(*report.warnings, *columns, *cost))


def _of_columns(
    con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded, recoded: Recoded, policy: Policy
) -> tuple[str, ...]:
    """Warnings about the columns of a release."""
    # A level is nobody's own value and needs no distances.
    leveled = policy.method == "full_domain"
    commas = _commas(con, staged, embedded)
    commas = {field: text for field, text in commas.items() if not (leveled and field.quasi)}
    own_values = {} if leveled else _own_values(con, staged)
    own_values = {field: text for field, text in own_values.items() if field not in commas}
    classes = class_fields(staged, policy)
    warnings = [*revealed(con, staged, recoded.table, classes), *_insensitive(con, staged)]
    warnings += codes(staged.quasi, [field.name for field in staged.quasi], policy)
    warnings += [*dominated(con, staged, policy), *own_values.values(), *commas.values()]
    if policy.release != "table":
        warnings += guessed(con, staged)
    for field, axis in () if leveled else zip(staged.quasi, embedded.axes, strict=True):
        if axis.corners is None or len(axis.corners) <= EXACT_VALUES or field in {*own_values, *commas}:
            continue
        hierarchy = field.attribute.hierarchy is not None
        warnings.append(approximate(field.name, len(axis.corners), hierarchy=hierarchy))
    if staged.left_out:
        warnings.append(without_nulls(staged.left_out))
    return tuple(warnings)


def codes(quasi: Sequence[Field], names: Sequence[str], policy: Policy) -> list[str]:
    """Warnings of numbers that are or may be codes, and whose recoding the policy does not state."""
    if policy.release != "table" or policy.method == "full_domain":
        return []
    return [
        coded(name, averaged=field.rule.rounds)
        for field, name in zip(quasi, names, strict=True)
        if name not in policy.recode and perhaps_code(field.kind, name)
    ]


def coded(name: str, *, averaged: bool) -> str:
    """Warning of numbers that are codes by their name; `averaged` if they are released by their mean."""
    if averaged:
        return (
            f"quasi-identifier {name!r} is named like a code, and means of codes say nothing: set recode = "
            f"{{{name}: 'mode'}}, or recode = {{{name}: 'mean'}} if it is a quantity"
        )
    return (
        f"quasi-identifier {name!r} holds numbers and is named like a code: each class releases its most "
        f"frequent value; set recode = {{{name}: 'mean'}} if it is a quantity, or recode = "
        f"{{{name}: 'mode'}} to confirm"
    )


def singles_out(name: str, different: int, size: int) -> str:
    """Warning of an insensitive column with nearly as many values as records."""
    return (
        f"insensitive column {name!r} has {different} values in {size} records "
        "and can single them out: is it an identifier or a quasi-identifier?"
    )


def alone_by(name: str, alone: int, size: int) -> str:
    """Warning of an insensitive column that is not nearly unique, but singles out many records."""
    return (
        f"insensitive column {name!r} singles out {alone} of {size} records, each alone with its value: is "
        "it an identifier or a quasi-identifier?"
    )


def alone_together(alone: int, size: int, columns: int) -> str:
    """Warning of insensitive columns that together single out records."""
    return (
        f"{alone} of {size} records are alone with their {columns} insensitive columns taken "
        "together: who knows these finds the record; drop some (identifiers) or make some "
        "quasi-identifiers"
    )


def tells_one(name: str, classes: int, whose: str) -> str:
    """Warning of a quasi-identifier whose mean reveals the value of one record, or subject."""
    return (
        f"in {classes} class{'' if classes == 1 else 'es'} the mean of {name!r} tells one {whose} "
        f"within {100 * TOLD_SHARE:g} % to whoever knows the usual range of the others: set p_percent = 10 "
        f"or recode = {{{name}: 'median'}}, cap the column in the source query (top coding), "
        "or take a larger k"
    )


def own_value(name: str, field: Field, different: int, values: int) -> str:
    """Warning of a quasi-identifier whose rule shows one person's own value."""
    what = "is released as that of one of its records" if field.rule.shows == "one" else "lists all of its"
    mean = "" if field.kind == "text" else ", or recode it by its mean"
    return (
        f"quasi-identifier {name!r} has {different} values in {values} records, and every "
        f"class {what}: make it an identifier, or group it in the source query as a hierarchy "
        f"would{mean}"
    )


def decimal_comma(name: str, look: Mapping[str, bool], *, quoted: str | None = None) -> str:
    """Warning of text that is numbers with a comma; `quoted` is its name in another engine's quotes."""
    cast = templates.render("advice/cast.sql.j2", name=name, **look).strip()
    if quoted is not None:
        cast = cast.replace(ident(name), quoted)
    return (
        f"{name!r} is text that looks like numbers with a decimal comma, and is taken for "
        f"words: write {cast} in the source query"
    )


def approximate(name: str, different: int, *, hierarchy: bool = False) -> str:
    """Warning of a quasi-identifier with too many values for exact distances."""
    what = f"quasi-identifier {name!r} has {different} different"
    if hierarchy:
        return f"{what} values: distances in its hierarchy are approximate (within 25 %)"
    return (
        f"{what} texts: distances are approximate (within 15 %); group them in the source query, or give "
        "a hierarchy, for a better release"
    )


def without_nulls(left_out: int) -> str:
    """Warning of records left out for a NULL."""
    return f"nulls = 'suppress' left out {left_out} records with a NULL in a quasi-identifier"


def collapse(classes: int, released: int, loss: float, k: int, *, told: bool = True) -> str | None:
    """Warning of thresholds that cost the data, with the loss if `told`; None if they do not."""
    few = classes < released / (COLLAPSE_CLASS_SIZE_IN_K * k) and loss > HARMLESS_LOSS_PERCENT
    if not (few or loss > COLLAPSE_LOSS_PERCENT):
        return None
    number = f"{classes} class{'' if classes == 1 else 'es'}"
    lost = f", loss {loss:.1f} %" if told else ""
    return f"the thresholds cost the data: {number} of {released} records{lost}"


def dominated(con: duckdb.DuckDBPyConnection, staged: Staged, policy: Policy) -> list[str]:
    """Warnings of means that reveal an outlier to a reader who knows the usual range of the column.

    O(n) a column; only a column with a value far enough to dominate a class of k has its classes checked.
    """
    if policy.p_percent is not None or policy.release != "table" or policy.method == "full_domain":
        return []
    whose, warnings = "record" if staged.subject is None else "subject", []
    for field in judged(staged):
        asked = {
            "column": field.column,
            "subject": staged.subject is not None,
            "within": TOLD_SHARE,
        }
        usual = templates.render(
            "advice/usual.sql.j2", records=staged.records, size=staged.size, others=policy.k - 1, **asked
        )
        low, high, far = engine.rows(con, usual, "advice")[0]
        if not far:
            continue
        classes = templates.render(
            "advice/dominated.sql.j2",
            labelled=labelled_relation(staged),
            low=low,
            high=high,
            **asked,
        )
        count = int(engine.rows(con, classes, "advice")[0][0])
        if count:
            warnings.append(tells_one(field.name, count, whose))
    return warnings


def _insensitive(con: duckdb.DuckDBPyConnection, staged: Staged) -> list[str]:
    """Warnings of insensitive columns that single out records, alone or together."""
    others = [field for field in staged.fields if field.attribute.role is Role.INSENSITIVE]
    if not others or staged.size == 1:
        return []
    warnings, common = [], []
    for field, different in zip(others, _different(con, staged, others), strict=True):
        if different > UNIQUE_MIN_SHARE * staged.size:
            warnings.append(singles_out(field.name, different, staged.size))
            continue
        # There are at most as many unique records as values; NULL may be one more value.
        alone = _alone(con, staged, [field]) if different + 1 >= ALONE_MIN_SHARE * staged.size else 0
        if alone >= ALONE_MIN_SHARE * staged.size:
            warnings.append(alone_by(field.name, alone, staged.size))
        else:
            common.append(field)
    if len(common) < 2:
        return warnings
    alone = _alone(con, staged, common)
    if alone >= ALONE_MIN_SHARE * staged.size:
        warnings.append(alone_together(alone, staged.size, len(common)))
    return warnings


def _alone(con: duckdb.DuckDBPyConnection, staged: Staged, fields: Sequence[Field]) -> int:
    """Number of records that are unique in some columns."""
    columns = [field.column for field in fields]
    query = templates.render("relation.sql.j2:combinations", records=staged.records, columns=columns)
    return int(engine.rows(con, query, "advice")[0][2])


def _own_values(con: duckdb.DuckDBPyConnection, staged: Staged) -> dict[Field, str]:
    """Quasi-identifiers whose mode in a class is one person's own value, with their warnings."""
    kept = [field for field in staged.quasi if field.rule.shows and field.kind != "boolean"]
    warnings = {}
    for field, (values, different) in zip(kept, values_of(con, staged, kept), strict=True):
        if different > 1 and different >= OWN_VALUE_MIN_SHARE * values:
            warnings[field] = own_value(field.name, field, different, values)
    return warnings


def _different(con: duckdb.DuckDBPyConnection, staged: Staged, fields: Sequence[Field]) -> list[int]:
    """Number of distinct values of each field, estimated if far below `ALONE_MIN_SHARE` and fields are many.

    DuckDB plans the exact count of a column for a millisecond, whatever the number of records.
    """
    if len(fields) <= COUNTED_COLUMNS_PER_STATEMENT:
        return [different for _, different in values_of(con, staged, fields)]
    counts: list[int] = []
    for part in engine.in_parts(fields, ESTIMATED_COLUMNS_PER_STATEMENT):
        query = templates.render("advice/estimated.sql.j2", records=staged.records, fields=part)
        counts += engine.rows(con, query, "advice")[0]
    places = [
        place
        for place, count in enumerate(counts)
        if count >= ALONE_MIN_SHARE * staged.size / ESTIMATE_MARGIN
    ]
    exact = values_of(con, staged, [fields[place] for place in places])
    for place, (_, different) in zip(places, exact, strict=True):
        counts[place] = different
    return counts


def _commas(con: duckdb.DuckDBPyConnection, staged: Staged, embedded: Embedded) -> dict[Field, str]:
    """Quasi-identifiers and sensitive columns of text that are numbers with a comma, with their warnings."""
    texts = [field for field in (*staged.quasi, *staged.sensitive) if field.kind == "text"]
    if not texts:
        return {}
    domains = [embedded.domains[field.column] for field in texts]
    looks = engine.rows(con, templates.render("advice/commas.sql.j2", domains=domains), "advice")[0]
    warnings = {}
    for field, look in zip(texts, looks, strict=True):
        if look["numbers"]:
            warnings[field] = decimal_comma(field.name, look)
    return warnings


def _collapse(
    limits: Limits, sample: Sample | None, recoded: Recoded, report: Report, policy: Policy
) -> tuple[str, ...]:
    """Warning of thresholds that cost the data, with a t that would not."""
    thresholds, told = limits.thresholds, reported_loss(recoded.loss, policy) is not None
    text = collapse(report.classes, recoded.released, recoded.loss, policy.k, told=told)
    if text is None:
        return ()
    if policy.method == "full_domain":
        return (f"{text}; method = 'auto' with recode 'hierarchy' gives each class labels of its own",)
    if policy.n is not None:
        return (f"{text}; a larger t or a smaller n would keep more",)
    if any(threshold.t is not None for threshold in thresholds) and sample is not None:
        better = _better_t(sample, thresholds, policy)
        text += f"; t = {better} would avoid it" if better else "; a larger t alone would not avoid it"
    return (text,)


def _better_t(sample: Sample, thresholds: Sequence[Threshold], policy: Policy) -> Decimal | None:
    """Smallest t of a growing sequence at which the middle tile does not collapse."""
    points, codes = sample.points, sample.codes
    wanted = len(points) / (COLLAPSE_CLASS_SIZE_IN_K * policy.k)
    t = Decimal(str(float(min(threshold.t for threshold in thresholds if threshold.t is not None))))
    while t < 1:
        t = min(Decimal(1), (t * Decimal("1.25")).quantize(Decimal("0.01"), rounding=ROUND_CEILING))
        wider = [replace(h, t=max(Fraction(h.t), Fraction(t))) if h.t is not None else h for h in thresholds]
        for recipe in candidates(sample.open_size, policy, wider, columns=points.shape[1]):
            if most_classes(len(points), policy, recipe, wider) < wanted:
                continue
            classes, loss = trial(points, codes, policy, recipe, wider)
            if classes >= wanted and loss <= COLLAPSE_LOSS_PERCENT:
                return t
    return None
