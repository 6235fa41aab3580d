"""``duckanon compare-releases``: what two releases of the same data reveal together, from their files."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from duckanon.api import files
from duckanon.audits.intersection import intersection
from duckanon.cli.documents import check_output, deliver
from duckanon.cli.flags import read_flags
from duckanon.cli.options import DOCUMENT, OF_POLICY, Option, Table, command
from duckanon.cli.output import PASSED, VIOLATION
from duckanon.database.csv_form import Reading
from duckanon.errors import PolicyError
from duckanon.policy.checks import checked
from duckanon.policy.names import fold
from duckanon.policy.reported import SUBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from decimal import Decimal

    from duckanon.audits.intersection import Intersection
    from duckanon.audits.report import Report
    from duckanon.release.verify.record import RecordedRelease

_LEAST_L = 2
"""Default of the least number of sensitive values that two intersecting classes share."""

_OUT_OF_RANGE = 2**63

_RECORDS = (
    "the k of the release counts subjects, whom the files do not name: here -k counts records, of which a "
    "subject can have several"
)
"""Note for the comparison of releases that count subjects."""


@dataclass(frozen=True)
class _Compared:
    """Columns and thresholds of the comparison."""

    quasi_identifiers: Sequence[str]
    sensitive: Sequence[str]
    others: Sequence[str]  # other columns with values of single records
    k: int
    l: int | None  # noqa: E741 - l-diversity has this name everywhere
    subjects: bool | None  # whether a release counts subjects; None if unknown


@command(
    "quasi_identifiers", "sensitive", "k", *DOCUMENT,
    quasi_identifiers=OF_POLICY["quasi_identifiers"]._replace(default="those of the releases"),
    sensitive=OF_POLICY["sensitive"]._replace(
        meaning="columns of which -l is asked", default="those of the releases"
    ),
    k=OF_POLICY["k"]._replace(
        meaning="below so many, records are too few", default="the larger k of the releases",
        kind=int, example="-k 5", form="NUMBER",
    ),
    least=Option(
        "least values that a class of both has in common", (), "2, or the larger l of the releases", "-l 3",
        "NUMBER", int, None, ("-l",),
    ),
    examples=(
        "duckanon compare-releases march.duckdb june.duckdb",
        "duckanon compare-releases march.csv june.csv --qi age,zip --sensitive diagnosis -k 5",
    ),
)  # fmt: skip
def compare_releases(
    older: Table,
    newer: Table,
    *,
    flags: dict[str, Any],
    least: int | None,
    form: str,
    output: Path | None,
    reading: Reading,
    trust: bool,
) -> int:
    """Tell what two releases of the same data say together.

    Exit code 1 when it is about fewer than k.
    """
    check_output(output, older, newer)
    given = read_flags(flags)
    k = checked("k", given["k"]) if "k" in given else None
    _check_l(least)
    with files.opened(older, newer, trust=trust) as con:
        found = [files.recorded(con, name) for name in (older, newer)]
        records = [record for _, record in found if record is not None]
        wanted = _wanted(records, given.get("quasi_identifiers"), given.get("sensitive"), k, least)
        relations = [
            files.relation(con, name, apart=wanted.quasi_identifiers, trust=trust, reading=reading)
            for name, _ in found
        ]
        compared = intersection(
            con,
            (relations[0], relations[1]),
            (older, newer),
            quasi_identifiers=wanted.quasi_identifiers,
            sensitive=wanted.sensitive,
            others=wanted.others,
            k=wanted.k,
            l=wanted.l,
        )
    report = compared.report
    if wanted.subjects:
        report = replace(report, warnings=(_RECORDS, *report.warnings))
    said = _sentence(compared, wanted)
    deliver(_json(report, said) if form == "json" else f"{report.to_text()}\n{said}", output)
    return VIOLATION if report.violated else PASSED


def _check_l(l: int | None) -> None:  # noqa: E741 - as above
    """Raise unless -l is a number of values, at least 1; it may exceed -k."""
    if l is not None and l < 1:
        raise PolicyError(f"-l must be at least 1, not {l}")
    if l is not None and l >= _OUT_OF_RANGE:
        raise PolicyError("-l is out of range: use an integer of at most 18 digits")


def _wanted(
    records: Sequence[RecordedRelease],
    qi: Sequence[str] | None,
    sensitive: Sequence[str] | None,
    k: int | None,
    l: int | None,  # noqa: E741 - as above
) -> _Compared:
    """Columns and thresholds of the flags; without a flag those of the metadata, the stricter of two."""
    policies = [record.asked() for record in records if _comparable(record)]
    if qi is None:
        qi = _agreed("quasi-identifiers", "--qi", [policy.quasi_identifiers for policy in policies])
        if not qi:
            raise PolicyError(
                "--qi is missing: give it, as in --qi age,zip; the files do not name quasi-identifiers"
            )
    if sensitive is None:
        sensitive = _agreed("sensitive columns", "--sensitive", [policy.sensitive for policy in policies])
        sensitive = [name for name in sensitive if fold(name) not in set(map(fold, qi))]
    subjects = any(measure == SUBJECTS for record in records for measure, _ in record.proved)
    asked = [_largest(policy.l) for policy in policies if policy.l]
    least = max([_LEAST_L, *asked]) if l is None else l
    return _Compared(
        qi,
        sensitive,
        _others(records, (*qi, *sensitive)),
        _k([policy.k for policy in policies if policy.k is not None], subjects=subjects) if k is None else k,
        least if sensitive else None,
        subjects if records else None,
    )


def _k(sizes: Sequence[int], *, subjects: bool) -> int:
    """Return k of the metadata, if it counts records."""
    if subjects:
        raise PolicyError(
            "-k is missing: the k of the release counts subjects, whom the files do not name: give -k, the "
            "number of records below which a difference is too few (such as k times the most records that a "
            "subject has)"
        )
    if not sizes:
        raise PolicyError("-k is missing: give it, as in -k 5; the files do not name it")
    return max(sizes)


def _comparable(record: RecordedRelease) -> bool:
    """Raise for an anatomy release, whose exact quasi-identifiers identify everybody who came or left."""
    if any(column.recode == "anatomy" for column in record.columns):
        raise PolicyError(
            f"{record.target.name} was released as 'anatomy': its quasi-identifiers are exact, and each "
            "row that only one of two such releases has is a person"
        )
    return True


def _others(records: Sequence[RecordedRelease], named: Sequence[str]) -> list[str]:
    """Columns, without `named`, with values of single records: insensitive columns, and swapped ones."""
    found: dict[str, str] = {}
    for record in records:
        wanted = {"sensitive", "insensitive"} | ({"quasi_identifier"} if record.numbered else set())
        for column in record.columns:
            if column.role in wanted:
                found.setdefault(fold(column.name), column.name)
    return [name for key, name in found.items() if key not in set(map(fold, named))]


def _agreed(what: str, flag: str, lists: Sequence[Sequence[str]]) -> Sequence[str]:
    """Columns that all recorded releases name alike; a PolicyError if two releases name different columns."""
    if len({frozenset(map(fold, names)) for names in lists}) > 1:
        named = " and ".join(", ".join(names) or "none" for names in lists)
        raise PolicyError(
            f"the two releases have different {what}, {named}: give {flag}, columns that both have"
        )
    return lists[0] if lists else []


def _largest(asked: object) -> int:
    """Least number of different values of a class that l-diversity, of any kind and column, requires."""
    values: list[Decimal] = list(asked.values()) if hasattr(asked, "values") else [asked]  # type: ignore[list-item]
    return max(map(ceil, values))


def _sentence(compared: Intersection, wanted: _Compared) -> str:
    """Text on the information that the two releases give together, with a remedy."""
    report = compared.report
    if not report.violated:
        where = "together" if compared.complete else "together, in the columns that were compared,"
        return f"{where} they say nothing that the files show to be about fewer than {wanted.k} records"
    few = any(one.passed is False and one.measure != "common_values" for one in report.measures)
    close = any(one.passed is False and one.measure == "common_values" for one in report.measures)
    what = [f"something about fewer than {wanted.k} records"] * few
    what += [f"of who stays in a class that fewer than {wanted.l} values are possible"] * close
    by = ", with subject = (...)," if wanted.subjects is False else ""
    return (
        f"together they say {' and '.join(what)}: give out one of the two only, or make the newer one{by} by "
        "REFRESH ANONYMIZED VIEW ... WITH (mode = 'append'), or wait until enough records came"
    )


def _json(report: Report, sentence: str) -> str:
    return json.dumps({**json.loads(report.to_json()), "told": sentence}, indent=2, allow_nan=False)
