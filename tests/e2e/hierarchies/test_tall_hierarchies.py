"""Hierarchies of very many levels: read in one scan, up to a limit that says so.

900 levels in columns took minutes, a SELECT each; 10,000 a minute and a half of planning before anything else.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import duckanon
from duckanon.errors import PolicyError
from duckanon.hierarchies.tree import LEVELS
from tests.e2e.scenes import rows

if TYPE_CHECKING:
    from pathlib import Path


def distance_of(tree: str, *, before: str = "") -> object:
    """Give the largest distance of an audit of two classes: one of flu and cold, one of flu and ulcer."""
    with duckanon.connect() as con:
        held = "(1, 'flu'), (1, 'cold'), (2, 'flu'), (2, 'ulcer')"
        con.execute(f"CREATE TABLE p AS FROM (VALUES {held}) AS t(a, ill)")
        if before:
            con.execute(before)
        options = "quasi_identifiers = a, sensitive = ill, k = 2, t = 1, distance = {ill: 'hierarchical'}"
        found = rows(con, f"AUDIT TABLE p WITH ({options}, hierarchies = {{ill: '{tree}'}})")
        return next(row["value"] for row in found if row["measure"] == "t_closeness")


def lines(levels: int) -> str:
    """Give a tree of which all levels but the root part flu and cold from ulcer."""
    header = ",".join(f"level {level}" for level in range(levels + 1))
    cells = {"flu": "lung", "cold": "lung", "ulcer": "stomach"}
    body = [",".join([leaf, *[part] * (levels - 1), "*"]) for leaf, part in cells.items()]
    return "\n".join([header, *body]) + "\n"


@pytest.mark.parametrize("levels", [2, LEVELS])
def test_levels_that_group_alike_are_read_as_many_as_there_are(tmp_path: Path, levels: int) -> None:
    """By hand, of the whole: 1/2 flu, 1/4 cold, 1/4 ulcer; the second class has 1/2 and 1/2.

    A quarter goes from cold to ulcer, by way of the root at H of H, which is a distance of 1.
    """
    (tmp_path / "tree.csv").write_text(lines(levels), encoding="utf-8")
    assert distance_of(str(tmp_path / "tree.csv")) == pytest.approx(0.25)


def test_a_file_of_more_levels_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tree.csv").write_text(lines(LEVELS + 1), encoding="utf-8")
    with pytest.raises(PolicyError, match="of 'ill' has 1,001 levels above the leaves, and at most 1,000"):
        distance_of(str(tmp_path / "tree.csv"))


def test_a_list_of_more_labels_is_refused() -> None:
    labels = "list_resize(['x'], 1001, '*')"
    made = f"CREATE TABLE tree AS SELECT unnest(['flu', 'cold', 'ulcer']) AS leaf, {labels} AS labels"
    with pytest.raises(PolicyError, match="has 1,001 levels above the leaves, and at most 1,000 are read"):
        distance_of("tree", before=made)
