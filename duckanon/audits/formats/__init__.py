"""Formats of a report for other programs: text, JSON, JUnit XML and SARIF. HTML has its own module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from duckanon.audits.formats.junit import junit
from duckanon.audits.formats.sarif import sarif

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckanon.audits.report import Report

__all__ = ["FORMATS", "formatted", "junit", "sarif"]

_WRITERS: dict[str, Callable[[Report], str]] = {
    "text": lambda report: report.to_text(),
    "json": lambda report: report.to_json(),
    "junit": junit,
    "sarif": sarif,
}

FORMATS = tuple(_WRITERS)
"""Names of the formats that need nothing but the report."""


def formatted(report: Report, form: str) -> str:
    """Text of a report in one of `FORMATS` without a final line break; equal reports give equal texts."""
    return _WRITERS[form](report)
