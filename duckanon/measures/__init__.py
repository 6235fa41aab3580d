"""Measures of a partition as the papers define them: information loss, sizes, diversity, closeness.

A measure of a class returns an array with one entry for each of the m classes. A measure of a partition
returns a number. Each measure is deterministic. These arguments mean the same in every function, whose text
describes other arguments only:

- ``labels``: array_like of shape (n,), int; the class of each record, 0..m-1, no class empty; 1 <= n < 2^31.
- ``points``: array_like of shape (n, d), float; quasi-identifiers, one row a record; finite numbers.
- ``scale``: 'zscore', 'minmax' or 'none'; the scale on which distances between points are taken.
- ``sensitive``: array_like of shape (n,); sensitive values or their codes: numbers, dates or text. NaN and
  None are one value each: NaN comes after all other values, None is the last.
- ``distance``: ground distance of the EMD. 'ordered': |i - j| / (v - 1) on the v distinct values of the
  whole. 'equal': 1. 'hierarchical': level of the lowest common ancestor over the height of the tree.
- ``paths``: array_like of shape (v, H + 1), int; the tree for 'hierarchical': the node of each distinct value
  of the whole, ascending, on level 0 (the value) to H (the root).
- ``population``: array_like of shape (N,), optional; sensitive values of the whole, in which every value of a
  class must occur. By default the whole is the n records together.

Every function raises `duckanon.PolicyError`, a ValueError, for an argument that it cannot use.
"""

from __future__ import annotations

from duckanon.measures.closeness import (
    average_emd,
    emd,
    kullback_leibler_distance,
    maximum_emd,
    nested_groups,
    nt_closeness,
    variational_distance,
)
from duckanon.measures.diversity import (
    PSensitivity,
    distinct_l,
    entropy_l,
    l_diversity,
    p_sensitivity,
    recursive_c,
    recursive_l,
    similar_classes,
    similarity_attack,
)
from duckanon.measures.loss import information_loss, mae, mse, normalized_sse, sse, sst
from duckanon.measures.sizes import (
    PositionDifferences,
    average_class_size,
    c_avg,
    class_sizes,
    discernibility,
    maximum_class_size,
    minimal_average_group_size,
    minimum_class_size,
    position_differences,
)

__all__ = [
    "PSensitivity",
    "PositionDifferences",
    "average_class_size",
    "average_emd",
    "c_avg",
    "class_sizes",
    "discernibility",
    "distinct_l",
    "emd",
    "entropy_l",
    "information_loss",
    "kullback_leibler_distance",
    "l_diversity",
    "mae",
    "maximum_class_size",
    "maximum_emd",
    "minimal_average_group_size",
    "minimum_class_size",
    "mse",
    "nested_groups",
    "normalized_sse",
    "nt_closeness",
    "p_sensitivity",
    "position_differences",
    "recursive_c",
    "recursive_l",
    "similar_classes",
    "similarity_attack",
    "sse",
    "sst",
    "variational_distance",
]
