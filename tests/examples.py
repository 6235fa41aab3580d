"""How many random cases a property is tried on: a part of them in `make test`, all in `make test-long`."""

from __future__ import annotations

import os

PART = 4
"""`make test` tries one of so many cases."""

FEWEST = 10
"""Below this a property would hardly be tried at all."""


def examples(number: int, few: int | None = None) -> int:
    """Cases to try of a property.

    Parameters
    ----------
    number : int
        What it takes to find a fault that hides.
    few : int, optional
        What `make test` tries where a case takes seconds.

    Returns
    -------
    int
        All of them where DUCKANON_TESTS is ``long``.
    """
    if os.environ.get("DUCKANON_TESTS") == "long":
        return number
    return few or min(number, max(number // PART, FEWEST))
