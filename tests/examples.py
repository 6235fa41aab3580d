"""How many cases are tried: a part of them in `make test`, all in `make test-long`."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest
from _pytest.mark import ParameterSet

if TYPE_CHECKING:
    from collections.abc import Iterable

PART = 6
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


def some(cases: Iterable[Any], one_of: int = PART) -> list[Any]:
    """Cases of a parametrised test, of which `make test` tries the first and each `one_of`-th after it.

    Parameters
    ----------
    cases : iterable
        For ``pytest.mark.parametrize``; a tuple is one case of several arguments.
    one_of : int
        How many cases there are for one that is always tried.

    Returns
    -------
    list
        All of them, most with the mark ``long``.
    """
    return _marked(cases, one_of, pytest.mark.long)


def slowly(cases: Iterable[Any], one_of: int = PART) -> list[Any]:
    """Cases as `some` gives them, most with the mark ``slow``: ``.ci/run`` tries all of these."""
    return _marked(cases, one_of, pytest.mark.slow)


def _marked(cases: Iterable[Any], one_of: int, mark: pytest.MarkDecorator) -> list[Any]:
    """Mark all but the first and each `one_of`-th after it, beside the marks that a case has."""
    marked = []
    for number, case in enumerate(cases):
        values = case if isinstance(case, tuple) else (case,)
        given = case if isinstance(case, ParameterSet) else pytest.param(*values)
        marked.append(given._replace(marks=[*given.marks, mark]) if number % one_of else given)
    return marked
