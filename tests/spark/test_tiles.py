"""Bounds of tiles, against a reader that looks for the part of each record by itself."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.spark.running import Running

pytestmark = pytest.mark.slow

PARTS = """
import json
import random
import numpy as np
from duckanon.release.stages.bucket import Cut
from duckanon.spark import tiles

def slow(sample, strata, columns, cuts, record):
    # The tile of a record: in each part, how many of the bounds between its equal parts are not above it.
    inside, tile = [row for row in range(len(strata)) if strata[row] == sample[record][0]], 0
    for level, parts in enumerate(cuts):
        values = sorted(columns[level][row] for row in inside)
        bounds = [values[i * len(values) // parts] for i in range(1, parts)] if values else []
        count = lambda number: sum(bound <= number for bound in bounds)
        part = count(sample[record][1 + level])
        inside = [row for row in inside if count(columns[level][row]) == part]
        tile = tile * parts + part
    return tile

wrong = 0
for seed in range(60):
    draw = random.Random(seed)
    cuts = [draw.choice([1, 2, 3, 5, 8, 9, 40]) for _ in range(draw.randrange(1, 4))]
    size = draw.choice([0, 1, 7, 60])
    value = lambda: draw.choice([float("inf"), -1.5, 0.0, float(draw.randrange(9)), draw.random()])
    strata = [draw.randrange(3) for _ in range(size)]
    columns = [[value() for _ in range(size)] for _ in cuts]
    # Strata of the sample, and others of which it has no record.
    asked = [(draw.randrange(4), *(value() for _ in cuts)) for _ in range(50)]
    part, levels = np.array(strata, np.int64), []
    for parts, numbers in zip(cuts, columns):
        levels.append(tiles._level(part, np.array(numbers, np.float64), parts))
        part = part * parts + levels[-1].of(part, np.array(numbers, np.float64))
    found = tiles.Bounds(np.arange(4), tuple(Cut("x", parts) for parts in cuts), tuple(levels))
    codes, *given = (np.array(column) for column in zip(*asked))
    told = found.of(codes, [np.array(column, np.float64) for column in given]).tolist()
    wrong += told != [slow(asked, strata, columns, cuts, record) for record in range(len(asked))]
print(json.dumps(wrong))
"""

RECIPES = """
import json
from duckanon.kernels.recipes import Recipe
from duckanon.spark.partition import _worth_a_tile
spread, *near = Recipe("tcloseness_first", 5), *(Recipe("blocks", size) for size in (5, 10, 20))
refined, alone = (Recipe(start, 5, effort="fast") for start in ("tcloseness_first", "blocks"))
asked = [(spread, *near), (spread, near[0]), (refined, near[1]), (alone,), (near[0],)]
print(json.dumps([[(r.start, r.size, r.effort) for r in _worth_a_tile(recipes)] for recipes in asked]))
"""


def test_the_part_of_a_record_is_that_which_a_slow_reader_finds(running: Running) -> None:
    assert json.loads(running.run(PARTS)) == 0


def test_a_tile_tries_one_size_of_near_records_and_none_beside_refined_ones(running: Running) -> None:
    """By hand: the second size, or the only one; one that is refined itself is not meant."""
    spread, near = ["tcloseness_first", 5, None], ["blocks", 5, None]
    found = json.loads(running.run(RECIPES))
    assert found[:2] == [[spread, ["blocks", 10, None]], [spread, near]]
    assert found[2:] == [[["tcloseness_first", 5, "fast"]], [["blocks", 5, "fast"]], [near]]
