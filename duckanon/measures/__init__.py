"""Measures of a partition as the papers define them: information loss, sizes, diversity, closeness.

Arrays in, numbers out: the class of each record as labels 0..m-1, quasi-identifiers as points, sensitive
values as they are. A measure of a class gives an array with one entry a class, one of a partition a number.
All of them raise `duckanon.PolicyError`, a ValueError, for arguments that they cannot use.
"""

from __future__ import annotations

from duckanon.measures.closeness import (
    average_emd,
    emd,
    kullback_leibler_distance,
    maximum_emd,
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
)
from duckanon.measures.loss import information_loss, mae, mse, normalized_sse, sse, sst
from duckanon.measures.similarity import similar_classes, similarity_attack
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
from duckanon.measures.supersets import nested_groups, nt_closeness

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
