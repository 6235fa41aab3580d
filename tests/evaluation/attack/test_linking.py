"""The search tree of linkage against a search of every group; a tree of several levels."""

from __future__ import annotations

import numpy as np
import pytest

from duckanon.evaluation.columns import Alternatives, Counted, alone
from duckanon.evaluation.linking import LEAF, Problem, link


def problem(seed: int, classes: int, *, coarse: bool) -> Problem:
    """Give a random problem of two numbers, one with NULL, and two nominal columns."""
    random = np.random.default_rng(seed)

    def columns(size: int) -> list[np.ndarray]:
        numbers = [random.normal(size=size), random.normal(size=size)]
        numbers = [np.round(x) if coarse else x for x in numbers]
        numbers[1][random.random(size) < 0.1] = np.nan
        return [
            *numbers,
            random.integers(0, 3, size).astype(float),
            random.integers(0, 60, size).astype(float),
        ]

    cells = tuple(
        Alternatives(np.arange(classes + 1), alone(x), alone(x), np.unique(x, return_inverse=True)[1])
        for x in columns(classes)
    )
    known = np.column_stack(columns(50))
    return Problem(
        np.stack([alone(x) for x in known.T], axis=1),
        cells,
        np.array([False, False, True, True]),
        np.zeros((4, 2)),
        np.ones(4),
        random.integers(1, 5, classes),
        random.integers(-1, classes, 50),
        tuple(
            Counted(np.arange(classes), cell.least[:, 0], np.ones(classes, np.int64)) for cell in cells[:2]
        ),
        known[:, :2] - 0.5,
        known[:, :2] + 0.5,
    )


def brute(given: Problem, subset: tuple[int, ...]) -> tuple[list[int], list[int], list[list[int]]]:
    """Give nearest records, own ones among them, and values inside, class by class."""
    nearest, own, inside = [], [], []
    for row, truth, low, high in zip(given.known, given.truth, given.low, given.high, strict=True):
        far = np.zeros(len(given.records))
        for j in subset:
            cell, value = given.cells[j].least[:, 0], row[j, 0]
            if given.nominal[j]:
                far += cell != value
            else:
                absent, missing = np.isnan(cell), np.isnan(value)
                gap = np.where(absent, 0.0, cell) - (0.0 if missing else value)
                far += np.where(absent & missing, 0.0, gap**2 + (absent != missing))
        tied = far <= far.min() * (1 + 1e-9)
        nearest.append(int(given.records[tied].sum()))
        alike = np.all(
            [given.cells[j].key == given.cells[j].key[truth] for j in subset] or [np.ones_like(tied)], axis=0
        )
        own.append(int(given.records[alike].sum()) if truth >= 0 and tied[truth] else 0)
        counts = []
        for j, guess in enumerate(given.guesses):
            value = guess.value[tied]
            hits = np.isnan(value) if np.isnan(low[j]) else (low[j] <= value) & (value <= high[j])
            counts.append(int(hits.sum()))
        inside.append(counts)
    return nearest, own, inside


@pytest.mark.parametrize("coarse", [False, True], ids=["distinct", "ties"])
@pytest.mark.parametrize("subset", [(), (0,), (1,), (2,), (3,), (0, 1), (1, 3), (0, 1, 2, 3)])
def test_tree_against_every_class(subset: tuple[int, ...], coarse: bool) -> None:
    given = problem(len(subset), 40 * LEAF, coarse=coarse)
    found = link(given, subset)
    nearest, own, inside = brute(given, subset)
    assert found.nearest.tolist() == nearest
    assert found.own.tolist() == own
    assert found.inside.tolist() == inside
    keys = {tuple(given.cells[j].key[i] for j in subset) for i in range(len(given.records))}
    assert found.groups == len(keys)


def test_one_class_is_always_the_nearest() -> None:
    given = problem(1, 1, coarse=False)
    assert link(given, (0, 3)).nearest.tolist() == [int(given.records[0])] * 50


def test_what_a_double_does_not_hold_tells_classes_apart() -> None:
    """Numbers 2^60 + i, the i in the second part: every record is nearest to its own class only."""
    size = 40 * LEAF
    numbers = np.column_stack([np.full(size, 2.0**60), np.arange(size) % 128 + np.arange(size) / 1024])
    given = Problem(
        numbers[:, np.newaxis],
        (Alternatives(np.arange(size + 1), numbers, numbers, np.arange(size)),),
        np.array([False]),
        numbers[:1],
        np.ones(1),
        np.ones(size, np.int64),
        np.arange(size),
        (),
        np.zeros((size, 0)),
        np.zeros((size, 0)),
    )
    found = link(given, (0,))
    assert found.nearest.tolist() == found.own.tolist() == [1] * size
