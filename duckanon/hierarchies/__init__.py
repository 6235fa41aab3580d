"""Hierarchies of values: tables with one row a leaf, columns from leaf to root, checked and climbed.

A hierarchy of a sensitive column gives its ground distance, one of a quasi-identifier its distance to the
partition, and the labels that a class can release for it.
"""

from duckanon.hierarchies.build import dates, intervals, prefixes

__all__ = ["dates", "intervals", "prefixes"]
