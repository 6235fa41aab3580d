"""Nearest and farthest records, exactly and with ties to the lowest record.

`slots` holds bins and heaps of records. `boxtree` searches records that leave, and finds the farthest record
from a moving centre. `kd` orders records in blocks, and `centroids` finds the nearest of many classes.
"""
