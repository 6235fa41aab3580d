"""Soria-Comas, Domingo-Ferrer, Sánchez and Martínez, "t-Closeness through microaggregation", TKDE 2015."""

from __future__ import annotations

from reproduce.rows import Maker
from reproduce.soria_comas_bounds import cluster_sizes, proposition_1, proposition_2
from reproduce.soria_comas_figures import figure_5, figure_6, figure_7
from reproduce.soria_comas_tables import correlations, table_1, table_2, table_3

SECTIONS: tuple[Maker, ...] = (
    proposition_1,
    proposition_2,
    cluster_sizes,
    correlations,
    table_1,
    table_2,
    table_3,
    figure_5,
    figure_6,
    figure_7,
)
"""Functions that measure one section each, in the order of the paper."""
