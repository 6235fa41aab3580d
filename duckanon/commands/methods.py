"""The command ``methods``: what the partition methods guarantee."""

from __future__ import annotations

from duckanon.commands.options import PASSED
from duckanon.methods import methods as known_methods
from duckanon.output import line
from duckanon.report import text_table


def methods() -> int:
    """List the partition methods with guarantees, cost and source."""
    rows = [(method.name, method.guarantees, method.cost, method.source) for method in known_methods()]
    line("\n".join(text_table(("method", "guarantees", "cost", "source"), rows)))
    return PASSED
