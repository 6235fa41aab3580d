"""Numbers and names as a reader of the report sees them: no figure looks rounder than it is."""

from __future__ import annotations

import pytest

from duckanon.audits.legible import counted, listed, number, percent


@pytest.mark.parametrize(
    ("value", "text"),
    [(1234567, "1,234,567"), (0.123456, "0.1235"), (12345.678, "12,346"), (None, "–"), (float("nan"), "–")],
)
def test_a_number_has_four_digits_or_all_of_a_whole_one(value: float | None, text: str) -> None:
    assert number(value) == text


@pytest.mark.parametrize(
    ("share", "text"),
    [(0.25, "25 %"), (0.00001, "<0.01 %"), (0.99999, ">99.99 %"), (1.0, "100 %"), (0.0, "0 %"), (None, "–")],
)
def test_a_share_is_neither_none_nor_all_unless_it_is(share: float | None, text: str) -> None:
    assert percent(share) == text


def test_counts_and_lists_are_written_out() -> None:
    assert counted(1, "class", "classes") == "1 class"
    assert counted(1200, "class", "classes") == "1,200 classes"
    assert listed(["a", "b", "c"]) == "a, b, c"
    assert listed(["a", "b", "c"], 2) == "a, b and 1 more"
