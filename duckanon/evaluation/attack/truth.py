"""In which class each record was released: by an id in the owner's copy, or by the policy of the release."""

from __future__ import annotations

import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING

import numpy as np

from duckanon.database import engine, templates
from duckanon.errors import DuckanonWarning, PolicyError, SourceError
from duckanon.evaluation.attack.columns import STAGE, has_column
from duckanon.release.pipeline import owners_copy

if TYPE_CHECKING:
    from collections.abc import Iterator

    import numpy.typing as npt

    from duckanon.evaluation.attack.run import Run


def true_classes(run: Run, id_column: str) -> npt.NDArray[np.int64]:
    """Class in which each record of the sample was released, by the owner's id.

    Parameters
    ----------
    run : Run
        With the tables of classes and sample.
    id_column : str
        The id.

    Returns
    -------
    ndarray of shape (r,), int64
        -1 for a record that was left out.

    Raises
    ------
    DuckanonError
        The id does not say the truth.
    """
    with _owners_copy(run, id_column) as copy:
        run.run("owner", relation=copy, id=id_column)
    query = run.text("check_owner", relation=run.sides.original, id=id_column)
    nameless, unknown, ambiguous, crowded, different = engine.rows(run.con, query, STAGE, error=SourceError)[
        0
    ]
    for count, what in (
        (
            different,
            "classes have another size in the release than by this policy: it was made in another way",
        ),
        (nameless, "released records have no id: give the id of every record, or leave out id"),
        (unknown, "released ids are unknown in the original: the id must mean the same in both tables"),
        (ambiguous, "ids were released in several classes: the id must be that of a record, or of a class"),
        (crowded, "classes are claimed by more records of the original than they have: the id is not unique"),
    ):
        if count:
            raise SourceError(f"id {id_column!r} does not say the truth: {count} {what}")
    classes = run.table("truth").column(0).fill_null(-1).to_numpy()
    found: npt.NDArray[np.int64] = classes.astype(np.int64)
    return found


@contextmanager
def _owners_copy(run: Run, id_column: str) -> Iterator[str]:
    """Give the released records with their id, as SQL text: the release itself, or made by its policy."""
    policy = run.attack.policy
    if policy is None:
        if not has_column(run.con, run.sides.release, id_column):
            raise PolicyError(
                f"the release has no column {id_column!r}: give the owner's copy that has it, or the policy "
                "of the release, or leave out id to bound the risk from above"
            )
        yield run.sides.release
        return
    query = templates.render("relation/rows.sql.j2", relation=run.sides.original)
    with warnings.catch_warnings():
        # They were raised when the release was made.
        warnings.simplefilter("ignore", DuckanonWarning)
        with owners_copy(run.con, query, policy) as copy:
            yield copy
