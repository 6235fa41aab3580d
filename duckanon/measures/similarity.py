"""The similarity attack: classes whose sensitive values all belong to one group of a hierarchy."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from duckanon.kernels.closeness.reference import reference
from duckanon.measures.diversity import distinct_l
from duckanon.measures.inputs import class_labels, column, policy_errors, ranked, whole_number

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray


@policy_errors()
def similar_classes(
    labels: ArrayLike, sensitive: ArrayLike, paths: ArrayLike, level: int
) -> NDArray[np.bool_]:
    """Tell for which classes a similarity attack succeeds: all values of the class lie below one node.

    Parameters
    ----------
    labels, sensitive
        See `duckanon.measures`.
    paths : array_like of shape (v, H + 1), int
        The tree, as in `duckanon.measures`.
    level : int
        Level of the nodes, from 0 (classes with one value: the homogeneity attack) to H (every class).

    Returns
    -------
    ndarray of shape (m,), bool
        True where all records of a class share their node.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, sections 3 and 6. The groups of
    semantically close values of the paper are the nodes of a level here.

    Examples
    --------
    >>> tree = [[0, 0, 0], [1, 1, 0], [2, 1, 0]]  # 0 apart, 1 and 2 close
    >>> similar_classes([0, 0, 1, 1], [0, 1, 1, 2], tree, level=1).tolist()
    [False, True]
    """
    classes = class_labels(labels)
    ranks = ranked(column(sensitive, len(classes)))
    reference(ranks.counts, "hierarchical", paths)  # raises where the paths are no tree over the values
    tree, at = np.asarray(paths), whole_number("level", level, 0)
    if at >= tree.shape[1]:
        raise ValueError(f"level must be within 0..{tree.shape[1] - 1}, the levels of the paths, not {level}")
    return np.asarray(distinct_l(classes, tree[ranks.codes, at]) == 1)


def similarity_attack(labels: ArrayLike, sensitive: ArrayLike, paths: ArrayLike, level: int) -> int:
    """Return the number of records whose sensitive group a similarity attack reveals, 0 to n.

    Parameters
    ----------
    labels, sensitive, paths, level
        As in `similar_classes`, which marks the classes of these records.

    Notes
    -----
    O(n log n) time. Source: Li, Li and Venkatasubramanian, ICDE 2007, section 6, who count 916 such records
    in an entropy 2-diverse table of Adult.
    """
    similar = similar_classes(labels, sensitive, paths, level)
    return int(np.bincount(class_labels(labels))[similar].sum())
