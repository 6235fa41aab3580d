"""What six numbers say of the contributions to a class, and classes merged until none is told."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duckanon.kernels.dominance import contributions, merge_dominated, reached
from tests import oracle_dominance
from tests.examples import examples

NONE = np.zeros(0, dtype=np.int64)


def in_one_class(*values: float) -> np.ndarray:
    return contributions(np.array(values), np.zeros(len(values), dtype=np.int64), None, 1)


@pytest.mark.parametrize(
    ("values", "percent"),
    [
        ([100, 50, 3, 2], 5.0),  # the second finds the first: the rest is 5
        ([100, 50, 5, 5], 10.0),
        ([7, 7], 0.0),
        ([7, 7, 7], 100.0),
        ([5], 0.0),
        ([5, 0, 0], 0.0),  # zeros hide nothing
        ([0, 0], np.inf),
        ([-100, -50, -3, -2], 5.0),
        ([100, -50], 0.0),
        ([100, 2, -60], 2.0),  # -60 knows that 2 is left
        ([100, 60, -90, -90], 90.0),  # 60 leaves -180 below; -90 leaves 60 above and -90 below
    ],
)
def test_figures_found_by_hand(values: list[float], percent: float) -> None:
    assert reached(in_one_class(*values)).tolist() == [percent]


whole_numbers = st.integers(-5, 5) | st.sampled_from([-1000, -100, 90, 100, 1000])


@settings(max_examples=examples(2000, 200), deadline=None)
@given(values=st.lists(whole_numbers, min_size=1, max_size=7))
def test_six_numbers_say_what_all_attacks_find(values: list[int]) -> None:
    """Source: the brute force over all pairs; what it says is kept, no attack breaks."""
    least = oracle_dominance.reached([Fraction(value) for value in values])
    found = float(reached(in_one_class(*values))[0])
    assert found == pytest.approx(np.inf if least is None else float(least), rel=1e-12)
    if least is not None and least > 0:
        below = least * Fraction(999, 1000)
        assert not oracle_dominance.told([Fraction(value) for value in values], below)


@settings(max_examples=examples(500, 60), deadline=None)
@given(
    records=st.lists(
        st.tuples(whole_numbers | st.none(), st.integers(-1, 2), st.integers(0, 3)), min_size=1, max_size=12
    )
)
def test_contributions_of_subjects_are_their_sums(
    records: list[tuple[int | None, int, int]],
) -> None:
    """Source: sums in a dictionary."""
    of_subjects: dict[tuple[int, int], int] = {}
    for value, label, subject in records:
        if value is not None and label >= 0:
            of_subjects[label, subject] = of_subjects.get((label, subject), 0) + value
    values = np.array([np.nan if value is None else value for value, _, _ in records])
    labels, subjects = (np.array(column) for column in list(zip(*records, strict=True))[1:])
    parts = contributions(values, labels, subjects, 3)
    for label in range(3):
        sums = [value for (class_of, _), value in of_subjects.items() if class_of == label]
        above = sorted((value for value in sums if value > 0), reverse=True)
        below = sorted((-value for value in sums if value < 0), reverse=True)
        wanted = [[*[*side, 0, 0][:2], sum(side[2:])] for side in (above, below)]
        assert parts[label].tolist() == [*wanted[0], *wanted[1]]


@settings(max_examples=examples(500, 60), deadline=None)
@given(
    data=st.data(),
    p=st.sampled_from([0.5, 10.0, 60.0, 300.0]),
    signs=st.booleans(),
    columns=st.integers(1, 3),
)
def test_merged_classes_keep_the_rule_or_are_one(
    data: st.DataObject, p: float, signs: bool, columns: int
) -> None:
    """Source: the six numbers of the merged classes, computed from the records again."""
    size = data.draw(st.integers(2, 60))
    rng = np.random.default_rng(data.draw(st.integers(0, 2**32 - 1)))
    labels = np.sort(rng.integers(0, max(1, size // 3), size))
    labels = np.unique(labels, return_inverse=True)[1].astype(np.int64)
    values = np.round(rng.pareto(0.7, (columns, size)), 3) * (
        rng.choice([-1, 1], (columns, size)) if signs else 1
    )
    m = int(labels.max()) + 1
    parts = np.stack([contributions(column, labels, None, m) for column in values], axis=1)
    sums = np.stack([np.bincount(labels, weights=column) for column in values], axis=1)
    merged = merge_dominated(sums, np.bincount(labels), parts, p)
    new = merged[labels]
    found = np.stack([reached(contributions(column, new, None, int(new.max()) + 1)) for column in values])
    assert merged.tolist() == np.unique(merged, return_inverse=True)[1].tolist()
    assert new.max() == 0 or found.min() >= p
    # A class that kept the rule is merged only with one that did not.
    kept = reached(parts).min(axis=1) >= p * (1 + 1e-9)
    alone = np.bincount(merged)[merged] == 1
    assert (kept | ~alone).all() or new.max() == 0
    assert not kept.all() or alone.all()


def test_a_giant_takes_what_hides_it_and_no_more() -> None:
    """By hand: 9990 beside 1 and 1 needs a rest of 999; n more classes make it 1 + 3 n, which 333 of them do."""
    m = 2_000
    parts = np.tile(np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0]), (m, 1, 1))
    parts[0, 0, 0] = 9_990.0
    where = np.arange(m, dtype=np.float64)[:, None]
    merged = merge_dominated(where * 3, np.full(m, 3), parts, 10.0)
    of_giant = np.flatnonzero(merged == merged[0])
    assert len(of_giant) == 1 + 333
    assert of_giant.tolist() == list(range(334))


def test_classes_without_coordinates_are_merged_too() -> None:
    """All records alike: no column has a spread."""
    parts = in_one_class(5.0, 5.0)[None].repeat(3, axis=0)
    merged = merge_dominated(np.zeros((3, 0)), np.full(3, 2), parts, 10.0)
    assert merged.max() == 0
