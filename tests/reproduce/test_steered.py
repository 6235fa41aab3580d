"""Reproduction of "Steered Microaggregation": what is known to match, and what differs."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from reproduce import steered
from reproduce.rows import MissingDataError
from reproduce.steered_stream import stream_order
from reproduce.steered_weights import (
    WeightOutcome,
    moderately_correlated,
    outcome,
    perfectly_correlated,
    reaching,
    repeats,
)

if TYPE_CHECKING:
    from reproduce.rows import Maker, Row, Section

pytestmark = pytest.mark.slow

PCD = "section VI-C, PCD, t = "
MCD = "section VI-C, MCD, t = 0.1"


def made(maker: Maker) -> tuple[Section, dict[str, Row]]:
    """Return a section and its rows by place, or skip the test where the data are absent."""
    try:
        section = maker()
    except MissingDataError as missing:
        pytest.skip(str(missing))
    return section, {row.place: row for row in section.rows}


def test_perfect_correlation_gives_the_weight_and_the_bounds_of_the_paper() -> None:
    """Source: section VI-C; 199 is the figure that does not come out."""
    section, rows = made(steered.perfect_correlation)
    matching = {place for place, row in rows.items() if row.match}
    assert matching == {
        f"{PCD}0.05: weight that reaches t",
        *(f"{PCD}{t}: bound of Proposition 1" for t in ("0.1", "0.05")),
        *(f"{PCD}{t}: maximum EMD with weight 0" for t in ("0.1", "0.05")),
        *(f"{PCD}{t}: classes with two records of a bucket" for t in ("0.1", "0.05")),
    }
    assert rows[f"{PCD}0.05: weight that reaches t"].measured == "99"
    assert [picture.name for picture in section.pictures] == ["steered-figure-1"]


def test_a_record_more_breaks_proposition_1() -> None:
    """Source: hand calculation. n = 7, b = 3: numbers 1 and 2 have 3 records, number 3 has one.

    Buckets {0, 1, 2}, {3, 4}, {5, 6}: 0, 1, 2 have the numbers 1, 2, 3; of 3 and 4 the first is nearest to 2
    and takes 3, then 4 takes 2; 5 is nearest to 4 and takes 2, 6 takes 3. So number 1 has record 0 alone, 2
    has 1, 4, 5 and 3 has 2, 3, 6. With a great weight MDAV begins at record 0, whose class takes 1 and 4 of
    number 2; 0 and 1 share a bucket. The other class is number 3; 5 is left over and joins the first.
    """
    table = perfectly_correlated(7)
    assert repeats(table, "0.13", 1e6) == (1, 2)  # 7 / (12 * 0.13 + 1) = 2.7, rounded up 3


def test_the_printed_1001_records_never_reach_t() -> None:
    """Source: section VI-C read literally, i = 0..1000; neither weight printed nor a huge one is enough."""
    table = perfectly_correlated(1001)
    for t, printed in (("0.1", 199), ("0.05", 99)):
        for weight in (printed, 250, 10**6):
            assert outcome(table, t, weight).maximum_emd > float(t)


def test_census_reaches_t_before_the_printed_weight() -> None:
    """Source: section VI-C; at 215 t = 0.1 is kept, at 0 it is not, and the proposition's bound is above."""
    try:
        table = moderately_correlated()
    except MissingDataError as missing:
        pytest.skip(str(missing))
    assert outcome(table, "0.1", 215).maximum_emd <= 0.1 < outcome(table, "0.1", 202).maximum_emd
    assert repeats(table, "0.1", 306.0) == (0, 216)


@pytest.mark.long
def test_moderate_correlation_names_what_matches() -> None:
    """Source: section VI; Census has 1080 records, and no class has two records of a bucket."""
    _, rows = made(steered.moderate_correlation)
    assert rows["section VI-A, MCD: records"].match
    assert rows[f"{MCD}: maximum EMD with weight 0, as for PCD"].match
    assert rows[f"{MCD}: classes with two records of a bucket"].match
    assert not rows[f"{MCD}: bound of Proposition 1"].match
    assert all(row.remark for row in rows.values() if not row.match)


def test_reaching_asks_that_t_is_kept_from_then_on() -> None:
    """Source: hand calculation."""

    def found(*greatest: float) -> tuple[WeightOutcome, ...]:
        return tuple(WeightOutcome(weight, emd, 0.0, 0.0, 0.0) for weight, emd in enumerate(greatest))

    assert reaching(found(0.4, 0.1, 0.3, 0.2, 0.1), 0.2) == WeightOutcome(3, 0.2, 0.0, 0.0, 0.0)
    assert reaching(found(0.1, 0.1), 0.2) == WeightOutcome(0, 0.1, 0.0, 0.0, 0.0)
    assert reaching(found(0.1, 0.3), 0.2) is None


def test_stream_section_says_what_differs() -> None:
    """Source: section VI-C; only Proposition 2 comes out, and 0 comes close to the print."""
    section, rows = made(stream_order)
    assert [row.match for row in rows.values()] == [False] * 4 + [True]
    assert all(row.remark for row in rows.values())
    assert (
        abs(float(rows["section VI-C, MCD, k = 10, delta = 100, weight 0: maximum reordering"].measured) - 80)
        < 2
    )
    assert section.pictures[0].svg.startswith("<?xml")
