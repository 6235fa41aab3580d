"""The command ``methods``: guarantees, cost and source of the partition methods."""

from __future__ import annotations

from duckanon.audits.report import text_table
from duckanon.cli.codes import PASSED
from duckanon.cli.output import line
from duckanon.literature.partitions import methods as known_methods


def methods() -> int:
    """List the partition methods with guarantees, cost and source."""
    rows = [(method.name, method.guarantees, method.cost, method.source) for method in known_methods()]
    line("\n".join(text_table(("method", "guarantees", "cost", "source"), rows)))
    return PASSED
