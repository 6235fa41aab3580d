"""Hierarchies of values: tables with one row a leaf, columns from leaf to root, checked and climbed.

The hierarchy of a sensitive column gives the ground distance of the EMD. The hierarchy of a quasi-identifier
gives its distance in the partition, and the labels that a class can release.
"""

from duckanon.hierarchies.build import dates, intervals, prefixes

__all__ = ["dates", "intervals", "prefixes"]
